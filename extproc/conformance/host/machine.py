"""One HTTP exchange, played with a processor as Envoy 1.40 plays it: without I/O, clock or threads.

    play = Host(settings, exchange).play()
    step = next(play)              what is to be sent, and what is waited for
    step = play.send(answer)       a ProcessingResponse, Closed, or None for silence
    ... StopIteration.value        the Outcome

`Step.wait` says how long silence has to be: for REPLY the time that a host would wait, for PAUSE a moment, in which
a reply may come and none has to. After each message the invariants are checked; one that ends the exchange in Envoy
ends it here. Not simulated: size limits of buffers, `mutation_rules`, `failure_mode_allow`, and that a response may
begin before its request's end, but for `HostSettings.early_response`.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import NoReturn, TypeAlias

from extproc.conformance.checks import Place, content
from extproc.conformance.host import messages
from extproc.conformance.host.mutation import mutated, without
from extproc.conformance.host.outcome import Closed, Ending, Outcome
from extproc.conformance.host.settings import BodyMode, HeaderMode, HostSettings, HttpExchange, HttpMessage
from extproc.conformance.invariants import Violation
from extproc.wire import CommonResponse, HeaderMutation, ProcessingMode, ProcessingRequest, ProcessingResponse


class Wait(Enum):
    """What a step waits for."""

    REPLY = auto()
    PAUSE = auto()


@dataclass(frozen=True, slots=True)
class Step:
    """Send these, half-close if so, then wait for one answer."""

    send: tuple[ProcessingRequest, ...] = ()
    wait: Wait = Wait.REPLY
    half_close: bool = False


Answer: TypeAlias = "ProcessingResponse | Closed | None"
Play: TypeAlias = "Generator[Step, Answer, Outcome]"
Waiting: TypeAlias = "Generator[Step, Answer, ProcessingResponse]"
Playing: TypeAlias = "Generator[Step, Answer, None]"

FATAL = frozenset("INV-01 INV-02 INV-03 INV-04 INV-05 INV-06 INV-07 INV-08 INV-09 INV-10 INV-13 INV-17 INV-18".split())
"""Violations at which Envoy gives the exchange up. It takes the others in its stride, wrongly or not."""


class _Over(Exception):  # noqa: N818  # it is no error
    """The exchange goes no further."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.value)
        self.ending = ending


