"""The second half of an exchange: a backend's answer comes in, and becomes what the client gets.

A whole answer is read at once, a stream piece by piece. Where one has a fault for which the backend is asked once more,
the client waits for `exchange.second_answer`. A host whose configuration isn't our own may ignore what is asked of it
at the answer's head: `exchange.host` tells what is done about that.

In which mode the body comes is asked for at the head, or configured. Only where it is STREAMED has the head left before
the body is known: an answer that turns out to be none is cut off there, because its status can't be changed any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from extproc.contract.errors import (
    ApiError,
    backend_error,
    backend_garbage,
    envoys_error,
    hosts_error,
    in_seconds,
)
from extproc.exchange import streaming
from extproc.exchange.asking import OVERRIDES, RETRY_TIMEOUT, body_mode, head, once_more
from extproc.exchange.client_answer import ClientAnswer
from extproc.exchange.content_coding import Decoder, UnreadableCodingError
from extproc.exchange.cost import RunningCost, can_be_read, tell_prompt
from extproc.exchange.direction import Direction, TooLargeError
from extproc.exchange.effects import BackendResponse, Breathe, ReadCompletion
from extproc.exchange.host import Host
from extproc.exchange.layout import BUFFERED, FULL_DUPLEX, STREAMED
from extproc.exchange.phases import Phase
from extproc.exchange.protocol import (
    content_length,
    fields_of,
    is_event_stream,
    kept,
    may_be_an_answer,
    status_of,
)
from extproc.exchange.reading import LARGE_ANSWER, Answer, AnswerReader, StreamEnd
from extproc.exchange.replies import Replies, Step, more_time, mutation, with_metadata
from extproc.exchange.request import PREPARING, RequestHalf
from extproc.exchange.second_answer import SecondAnswer, Work
from extproc.exchange.streaming import StreamedResponse
from extproc.names import REPLY_HEADER, RUNNER
from extproc.turn.answer import Rewritten
from extproc.turn.retry import Fault
from extproc.turn.spec import ResponseSpec
from extproc.wire import (
    HeadersResponse,
    HttpBody,
    HttpHeaders,
    ProcessingResponse,
    TrailersResponse,
)

_LARGEST_ERROR = 64 * 1024
"""Bytes of a backend's error; in a longer one nobody looks for words."""
IDLE_TIMEOUT = "backend_timeout"
"""The code of the error that a stream ends with when its backend falls silent; Envoy's own time-out has the same."""


