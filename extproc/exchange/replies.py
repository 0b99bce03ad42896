"""The messages that the processor sends to Envoy."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any, TypeAlias, cast
from urllib.parse import quote

from extproc.config import Choice
from extproc.exchange.concurrency import Lease
from extproc.exchange.effects import Effect
from extproc.exchange.phases import Phase
from extproc.names import (
    FALLBACK_HEADER,
    LEASE_KEY,
    LEASE_NAMESPACE,
    METADATA_NAMESPACE,
    MODEL_HEADER,
    REPLY_DETAILS,
)
from extproc.wire import (
    BodyMutation,
    BodyResponse,
    CommonResponse,
    HeaderMutation,
    HeaderValue,
    HeaderValueOption,
    HttpStatus,
    ImmediateResponse,
    ProcessingResponse,
    StatusCode,
)

Replies: TypeAlias = list[ProcessingResponse | Effect]
"""In order; an effect only at the end."""
Step: TypeAlias = tuple[Phase, Replies]
"""What an input leads to: the next phase, and what is said."""

LARGEST_PIECE = 64 * 1024
"""Bytes of one piece of a full-duplex stream: the protocol's description wants them no larger."""
_NOTHING: Mapping[str, str] = MappingProxyType({})


def mutation(fields: Mapping[str, str]) -> HeaderMutation:
    """Set these header fields, whether they were there or not."""
    return HeaderMutation(
        set_headers=[
            HeaderValueOption(
                header=HeaderValue(key=name, raw_value=value.encode()),
                append_action=HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD,
            )
            for name, value in fields.items()
        ]
    )


def immediate(status: int, body: bytes, details: str, fields: Mapping[str, str] = _NOTHING) -> ProcessingResponse:
    """Answer the client with this JSON, whatever a backend may say; `details` is one word for the access log."""
    return ProcessingResponse(
        immediate_response=ImmediateResponse(
            status=HttpStatus(code=_status_code(status)),
            headers=mutation({"content-type": "application/json", **fields}),
            body=body,
            details=REPLY_DETAILS + details,
        )
    )


def whole_body(body: bytes, fields: Mapping[str, str], remove: Sequence[str] = ()) -> BodyResponse:
    """Put this in the place of the body that Envoy has buffered, and set these header fields, or remove those."""
    headers = mutation({**fields, "content-length": str(len(body))})
    headers.remove_headers.extend(remove)
    return BodyResponse(response=CommonResponse(header_mutation=headers, body_mutation=BodyMutation(body=body)))


def streamed(data: bytes, *, end_of_stream: bool = False) -> list[ProcessingResponse]:
    """Send this of an answer in full duplex, in pieces that Envoy takes (docs/envoy.md)."""
    starts = range(0, len(data), LARGEST_PIECE) or range(1)
    return [
        _piece(data[start : start + LARGEST_PIECE], end_of_stream=end_of_stream and start == starts[-1])
        for start in starts
    ]


def request_streamed(data: bytes, *, end_of_stream: bool = False) -> list[ProcessingResponse]:
    """The same of a request."""
    replies = []
    for start in range(0, len(data), LARGEST_PIECE) or range(1):
        reply = ProcessingResponse()
        sent = reply.request_body.response.body_mutation.streamed_response
        sent.body = data[start : start + LARGEST_PIECE]
        sent.end_of_stream = end_of_stream and start + LARGEST_PIECE >= len(data)
        replies.append(reply)
    return replies


def _piece(data: bytes, *, end_of_stream: bool) -> ProcessingResponse:
    # Filled in place: messages that are put into each other take three times as long, and this is done for each token.
    reply = ProcessingResponse()
    sent = reply.response_body.response.body_mutation.streamed_response
    sent.body = data
    if end_of_stream:
        sent.end_of_stream = True
    elif not data:
        sent.SetInParent()
    return reply


def more_time(seconds: float) -> ProcessingResponse:
    """Have Envoy wait so much longer for the reply itself; once for each of its messages."""
    reply = ProcessingResponse()
    reply.override_message_timeout.FromMilliseconds(round(seconds * 1000))
    return reply


_SHOWABLE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MOST_SHOWN = 20


def listed(names: Sequence[str]) -> str:
    """Names that a client made up, as the value of a header: `a, b, +3 more`, those that are plain enough first."""
    shown = list(islice(filter(_SHOWABLE.fullmatch, names), _MOST_SHOWN))
    if hidden := len(names) - len(shown):
        shown.append(f"+{hidden} more")
    return ", ".join(shown)


def choice_shown(choice: Choice | None) -> dict[str, str]:
    """The header fields that tell whoever asked an alias of several models which it was. Names are as in a URL, where
    they have what a header can't."""
    if choice is None:
        return {}
    shown = {MODEL_HEADER: _in_header(choice.model)}
    if choice.instead_of is not None:
        shown[FALLBACK_HEADER] = f"{_in_header(choice.instead_of)} {choice.why}"
    return shown


def _in_header(name: str) -> str:
    return quote(name, safe="!#$&'()*+,/:;=?@[]^`{|}~")


def with_metadata(reply: ProcessingResponse, values: Mapping[str, Any]) -> ProcessingResponse:
    """Have the access log learn these."""
    if values:
        reply.dynamic_metadata.get_or_create_struct(METADATA_NAMESPACE).update(dict(values))
    return reply


def with_lease(reply: ProcessingResponse, lease: Lease) -> ProcessingResponse:
    """Have Envoy tell by its log when the request is over."""
    reply.dynamic_metadata.get_or_create_struct(LEASE_NAMESPACE).update({LEASE_KEY: lease.number})
    return reply


def _status_code(status: int) -> StatusCode:
    """Envoy's enumeration has gaps; what it doesn't know goes out as the first of its class."""
    known = status if status in StatusCode.values() else status - status % 100
    return cast("StatusCode", known)
