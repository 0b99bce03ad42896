"""What can be said of one reply by itself, knowing where it stands: the invariants about content.

Those about order and number are the host's own (`extproc.conformance.host`), which alone knows what it waits for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from extproc.conformance.host.mutation import IMMUTABLE, STATUS
from extproc.conformance.host.settings import BodyMode, HostSettings
from extproc.conformance.invariants import Violation
from extproc.wire import CommonResponse, HeaderMutation, ProcessingMode, ProcessingResponse

_NAME = re.compile(r":?[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LARGEST_PIECE = 64 * 1024
_MOST_HEADERS = 100
_BUFFERED = (BodyMode.BUFFERED, BodyMode.BUFFERED_PARTIAL)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a reply stands: the direction and its mode now, and whether the response's headers went on."""

    way: str
    """`request` or `response`."""
    mode: BodyMode
    settings: HostSettings
    client_has_headers: bool


def content(reply: ProcessingResponse, place: Place) -> Iterator[Violation]:
    """The violations that one reply is, in no particular order."""
    kind = reply.WhichOneof("response")
    if reply.HasField("mode_override"):
        yield from _override(kind, reply.mode_override, place)
    if reply.HasField("dynamic_metadata"):
        for name, value in reply.dynamic_metadata.fields.items():
            if value.WhichOneof("kind") != "struct_value":
                yield Violation("INV-26", f"{name!r} in dynamic_metadata is no namespace")
    match kind:
        case "immediate_response":
            immediate = reply.immediate_response
            if immediate.status.code < 200:
                yield Violation("INV-16", f"immediate_response with status {immediate.status.code}")
            if place.client_has_headers:
                yield Violation("INV-17", f"immediate_response {immediate.status.code} inside a response")
            yield from _headers(immediate.headers, "response")
        case "request_headers" | "response_headers":
            common = reply.request_headers if kind == "request_headers" else reply.response_headers
            yield from _common(common.response, kind)
        case "request_body" | "response_body":
            common_body = (reply.request_body if kind == "request_body" else reply.response_body).response
            yield from _common(common_body, kind)
            yield from _body(common_body, kind, place)
        case "request_trailers":
            yield from _headers(reply.request_trailers.header_mutation, "request")
        case "response_trailers":
            yield from _headers(reply.response_trailers.header_mutation, "response")


def _common(common: CommonResponse, kind: str) -> Iterator[Violation]:
    way = kind.partition("_")[0]
    yield from _headers(common.header_mutation, way)
    mutation = common.header_mutation
    if common.clear_route_cache:
        if way == "response":
            yield Violation("INV-24", f"clear_route_cache on {kind}")
        elif not mutation.set_headers and not mutation.remove_headers:
            yield Violation("INV-24", "clear_route_cache without a header mutation")


def _body(common: CommonResponse, kind: str, place: Place) -> Iterator[Violation]:
    form = common.body_mutation.WhichOneof("mutation")
    if place.mode is BodyMode.FULL_DUPLEX_STREAMED:
        if form != "streamed_response":
            yield Violation("INV-04", f"{kind} with {form or 'no mutation'} in FULL_DUPLEX_STREAMED")
        elif (size := len(common.body_mutation.streamed_response.body)) > _LARGEST_PIECE:
            yield Violation("INV-22", f"a piece of {size} bytes")
    elif form == "streamed_response":
        yield Violation("INV-05", f"{kind} with streamed_response in {place.mode.name}")
    mutation = common.header_mutation
    if place.mode not in _BUFFERED and (mutation.set_headers or mutation.remove_headers):
        yield Violation("INV-25", f"header mutation on {kind} in {place.mode.name}")


def _headers(mutation: HeaderMutation, way: str) -> Iterator[Violation]:
    """Of a mutation of the headers, or trailers, of a request or of a response."""
    for number, done in ((len(mutation.set_headers), "set"), (len(mutation.remove_headers), "removed")):
        if number > _MOST_HEADERS:  # each by itself: 60 and 60 are fine
            yield Violation("INV-18", f"{number} headers {done}")
    for option in mutation.set_headers:
        header = option.header
        name = header.key.lower()
        if header.value:
            where, id_ = ("both value and raw_value", "INV-12") if header.raw_value else ("value", "INV-11")
            yield Violation(id_, f"{name!r} set in {where}")
        if not _NAME.fullmatch(name):
            yield Violation("INV-13", f"a header is named {name!r}")
        value = header.raw_value or header.value.encode()
        if any(byte in b"\r\n\0" for byte in value):
            yield Violation("INV-13", f"the value of {name!r} has a CR, LF or NUL")
        if name in IMMUTABLE:
            yield Violation("INV-14", f"{name!r} is set")
        if name == ":status" and (way == "request" or not STATUS.fullmatch(value)):
            yield Violation("INV-15", f":status set to {value!r} on the {way}'s side")
    for name in mutation.remove_headers:
        if name.startswith(":") or name.lower() == "host":
            yield Violation("INV-14", f"{name!r} is removed")


def _override(kind: str | None, override: ProcessingMode, place: Place) -> Iterator[Violation]:
    if kind not in ("request_headers", "response_headers"):
        yield Violation("INV-19", f"mode_override on {kind or 'a reply without content'}")
        return
    if place.settings.overrides_ignored:
        return
    for way, body, trailers, configured in (
        ("request", override.request_body_mode, override.request_trailer_mode, place.settings.request_trailers),
        ("response", override.response_body_mode, override.response_trailer_mode, place.settings.response_trailers),
    ):
        becomes = trailers or int(configured)
        late = way == "request" and kind == "response_headers"
        if body == ProcessingMode.FULL_DUPLEX_STREAMED and becomes != ProcessingMode.SEND and not late:
            yield Violation("INV-20", f"{way}_body_mode FULL_DUPLEX_STREAMED without {way}_trailer_mode SEND")
