"""Stands between a processor and one of its exchanges, and tells who keeps notes what goes in and what comes out.

It must never disturb an exchange: inputs and replies are only told, as the bytes that they are on the wire. Of interest
are chat completions whose request came, and nothing else.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Protocol

from extproc.exchange.effects import BackendResponse, CallBackend, Result
from extproc.exchange.machine import Exchange
from extproc.exchange.phases import Phase
from extproc.exchange.replies import Replies
from extproc.recording.document import NO_ANSWER, Kind
from extproc.recording.kept import Kept
from extproc.wire import ProcessingRequest, ProcessingResponse

_NOTHING: Mapping[str, str | int] = MappingProxyType({})


class Notes(Protocol):
    """Who keeps what goes in and comes out of one exchange: a file, or a watcher."""

    def keep(self, kept: Kept, message: ProcessingRequest | ProcessingResponse | None) -> None:
        """The next step; and the message that its bytes are, which isn't to be changed."""

    def prepared(self, exchange: Exchange) -> bool:
        """The request has been read, and its model is known. False: this one is of no interest here."""

    def drop(self) -> None:
        """The exchange is of no interest. Nothing else comes."""

    def end(self) -> None:
        """It has ended. Nothing else comes."""


class Tap:
    """Passes inputs on to the exchange, and tells of them and of what came of them."""

    def __init__(self, exchange: Exchange, notes: Sequence[Notes]) -> None:
        self._exchange = exchange
        self._notes = list(notes)
        self._start = time.monotonic()
        self._asked = self._prepared = False
        """The request has come, has been read."""

    def receive(self, message: ProcessingRequest) -> Replies:
        if not self._notes:
            return self._exchange.receive(message)
        if not self._asked:
            self._asked = message.HasField("request_body") and self._exchange.is_chat
        self._keep(Kind.ENVOY, message.SerializeToString(), message)
        try:
            replies = self._exchange.receive(message)
        except Exception as error:
            self._broke_off(error)
            raise
        self._came(replies)
        unasked = not self._asked and self._exchange.phase in (Phase.PASSED_BY, Phase.ENDED)
        if unasked or not self._exchange.in_own_layout:
            # No chat completion, or none that was let in; or one of which other messages come than a replay would send.
            self._drop()
        return replies

    def resume(self, result: Result) -> Replies:
        if isinstance(result, BackendResponse):
            self._keep(Kind.SAID, result.body, beside={"status": result.status})
        elif result is None and not self._exchange.goes_on:
            self._keep(Kind.SAID, b"", beside={"status": NO_ANSWER})
        return self._noted(partial(self._exchange.resume, result))

    def time_out(self) -> Replies:
        self._keep(Kind.IDLE_TIMEOUT, b"")
        return self._noted(self._exchange.time_out)

    def close(self, since_reply: float = math.inf) -> None:
        self._exchange.close(since_reply)
        if not self._asked:
            self._drop()
        for each in self._notes:
            each.end()
        self._notes.clear()

    def _noted(self, work: Callable[[], Replies]) -> Replies:
        """Tell what comes of an input."""
        try:
            replies = work()
        except Exception as error:
            self._broke_off(error)
            raise
        self._came(replies)
        return replies

    def _came(self, replies: Replies) -> None:
        if not self._prepared and self._exchange.request.prepared is not None:
            self._prepared = True
            for each in [each for each in self._notes if not each.prepared(self._exchange)]:
                each.drop()
                self._notes.remove(each)
        for reply in replies:
            if isinstance(reply, ProcessingResponse):
                self._keep(Kind.PROCESSOR, reply.SerializeToString(), reply)
            elif isinstance(reply, CallBackend):
                self._keep(Kind.ASKED, reply.body, beside={"backend": reply.backend})

    def _broke_off(self, error: Exception) -> None:
        self._keep(Kind.BROKE_OFF, b"", beside={"exception": type(error).__name__})

    def _drop(self) -> None:
        for each in self._notes:
            each.drop()
        self._notes.clear()

    def _keep(
        self,
        kind: Kind,
        data: bytes,
        message: ProcessingRequest | ProcessingResponse | None = None,
        beside: Mapping[str, str | int] = _NOTHING,
    ) -> None:
        kept = Kept((time.monotonic() - self._start) * 1000, kind, data, beside)
        for each in self._notes:
            each.keep(kept, message)
