"""What is asked for at an answer's head: of the host its body, and in which mode; of the backend a second answer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from extproc.exchange.effects import CallBackend
from extproc.exchange.host import UNSURE, Host
from extproc.exchange.layout import BUFFERED, FULL_DUPLEX, STREAMED, BodyMode, Layout
from extproc.exchange.protocol import is_sendable
from extproc.exchange.replies import mutation
from extproc.names import AFFINITY_HEADER, AGAIN_HEADER, BACKEND_HEADER
from extproc.turn.retry import Fault
from extproc.turn.upstream import UpstreamRequest
from extproc.wire import CommonResponse, ProcessingMode

RETRY_TIMEOUT = 120.0
"""Seconds that a backend gets for its second answer."""

# The trailer mode must stay as it was configured: SEND belongs to a full-duplex stream.
OVERRIDES: Mapping[BodyMode, ProcessingMode] = {
    mode: ProcessingMode(response_body_mode=mode.value, response_trailer_mode=ProcessingMode.SEND)
    for mode in (FULL_DUPLEX, BUFFERED)
}
"""By which a body is asked for, where the layout wants that."""


def body_mode(layout: Layout, host: Host | None, *, events: bool) -> BodyMode:
    """The mode in which an answer's body comes that is wanted: of one with `events`, or a whole one."""
    if not layout.asks:
        return layout.response
    return FULL_DUPLEX if events and (host is None or host.known) else BUFFERED


def head(mode: BodyMode, shown: Mapping[str, str], *, guarded: bool, failed: bool) -> CommonResponse:
    """What becomes of the answer's head by then.

    `guarded`: it leaves with a status that its body's reply makes good. `failed`: it is an error's.
    """
    fields = dict(shown)
    if guarded and not failed:
        fields[":status"] = str(UNSURE)
    if mode is STREAMED and failed:  # else the body's reply says so
        fields["content-type"] = "application/json"
    common = CommonResponse(header_mutation=mutation(fields))
    common.header_mutation.remove_headers.append("content-length")
    if not guarded:
        common.header_mutation.remove_headers.append("content-encoding")
    return common


def once_more(
    prepared: UpstreamRequest, socket: Path, request_id: str, trace: Mapping[str, str], fault: Fault
) -> CallBackend:
    """Ask for a second answer, because of what is wrong with the first."""
    assert prepared.again is not None  # else there is nothing to ask
    headers = {
        "content-type": "application/json",
        **({"x-request-id": request_id} if is_sendable(request_id) else {}),
        **trace,
        BACKEND_HEADER: prepared.backend,
        AGAIN_HEADER: "1",
        **({AFFINITY_HEADER: prepared.affinity} if prepared.affinity is not None else {}),
    }
    body = prepared.again.body(fault)
    return CallBackend(prepared.backend, socket, headers, body, request_id, RETRY_TIMEOUT)
