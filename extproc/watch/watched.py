"""The exchanges that a watcher keeps: by the frames of several processors, within bounds of bytes, time and number.

In memory alone. What is over leaves first, the oldest before all others; what still runs leaves only when it is itself
more than there is room for.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from extproc.recording.document import Document
from extproc.recording.frames import Frame, FrameError, Tag
from extproc.recording.kept import Kept, document_of
from extproc.watch.lanes import Lanes
from extproc.watch.summary import Summary

MOST_EXCHANGES = 20_000
_SMALL = 4096
"""Bytes that an exchange takes besides its entries."""


@dataclass(slots=True)
class Watched:
    """One exchange."""

    summary: Summary
    began: datetime
    kept: list[Kept] = field(default_factory=list)
    size: int = _SMALL
    ended: float | None = None
    """When, by the monotonic clock."""
    settings: dict[str, Any] = field(default_factory=dict)
    addresses: str = ""
    changes: int = 0

    def document(self) -> Document:
        """Its recording, without anything private."""
        never = r"(?P<whole>(?!))"  # matches nowhere
        document, _, _ = document_of(
            tuple(self.kept),
            self.began,
            lambda _: self.settings,
            re.compile(self.addresses or never, re.ASCII),
            complete=self.summary.complete,
        )
        return document


class Listener:
    """Who is told of changes."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self.changed: dict[str, None] = {}
        self.gone: dict[str, None] = {}

    def tell(self, identity: str, *, gone: bool = False) -> None:
        """This exchange has changed, or isn't there any more."""
        (self.gone if gone else self.changed)[identity] = None
        if gone:
            self.changed.pop(identity, None)
        self._wake()

    def news(self) -> None:
        """Something else has changed."""
        self._wake()


class Exchanges:
    """All that are kept."""

    def __init__(self, most_bytes: int, most_seconds: float, read: Callable[[Watched], None]) -> None:
        """`read` is told each one that has ended, to look at it more closely."""
        self._most_bytes = most_bytes
        self._most_seconds = most_seconds
        self._read = read
        self._exchanges: dict[str, Watched] = {}
        self._listeners: list[Listener] = []
        self._connections = 0
        self.size = 0
        self.lost = 0
        """Exchanges that processors couldn't show."""
        self.forgotten = 0
        """Exchanges that had to make room."""
        self.processors: dict[int, dict[str, Any]] = {}
        """Those that are connected, and what they say of themselves."""

    def __len__(self) -> int:
        return len(self._exchanges)

    def get(self, identity: str) -> Watched | None:
        return self._exchanges.get(identity)

    def all(self) -> list[Watched]:
        """All of them, the oldest first."""
        return list(self._exchanges.values())

    def numbers(self) -> dict[str, Any]:
        """What there is to be told of all together."""
        return {
            "lost": self.lost,
            "forgotten": self.forgotten,
            "processors": len(self.processors),
            "bytes": self.size,
            "most_bytes": self._most_bytes,
            "most_minutes": round(self._most_seconds / 60, 2),
        }

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def unlisten(self, listener: Listener) -> None:
        self._listeners.remove(listener)

    # What processors say

    def connected(self) -> int:
        """A processor has connected; by which number it is known."""
        self._connections += 1
        self.processors[self._connections] = {}
        self._news()
        return self._connections

    def disconnected(self, connection: int) -> None:
        """It has gone: what was under way there ends here, as far as it was shown."""
        del self.processors[connection]
        for identity, watched in list(self._exchanges.items()):
            if watched.ended is None and identity.startswith(f"{connection}-"):
                self._end(identity, watched, complete=False)
        self._news()

    def take(self, connection: int, frame: Frame) -> None:
        """Its next frame. Raises FrameError."""
        identity = f"{connection}-{frame.number}"
        watched = self._exchanges.get(identity)
        match frame.tag:
            case Tag.HELLO:
                self.processors[connection] = frame.words
            case Tag.LOST:
                self.lost += int(frame.words["exchanges"])
                self._news()
            case Tag.BEGAN:
                self._begin(identity, frame.words)
            case _ if watched is None:
                pass  # it had to make room
            case Tag.TERMS:
                words = frame.words
                watched.settings, watched.addresses = words["settings"], words["addresses"]
                summary = watched.summary
                summary.model, summary.client = words["model"] or summary.model, words["client"]
                summary.is_run = words["is_run"]
                self._changed(identity, watched)
            case Tag.ENDED:
                self._end(identity, watched, complete=frame.words["complete"])
            case Tag.DROPPED:
                self._remove(identity)
            case _:
                if (kept := frame.kept) is not None:
                    self._keep(identity, watched, kept)

    def _begin(self, identity: str, words: dict[str, Any]) -> None:
        try:
            began = datetime.fromisoformat(words["began"]).astimezone(UTC)
        except (KeyError, TypeError, ValueError) as error:
            raise FrameError(f"not a time: {error}") from error
        self._exchanges[identity] = Watched(Summary(identity, words["began"]), began)
        self.size += _SMALL
        self._make_room()
        # Told with its request: most of what never gets one is of no interest.

    def _keep(self, identity: str, watched: Watched, kept: Kept) -> None:
        watched.kept.append(kept)
        watched.size += kept.size
        self.size += kept.size
        watched.summary.take(kept)
        self._make_room()
        if identity in self._exchanges:
            self._changed(identity, watched)

    def _end(self, identity: str, watched: Watched, *, complete: bool) -> None:
        watched.summary.ended(complete=complete)
        watched.ended = time.monotonic()
        self._changed(identity, watched)
        self._read(watched)

    def read(self, watched: Watched, lanes: Lanes) -> None:
        """What came of looking at one that has ended."""
        watched.summary.read(lanes)
        if watched.summary.id in self._exchanges:
            self._changed(watched.summary.id, watched)

    def forget_old(self) -> None:
        """Let go of what ended too long ago."""
        until = time.monotonic() - self._most_seconds
        for identity, watched in list(self._exchanges.items()):
            if watched.ended is not None and watched.ended < until:
                self._forget(identity)

    def _make_room(self) -> None:
        if self.size <= self._most_bytes and len(self._exchanges) <= MOST_EXCHANGES:
            return
        over = [identity for identity, watched in self._exchanges.items() if watched.ended is not None]
        for identity in [*over, *self._exchanges]:
            if self.size <= self._most_bytes and len(self._exchanges) <= MOST_EXCHANGES:
                return
            if identity in self._exchanges:
                self._forget(identity)

    def _forget(self, identity: str) -> None:
        self.forgotten += 1
        self._remove(identity)

    def _remove(self, identity: str) -> None:
        self.size -= self._exchanges.pop(identity).size
        for listener in self._listeners:
            listener.tell(identity, gone=True)

    def _changed(self, identity: str, watched: Watched) -> None:
        watched.changes += 1
        for listener in self._listeners:
            listener.tell(identity)

    def _news(self) -> None:
        for listener in self._listeners:
            listener.news()
