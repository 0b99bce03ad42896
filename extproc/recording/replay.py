"""Plays a recording to an `Exchange`, as Envoy would, and records what comes of it.

No socket, no clock: the exchange gets the messages that it got then, the body of a stream in other pieces if wanted,
and the answers that backends gave to its own requests. Where it takes another way than it did then, it gets only what
Envoy would send on that way.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Literal, Self, TypeAlias

from pydantic import ValidationError

from extproc.config import Config
from extproc.exchange.context import ExchangeContext
from extproc.exchange.effects import BackendResponse, Breathe, CallBackend, Effect, Prepare, ReadCompletion, Result
from extproc.exchange.host import Host
from extproc.exchange.machine import Exchange
from extproc.exchange.phases import Phase
from extproc.exchange.replies import Replies
from extproc.observability.telemetry import Telemetry
from extproc.recording.document import NO_ANSWER, Document, Entry, Json, Kind, RecordingError
from extproc.recording.envoy_json import as_json, bytes_as_json, bytes_from_json, from_json
from extproc.recording.private import hide
from extproc.wire import HttpBody, ProcessingRequest, ProcessingResponse

Cut: TypeAlias = Literal["whole", "recorded"] | int
"""How the body of a stream arrives: in one piece, in those that were recorded, or in pieces of so many bytes."""


_INPUTS = (Kind.ENVOY, Kind.SAID, Kind.IDLE_TIMEOUT)


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """An exchange's course, as a recording has it."""

    entries: tuple[Entry, ...]
    complete: bool = True
    """It came to its end. Else it may have gone further than this."""
    trace: str = ""
    """Where it broke off, if it did."""

    @classmethod
    def recorded(cls, document: Document) -> Self:
        """Its course then."""
        return cls(document.entries, document.finished)

    @property
    def steps(self) -> Iterator[Entry]:
        """What it did itself."""
        return (entry for entry in self.entries if entry.kind not in _INPUTS)


def replay(document: Document, cut: Cut = "recorded", config: Config | None = None) -> ReplayResult:
    """Its course now, by the recorded settings or by other ones. Raises RecordingError."""
    if not document.asked:
        raise RecordingError("there is no request in it, and so nothing to be played")
    playing = _Playing(document, config or settings_of(document))
    try:
        playing.play(cut)
    except _NoAnswerError:
        return ReplayResult(tuple(playing.entries), complete=False)
    except Exception as bug:  # a bug is what one replays for: that it comes is what there is to be told
        playing.note(Kind.BROKE_OFF, {"exception": type(bug).__name__})
        return ReplayResult(tuple(playing.entries), trace="".join(traceback.format_exception(bug)))
    return ReplayResult(tuple(playing.entries))


def settings_of(document: Document) -> Config:
    """The recorded settings. Raises RecordingError when this version knows no such."""
    try:
        return Config.model_validate(document.settings)
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
        raise RecordingError(f"its settings can't be used here: {faults}") from error


def expecting(document: Document, now: ReplayResult) -> Document:
    """The recording as it would have been made now. Raises RecordingError when that is nothing to be expected."""
    if not document.complete:
        raise RecordingError("it is only the beginning of an exchange: there is nothing a test could expect")
    if now.trace or not now.complete:
        raise RecordingError("the exchange doesn't come to its end as it is now: there is nothing a test could expect")
    if not any(_answers(entry) for entry in now.steps):
        raise RecordingError("the client gets no answer that would be seen: there is nothing a test could expect")
    return replace(document, extproc=version("extproc"), entries=now.entries)


def _answers(step: Entry) -> bool:
    """Whether the client gets something by it."""
    body = step.what.get("response_body", {}).get("response", {}).get("body_mutation", {})
    return "immediate_response" in step.what or bool(body.get("body") or body.get("streamed_response", {}).get("body"))


def _standing_still() -> float:
    return 0.0


