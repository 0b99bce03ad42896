"""One HTTP exchange as Envoy's external-processing protocol sees it: a state machine without any I/O.

`Exchange.receive(message)` takes one message of Envoy's and returns the replies to it, at once. The layout that it
is made for, and insists on: request body BUFFERED, response body NONE; at response_headers the answer decides, for
this exchange alone, whether its body is wanted. For routes without chat completions both may be NONE.

    phase              message            reply                                              next phase
    REQUEST_HEADERS    request_headers    go on; past us when it is no chat completion       REQUEST_BODY, PASSED_BY
    REQUEST_BODY       request_body       new body, backend header, clear route cache        RESPONSE_HEADERS
    RESPONSE_HEADERS   response_headers   2xx, nothing to rewrite: go on                     PASSED_BY
                                          2xx, events to rewrite: FULL_DUPLEX_STREAMED       RESPONSE_STREAM
                                          anything else to rewrite, errors: BUFFERED         RESPONSE_BODY
    RESPONSE_STREAM    response_body      rewritten pieces, until the end of the stream      ENDED
    RESPONSE_BODY      response_body      the whole new body and, if need be, status         ENDED

A request that is refused is answered with an immediate response and ENDED. A response can come before the request
was read whole (Envoy's own, such as a 413). A message that the phase has no place for raises ProtocolError: an
empty reply would corrupt what Envoy does next. Facts: measurements on Envoy 1.40 (docs/envoy.md).
"""

from __future__ import annotations

import enum
import re
import uuid
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from extproc.admission import WANTED, Admitted, Answered, Refused, admit
from extproc.chat import Prepared, StreamedAnswer, prepare, rewrite_completion
from extproc.content_coding import Decoder, UnreadableCodingError
from extproc.names import AFFINITY_HEADER, BACKEND_HEADER, DROPPED_HEADER, USAGE_HEADER
from extproc.openai.errors import ANSWER_FAULTS, ApiError, backend_error, backend_garbage, invalid_request
from extproc.replies import fields_of, immediate, mutation, past_us, streamed, whole_body, with_metadata
from extproc.telemetry import Telemetry
from extproc.terms import Terms
from extproc.wire import (
    BodyResponse,
    CommonResponse,
    HeadersResponse,
    HttpBody,
    HttpHeaders,
    ProcessingMode,
    ProcessingRequest,
    ProcessingResponse,
    ProtocolConfiguration,
    TrailersResponse,
)


class ProtocolError(Exception):
    """Envoy is configured otherwise than this processor needs, or sent what can't come now."""


class Phase(enum.Enum):
    """What the exchange waits for."""

    REQUEST_HEADERS = "request headers"
    REQUEST_BODY = "request body"
    RESPONSE_HEADERS = "response headers"
    RESPONSE_BODY = "response body"
    RESPONSE_STREAM = "response stream"
    PASSED_BY = "nothing: the rest goes past the processor"
    ENDED = "nothing: the response is complete"


