"""One HTTP exchange as Envoy's external-processing protocol sees it: a state machine without any I/O.

`Exchange.receive(message)` takes one message of Envoy's and returns the replies to it, at once. What takes time leaves
as an `Effect` among the replies, always the last; the next input is then its result, by `resume`. The layout that it
is made for, and insists on: request body BUFFERED, response body NONE; at request_headers it asks for the head of the
answer, and at response_headers that decides, for this exchange alone, whether the body is wanted. For routes without
chat completions both may be NONE.

    phase              message            reply                                              next phase
    REQUEST_HEADERS    request_headers    go on; past us when the body isn't wanted          REQUEST_BODY, PASSED_BY
    REQUEST_BODY       request_body       a large one: Prepare                               PREPARING
                                          new body, backend header, clear route cache        RESPONSE_HEADERS
                                          the same, when it is no chat completion            PASSED_BY
    PREPARING          (result)           the same                                           RESPONSE_HEADERS
    RESPONSE_HEADERS   response_headers   2xx, nothing to rewrite: go on                     PASSED_BY
                                          2xx, events to rewrite: FULL_DUPLEX_STREAMED       RESPONSE_STREAM
                                          anything else to rewrite, errors: BUFFERED         RESPONSE_BODY
                                          events, from a host not yet known: BUFFERED        RESPONSE_STREAM
    RESPONSE_STREAM    response_body      rewritten pieces, until the end of the stream      ENDED
                       (result)           a large one goes on: Breathe after each step       the same
    RESPONSE_BODY      response_body      a large one: ReadCompletion                        READING
                                          the whole new body and, if need be, status         ENDED
    READING            (result)           the same                                           ENDED
    both of these, and RESPONSE_STREAM    the demanded call isn't there: AskBackend          ASKING_AGAIN
    ASKING_AGAIN       (result)           a large answer: ReadCompletion, Breathe            the same
                                          the second answer, or else the first               ENDED

A host whose configuration isn't our own may ignore the overrides: `extproc.host` tells what is done about that.
A request that is refused is answered with an immediate response and ENDED. A response can come before the request
was read whole (Envoy's own, such as a 413). A message that the phase has no place for raises ProtocolError: an
empty reply would corrupt what Envoy does next. Facts: measurements on Envoy 1.40 (docs/envoy.md).
"""

from __future__ import annotations

import enum
import math
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from extproc.admission import WANTED, Admitted, Answered, Refused, admit
from extproc.chat import Prepared, Rewritten, StreamedAnswer
from extproc.config import Backend
from extproc.content_coding import Decoder, UnreadableCodingError
from extproc.effects import AskBackend, BackendSaid, Breathe, Effect, Prepare, ReadCompletion, Result
from extproc.host import LATER, UNSURE, Host, ignores_overrides
from extproc.leases import Leases, too_large
from extproc.names import AFFINITY_HEADER, BACKEND_HEADER, DROPPED_HEADER, REPLY_HEADER, USAGE_HEADER
from extproc.openai.errors import (
    ANSWER_FAULTS,
    ApiError,
    backend_error,
    backend_garbage,
    envoys_error,
    hosts_error,
    invalid_request,
)
from extproc.outcome import Outcome
from extproc.protocol import (
    ProtocolError,
    check_protocol,
    content_length,
    fields_of,
    is_event_stream,
    kept,
    may_be_an_answer,
    status_of,
)
from extproc.replies import (
    immediate,
    listed,
    more_time,
    mutation,
    past_us,
    streamed,
    to_the_end,
    whole_body,
    with_lease,
    with_metadata,
)
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
    TrailersResponse,
)

Replies: TypeAlias = list[ProcessingResponse | Effect]