def _host(document: Document) -> Host | None:
    """What was known of the host then, as far as it shows: nothing, or that it ignores overrides."""
    for step in document.entries:
        if step.what.get("immediate_response", {}).get("details", "").endswith("host_ignores_overrides"):
            host = Host(_standing_still)
            host.ignores = True
            return host
        head = step.what.get("response_headers", {}).get("response", {}).get("header_mutation", {})
        removed = head.get("remove_headers", ())
        if "content-length" in removed and "content-encoding" not in removed:  # that waits for the body
            return Host(_standing_still)
    return None


class _NoAnswerError(Exception):
    """A backend is asked what it wasn't asked then."""


class _Playing:
    def __init__(self, document: Document, config: Config) -> None:
        self.entries: list[Entry] = []
        self._at = 0.0
        self._inputs = deque(
            (entry.at, from_json(entry.what, ProcessingRequest) if entry.kind is Kind.ENVOY else None)
            for entry in document.entries
            if entry.kind in (Kind.ENVOY, Kind.IDLE_TIMEOUT)
        )
        """Messages of Envoy's; None where none came for too long."""
        self._said = deque((entry.what, _answer(entry.what)) for entry in document.entries if entry.kind is Kind.SAID)
        self._exchange = Exchange(ExchangeContext(config), Telemetry(config), _host(document))
        self._over = False

    def play(self, cut: Cut) -> None:
        while self._inputs and not self._over:
            self._at, message = self._inputs.popleft()
            if message is None:
                self.note(Kind.IDLE_TIMEOUT, {})
                self._carry(self._exchange.time_out())
            elif message.HasField("response_body"):
                for body in self._response([message.response_body, *self._next_bodies()], cut):
                    self._give(ProcessingRequest(response_body=body))
            elif not message.HasField("request_body") or self._exchange.phase is Phase.REQUEST_BODY:
                self._give(message)
        self._exchange.close()

    def _next_bodies(self) -> Iterator[HttpBody]:
        """The pieces that follow on one that was just taken."""
        while self._inputs:
            at, message = self._inputs[0]
            if message is None or not message.HasField("response_body"):
                return
            self._at = at
            self._inputs.popleft()
            yield message.response_body

    def note(self, kind: Kind, what: Json) -> None:
        self.entries.append(Entry(self._at, kind, what))

    def _response(self, bodies: list[HttpBody], cut: Cut) -> Iterator[HttpBody]:
        """The body of the response as Envoy sends it now, which depends on what the exchange wants of it."""
        match self._exchange.phase, cut:
            case Phase.RESPONSE_STREAM, "recorded":
                yield from bodies
            case Phase.RESPONSE_STREAM | Phase.RESPONSE_BODY, _:
                whole = b"".join(body.body for body in bodies)
                size = cut if isinstance(cut, int) and self._exchange.in_pieces else len(whole)
                starts = range(0, len(whole), size or 1) or (0,)
                for start in starts:
                    last = start == starts[-1] and bodies[-1].end_of_stream
                    yield HttpBody(body=whole[start : start + size], end_of_stream=last)

    def _give(self, message: ProcessingRequest) -> None:
        self.note(Kind.ENVOY, as_json(message))
        self._carry(self._exchange.receive(message))

    def _carry(self, replies: Replies) -> None:
        while replies:
            reply = replies.pop(0)
            if isinstance(reply, ProcessingResponse):
                self._over |= reply.HasField("immediate_response")
                hide(reply)
                self.note(Kind.PROCESSOR, as_json(reply))
            else:  # the last
                replies = self._exchange.resume(self._perform(reply))

    def _perform(self, effect: Effect) -> Result:
        match effect:
            case Prepare() | ReadCompletion():
                return effect.perform()
            case Breathe():
                return None
            case CallBackend():
                self.note(Kind.ASKED, {"backend": effect.backend, "body": bytes_as_json(effect.body)})
                if not self._said:
                    raise _NoAnswerError
                said, answer = self._said.popleft()
                self.note(Kind.SAID, said)
                return answer


def _answer(said: Json) -> BackendResponse | None:
    status, body = said["status"], bytes_from_json(said["body"])
    return None if status == NO_ANSWER else BackendResponse(status, body)