class Exchange:
    """One exchange. Not for reuse; what it may do is fixed by the terms that it was made with."""

    def __init__(self, terms: Terms, telemetry: Telemetry) -> None:
        self.terms = terms
        self._config = terms.config
        self._telemetry = telemetry
        self.phase = Phase.REQUEST_HEADERS
        self.id = ""
        """The request's `x-request-id`, for logs; made up when Envoy sends none."""
        self._headers_alone = False
        self._prepared: Prepared | None = None
        self._shown: dict[str, str] = {}  # header fields that every answer of this exchange gets
        self._status = 200
        self._decoder = Decoder("", terms.config.limits.max_body_bytes)
        self._answer: StreamedAnswer | None = None

    def receive(self, message: ProcessingRequest) -> list[ProcessingResponse]:
        """The replies to one message, in order. Raises ProtocolError."""
        if message.observability_mode:
            raise ProtocolError("configure Envoy without observability_mode: it would take no notice of any reply")
        if message.HasField("protocol_config"):
            self._headers_alone = _check_protocol(message.protocol_config)
        kind = message.WhichOneof("request")
        match kind, self.phase:
            case "request_headers", Phase.REQUEST_HEADERS:
                return self._request_headers(message.request_headers)
            case "request_body", Phase.REQUEST_BODY:
                return self._request_body(message.request_body)
            case "request_trailers", Phase.REQUEST_BODY | Phase.RESPONSE_HEADERS | Phase.PASSED_BY:
                return [ProcessingResponse(request_trailers=TrailersResponse())]
            case "response_headers", Phase.REQUEST_BODY | Phase.RESPONSE_HEADERS:
                return self._response_headers(message.response_headers)
            case "response_body", Phase.RESPONSE_BODY:
                return self._response_body(message.response_body)
            case "response_body", Phase.RESPONSE_STREAM:
                return self._response_stream(message.response_body)
            case "response_body", Phase.ENDED if self._answer is not None:
                return []  # Envoy may repeat the end of a stream that has ended
            case "response_trailers", Phase.RESPONSE_STREAM:
                return [*self._end_of_stream(last=False), ProcessingResponse(response_trailers=TrailersResponse())]
            case "response_trailers", Phase.RESPONSE_HEADERS | Phase.PASSED_BY | Phase.ENDED:
                return [ProcessingResponse(response_trailers=TrailersResponse())]
            case _:
                raise ProtocolError(f"got {kind or 'a message without content'} while waiting for {self.phase.value}")

    def close(self) -> None:
        """Envoy has nothing more to say, wherever the exchange stands. What an abandoned stream came to counts too."""
        if self.phase is Phase.RESPONSE_STREAM:
            self._count_stream()
        if self.phase not in (Phase.PASSED_BY, Phase.ENDED):
            self._telemetry.unfinished(self.phase.name.lower())
            self.phase = Phase.ENDED

    # Request

    def _request_headers(self, headers: HttpHeaders) -> list[ProcessingResponse]:
        fields = fields_of(headers.headers, *WANTED, "x-request-id")
        self.id = fields.get("x-request-id") or str(uuid.uuid4())
        match admit(fields, self.terms):
            case Refused(error, extra, client):
                return [self._refuse(error, keep=extra, client=client)]
            case Answered(body, client):
                self.phase = Phase.ENDED
                return [with_metadata(immediate(200, body, "models"), _client_metadata(client))]
            case Admitted(client, chat):
                pass
        if chat and self._headers_alone:
            raise ProtocolError("configure Envoy's route for chat completions with request_body_mode BUFFERED")
        if chat and headers.end_of_stream:
            error = invalid_request("The request has no body. Send a JSON object.", code="invalid_json")
            return [self._refuse(error, client=client)]
        reply = ProcessingResponse(request_headers=HeadersResponse())
        if chat:
            self.phase = Phase.REQUEST_BODY
        else:
            self.phase = Phase.PASSED_BY
            reply.mode_override.CopyFrom(past_us())
        return [with_metadata(reply, _client_metadata(client))]

    def _request_body(self, body: HttpBody) -> list[ProcessingResponse]:
        limit = self._config.limits.max_body_bytes
        if len(body.body) > limit:  # Envoy may go by another limit for a moment when it is changed
            return [self._refuse(_too_large(limit))]
        try:
            prepared = prepare(body.body, self._config)
        except ApiError as error:
            return [self._refuse(error)]
        self._prepared = prepared
        self._telemetry.accepted(prepared.model, prepared.dropped, prepared.repaired)
        self.phase = Phase.RESPONSE_HEADERS
        common = CommonResponse(clear_route_cache=True)
        new_fields = {BACKEND_HEADER: prepared.backend}
        if prepared.affinity is not None:
            new_fields[AFFINITY_HEADER] = prepared.affinity
        if prepared.body is not None:
            new_fields["content-length"] = str(len(prepared.body))
            common.body_mutation.body = prepared.body
        common.header_mutation.CopyFrom(mutation(new_fields))
        reply = ProcessingResponse(request_body=BodyResponse(response=common))
        metadata: dict[str, Any] = {"model": prepared.model, "backend": prepared.backend}
        if prepared.dropped:
            self._shown = {DROPPED_HEADER: _listed(prepared.dropped)}
            metadata["dropped"] = len(prepared.dropped)
        return [with_metadata(reply, metadata)]

    def _refuse(
        self, error: ApiError, *, keep: Mapping[str, str] | None = None, client: str | None = None
    ) -> ProcessingResponse:
        """Answer the client here and now."""
        self._count_error(error)
        self.phase = Phase.ENDED
        reply = immediate(error.status, error.body(), error.code or error.type, {**(keep or {}), **self._shown})
        return with_metadata(reply, _error_metadata(error) | _client_metadata(client))

    # Response

    def _response_headers(self, headers: HttpHeaders) -> list[ProcessingResponse]:
        wanted = (":status", "content-type", "content-length", "content-encoding", "retry-after")
        fields = fields_of(headers.headers, *wanted)
        self._status = int(fields.get(":status", "200"))
        plan = self._prepared.answer if self._prepared else None
        failed = self._status >= 400
        if not failed and plan is None:
            self.phase = Phase.PASSED_BY
            past = HeadersResponse()
            if self._shown:
                past.response.header_mutation.CopyFrom(mutation(self._shown))
            return [ProcessingResponse(response_headers=past)]
        if headers.end_of_stream:
            error = backend_error(self._status, b"") if failed else backend_garbage("it is empty.")
            return [self._refuse(error, keep=_kept(fields))]
        try:
            self._decoder = Decoder(fields.get("content-encoding", ""), self._config.limits.max_body_bytes)
        except UnreadableCodingError as error:
            return [self._refuse(backend_garbage(str(error)))]
        limit = self._config.limits.max_body_bytes
        if int(fields.get("content-length", "0")) > limit:
            # Envoy would buffer up to its limit and then may never answer.
            return [self._refuse(backend_garbage(f"it is larger than {limit} bytes."), keep=_kept(fields))]
        if plan is not None and not failed and _is_event_stream(fields):
            self.phase = Phase.RESPONSE_STREAM
            self._answer = StreamedAnswer(plan, self._prepared.sent if self._prepared else None)
            mode = ProcessingMode.FULL_DUPLEX_STREAMED
        else:
            self.phase = Phase.RESPONSE_BODY
            mode = ProcessingMode.BUFFERED
        common = CommonResponse(header_mutation=mutation(self._shown))
        common.header_mutation.remove_headers.extend(("content-length", "content-encoding"))
        # The trailer mode must stay as it was configured: SEND belongs to a full-duplex stream.
        override = ProcessingMode(response_body_mode=mode, response_trailer_mode=ProcessingMode.SEND)
        return [
            ProcessingResponse(response_headers=HeadersResponse(response=common), mode_override=override),
        ]

    def _response_body(self, body: HttpBody) -> list[ProcessingResponse]:
        """The whole body of an error, or of a completion that isn't a stream."""
        plan = self._prepared.answer if self._prepared else None
        try:
            data = self._decoder.decode(body.body)
            if self._status >= 400:
                return [self._error_body(backend_error(self._status, data))]
            assert self._prepared is not None  # else the response had been let pass
            assert plan is not None
            rewritten = rewrite_completion(data, plan, self._prepared.sent)
        except UnreadableCodingError as error:
            return [self._refuse(backend_garbage(str(error)))]
        except ApiError as error:
            faults = {error.code: 1} if error.code in ANSWER_FAULTS else {}  # a call that the client is not to get
            return [with_metadata(self._refuse(error), self._count_answer(None, faults))]
        self.phase = Phase.ENDED
        fields = {USAGE_HEADER: "estimated"} if rewritten.estimated else {}
        reply = ProcessingResponse(response_body=whole_body(rewritten.body, fields))
        return [with_metadata(reply, self._count_answer(rewritten.usage, rewritten.faults))]

    def _error_body(self, error: ApiError) -> ProcessingResponse:
        self._count_error(error)
        self.phase = Phase.ENDED
        reply = ProcessingResponse(response_body=whole_body(error.body(), {"content-type": "application/json"}))
        return with_metadata(reply, _error_metadata(error))

    def _response_stream(self, body: HttpBody) -> list[ProcessingResponse]:
        answer = self._answer
        assert answer is not None  # made on entering the phase
        try:
            piece = answer.feed(self._decoder.decode(body.body))
        except UnreadableCodingError as error:
            piece = answer.fail(backend_garbage(str(error)))
        if answer.held > self._config.limits.max_body_bytes:
            piece += answer.fail(backend_garbage("an event of the stream is too large."))
        if body.end_of_stream:
            return self._end_of_stream(piece)
        return [streamed(piece)] if piece else []

    def _end_of_stream(self, piece: bytes = b"", *, last: bool = True) -> list[ProcessingResponse]:
        answer = self._answer
        assert answer is not None  # made on entering the phase
        piece += answer.close()
        metadata = self._count_stream()
        self.phase = Phase.ENDED
        if not piece and not last:
            return []
        return [with_metadata(streamed(piece, end_of_stream=last), metadata)]

    # What came of it: for the metrics, and for the access log

    def _count_error(self, error: ApiError) -> None:
        if self._prepared is None:
            self._telemetry.refused(error)
        else:
            self._telemetry.backend_error(self._prepared.model, error)

    def _count_stream(self) -> dict[str, Any]:
        answer, prepared = self._answer, self._prepared
        assert answer is not None  # both were made on the way to this phase
        assert prepared is not None
        metadata = self._count_answer(answer.usage, answer.faults)
        if answer.error is not None:
            self._telemetry.stream_error(prepared.model, answer.error)
            metadata |= _error_metadata(answer.error)
        return metadata

    def _count_answer(self, usage: Mapping[str, Any] | None, faults: Mapping[str, int]) -> dict[str, Any]:
        """Returns what the access log gets of it."""
        assert self._prepared is not None  # else there would have been no answer
        self._telemetry.answered(self._prepared.model, usage or {}, faults)
        metadata = _usage_metadata(usage)
        if faults:
            metadata["invalid_calls"] = sum(faults.values())
        return metadata