class Host:
    """One exchange. Use `play` once."""

    def __init__(self, settings: HostSettings, exchange: HttpExchange) -> None:
        self.settings = settings
        self.request_mode = settings.request_body
        self.response_mode = settings.response_body
        self.response_headers = settings.response_headers
        self.send_trailers = {
            "request": settings.request_trailers is HeaderMode.SEND,
            "response": settings.response_trailers is HeaderMode.SEND,
        }
        self.request, self.response = exchange.request, exchange.response
        self.client_has_headers = False
        """Whether the processor has let the response's headers go on."""
        self.headers_held = False
        """They wait for the first of the body all the same."""
        self.answered: set[str] = set()
        """Kinds of messages whose replies have come."""
        self.violations: list[Violation] = []
        self.replies = 0
        self.sent = 0
        self.closed: Closed | None = None
        self.immediate: HttpMessage | None = None
        self.trace: list[str] = []
        self.told: list[tuple[str, int, bool]] = []
        self.way = "request"
        self.own = ""

    # What a case sees.

    def play(self) -> Play:
        from extproc.conformance.host.body import Way  # they know each other

        upstream: HttpMessage | None = None
        ending = Ending.COMPLETE
        try:
            if self.settings.observability:
                yield from self._show()
            else:
                self.request = yield from Way(self, "request", self.request).play()
                upstream = self.request
                yield from self.forward()
                self.way = "response"
                self.response = yield from Way(self, "response", self.response).play()
        except _Over as over:
            ending = over.ending
        if ending is Ending.LEFT or self.settings.observability:
            upstream = self.request
        if ending not in (Ending.HUNG, Ending.TIMEOUT):
            yield from self._close(ending)
        client = {Ending.COMPLETE: self.response, Ending.LEFT: self.response, Ending.IMMEDIATE: self.immediate}
        return Outcome(
            ending=ending,
            upstream=upstream,
            client=client.get(ending),
            violations=tuple(self.violations),
            closed=self.closed,
            replies=self.replies,
            trace=tuple(self.trace),
            sent=tuple(self.told),
            own=self.own,
        )

    def forward(self) -> Playing:
        """`request` goes to its upstream. Whoever knows the response only then waits for it here, and sets it."""
        yield from ()

    # What a body's way needs.

    def mode(self, way: str) -> BodyMode:
        return self.request_mode if way == "request" else self.response_mode

    def step(self, *send: ProcessingRequest, wait: Wait = Wait.REPLY, half_close: bool = False) -> Step:
        for message in send:
            messages.dress(message, self.settings, first=self.sent == 0)
            self.sent += 1
            self.trace.append(f"> {messages.described(message)}")
            messages.note(self.told, message)
        return Step(send, wait, half_close)

    def reply(self, kind: str, *send: ProcessingRequest) -> Waiting:
        """The reply to a message outside full duplex."""
        step, extensions = self.step(*send), 0
        while True:
            answer = yield step
            step = self.step()
            reply = self.taken(answer)
            if reply is None:
                if isinstance(answer, Closed):
                    raise _Over(Ending.LEFT)
                self.violations.append(Violation("INV-01", f"no reply to {kind}"))
                # In full duplex the processor may take its time.
                full = self.mode(self.way) is BodyMode.FULL_DUPLEX_STREAMED
                raise _Over(Ending.HUNG if full else Ending.TIMEOUT)
            got = reply.WhichOneof("response")
            if got is None and reply.HasField("override_message_timeout"):
                extensions += 1
                self._check_timeout(reply, extensions)
                continue
            self.check(reply, got)
            if got != kind:
                if got in self.answered:
                    self.break_off("INV-01", f"a second reply, {got}, before the one to {kind}")
                self.break_off("INV-02", f"{got} in reply to {kind}")
            self.answered.add(kind)
            return reply

    def taken(self, answer: Answer) -> ProcessingResponse | None:
        """The reply, if it is one; raises where an error status ends the exchange."""
        match answer:
            case None:
                self.trace.append("< (silence)")
                return None
            case Closed():
                self.closed = answer
                self.trace.append(f"< closed {answer.status}")
                if answer.status != "OK":
                    if self.client_has_headers and not self.headers_held:
                        raise _Over(Ending.CUT)
                    raise _Over(Ending.BROKEN_OFF if self.replies else Ending.REFUSED)
                return None
            case _:
                self.replies += 1
                self.trace.append(f"< {messages.described(answer)}")
                return answer

    def check(self, reply: ProcessingResponse, got: str | None) -> None:
        """The invariants about content; raises where the exchange is over, be it by an immediate response."""
        if got is None:
            self.break_off("INV-03", "a reply without content")
        place = Place(self.way, self.mode(self.way), self.settings, self.client_has_headers)
        found = list(content(reply, place))
        self.violations += found
        ignored = {"INV-05"} if place.mode in (BodyMode.BUFFERED, BodyMode.BUFFERED_PARTIAL) else set()
        ignored |= {"INV-17"} if self.headers_held else set()
        if any(violation.id in FATAL - ignored for violation in found):
            self.fail()
        if got == "immediate_response":
            immediate = reply.immediate_response
            code = immediate.status.code if immediate.status.code >= 200 else 200
            headers = mutated(((":status", str(code).encode()),), immediate.headers, "response")
            if immediate.body:
                typed = any(name == "content-type" for name, _ in headers)
                headers = without(headers, "content-length") + (() if typed else (("content-type", b"text/plain"),))
                headers += (("content-length", str(len(immediate.body)).encode()),)
            shown = self.request.first(":method") != b"HEAD"  # the length is told all the same
            self.immediate = HttpMessage(headers, (immediate.body,) if shown else ())
            raise _Over(Ending.IMMEDIATE)
        if got == "streamed_immediate_response":
            # A host that doesn't offer it (it is new, and set apart by an option) takes it for spurious.
            self.break_off("INV-02", "streamed_immediate_response, which wasn't offered")

    def break_off(self, invariant: str, detail: str) -> NoReturn:
        self.violations.append(Violation(invariant, detail))
        self.fail()

    def fail(self) -> NoReturn:
        """The host gives the exchange up."""
        raise _Over(Ending.CUT if self.client_has_headers and not self.headers_held else Ending.ERROR)

    def let_headers_go(self) -> None:
        """The response's."""
        from extproc.conformance.host.body import HOLDING  # they know each other

        self.client_has_headers = True
        self.headers_held = self.settings.release == HOLDING

    def corrupt(self, invariant: str, detail: str) -> NoReturn:
        self.violations.append(Violation(invariant, detail))
        raise _Over(Ending.CORRUPT)

    def hang(self, invariant: str, detail: str) -> NoReturn:
        self.violations.append(Violation(invariant, detail))
        raise _Over(Ending.HUNG)

    def hang_by_itself(self, reason: str) -> NoReturn:
        """Whatever the processor does."""
        self.own = reason
        raise _Over(Ending.HUNG)

    def leave(self) -> NoReturn:
        """The processor left where it may: the rest goes on as it is."""
        raise _Over(Ending.LEFT)

    def override(self, way: str, reply: ProcessingResponse) -> None:
        """Follow a `mode_override`, or ignore it as Envoy does."""
        settings = self.settings
        if not reply.HasField("mode_override") or settings.overrides_ignored:
            return
        wanted = reply.mode_override
        allowed = settings.allowed_response_modes
        if allowed and wanted.response_body_mode not in [int(mode) for mode in allowed]:
            return
        # DEFAULT leaves the configured mode of headers and trailers; a body's mode has no default.
        if way == "request":
            self.request_mode = BodyMode(wanted.request_body_mode)
            self._override_trailers("request", wanted.request_trailer_mode)
            if wanted.response_header_mode != ProcessingMode.DEFAULT:
                self.response_headers = HeaderMode(wanted.response_header_mode)
        self.response_mode = BodyMode(wanted.response_body_mode)
        self._override_trailers("response", wanted.response_trailer_mode)

    def _override_trailers(self, way: str, mode: ProcessingMode.HeaderSendMode) -> None:
        if mode != ProcessingMode.DEFAULT:
            self.send_trailers[way] = mode == ProcessingMode.SEND

    def replaced(self, message: HttpMessage, common: CommonResponse) -> HttpMessage:
        """CONTINUE_AND_REPLACE on headers: the body is the reply's, and no more of it is sent."""
        mutation = common.body_mutation
        body = mutation.body if mutation.WhichOneof("mutation") == "body" else b""
        return replace(message, headers=without(message.headers, "content-length"), pieces=(body,) if body else ())

    def with_headers(self, message: HttpMessage, mutation: HeaderMutation, way: str) -> HttpMessage:
        return replace(message, headers=mutated(message.headers, mutation, way))

    # Only here.

    def _check_timeout(self, reply: ProcessingResponse, extensions: int) -> None:
        told = reply.override_message_timeout
        if told.seconds * 1000 + told.nanos // 1_000_000 < 1:
            self.violations.append(Violation("INV-21", "override_message_timeout of less than 1 ms"))
        if extensions > 1:
            self.violations.append(Violation("INV-21", "override_message_timeout again for the same message"))
        if reply.HasField("mode_override"):
            self.violations.append(Violation("INV-19", "mode_override beside override_message_timeout"))

    def _show(self) -> Playing:
        """observability_mode: everything is shown, nothing waited for; replies are ignored."""
        for way, message in (("request", self.request), ("response", self.response)):
            shown = [messages.headers(way, message.headers, self.settings, end=not message.pieces)]
            if self.mode(way) is not BodyMode.NONE:
                last = len(message.pieces) - 1
                shown += [messages.body(way, piece, end=at == last) for at, piece in enumerate(message.pieces)]
            for one in shown:
                answer = yield self.step(one, wait=Wait.PAUSE)
                while answer is not None:
                    self.taken(answer)
                    if isinstance(answer, Closed):
                        raise _Over(Ending.LEFT)
                    answer = yield self.step(wait=Wait.PAUSE)

    def _close(self, ending: Ending) -> Playing:
        """Half-close, and see what else comes."""
        if self.closed is not None:
            return
        answer = yield self.step(half_close=True)
        while answer is not None:
            if isinstance(answer, Closed):
                self.closed = answer
                self.trace.append(f"< closed {answer.status}")
                if answer.status != "OK" and ending in (Ending.COMPLETE, Ending.IMMEDIATE):
                    self.violations.append(Violation("INV-23", f"the call ends with {answer}"))
                return
            self.trace.append(f"< {messages.described(answer)}")
            if ending is Ending.COMPLETE and not self.settings.observability:
                full = self.mode("response") is BodyMode.FULL_DUPLEX_STREAMED and self.client_has_headers
                where = ("INV-08", "behind the end") if full else ("INV-01", "that nothing asked for")
                self.violations.append(Violation(where[0], f"{messages.described(answer)} {where[1]}"))
                ending = Ending.ERROR  # told once
            answer = yield self.step()
        if ending in (Ending.COMPLETE, Ending.IMMEDIATE):
            self.violations.append(Violation("INV-23", "the call stays open"))
