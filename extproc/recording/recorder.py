"""Takes down what goes into an exchange and comes out of it, and has it written to a file when it has ended.

While an exchange runs its messages are only kept, up to a limit (`recording.tap`). All work is done when it has ended,
in a thread, and what goes wrong there is a line in the log. What is private is left out before anything reaches a file.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime

from extproc.config.recording import Recording
from extproc.exchange.machine import Exchange, Inputs
from extproc.recording.kept import MOST_BYTES, Kept
from extproc.recording.store import Ended, RecordingStore
from extproc.recording.tap import Notes, Tap

log = logging.getLogger(__name__)

AT_ONCE = 8
"""So many exchanges are recorded at a time, those included that are still being written; others aren't."""


class Recorder:
    """Decides which exchanges of a processor are recorded, and keeps them."""

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
        notes = self.notes(exchange)
        return exchange if notes is None else Tap(exchange, [notes])

    def notes(self, exchange: Exchange) -> Notes | None:
        """What takes notes of this exchange for a file, if that is wanted and there is room for it."""
        self.open(self._always or exchange.context.config.recording)
        if self._store is None or self._store.full:
            return None
        if not self._room.acquire(blocking=False):
            if not self._told_of_room:
                self._told_of_room = True
                log.warning("%d exchanges are recorded at a time; those that begin meanwhile are not", AT_ONCE)
            return None
        return _Recording(exchange, self._store, self._room.release)


class _Recording:
    """Keeps what becomes one file (`recording.tap.Notes`)."""

    def __init__(self, exchange: Exchange, store: RecordingStore, leave: Callable[[], None]) -> None:
        """`leave` is called once, when nothing of it is kept any more, in whatever thread."""
        self._exchange = exchange
        self._store = store
        self._leave = leave
        self._began_at = datetime.now(UTC)
        self._kept: list[Kept] = []
        self._size = 0
        self._full = False

    def keep(self, kept: Kept, _: object) -> None:
        self._size += kept.size
        self._full |= self._size > MOST_BYTES
        if not self._full:  # else nothing small either, which would stand behind a gap
            self._kept.append(kept)

    def prepared(self, exchange: Exchange) -> bool:
        # Of a run each round is recorded.
        assert exchange.request.prepared is not None  # that is when it is called
        return not exchange.is_run and self._store.settings.model in (None, exchange.request.prepared.model)

    def drop(self) -> None:
        self._kept.clear()
        self._leave()

    def end(self) -> None:
        ended = Ended(self._exchange.context.config, self._began_at, complete=not self._full, kept=tuple(self._kept))
        self._kept.clear()
        try:
            written = self._store.put(ended)
        except RuntimeError:  # the system gives no thread: of no concern to the exchange, which has gone well
            log.error("an exchange isn't recorded: there is no thread for it", extra={"exchange": self._exchange.id})
            self._leave()
        else:
            written.add_done_callback(lambda _: self._leave())