class ResponseHalf:
    """What one exchange knows of its answer."""

    def __init__(self, request: RequestHalf) -> None:
        self._request = request
        self._reader = AnswerReader(request)
        self._stats = request.stats
        self._status = 200
        self._error_of: Callable[[int, bytes], ApiError] = backend_error
        self._decoder = Decoder("")
        self._asked: Host | None = None  # that may ignore it
        self._way: Direction | None = None  # from when its body is wanted
        self._client_answer: ClientAnswer | None = None  # from then on, too
        self._stream: StreamedResponse | None = None
        self._waits = False  # for the first token of a stream
        self._cost = RunningCost()
        self._ends = False  # the piece of the stream that is being read is its last
        self._second: SecondAnswer | None = None  # from when it is asked for
        self.body_came = False
        """The body came that an override asked for."""

    @property
    def _streams(self) -> StreamedResponse:
        assert self._stream is not None  # made on entering the phase
        return self._stream

    @property
    def _body(self) -> Direction:
        assert self._way is not None  # its body is wanted
        return self._way

    @property
    def _client(self) -> ClientAnswer:
        assert self._client_answer is not None  # its body is wanted
        return self._client_answer

    @property
    def _asked_again(self) -> SecondAnswer:
        assert self._second is not None  # made on entering the phase
        return self._second

    @property
    def in_pieces(self) -> bool:
        """Whether a stream comes in pieces, as its backend sends it."""
        return self._body.mode is not BUFFERED

    @property
    def amid_piece(self) -> bool:
        """Whether the next input is that a pause is over."""
        second, stream = self._second, self._stream
        return second.amid_stream if second is not None else stream is not None and stream.amid_piece

    @property
    def idle_timeout(self) -> float | None:
        """Seconds of silence that a stream may have from now on; None while silence is nobody's fault.

        Before its first words a backend may have the request in its queue, or read a long prompt. Only in full duplex
        can anything be said about it. A stream that is the backend's alone is left to Envoy's own time-outs.
        """
        if self._stream is None or not self._body.full_duplex or self._reader.spec.passes:
            return None
        limits = self._request.context.config.limits
        return limits.silence_seconds if self._stream.answer.begun else limits.first_event_seconds

    # Its head

    def headers(self, headers: HttpHeaders) -> Step:
        wanted = (":status", "content-type", "content-length", "content-encoding", "retry-after", REPLY_HEADER)
        fields = fields_of(headers.headers, *wanted)
        request = self._request
        request.leases.uploaded()
        if request.host is not None and request.layout.asks:
            self._asked = request.host
            request.host.head_shown()
        if (status := status_of(fields)) is None:
            return request.refuse(backend_garbage("its status isn't a valid HTTP status."))
        self._status = status
        if request.prepared is not None:
            reply = fields.get(REPLY_HEADER, "")
            self._stats.head_came(request.prepared.backend, status, reply, is_trial=request.is_trial)
        if REPLY_HEADER in fields:
            self._error_of = envoys_error
        elif request.host is not None and request.prepared is None:
            self._error_of = hosts_error
        failed = status >= 400
        spec = request.prepared.answer if request.prepared is not None else None
        if spec is not None and spec.passes and not failed:
            empty, limit = headers.end_of_stream, request.context.config.limits.max_body_bytes
            if empty or not can_be_read(fields, limit):
                return self._unread(costs=may_be_an_answer(fields) and not empty)
        if not failed and not may_be_an_answer(fields):
            return request.refuse(backend_garbage("its content type is neither JSON nor an event stream."))
        by_runner = request.prepared is not None and request.prepared.backend == RUNNER and REPLY_HEADER not in fields
        if by_runner or (not failed and spec is None):  # the runner speaks the client's dialect
            past = HeadersResponse()
            if request.shown:
                past.response.header_mutation.CopyFrom(mutation(request.shown))
            return request.rest(), [ProcessingResponse(response_headers=past)]
        if headers.end_of_stream:
            return self.no_body(kept(fields))
        return self._wanted(fields, spec if not failed else None)

    def _unread(self, *, costs: bool) -> Step:
        """The answer is the client's as it comes. `costs`: it can be one, and counts as its prompt alone does."""
        past = HeadersResponse()
        if self._request.shown:
            past.response.header_mutation.CopyFrom(mutation(self._request.shown))
        reply = ProcessingResponse(response_headers=past)
        if costs:
            tell_prompt(reply, self._reader.spec, self._reader.prepared.sent)
        return self._request.rest(), [reply]

    def _wanted(self, fields: Mapping[str, str], spec: ResponseSpec | None) -> Step:
        """Ask for the body: of an answer to be rewritten by `spec`, or of an error."""
        request = self._request
        try:
            self._decoder = Decoder(fields.get("content-encoding", ""))
        except UnreadableCodingError as error:
            return request.refuse(backend_garbage(str(error)))
        limit = request.context.config.limits.max_body_bytes
        if content_length(fields) > limit:
            # Envoy would buffer up to its limit and then may never answer.
            return request.refuse(backend_garbage(f"it is larger than {limit} bytes."), keep=kept(fields))
        events = spec is not None and is_event_stream(fields)
        if events and spec is not None and spec.counts:
            return request.refuse(backend_garbage("it is a stream where a count should be."))
        mode = body_mode(request.layout, request.host, events=events)
        self._way = Direction("response", mode)
        if mode is STREAMED:
            self._way.announced = content_length(fields)
        unsure = request.host is not None and mode is BUFFERED
        self._client_answer = ClientAnswer(request, self._way, self._status, unsure=unsure)
        if spec is not None and events:
            self._stream = StreamedResponse(
                self._reader.stream(),
                self._decoder,
                limit=limit,
                held=self._reader.prepared.again is not None or mode is BUFFERED,
                whole=mode is BUFFERED,
            )
        common = head(mode, request.shown, guarded=unsure, failed=spec is None)
        reply = ProcessingResponse(response_headers=HeadersResponse(response=common))
        if request.layout.asks:
            reply.mode_override.CopyFrom(OVERRIDES[mode])
        self._waits = events and mode is not BUFFERED
        phase = Phase.RESPONSE_STREAM if events else Phase.RESPONSE_BODY
        if mode is FULL_DUPLEX and not events:  # what it is in the end, its head is to tell
            self._way.withhold(reply)
            return phase, []
        return phase, [reply]

    def no_body(self, keep: Mapping[str, str] | None = None) -> Step:
        """An answer, or an error, without a body."""
        error = self._error_of(self._status, b"") if self._status >= 400 else backend_garbage("it is empty.")
        return self._request.refuse(error, keep=keep)

    def _came(self) -> None:
        """The body has come, or more of it."""
        self.body_came = True
        if self._asked is not None:
            self._asked.followed()

    def behind(self, body: HttpBody) -> list[ProcessingResponse] | None:
        """What something gets that comes behind the body's end; None: it can't be."""
        if self._way is None or (body.body and not self._way.full_duplex):
            return None
        return self._way.behind()

    # An error, or a whole answer

    def body(self, body: HttpBody) -> Step:
        self._request.needs_end(body, self._body.mode)
        self._came()
        try:
            data = self._body.take(body, self._request.context.config.limits.max_body_bytes)
        except TooLargeError:
            limit = self._request.context.config.limits.max_body_bytes
            return self._client.refuse(backend_garbage(f"it is larger than {limit} bytes."))
        return self._whole(data) if data is not None else (Phase.RESPONSE_BODY, [*self._body.kept()])

    def _whole(self, data: bytes) -> Step:
        """All of the body is there."""
        coding = self._decoder.coding
        if self._status >= 400:
            try:
                words = next(self._decoder.steps(data, _LARGEST_ERROR), b"")
            except UnreadableCodingError as error:
                return self._client.refuse(backend_garbage(str(error)))
            return self._client.fail(self._error_of(self._status, words))
        work = self._reader.whole(data, coding)
        if len(data) > LARGE_ANSWER or coding:
            return Phase.READING, [*self._time_to_read(), work]
        phase, replies = self.completion_read(work.perform())
        # Envoy waits for a retry only if it is told to.
        return phase, [*self._more_time(RETRY_TIMEOUT + 5), *replies] if phase is Phase.RETRYING else replies

    def _more_time(self, seconds: float) -> Replies:
        """In full duplex no host counts the time."""
        return [] if self._body.full_duplex else [more_time(seconds)]

    def _time_to_read(self) -> Replies:
        """Envoy gives a message more time once: for what may come after the reading too."""
        return self._more_time(PREPARING + (RETRY_TIMEOUT if self._reader.prepared.again is not None else 0))

    def completion_read(self, completion: Rewritten | ApiError) -> Step:
        """What came of the reading."""
        return self._retry(self._reader.count(completion), completion) or self._client.give(completion)

    # A stream

    def stream(self, body: HttpBody) -> Step:
        whole = self._body.mode is BUFFERED  # it ends, whether trailers follow or not
        if whole:
            self._request.needs_end(body, BUFFERED)
        self._came()
        self._ends = body.end_of_stream or whole
        step = self._streams.feed(body.body)
        if self._waits and self._streams.answer.begun:
            self._waits = False
            self._stats.first_token()
        phase, replies = self._stepped(step)
        if whole:
            return phase, [*self._time_to_read(), *replies]
        return phase, [*self._more_time(RETRY_TIMEOUT + 5), *replies] if phase is Phase.RETRYING else replies

    def breathed(self) -> Step:
        """The next part of what is read in steps."""
        if self._second is not None:
            return self._either(self._second.go_on())
        return self._stepped(self._streams.go_on())

    def _stepped(self, step: streaming.Step) -> Step:
        if not self._streams.is_held:
            self._request.keep_no_second()
        if self._ends and not step.more:
            return self._end_of_stream(step.piece)
        said = self._body.part(step.piece, more=step.more)
        self._tell_with(said)
        return Phase.RESPONSE_STREAM, [*said, Breathe()] if step.more else [*said]

    def _tell_with(self, said: list[ProcessingResponse]) -> None:
        """All that came of the stream, with its end: many clients leave then, and don't wait for the body's."""
        if self._client.told or not said:
            return
        answer = self._streams.answer
        if answer.over and not self._streams.is_held:
            self._count()
            with_metadata(said[-1], self._client.tell(answer))
        elif self._reader.spec.counted:
            self._cost.tell(said, answer)

    def _count(self) -> Fault | None:
        """What came of the stream, unless that is counted; returns what is wrong with it."""
        return None if self._client.told else self._reader.count_stream(self._streams.answer)

    def trailers(self) -> Step:
        """Trailers come where the body's end should, or the body."""
        self._came()
        if self._stream is not None and self._body.full_duplex:
            answer = self._streams.answer
            end = self._streams.end()
            self._count()
            return self._client.give(StreamEnd(answer, end), trailers=True)
        if self._body.full_duplex and (data := self._body.take_trailers()):
            return self._whole(data)
        return self.no_body() if self._body.mode is not STREAMED else self._trailers_of_pieces()

    def _trailers_of_pieces(self) -> Step:
        """Where pieces wait for their replies, nothing can be said any more: well, if nothing is left to be said."""
        left = self._streams.end() if self._stream is not None else b""
        reply = ProcessingResponse(response_trailers=TrailersResponse())
        if self._client.told:
            return Phase.ENDED, [reply]
        if left or self._stream is None or self._streams.answer.error is not None:
            return self._client.refuse(backend_garbage("it ends with trailers, and comes in pieces."))
        self._count()
        return Phase.ENDED, [with_metadata(reply, self._client.tell(self._streams.answer))]

    def time_out(self, seconds: float) -> Step:
        """The end of a stream in which nothing was said for so long.

        Before the first piece Envoy 1.40 takes such a reply amiss, and cuts the client's connection: as true an end.
        """
        answer = self._streams.answer
        told = f"Nothing came from the model's backend for {in_seconds(seconds)}."
        error = ApiError(504, told, "server_error", code=IDLE_TIMEOUT)
        piece = self._streams.end(answer.fail(error))
        self._count()
        return self._client.give(StreamEnd(answer, piece))

    def _end_of_stream(self, piece: bytes) -> Step:
        stream = self._streams
        held, answer = stream.is_held, stream.answer
        end = StreamEnd(answer, piece + stream.end())
        fault = self._count()
        return self._retry(fault if held else None, end) or self._client.give(end)

    def abandoned(self) -> bool:
        """Envoy has nothing more to say amid a stream. What it came to counts too.

        Returns whether the client has all of it, but for the end of the body.
        """
        if self._client.told:
            return True
        stream = self._streams
        self._count()
        if stream.answer.error is not None and not stream.is_held:
            self._stats.stream_error(stream.answer.error)
        return False

    def close(self) -> None:
        """Let go of what is half read."""
        self._second = None
        if self._stream is not None:
            self._stream.close()

    # A second answer

    def _retry(self, fault: Fault | None, first: Answer) -> Step | None:
        """Ask once more because of what is wrong with the first answer, if anything is, and if that can be done."""
        request, prepared = self._request, self._reader.prepared
        if prepared.again is None or fault is None:
            return None
        self._second = SecondAnswer(self._reader, first)
        socket = request.context.config.inner_socket
        return Phase.RETRYING, [once_more(prepared, socket, request.id, request.trace, fault)]

    def retried(self, response: BackendResponse | None) -> Step:
        """The second answer came, or nothing (None)."""
        return self._either(self._asked_again.came(response))

    def second_read(self, completion: Rewritten | ApiError) -> Step:
        """What came of reading the second answer, if that is a whole one."""
        return self._either(self._asked_again.read(completion))

    def _either(self, found: Work | Answer) -> Step:
        if isinstance(found, Breathe | ReadCompletion):
            return Phase.RETRYING, [found]
        self._second = None  # and with it the answer that the client doesn't get
        return self._client.give(found)