def _check_protocol(protocol: ProtocolConfiguration) -> bool:
    """Whether nothing but headers will come."""
    known = (ProcessingMode.BUFFERED, ProcessingMode.NONE)
    if protocol.request_body_mode not in known or protocol.response_body_mode != ProcessingMode.NONE:
        names = ProcessingMode.BodySendMode.Name
        raise ProtocolError(
            "configure Envoy's processing_mode with request_body_mode BUFFERED and response_body_mode NONE "
            f"(and allow_mode_override); it has {names(protocol.request_body_mode)} "
            f"and {names(protocol.response_body_mode)}"
        )
    return protocol.request_body_mode == ProcessingMode.NONE


def _too_large(limit: int) -> ApiError:
    message = f"The request body is larger than {limit} bytes, the most that this gateway accepts."
    return ApiError(413, message, code="request_too_large")


def _is_event_stream(fields: Mapping[str, str]) -> bool:
    return fields.get("content-type", "").lower().startswith("text/event-stream")


def _kept(fields: Mapping[str, str]) -> dict[str, str]:
    """What of the backend's headers has to outlive a replaced response."""
    return {name: fields[name] for name in ("retry-after",) if name in fields}


_SHOWABLE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MOST_SHOWN = 20


def _listed(names: Sequence[str]) -> str:
    """Names that a client made up, as the value of a header: `a, b, +3 more`, those that are plain enough first."""
    shown = list(islice(filter(_SHOWABLE.fullmatch, names), _MOST_SHOWN))
    if hidden := len(names) - len(shown):
        shown.append(f"+{hidden} more")
    return ", ".join(shown)


def _client_metadata(client: str | None) -> dict[str, Any]:
    return {"client": client} if client is not None else {}


def _error_metadata(error: ApiError) -> dict[str, Any]:
    return {"error": error.code or error.type}


def _usage_metadata(usage: Mapping[str, Any] | None) -> dict[str, Any]:
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    return {name: usage[name] for name in names if isinstance(usage.get(name), int)} if usage else {}
