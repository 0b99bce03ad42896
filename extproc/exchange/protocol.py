"""What Envoy's messages have to be, and what is read of their header fields."""

from __future__ import annotations

import re
from collections.abc import Mapping

from extproc.wire import HeaderMap

_SENDABLE = re.compile(r"[!-~]([ -~]*[!-~])?")
"""Header values that need no care: printable ASCII."""
_LONGEST_TRACE = 512
"""Characters of a `tracestate` that W3C wants to go on at least; a `traceparent` has 55."""
_TRACE = ("traceparent", "tracestate")


class ProtocolError(Exception):
    """Envoy is configured otherwise than this processor needs, or sent what can't come now."""


class HeadGoneError(Exception):
    """A client is to get an error, and has the head of another answer: only a cut can tell it."""


def fields_of(headers: HeaderMap, *wanted: str) -> dict[str, str]:
    """The header fields of these names that are there; Envoy sends names in lower case, values as raw bytes."""
    return {
        field.key: field.raw_value.decode("utf-8", "replace") or field.value
        for field in headers.headers
        if field.key in wanted
    }


def trace_of(headers: HeaderMap) -> dict[str, str]:
    """The header fields of its client's trace (W3C's). One that is too long is left out: cut it would say something
    else."""
    found: dict[str, str] = {}
    for field in headers.headers:
        if field.key in _TRACE:  # `tracestate` may come in several fields
            value = field.raw_value.decode("utf-8", "replace") or field.value
            found[field.key] = f"{found[field.key]},{value}" if field.key in found else value
    return {name: value for name, value in found.items() if len(value) <= _LONGEST_TRACE and is_sendable(value)}


def is_sendable(value: str) -> bool:
    """Whether a header may have this value, whoever it came from."""
    return _SENDABLE.fullmatch(value) is not None


def is_event_stream(fields: Mapping[str, str]) -> bool:
    """Whether a response says that it is one."""
    return _media_type(fields) == "text/event-stream"


def may_be_an_answer(fields: Mapping[str, str]) -> bool:
    """Whether a response can be a chat completion: a web page can't, whatever its status."""
    kind = _media_type(fields)
    return not kind or kind == "text/event-stream" or kind.endswith("json")


def _media_type(fields: Mapping[str, str]) -> str:
    return fields.get("content-type", "").partition(";")[0].strip().lower()


def status_of(fields: Mapping[str, str]) -> int | None:
    """The response's status; None if it is no status."""
    status = fields.get(":status", "")
    return int(status) if len(status) == 3 and status.isascii() and status.isdecimal() else None


def content_length(fields: Mapping[str, str]) -> int:
    """The length that a message announces; 0 if it announces none, or none that can be understood."""
    length = fields.get("content-length", "")
    return int(length) if len(length) < 20 and length.isascii() and length.isdecimal() else 0


def kept(fields: Mapping[str, str]) -> dict[str, str]:
    """What of the backend's headers has to outlive a replaced response."""
    return {name: fields[name] for name in ("retry-after",) if name in fields}
