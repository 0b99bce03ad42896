"""Takes down what goes into an exchange and comes out of it, and has it written to a file when it has ended.

It must never disturb an exchange: inputs and replies are only kept, as the bytes that they are on the wire, and up to a
limit. All work is done when it has ended, in a thread, and what goes wrong there is a line in the log. Recorded are
chat completions whose request came, in our own layout, and nothing else. What is private is left out before anything
reaches a file.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from extproc.config.recording import Recording
from extproc.exchange.effects import BackendResponse, CallBackend, Effect, Result
from extproc.exchange.machine import Exchange, Inputs
from extproc.exchange.phases import Phase
from extproc.exchange.replies import Replies
from extproc.names import METADATA_NAMESPACE
from extproc.recording.document import NO_ANSWER, Kind
from extproc.recording.store import Ended, Kept, RecordingStore
from extproc.wire import ProcessingRequest, ProcessingResponse

log = logging.getLogger(__name__)

MOST_BYTES = 8 * 1024 * 1024
"""What is kept of one exchange. Requests are in it twice: the client's, and the backend's."""
AT_ONCE = 8
"""So many exchanges are recorded at a time, those included that are still being written; others aren't."""
_ENTRY_BYTES = 200
"""What an entry takes besides its bytes."""


class Recorder:
    """Stands between a processor and each of its exchanges."""

    def __init__(self, always: Recording | None = None) -> None:
        """`always` stands above what configurations say."""
        self._always = always
        self._store: RecordingStore | None = None
        self._room = threading.Semaphore(AT_ONCE)
        self._told_of_room = False
        if always is not None:
            self.open(always)

    def open(self, settings: Recording | None) -> None:
        """Look at the directory, and tell what will be recorded, unless that has been done."""
        if settings is None:
            self._store = None  # so that switching it on again begins anew
        elif self._store is None or self._store.settings != settings:
            log.warning("recording exchanges, with all that is said in them, into %s", settings.directory)
            self._store = RecordingStore(settings)
            self._told_of_room = False

    def record(self, exchange: Exchange) -> Inputs:
        """What takes the exchange's inputs: one that records them if that is wanted and there is room for it, else the
        exchange itself."""
        self.open(self._always or exchange.context.config.recording)
        if self._store is None or self._store.full:
            return exchange
        if not self._room.acquire(blocking=False):
            if not self._told_of_room:
                self._told_of_room = True
                log.warning("%d exchanges are recorded at a time; those that begin meanwhile are not", AT_ONCE)
            return exchange
        return _Recording(exchange, self._store, self._room.release)


class _Recording:
    """Passes inputs on to the exchange, and keeps them and what came of them."""

    def __init__(self, exchange: Exchange, store: RecordingStore, leave: Callable[[], None]) -> None:
        """`leave` is called once, when nothing of it is kept any more, in whatever thread."""
        self._exchange = exchange
        self._store = store
        self._leave = leave
        self._start = time.monotonic()
        self._began_at = datetime.now(UTC)
        self._kept: list[Kept] = []
        self._size = 0
        self._full = False
        self._asked = False
        """The request has come."""
        self._dropped = False
        """It is of no interest."""

    def receive(self, message: ProcessingRequest) -> Replies:
        if self._dropped:
            return self._exchange.receive(message)
        self._asked |= message.HasField("request_body") and self._exchange.is_chat
        self._keep(Kind.ENVOY, message.SerializeToString())
        replies = self._noted(partial(self._exchange.receive, message))
        unasked = self._exchange.phase in (Phase.PASSED_BY, Phase.ENDED) and not self._asked
        foreign = not self._exchange.in_own_layout  # in which other messages come than a replay would send
        # No chat completion, or none that was let in; or each round is recorded.
        if unasked or foreign or self._exchange.is_run:
            self._drop()
        return replies

    def resume(self, result: Result) -> Replies:
        if isinstance(result, BackendResponse):
            self._keep(Kind.SAID, result.body, status=result.status)
        elif result is None and not self._exchange.goes_on:
            self._keep(Kind.SAID, b"", status=NO_ANSWER)
        return self._noted(partial(self._exchange.resume, result))

    def time_out(self) -> Replies:
        self._keep(Kind.IDLE_TIMEOUT, b"")
        return self._noted(self._exchange.time_out)

    def close(self, since_reply: float = math.inf) -> None:
        self._exchange.close(since_reply)
        if not self._asked:
            self._drop()
        if self._dropped:
            return
        ended = Ended(self._exchange.context.config, self._began_at, complete=not self._full, kept=tuple(self._kept))
        self._kept.clear()
        try:
            written = self._store.put(ended)
        except RuntimeError:  # the system gives no thread: of no concern to the exchange, which has gone well
            log.error("an exchange isn't recorded: there is no thread for it", extra={"exchange": self._exchange.id})
            self._leave()
        else:
            written.add_done_callback(lambda _: self._leave())

    def _noted(self, work: Callable[[], Replies]) -> Replies:
        """Keep what comes of an input."""
        try:
            replies = work()
        except Exception as error:
            self._keep(Kind.BROKE_OFF, b"", exception=type(error).__name__)
            raise
        for reply in replies:
            self._keep_reply(reply)
        return replies

    def _keep_reply(self, reply: ProcessingResponse | Effect) -> None:
        if isinstance(reply, ProcessingResponse):
            self._keep(Kind.PROCESSOR, reply.SerializeToString())
            if reply.HasField("request_body") and self._store.settings.model not in (None, _model(reply)):
                self._drop()
        elif isinstance(reply, CallBackend):
            self._keep(Kind.ASKED, reply.body, backend=reply.backend)

    def _drop(self) -> None:
        """Keep nothing of it, and leave its room to others."""
        if not self._dropped:
            self._dropped = True
            self._kept.clear()
            self._leave()

    def _keep(self, kind: Kind, data: bytes, **beside: str | int) -> None:
        if self._dropped:
            return
        self._size += len(data) + _ENTRY_BYTES
        self._full |= self._size > MOST_BYTES
        if not self._full:  # else nothing small either, which would stand behind a gap
            self._kept.append(Kept((time.monotonic() - self._start) * 1000, kind, data, beside))


def _model(reply: ProcessingResponse) -> str:
    said = reply.dynamic_metadata.fields[METADATA_NAMESPACE].struct_value.fields
    return said["model"].string_value
