"""What becomes of headers by a reply's `header_mutation`: as Envoy's mutation_utils.cc, with its default rules."""

from __future__ import annotations

import re

from extproc.conformance.host.settings import Headers
from extproc.wire import HeaderMutation, HeaderValueOption

IMMUTABLE = frozenset({"host", ":authority", ":method", ":scheme"})
"""Headers that no processor sets."""
STATUS = re.compile(rb"[2-9][0-9]{2}")
"""What may be set as `:status`."""


def mutated(headers: Headers, mutation: HeaderMutation, way: str) -> Headers:
    """The headers with what is allowed of a mutation; `way` is `request` or `response`."""
    removed = {name.lower() for name in mutation.remove_headers}
    removed -= {name for name in removed if name.startswith(":") or name == "host"}
    result = [(name, value) for name, value in headers if name not in removed]
    for option in mutation.set_headers:
        name, value = option.header.key.lower(), option.header.raw_value
        if name in IMMUTABLE or (name == ":status" and (way == "request" or not STATUS.fullmatch(value))):
            continue
        there = any(each == name for each, _ in result)
        action = _action(option, name)
        if (action == HeaderValueOption.ADD_IF_ABSENT and there) or (
            action == HeaderValueOption.OVERWRITE_IF_EXISTS and not there
        ):
            continue
        if action in (HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD, HeaderValueOption.OVERWRITE_IF_EXISTS) and there:
            at = next(index for index, (each, _) in enumerate(result) if each == name)
            result = [pair for index, pair in enumerate(result) if pair[0] != name or index == at]
            at = next(index for index, (each, _) in enumerate(result) if each == name)
            result[at] = (name, value)
        else:
            result.append((name, value))
    return tuple(result)


def _action(option: HeaderValueOption, name: str) -> HeaderValueOption.HeaderAppendAction:
    if name.startswith(":"):
        return HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD  # a pseudo header is there once
    if option.HasField("append"):
        if option.append.value:
            return HeaderValueOption.APPEND_IF_EXISTS_OR_ADD
        return HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
    return option.append_action


def without(headers: Headers, name: str) -> Headers:
    return tuple(pair for pair in headers if pair[0] != name)
