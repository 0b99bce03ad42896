"""A reference: an ext_proc server that keeps every invariant in every layout, and does next to nothing.

It is pure: `receive` takes a message and returns the replies. The suite's own tests play all cases with it, and break
it in one way at a time. A request's header `x-conformance` tells it what to do:

    refuse   it answers 403 itself, at the request's headers
    mutate   it appends `SUFFIX` to the bodies of both directions that have no content coding, and drops content-length

A request's body of more than `LARGEST` it answers with 413. Without `protocol_config` it can't know whether a body's
reply has to be `streamed_response`. So it refuses, unless it was made with the modes to assume.
"""

from __future__ import annotations

from collections.abc import Iterable

from extproc.conformance.host.outcome import Closed
from extproc.conformance.host.settings import BodyMode
from extproc.wire import (
    BodyMutation,
    BodyResponse,
    CommonResponse,
    HeaderMutation,
    HeadersResponse,
    HeaderValue,
    HeaderValueOption,
    HttpBody,
    HttpHeaders,
    ImmediateResponse,
    ProcessingRequest,
    ProcessingResponse,
    StreamedBodyResponse,
    TrailersResponse,
)

HEADER = "x-conformance"
SUFFIX = b" (mutated)"
REFUSAL = 403
LARGEST = 32 << 20


class Reference:
    """One exchange."""

    def __init__(self, assumed: tuple[BodyMode, BodyMode] | None = None) -> None:
        self.modes = {} if assumed is None else {"request": assumed[0], "response": assumed[1]}
        self.assumed = assumed is not None
        self.began = self.over = False
        self.mutate = False
        self.coded = {"request": False, "response": False}
        self.seen: set[str] = set()
        self.ended: set[str] = set()
        self.received = 0
        """Bytes of the request's body."""
        self.refused: Closed | None = None

    def receive(self, message: ProcessingRequest) -> list[ProcessingResponse | Closed]:
        """The replies to one message, in their order. `Closed` is the last one, where it ends the call."""
        if self.over or message.observability_mode:
            return []
        kind = message.WhichOneof("request")
        refusal = self._begin(message) if not self.began else None
        if refusal is None and (kind is None or self._misplaced(kind)):
            refusal = Closed("INVALID_ARGUMENT", f"{kind or 'a message of no known kind'} isn't due")
        if refusal is not None:
            self.over = True
            return [refusal]
        assert kind is not None
        way, _, part = kind.partition("_")
        match part:
            case "headers":
                return self._headers(way, getattr(message, kind))
            case "body":
                return self._body(way, getattr(message, kind))
            case _:
                self.ended.add(way)
                return [ProcessingResponse(**{kind: TrailersResponse()})]  # type: ignore[arg-type]

    def half_closed(self) -> Closed:
        """The host sends no more."""
        return Closed("OK")

    def _begin(self, message: ProcessingRequest) -> Closed | None:
        self.began = True
        if not message.HasField("protocol_config"):
            if self.assumed:
                return None
            return Closed(
                "FAILED_PRECONDITION", "without protocol_config the body modes are unknown: Envoy 1.34 or later"
            )
        told = message.protocol_config
        modes = (int(told.request_body_mode), int(told.response_body_mode))
        if unknown := [mode for mode in modes if mode not in list(BodyMode)]:
            return Closed("FAILED_PRECONDITION", f"protocol_config: body mode {unknown[0]} isn't known here")
        self.modes = {"request": BodyMode(modes[0]), "response": BodyMode(modes[1])}
        return None

    def _misplaced(self, kind: str) -> bool:
        """Headers twice, headers behind their body, or a request's message behind its response."""
        way, _, part = kind.partition("_")
        late = part == "headers" and any(seen.startswith(f"{way}_") for seen in self.seen)
        late |= way == "request" and part == "headers" and any(seen.startswith("response_") for seen in self.seen)
        self.seen.add(kind)
        return late

    def _headers(self, way: str, headers: HttpHeaders) -> list[ProcessingResponse | Closed]:
        values = {each.key.lower(): each.raw_value or each.value.encode() for each in headers.headers.headers}
        self.coded[way] = "content-encoding" in values
        if way == "request" and values.get(HEADER) == b"refuse":
            self.over = True
            return [refusal(REFUSAL)]
        if way == "request":
            self.mutate = values.get(HEADER) == b"mutate"
        reply = HeadersResponse()
        if self._mutates(way) and not headers.end_of_stream and self.modes[way] is not BodyMode.NONE:
            reply.response.header_mutation.remove_headers.append("content-length")
        return [ProcessingResponse(**{f"{way}_headers": reply})]  # type: ignore[arg-type]

    def _mutates(self, way: str) -> bool:
        return self.mutate and not self.coded[way]

    def _body(self, way: str, body: HttpBody) -> list[ProcessingResponse | Closed]:
        full = self.modes.get(way) is BodyMode.FULL_DUPLEX_STREAMED
        first_end = body.end_of_stream and way not in self.ended
        if full and way in self.ended:
            return []  # the end came twice
        if body.end_of_stream:
            self.ended.add(way)
        self.received += len(body.body) if way == "request" else 0
        if self.received > LARGEST:
            self.over = True
            return [refusal(413)]
        suffix = SUFFIX if self._mutates(way) and first_end else b""
        if not full:
            mutation = BodyMutation(body=body.body + suffix) if suffix else None
            return [body_reply(way, mutation)]
        # A piece may be larger than what a host should be sent at once.
        whole = body.body + suffix
        cuts = [whole[at : at + 65536] for at in range(0, len(whole), 65536)] or [b""]
        return [
            body_reply(way, streamed(piece, end=body.end_of_stream and at == len(cuts) - 1))
            for at, piece in enumerate(cuts)
        ]


def body_reply(way: str, mutation: BodyMutation | None = None) -> ProcessingResponse:
    """To a body, or a piece of one, of the `request` or the `response`; it goes on as it is without a mutation."""
    common = CommonResponse() if mutation is None else CommonResponse(body_mutation=mutation)
    return ProcessingResponse(**{f"{way}_body": BodyResponse(response=common)})  # type: ignore[arg-type]


def streamed(piece: bytes, *, end: bool) -> BodyMutation:
    return BodyMutation(streamed_response=StreamedBodyResponse(body=piece, end_of_stream=end))


def refusal(status: int) -> ProcessingResponse:
    """An immediate response, with a body and its type."""
    immediate = ImmediateResponse(headers=set_headers([("content-type", b"text/plain")]), body=b"refused\n")
    immediate.status.code = status  # type: ignore[assignment]
    return ProcessingResponse(immediate_response=immediate)


def set_headers(headers: Iterable[tuple[str, bytes]]) -> HeaderMutation:
    return HeaderMutation(
        set_headers=[
            HeaderValueOption(
                header=HeaderValue(key=name, raw_value=value),
                append_action=HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD,
            )
            for name, value in headers
        ]
    )