AGAIN = {"retry-after": "1"}
"""For what is too much now, and may not be in a second."""
LONGEST_ID = 128
"""Characters of a request's id, in logs."""
LARGE = 32 * 1024
"""Bytes of a request that is read at once. It takes 4 ms, or 10 to 20 at worst (schemas full of references)."""
LARGE_ANSWER = 8 * 1024
"""Bytes of an answer that is read at once: if all of it is markup, each takes ten times what it takes in a request."""
STEP = 4096
"""Bytes of a stream that are read at once: some 20 events, or 100 as short as can be, which take 5 ms."""
LARGEST_EVENT = 256 * 1024
"""Bytes of one event of a stream, which is decoded at once. One that has a whole call in it is some kilobytes long."""
_LARGE_PIECE = 64 * 1024
"""Bytes that are given on before the rest of a piece is read."""
_LARGEST_ERROR = 64 * 1024
"""Bytes of a backend's error; in a longer one nobody looks for words."""
SILENCE = "backend_timeout"
"""The code of the error that a stream ends with when its backend falls silent; Envoy's own time-out has the same."""
PREPARING = 60.0
"""Seconds that a large request gets to be read."""
SECOND_TRY = 120.0
"""Seconds that a backend gets for its second answer."""


class Phase(enum.Enum):
    """What the exchange waits for."""

    REQUEST_HEADERS = "request headers"
    REQUEST_BODY = "request body"
    PREPARING = "the request to be read"
    RESPONSE_HEADERS = "response headers"
    RESPONSE_BODY = "response body"
    RESPONSE_STREAM = "response stream"
    READING = "the answer to be read"
    ASKING_AGAIN = "the backend's second answer"
    PASSED_BY = "nothing: the rest goes past the processor"
    ENDED = "nothing: the response is complete"


