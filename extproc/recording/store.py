"""Where recordings are put: makes documents of what was kept of exchanges, and files of these.

It works in a thread of its own, one exchange after the other, and never raises: what goes wrong is told in the log, the
same trouble once.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from extproc.config import Config
from extproc.config.recording import Recording
from extproc.recording.document import Document
from extproc.recording.kept import Kept, document_of
from extproc.recording.private import addresses_of, settings_of

log = logging.getLogger(__name__)

RECOUNTED = 3.0
"""Seconds after which a full directory is looked at again."""
_PART = ".part"
_STALE = 60.0
"""Seconds; to write a file takes some milliseconds."""


@dataclass(frozen=True, slots=True)
class Ended:
    """An exchange that has ended."""

    config: Config
    began: datetime
    complete: bool
    kept: Sequence[Kept]

    def document(self) -> tuple[Document, str | None, str]:
        """Its recording without anything private; its model, if it names one of the configuration; its id."""
        addresses = addresses_of(self.config)
        return document_of(self.kept, self.began, partial(settings_of, self.config), addresses, complete=self.complete)


class RecordingStore:
    """The directory of one `Recording`."""

    def __init__(self, settings: Recording) -> None:
        """Looks at what is there already."""
        self.settings = settings
        self._thread = ThreadPoolExecutor(1, "recording")
        self._told = ""
        self._full = False
        self._counted = time.monotonic()
        try:
            _remove_parts(settings.directory)
            self._count()
        except OSError as error:
            self._tell(error)

    @property
    def full(self) -> bool:
        """Nothing more is wanted now. Files may be taken away at any time, so one looks again, but not each time."""
        if self._full and time.monotonic() >= self._counted + RECOUNTED:
            self._counted = time.monotonic()
            try:
                self._thread.submit(self._count).add_done_callback(_tell_bug)
            except RuntimeError:  # the system gives no thread now; the next one asks again
                return True
        return self._full

    def put(self, ended: Ended) -> Future[None]:
        """Have it written; done when it is, or couldn't be."""
        done = self._thread.submit(self._write, ended)
        done.add_done_callback(_tell_bug)
        return done

    def _count(self) -> int:
        there = sum(1 for _ in self.settings.directory.glob("*.json"))
        full = there >= self.settings.files
        if full and not self._full:
            log.warning("%s holds %d recordings, so no more are made", self.settings.directory, there)
        self._full = full
        return there

    def _write(self, ended: Ended) -> None:
        document, model, identity = ended.document()
        if self.settings.model is not None and model != self.settings.model:
            return
        name = f"{ended.began:%Y%m%dT%H%M%S}.{ended.began.microsecond // 1000:03}Z-{_plain(identity)}"
        directory = self.settings.directory
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._count() < self.settings.files:
                write_whole(_free(directory, name), document.written())
                self._count()
        except OSError as error:
            self._tell(error)
            return
        self._told = ""

    def _tell(self, error: OSError) -> None:
        if self._told != (said := error.strerror or str(error)):
            self._told = said
            log.error("exchanges can't be recorded into %s: %s", self.settings.directory, said)


def write_whole(path: Path, content: bytes) -> None:
    """Nobody finds half a file under its name, and nobody else may read it."""
    part = path.with_suffix(_PART)
    with open(part, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        try:
            file.write(content)
            file.flush()
            part.rename(path)
        except OSError:
            part.unlink(missing_ok=True)
            raise


def _free(directory: Path, name: str) -> Path:
    """A file of this name that isn't there: a client can use an id twice."""
    path = directory / f"{name}.json"
    for number in count(2):
        if not path.exists() and not path.with_suffix(_PART).exists():
            break
        path = directory / f"{name}-{number}.json"
    return path


def _remove_parts(directory: Path) -> None:
    """What a processor left behind that was killed while it wrote; not what another one is writing now."""
    for part in directory.glob(f"*{_PART}"):
        with suppress(OSError):
            if part.stat().st_mtime < time.time() - _STALE:
                part.unlink()


def _plain(identity: str) -> str:
    """An id can come from a client; what is left of it can't be a path."""
    return re.sub(r"[^A-Za-z0-9-]", "", identity)[:36] or "unnamed"


def _tell_bug(done: Future[Any]) -> None:
    if (bug := done.exception()) is not None:
        log.error("bug: an exchange isn't recorded", exc_info=bug)
