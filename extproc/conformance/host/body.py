"""One message's way through the processor, the request's or the response's: headers, body by its mode, trailers."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

from extproc.conformance.host import messages
from extproc.conformance.host.mutation import mutated, without
from extproc.conformance.host.settings import BodyMode, HeaderMode, HttpMessage
from extproc.wire import BodyMutation, CommonResponse, ProcessingRequest, ProcessingResponse

if TYPE_CHECKING:
    from extproc.conformance.host.machine import Host, Step
    from extproc.conformance.host.outcome import Closed

Played: TypeAlias = "Generator[Step, ProcessingResponse | Closed | None, HttpMessage]"

_ENDING = (1, 40)
HOLDING = (1, 39)
"""Envoys that hold headers back until some of the body goes on, in STREAMED and full duplex, both ways."""
_FULL = BodyMode.FULL_DUPLEX_STREAMED


class Way:
    """`way` is `request` or `response`. `play` returns the message that goes on."""

    def __init__(self, host: Host, way: str, message: HttpMessage) -> None:
        self.host = host
        self.way = way
        self.message = message
        self.headers_wanted = False
        self.out: list[bytes] = []
        self.changed = False

    def play(self) -> Played:
        host, way, message = self.host, self.way, self.message
        configured = host.settings.request_headers if way == "request" else host.response_headers
        ends = not message.pieces and message.trailers is None
        if configured is not HeaderMode.SKIP:
            sent = messages.headers(way, message.headers, host.settings, end=ends)
            if host.mode(way) is _FULL and not ends and not self._local_reply():
                self.headers_wanted = True
                return (yield from self._full_duplex(sent))
            reply = yield from host.reply(f"{way}_headers", sent)
            common = getattr(reply, f"{way}_headers").response
            self._set(host.with_headers(self.message, common.header_mutation, way))
            host.override(way, reply)
            if common.status == CommonResponse.CONTINUE_AND_REPLACE:
                return host.replaced(self.message, common)
            if host.mode(way) in (_FULL, BodyMode.STREAMED) and way == "response" and not ends:
                host.let_headers_go()
            if self._local_reply():
                if host.settings.release == HOLDING and host.mode(way) in (_FULL, BodyMode.STREAMED):
                    host.hang_by_itself("Envoy 1.39 holds a request's headers back until some of its body has come")
                if host.mode(way) in (_FULL, BodyMode.STREAMED):
                    self._forget_length()
                self._set(replace(self.message, pieces=(), trailers=None))
            if ends or self._local_reply():
                return self.message
        elif ends:
            return self.message
        match host.mode(way):
            case BodyMode.NONE:
                pass
            case BodyMode.STREAMED:
                yield from self._streamed()
            case BodyMode.FULL_DUPLEX_STREAMED:
                return (yield from self._full_duplex())
            case _:
                yield from self._buffered()
        if self.message.trailers is not None and host.send_trailers[way]:
            yield from self._trailers()
        return self.message

    def _local_reply(self) -> bool:
        return self.way == "request" and self.host.settings.early_response

    def _ends_by_itself(self) -> bool:
        """Whether the body's last piece is told to be the end."""
        return self.message.trailers is None or self.host.settings.end_before_trailers

    def _buffered(self) -> Generator[Step, ProcessingResponse | Closed | None, None]:
        host, message = self.host, self.message
        if not message.pieces:
            return
        body, rest = message.body, b""
        partial = host.mode(self.way) is BodyMode.BUFFERED_PARTIAL
        if partial and host.settings.buffer_limit is not None:
            # Envoy notices behind the piece that is too much.
            sizes = accumulate(len(piece) for piece in message.pieces)
            over = next((size for size in sizes if size > host.settings.buffer_limit), len(body))
            body, rest = body[:over], body[over:]
        late = host.settings.empty_end and not rest and message.trailers is None
        end = not rest and self._ends_by_itself() and not late
        common = yield from self._body_reply(body, end=end)
        self._set(host.with_headers(self.message, common.header_mutation, self.way))
        became = _applied(body, common.body_mutation)
        replaced = common.body_mutation.WhichOneof("mutation") in ("body", "clear_body")
        sent = host.settings.request_headers if self.way == "request" else host.response_headers
        if partial or sent is HeaderMode.SKIP:
            self._forget_length()
        elif replaced:
            self._check_length(became)
        elif common.body_mutation.HasField("streamed_response") and self.message.first("content-length") is not None:
            host.fail()  # taken for an empty body of another length
        self._set(replace(self.message, pieces=(became + rest,) if became or rest else ()))
        if late:
            yield from self._body_reply(b"", end=True)

    def _streamed(self) -> Generator[Step, ProcessingResponse | Closed | None, None]:
        self._forget_length()
        pieces = self.message.pieces
        for at, piece in enumerate(pieces):
            end = at == len(pieces) - 1 and self._ends_by_itself()
            common = yield from self._body_reply(piece, end=end)
            self.out.append(_applied(piece, common.body_mutation))
            self.host.headers_held = False
            # What a processor that leaves now has already changed stays changed.
            self._set(replace(self.message, pieces=(*self.out, *pieces[at + 1 :])))

    def _body_reply(
        self, piece: bytes, *, end: bool
    ) -> Generator[Step, ProcessingResponse | Closed | None, CommonResponse]:
        kind = f"{self.way}_body"
        reply = yield from self.host.reply(kind, messages.body(self.way, piece, end=end))
        common: CommonResponse = getattr(reply, kind).response
        return common

    def _trailers(self) -> Generator[Step, ProcessingResponse | Closed | None, None]:
        kind = f"{self.way}_trailers"
        assert self.message.trailers is not None
        message = messages.trailers(self.way, self.message.trailers, self.host.settings)
        reply = yield from self.host.reply(kind, message)
        self._mutate_trailers(reply)

    def _mutate_trailers(self, reply: ProcessingResponse) -> None:
        mutation = getattr(reply, f"{self.way}_trailers").header_mutation
        assert self.message.trailers is not None
        self._set(replace(self.message, trailers=mutated(self.message.trailers, mutation, self.way)))

    def _full_duplex(self, headers: ProcessingRequest | None = None) -> Played:
        """Everything is sent without waiting, but for a moment before the end: what claims to be the end by then
        isn't."""
        from extproc.conformance.host.machine import Wait

        host, way, message = self.host, self.way, self.message
        empty = not message.body and message.trailers is None
        if headers is None and way == "response" and empty and host.settings.release < _ENDING:
            host.hang_by_itself("Envoy before 1.40 hangs where an override to full duplex meets a body without a byte")
        trailers = message.trailers is not None and host.send_trailers[way]
        pieces = message.pieces
        if headers is not None:
            self._forget_length()  # Envoy keeps it behind an override
        told = self._ends_by_itself()  # trailers that aren't shown end the body without a word
        bodies = [messages.body(way, piece, end=at == len(pieces) - 1 and told) for at, piece in enumerate(pieces)]
        last = [messages.trailers(way, message.trailers or (), host.settings)] if trailers else bodies[-1:]
        before = bodies if trailers else bodies[:-1]
        if host.settings.double_end and not trailers:
            last.append(messages.body(way, b"", end=True))
        if headers is not None:
            before = [headers, *before]
        answer = yield host.step(*before, wait=Wait.PAUSE) if before else host.step(*last)
        ended, sent_all, trailers_wanted = False, not before, trailers
        while True:
            if answer is None and not sent_all:
                sent_all = True
                host.taken(None)
                answer = yield host.step(*last)
                continue
            reply = host.taken(answer)
            if answer is None and not told and not trailers and self.out:
                break
            if reply is None:
                self._missing(answer is None, ended=ended, trailers=trailers_wanted and sent_all)
            else:
                end, trailers_reply = self._duplex_reply(reply, ended=ended, sent_all=sent_all, trailers=trailers)
                ended |= end or trailers_reply
                trailers_wanted &= not trailers_reply
            if ended and not trailers_wanted:
                break
            answer = yield host.step(wait=Wait.REPLY if sent_all else Wait.PAUSE)
        body = b"".join(self.out)
        if headers is None and way == "response" and body != message.body:
            self._check_length(body)
        return replace(self.message, pieces=(body,) if body else ())

    def _missing(self, silent: bool, *, ended: bool, trailers: bool) -> None:
        """Neither end nor reply: raises."""
        host, way = self.host, self.way
        if not silent:
            if ended:
                host.leave()
            host.corrupt("INV-09", f"closed with OK inside a full-duplex {way}")
        if trailers:
            host.hang("INV-01", f"no reply to {way}_trailers")
        if self.headers_wanted:
            host.hang("INV-01", f"no reply to {way}_headers")
        host.hang("INV-07", f"{way}_body: nothing more, and no end_of_stream")

    def _duplex_reply(
        self, reply: ProcessingResponse, *, ended: bool, sent_all: bool, trailers: bool
    ) -> tuple[bool, bool]:
        """Whether it ends the body, and whether it is the trailers' reply."""
        host, way = self.host, self.way
        got = reply.WhichOneof("response")
        if got is None and reply.HasField("override_message_timeout"):
            return False, False
        host.check(reply, got)
        if got == f"{way}_headers":
            if not self.headers_wanted:
                if self.out or ended:
                    host.break_off("INV-06", f"{got} behind the body")
                host.break_off("INV-01", f"a second {got}")
            self.headers_wanted = False
            host.answered.add(got)
            common = reply.request_headers if way == "request" else reply.response_headers
            self._set(host.with_headers(self.message, common.response.header_mutation, way))
            if way == "response":
                host.let_headers_go()
            host.override(way, reply)
            return False, False
        if got not in (f"{way}_body", f"{way}_trailers"):
            again = got in host.answered
            host.break_off("INV-01" if again else "INV-02", f"{got} inside a full-duplex {way}")
        if self.headers_wanted:
            host.break_off("INV-06", f"{got} before {way}_headers")
        if got == f"{way}_trailers":
            if not trailers or not sent_all:
                # Envoy takes no notice, unless more of the body comes before it has sent more.
                host.corrupt("INV-02", f"{got}, and no trailers were sent")
            self._mutate_trailers(reply)
            return False, True
        common_body = (reply.request_body if way == "request" else reply.response_body).response
        streamed = common_body.body_mutation.streamed_response
        if ended:
            host.break_off("INV-08", f"{got} behind end_of_stream")
        if streamed.end_of_stream and not sent_all and not host.settings.end_before_trailers:
            host.corrupt("INV-08", f"{got} with end_of_stream before the input's end")
        self.out.append(streamed.body)
        host.headers_held = False
        return streamed.end_of_stream, False

    def _set(self, message: HttpMessage) -> None:
        """What goes on if the processor leaves now."""
        self.message = message
        if self.way == "request":
            self.host.request = message
        else:
            self.host.response = message

    def _forget_length(self) -> None:
        self._set(replace(self.message, headers=without(self.message.headers, "content-length")))

    def _check_length(self, body: bytes) -> None:
        told = self.message.all("content-length")
        if told and told != [str(len(body)).encode()]:
            words = ", ".join(value.decode("latin-1") for value in told)
            self.host.break_off("INV-10", f"content-length {words} with a {self.way} body of {len(body)} bytes")


def _applied(piece: bytes, mutation: BodyMutation) -> bytes:
    match mutation.WhichOneof("mutation"):
        case "body":
            return mutation.body
        case "clear_body":
            return b""
        case _:
            return piece