class Exchange:
    """One exchange. Not for reuse; what it may do is fixed by the terms that it was made with."""

    def __init__(self, terms: Terms, telemetry: Telemetry) -> None:
        self.terms = terms
        self._config = terms.config
        self._outcome = Outcome(telemetry)
        self.phase = Phase.REQUEST_HEADERS
        self.host: Host | None = None
        """What is known of an Envoy whose configuration isn't our own."""
        self.observed = False
        """Envoy only shows what passes (`observability_mode`)."""
        self.ignored_override = False
        """The call has ended as it does with a host that ignores overrides."""
        self.id = ""
        """The request's `x-request-id`, for logs; made up when Envoy sends none."""
        self._headers_alone = False
        self._modes_known = False
        self._content_type: str | None = None  # of a request that is only routed by the model it names
        self._prepared: Prepared | None = None
        self._leases = Leases(terms)
        self._shown: dict[str, str] = {}  # header fields that every answer of this exchange gets
        self._status = 200
        self._overridden = False  # the body comes that an override asked for
        self._unsure = False  # the answer's head went out with a status that its body's reply makes good
        self._error_of: Callable[[int, bytes], ApiError] = backend_error
        self._decoder = Decoder("")
        self._answer: StreamedAnswer | None = None
        self._held: bytearray | None = None  # of a stream that may have to be given again
        self._steps: Iterator[Replies] | None = None  # what is left of a large piece
        self._first: Callable[[], Replies] | None = None  # the first answer, should there be no better one

    def receive(self, message: ProcessingRequest) -> Replies:
        """The replies to one message, in order; an effect only at the end. Raises ProtocolError."""
        if message.observability_mode:  # Envoy takes no notice of any reply, and of an error neither
            self.observed = True
            self._outcome.broke_off("observability_mode")
            self.phase = Phase.PASSED_BY
            return []
        if message.HasField("protocol_config"):
            self._headers_alone, self._modes_known = check_protocol(message.protocol_config), True
        kind = message.WhichOneof("request")
        match kind, self.phase:
            case "request_headers", Phase.REQUEST_HEADERS:
                return self._request_headers(message.request_headers)
            case "request_body", Phase.REQUEST_BODY:
                return self._request_body(message.request_body)
            case "request_trailers", Phase.REQUEST_BODY:
                return [self._refuse(_NO_BODY)]
            case "request_trailers", Phase.RESPONSE_HEADERS | Phase.PASSED_BY:
                return [ProcessingResponse(request_trailers=TrailersResponse())]
            case "response_headers", Phase.REQUEST_BODY | Phase.RESPONSE_HEADERS:
                return self._response_headers(message.response_headers)
            case "response_body", Phase.RESPONSE_BODY:
                return self._response_body(message.response_body)
            case "response_body", Phase.RESPONSE_STREAM:
                return self._response_stream(message.response_body)
            case "response_body", Phase.ENDED if self._answer is not None:
                return []  # Envoy may repeat the end of a stream that has ended
            case "response_trailers", Phase.RESPONSE_STREAM if not self._unsure:
                return [*self._end_of_stream(last=False), ProcessingResponse(response_trailers=TrailersResponse())]
            case "response_trailers", Phase.RESPONSE_STREAM | Phase.RESPONSE_BODY:
                self._override_followed()
                return [self._no_body()]
            case "response_trailers", Phase.RESPONSE_HEADERS | Phase.PASSED_BY | Phase.ENDED:
                return [ProcessingResponse(response_trailers=TrailersResponse())]
            case _:
                raise ProtocolError(f"got {kind or 'a message without content'} while waiting for {self.phase.value}")

    def close(self, since_reply: float = math.inf) -> None:
        """Envoy has nothing more to say, wherever the exchange stands. What an abandoned stream came to counts too.

        `since_reply` is how many seconds ago it got the last reply.
        """
        passed_by = self.phase is Phase.PASSED_BY
        if self.host is not None:
            self.ignored_override = self._override_ignored(self.host, since_reply)
        if self.phase is Phase.RESPONSE_STREAM:
            assert self._answer is not None  # made on entering the phase
            self._outcome.answered(self._answer.usage, self._answer.faults)
            if self._answer.error is not None and self._held is None:
                self._outcome.stream_error(self._answer.error)
        if self.phase not in (Phase.PASSED_BY, Phase.ENDED):
            self._outcome.unfinished(self.phase.name.lower())
            self.phase = Phase.ENDED
        self._first = self._steps = None  # which hold the exchange
        self._leases.close(passed_by=passed_by)

    def _override_ignored(self, host: Host, since_reply: float) -> bool:
        if self.phase is Phase.RESPONSE_HEADERS and self._prepared is not None and self._prepared.answer is not None:
            return host.ended_before_head()
        if self.phase in (Phase.RESPONSE_BODY, Phase.RESPONSE_STREAM) and not self._overridden:
            return host.ended_before_body(since_reply)
        return False

    @property
    def in_pieces(self) -> bool:
        """Whether the answer's body comes in pieces, as its backend sends it."""
        return self.phase is Phase.RESPONSE_STREAM and not self._unsure

    @property
    def is_chat(self) -> bool:
        """Whether it is a chat completion, of which the answer counts too."""
        return self._content_type is None

    @property
    def patience(self) -> float | None:
        """How many seconds Envoy may say nothing from now on; None while silence is nobody's fault.

        Before its first words a backend may have the request in its queue, or read a long prompt.
        """
        if self.phase is not Phase.RESPONSE_STREAM or self._answer is None or self._unsure:
            return None
        limits = self._config.limits
        return limits.silence_seconds if self._answer.begun else limits.first_event_seconds

    @property
    def goes_on(self) -> bool:
        """Whether it is amid a large piece, and the next result that of Breathe."""
        return self._steps is not None

    def silence(self) -> Replies:
        """The end of a stream in which nothing was said for too long.

        Before the first piece Envoy 1.40 takes such a reply amiss, and cuts the client's connection: as true an end.
        """
        if (patience := self.patience) is None:
            return []
        answer = self._answer
        assert answer is not None  # else there would be no patience
        error = ApiError(
            504, f"Nothing came from the model's backend for {patience:g} seconds.", "server_error", code=SILENCE
        )
        piece = bytes(self._held or b"") + answer.fail(error)
        self._outcome.answered(answer.usage, answer.faults)
        return self._give_stream(answer, piece)

    def resume(self, result: Result) -> Replies:
        """The replies to what came of the effect. Raises ProtocolError when there was none."""
        match self.phase, result:
            case _, None if self._steps is not None:
                return next(self._steps, [])
            case Phase.PREPARING, Prepared():
                return [self._forward(result)]
            case Phase.PREPARING, ApiError():
                return [self._refuse(result, keep=AGAIN if result.status == 503 else None)]
            case Phase.READING, Rewritten() | ApiError():
                return self._completion_read(result, in_time=True)
            case Phase.ASKING_AGAIN, BackendSaid() | None:
                return self._second_said(result)
            case Phase.ASKING_AGAIN, Rewritten() | ApiError():
                return self._second_read(result)
            case _:
                raise ProtocolError(f"got the result of an effect while waiting for {self.phase.value}")

    # Request

    def _request_headers(self, headers: HttpHeaders) -> Replies:
        fields = fields_of(headers.headers, *WANTED, "x-request-id", "content-length", "content-type")
        self.id = fields.get("x-request-id", "")[:LONGEST_ID] or str(uuid.uuid4())
        if not fields.keys() >= {":path", ":method"}:
            raise ProtocolError("configure Envoy's ext_proc filter without forward_rules that hide :path or :method")
        match admit(fields, self.terms, foreign=self.host is not None):
            case Refused(error, extra, client):
                return [self._refuse(error, keep=extra, client=client)]
            case Answered(body, client, what):
                self.phase = Phase.ENDED
                return [with_metadata(immediate(200, body, what), _client_metadata(client))]
            case Admitted(client, chat, named, ours):
                self._leases.client = client
        read = chat or named
        if named:
            self._content_type = fields.get("content-type", "")
        if read and self._headers_alone:
            raise ProtocolError("configure Envoy's routes for requests with models with request_body_mode BUFFERED")
        if read and headers.end_of_stream:
            return [self._refuse(_NO_BODY, client=client)]
        reply = ProcessingResponse(request_headers=HeadersResponse())
        try:
            if read:
                self._leases.let_in(fields.get("content-length", ""))
            elif ours:
                backend = self._config.default_backend
                self._take_place(backend, reply)
                # While settings change, and under an Envoy that doesn't follow them, it may be routed by this.
                reply.request_headers.response.header_mutation.CopyFrom(mutation({BACKEND_HEADER: backend.name}))
                reply.request_headers.response.clear_route_cache = True
        except ApiError as error:
            return [self._refuse(error.caught(), keep=AGAIN if error.status == 429 else None, client=client)]
        self.phase = Phase.REQUEST_BODY if read else Phase.PASSED_BY
        reply.mode_override.CopyFrom(to_the_end() if chat else past_us(body=named))
        return [with_metadata(reply, _client_metadata(client))]

    def _request_body(self, body: HttpBody) -> Replies:
        if not (body.end_of_stream or self._modes_known):
            # Of an older host that doesn't tell. Where a body comes in pieces, its head is on its way to some backend.
            raise ProtocolError("configure Envoy's processing_mode with request_body_mode BUFFERED; it has another")
        limit = self._config.limits.max_body_bytes
        if len(body.body) > limit:  # Envoy may go by another limit for a moment when it is changed
            return [self._refuse(too_large(limit))]
        self._leases.arrived(len(body.body))
        self.phase = Phase.PREPARING
        work = Prepare(body.body, self._config, self._leases.client, self._content_type)
        # It may have to wait for its turn as well.
        return [more_time(PREPARING), work] if len(work.body) > LARGE else self.resume(work.perform())

    def _forward(self, prepared: Prepared) -> ProcessingResponse:
        """Send the request to its backend, if its client may have one more there."""
        # Filled in place: a message that is put into another is copied, and its body may be megabytes.
        reply = ProcessingResponse(request_body=BodyResponse())
        try:
            self._take_place(self._config.backends_by_name[prepared.backend], reply)
        except ApiError as error:
            return self._refuse(error.caught(), keep=AGAIN)
        if prepared.answer is not None and self.host is not None and self.host.refuses():
            return self._refuse(ignores_overrides(), keep=LATER)
        # Without its body, which nobody needs any more: it may be a megabyte, for as long as the answer takes.
        self._prepared = replace(prepared, body=None)
        self.phase = Phase.RESPONSE_HEADERS if self.is_chat else Phase.PASSED_BY
        common = reply.request_body.response
        common.clear_route_cache = True
        new_fields = {BACKEND_HEADER: prepared.backend}
        if prepared.affinity is not None:
            new_fields[AFFINITY_HEADER] = prepared.affinity
        if prepared.body is not None:
            new_fields["content-length"] = str(len(prepared.body))
            common.body_mutation.body = prepared.body
        common.header_mutation.CopyFrom(mutation(new_fields))
        if prepared.dropped:
            self._shown = {DROPPED_HEADER: listed(prepared.dropped)}
        return with_metadata(reply, self._outcome.accepted(prepared) if self.is_chat else _routed_to(prepared))

    def _take_place(self, backend: Backend, reply: ProcessingResponse) -> None:
        """Count the request against its client's share of the backend. Raises ApiError when it has that already."""
        if (lease := self._leases.place_at(backend)) is not None:
            with_lease(reply, lease)

    def _refuse(
        self, error: ApiError, *, keep: Mapping[str, str] | None = None, client: str | None = None
    ) -> ProcessingResponse:
        """Answer the client here and now."""
        metadata = self._outcome.error(error)
        self.phase = Phase.ENDED
        reply = immediate(error.status, error.body(), error.code or error.type, {**(keep or {}), **self._shown})
        return with_metadata(reply, metadata | _client_metadata(client))

    # Response

    def _response_headers(self, headers: HttpHeaders) -> Replies:
        wanted = (":status", "content-type", "content-length", "content-encoding", "retry-after", REPLY_HEADER)
        fields = fields_of(headers.headers, *wanted)
        self._leases.uploaded()
        if self.host is not None:
            self.host.head_shown()
        if (status := status_of(fields)) is None:
            return [self._refuse(backend_garbage("its status is no HTTP status."))]
        self._status = status
        plan = self._prepared.answer if self._prepared else None
        failed = self._status >= 400
        if REPLY_HEADER in fields:
            self._error_of = envoys_error
        elif self.host is not None and self.phase is Phase.REQUEST_BODY:
            self._error_of = hosts_error
        if not failed and not may_be_an_answer(fields):
            return [self._refuse(backend_garbage("its content type is neither JSON nor an event stream."))]
        if not failed and plan is None:
            self.phase = Phase.PASSED_BY
            past = HeadersResponse()
            if self._shown:
                past.response.header_mutation.CopyFrom(mutation(self._shown))
            return [ProcessingResponse(response_headers=past)]
        if headers.end_of_stream:
            return [self._no_body(kept(fields))]
        try:
            self._decoder = Decoder(fields.get("content-encoding", ""))
        except UnreadableCodingError as error:
            return [self._refuse(backend_garbage(str(error)))]
        limit = self._config.limits.max_body_bytes
        if content_length(fields) > limit:
            # Envoy would buffer up to its limit and then may never answer.
            return [self._refuse(backend_garbage(f"it is larger than {limit} bytes."), keep=kept(fields))]
        events = not failed and is_event_stream(fields)
        self._unsure = self.host is not None and not (events and self.host.known)
        if self._prepared is not None and plan is not None and events:
            self.phase = Phase.RESPONSE_STREAM
            self._answer = StreamedAnswer(plan, self._prepared.sent)
            if self._prepared.again is not None or self._unsure:
                self._held = bytearray()
            mode = ProcessingMode.BUFFERED if self._unsure else ProcessingMode.FULL_DUPLEX_STREAMED
        else:
            self.phase = Phase.RESPONSE_BODY
            mode = ProcessingMode.BUFFERED
        unsure = {":status": str(UNSURE)} if self._unsure and not failed else {}
        common = CommonResponse(header_mutation=mutation(self._shown | unsure))
        common.header_mutation.remove_headers.append("content-length")
        if not self._unsure:
            common.header_mutation.remove_headers.append("content-encoding")
        # The trailer mode must stay as it was configured: SEND belongs to a full-duplex stream.
        override = ProcessingMode(response_body_mode=mode, response_trailer_mode=ProcessingMode.SEND)
        return [
            ProcessingResponse(response_headers=HeadersResponse(response=common), mode_override=override),
        ]

    def _no_body(self, keep: Mapping[str, str] | None = None) -> ProcessingResponse:
        error = self._error_of(self._status, b"") if self._status >= 400 else backend_garbage("it is empty.")
        return self._refuse(error, keep=keep)

    def _response_body(self, body: HttpBody) -> Replies:
        """The whole body of an error, or of a completion that isn't a stream."""
        self._override_followed()
        data, coding = body.body, self._decoder.coding
        if self._status >= 400:
            try:
                words = next(self._decoder.steps(data, _LARGEST_ERROR), b"")
            except UnreadableCodingError as error:
                return [self._refuse(backend_garbage(str(error)))]
            return [self._error_body(self._error_of(self._status, words))]
        work = self._reading(data, coding)
        if len(data) <= LARGE_ANSWER and not coding:
            return self._completion_read(work.perform(), in_time=False)
        self.phase = Phase.READING
        return [self._time_to_read(), work]

    def _time_to_read(self) -> ProcessingResponse:
        """Envoy gives a message more time once: for what may come after the reading too."""
        again = self._prepared is not None and self._prepared.again is not None
        return more_time(PREPARING + (SECOND_TRY if again else 0))

    def _reading(self, data: bytes, coding: str = "") -> ReadCompletion:
        prepared = self._prepared
        assert prepared is not None  # else the response had been let pass
        assert prepared.answer is not None
        limit = self._config.limits.max_body_bytes
        return ReadCompletion(data, coding, limit, prepared.answer, prepared.sent, self._leases.client)

    def _completion_read(self, completion: Rewritten | ApiError, *, in_time: bool) -> Replies:
        """`in_time`: Envoy waits long enough for a second try too."""
        problem = self._count_completion(completion)
        if (again := self._ask_again(problem)) is not None:
            self._first = lambda: [self._give_completion(completion)]
            return [again] if in_time else [more_time(SECOND_TRY + 5), again]
        return [self._give_completion(completion)]

    def _error_body(self, error: ApiError) -> ProcessingResponse:
        metadata = self._outcome.error(error)
        self.phase = Phase.ENDED
        fields = {":status": str(error.status), "content-type": "application/json"}
        return with_metadata(self._instead(error.body(), fields), metadata)

    def _override_followed(self) -> None:
        """The body has come."""
        self._overridden = True
        if self.host is not None:
            self.host.followed()

    def _instead(self, body: bytes, fields: Mapping[str, str]) -> ProcessingResponse:
        """The whole body of the answer, with the status and coding that its head went out without."""
        if not self._unsure:
            return ProcessingResponse(response_body=whole_body(body, fields))
        good = {":status": str(self._status), **fields}
        return ProcessingResponse(response_body=whole_body(body, good, remove=("content-encoding",)))

    def _count_completion(self, completion: Rewritten | ApiError) -> str:
        """What is wrong with the calls of what the client would get for a backend's completion."""
        if isinstance(completion, Rewritten):
            self._outcome.answered(completion.usage, completion.faults)
            return completion.faults.first
        if completion.code not in ANSWER_FAULTS:
            return ""
        self._outcome.answered(None, {completion.code: 1})  # a call that the client is not to get
        return completion.message

    def _give_completion(self, completion: Rewritten | ApiError) -> ProcessingResponse:
        if isinstance(completion, ApiError):
            return self._refuse(completion)
        self.phase = Phase.ENDED
        fields = {USAGE_HEADER: "estimated"} if completion.estimated else {}
        return with_metadata(self._instead(completion.body, fields), self._outcome.so_far())

    # A streamed response

    def _response_stream(self, body: HttpBody) -> Replies:
        answer = self._answer
        assert answer is not None  # made on entering the phase
        self._override_followed()
        if self._unsure:  # it is the whole of it, whether trailers follow or not
            self._steps = self._in_steps(body.body, end_of_stream=True)
            return [self._time_to_read(), *next(self._steps)]
        if not self._decoder.coding and len(body.body) + answer.unfinished <= STEP:
            return self._give_piece(answer.feed(body.body), end_of_stream=body.end_of_stream)
        self._steps = self._in_steps(body.body, end_of_stream=body.end_of_stream)
        return next(self._steps)

    def _in_steps(self, data: bytes, *, end_of_stream: bool) -> Iterator[Replies]:
        """What comes of a large piece, or one that may become large."""
        answer = self._answer
        assert answer is not None  # made on entering the phase
        piece = b""
        try:
            for part in self._decoder.steps(data, STEP):
                if answer.ended:
                    break
                for rewritten in answer.steps(part):
                    piece += rewritten
                    if len(piece) > _LARGE_PIECE:
                        yield [*self._give_piece(piece), Breathe()]
                        piece = b""
                    else:
                        yield [Breathe()]
                if answer.unfinished > LARGEST_EVENT or answer.held > self._config.limits.max_body_bytes:
                    piece += answer.fail(backend_garbage("an event of the stream is too large."))
        except UnreadableCodingError as error:
            piece += answer.fail(backend_garbage(str(error)))
        self._steps = None
        yield self._give_piece(piece, end_of_stream=end_of_stream)

    def _give_piece(self, piece: bytes, *, end_of_stream: bool = False) -> Replies:
        if end_of_stream:
            return self._end_of_stream(piece)
        if self._held is not None:
            self._held += piece
            piece = b""
            # Nothing of this size is only a call.
            if len(self._held) > self._config.limits.max_body_bytes and not self._unsure:
                piece, self._held = bytes(self._held), None
        return [*streamed(piece)] if piece else []

    def _end_of_stream(self, piece: bytes = b"", *, last: bool = True) -> Replies:
        """`last`: no trailers follow."""
        answer = self._answer
        assert answer is not None  # made on entering the phase
        piece = bytes(self._held or b"") + piece + answer.close()
        self._outcome.answered(answer.usage, answer.faults)
        if last and self._held is not None and (again := self._ask_again(_problem(answer))) is not None:
            self._first = lambda: self._give_stream(answer, piece, last=last)
            return [again]
        replies = self._give_stream(answer, piece, last=last)
        return replies if piece or last else []

    def _give_stream(self, answer: StreamedAnswer, piece: bytes, *, last: bool = True) -> Replies:
        metadata = self._outcome.so_far()
        if answer.error is not None:
            metadata = self._outcome.stream_error(answer.error)
        self.phase = Phase.ENDED
        replies = [self._instead(piece, {})] if self._unsure else streamed(piece, end_of_stream=last)
        with_metadata(replies[-1], metadata)
        return [*replies]

    # A demanded call that isn't there is asked for once more

    def _ask_again(self, problem: str) -> AskBackend | None:
        """`problem` is what is wrong with the calls of the answer, if anything."""
        prepared = self._prepared
        assert prepared is not None  # else there would be no answer
        if prepared.again is None or not problem:
            return None
        self.phase = Phase.ASKING_AGAIN
        backend = self._config.backends_by_name[prepared.backend]
        return AskBackend(backend, prepared.again.body(problem), self.id, SECOND_TRY)

    def _second_said(self, said: BackendSaid | None) -> Replies:
        """What the client gets in the end: of two answers the better one."""
        if said is None or said.status != 200:
            return self._better(None)
        if self._answer is not None:
            self._steps = self._second_in_steps(said.body)
            return next(self._steps)
        work = self._reading(said.body)
        return [work] if len(said.body) > LARGE_ANSWER else self._second_read(work.perform())

    def _second_read(self, completion: Rewritten | ApiError) -> Replies:
        problem = self._count_completion(completion)
        if isinstance(completion, ApiError) or problem or not completion.called:
            return self._better(None)
        return self._better(lambda: [self._give_completion(completion)])

    def _second_in_steps(self, data: bytes) -> Iterator[Replies]:
        prepared = self._prepared
        assert prepared is not None  # as it was for the first answer
        assert prepared.answer is not None
        answer = StreamedAnswer(prepared.answer, prepared.sent)
        piece = bytearray()
        for start in range(0, len(data), STEP):
            for rewritten in answer.steps(data[start : start + STEP]):
                if start:
                    yield [Breathe()]
                piece += rewritten
        piece += answer.close()
        self._outcome.answered(answer.usage, answer.faults)
        self._steps = None
        if answer.error or answer.faults.first or not answer.called:
            yield self._better(None)
        else:
            yield self._better(lambda: self._give_stream(answer, bytes(piece)))

    def _better(self, second: Callable[[], Replies] | None) -> Replies:
        """Give the client the second answer, unless there is none that is better than the first."""
        self._outcome.asked_again(helped=second is not None)
        first, self._first = self._first, None
        assert first is not None  # set on entering the phase
        return (second or first)()


_NO_BODY = invalid_request("The request has no body. Send a JSON object.", code="invalid_json")


def _problem(answer: StreamedAnswer) -> str:
    """What is wrong with the calls of a stream that is otherwise well."""
    failed = answer.error is not None and answer.error.code not in ANSWER_FAULTS
    return "" if failed else answer.faults.first


def _routed_to(prepared: Prepared) -> dict[str, str]:
    named = {"model": prepared.model} if prepared.model is not None else {}
    return {**named, "backend": prepared.backend}


def _client_metadata(client: str | None) -> dict[str, str]:
    return {"client": client} if client is not None else {}
