"""Shows exchanges to a watcher (`extproc watch`) while they run, if there is one: one connection for each process.

It must never disturb an exchange. Nothing here waits: bytes are gathered for a moment and given to the socket, which
takes what it has room for. What the watcher doesn't take is kept up to a limit; beyond that exchanges aren't shown, or
not to their end, and the watcher is told so. Without a watcher an exchange has nothing to do with any of this: whether
there is one is tried once a second at most, when an exchange begins.

Values of headers that aren't known to be harmless, and who sent the request, never leave the process in a message
(`recording.private`). The name of the client's key is told beside, for the page can filter by it; it gets into no file.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from extproc.config import Config
from extproc.exchange.machine import Exchange
from extproc.recording.frames import Tag, entry, told
from extproc.recording.kept import ENTRY_BYTES, MOST_BYTES, Kept
from extproc.recording.private import addresses_of, hide, settings_of
from extproc.recording.tap import Notes
from extproc.wire import ProcessingRequest, ProcessingResponse

AGAIN = 1.0
"""Seconds between two tries to find a watcher."""
GATHER = 0.02
"""Seconds for which bytes are gathered: the socket isn't called for every token."""
MOST_WAITING = 16 * 1024 * 1024
"""Bytes that a watcher may leave waiting."""
_FOR_NEW = MOST_WAITING // 2
"""... while exchanges that begin are still shown."""


class Feed:
    """The connection of this process to a watcher."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tried = -AGAIN
        self._waiting = bytearray()
        self._flushing = False
        self._numbers = 0
        self._lost = 0
        self._config: Config | None = None
        self._terms: dict[str | None, dict[str, Any]] = {}

    def notes(self, exchange: Exchange) -> Notes | None:
        """What shows this exchange, which begins; None if nobody looks, or it has to be left out."""
        if self._socket is not None and self._is_gone(self._socket):
            self._leave()
        if self._socket is None and not self._connected():
            return None
        if len(self._waiting) > _FOR_NEW:
            self._lost += 1
            return None
        self._numbers += 1
        return _Shown(self, exchange, self._numbers)

    def close(self) -> None:
        """Look for no watcher any more, and leave the one that there is."""
        self._leave()
        self._tried = float("inf")

    # What `_Shown` has of it

    def is_on(self, connection: object) -> bool:
        """Whether this connection, which `connection` was, still stands."""
        return self._socket is connection

    @property
    def connection(self) -> object:
        """It changes when a watcher has gone and another one has come."""
        return self._socket

    def send(self, frame: bytes, *, small: bool = False) -> bool:
        """Have it sent in a moment; False if there is no room. For what is `small` there always is."""
        if not small and len(self._waiting) + len(frame) > MOST_WAITING:
            return False
        self._waiting += frame
        if not self._flushing:
            assert self._loop is not None  # set when it was connected
            self._flushing = True
            self._loop.call_later(GATHER, self._flush)
        return True

    def terms(self, config: Config, model: str | None) -> dict[str, Any]:
        """What of a configuration the recording of an exchange with this model needs."""
        if self._config is not config:
            self._config = config
            self._terms.clear()
        if model not in self._terms:
            addresses = addresses_of(config).pattern
            self._terms[model] = {"settings": settings_of(config, model), "addresses": addresses}
        return self._terms[model]

    # The socket

    def _connected(self) -> bool:
        now = time.monotonic()
        if now < self._tried + AGAIN:
            return False
        self._tried = now
        connecting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connecting.setblocking(False)
        try:
            connecting.connect(str(self.path))  # by a path there is no waiting: somebody listens, or not
        except OSError:
            connecting.close()
            return False
        self._socket, self._loop = connecting, asyncio.get_running_loop()
        self._waiting.clear()
        self.send(told(0, Tag.HELLO, {"pid": os.getpid(), "extproc": version("extproc")}), small=True)
        return True

    def _is_gone(self, connection: socket.socket) -> bool:
        """Whether the watcher has ended: it never says anything else."""
        try:
            return not connection.recv(1)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _flush(self) -> None:
        """Give the socket what it takes."""
        self._flushing = False
        if self._socket is None:
            return
        if self._lost and len(self._waiting) <= _FOR_NEW:
            self._waiting += told(0, Tag.LOST, {"exchanges": self._lost})
            self._lost = 0
        try:
            while self._waiting:
                sent = self._socket.send(memoryview(self._waiting)[: 1 << 18])
                del self._waiting[:sent]
        except BlockingIOError:
            assert self._loop is not None  # it is connected
            self._flushing = True
            self._loop.add_writer(self._socket, self._writable)
        except OSError:
            self._leave()

    def _writable(self) -> None:
        assert self._loop is not None and self._socket is not None  # noqa: PT018 - it has called
        self._loop.remove_writer(self._socket)
        self._flush()

    def _leave(self) -> None:
        if self._socket is not None:
            if self._loop is not None and not self._loop.is_closed():
                with suppress(ValueError):
                    self._loop.remove_writer(self._socket)
            self._socket.close()
        self._socket = None
        self._waiting.clear()


class _Shown:
    """Sends what becomes an exchange on the page (`recording.tap.Notes`)."""

    def __init__(self, feed: Feed, exchange: Exchange, number: int) -> None:
        self._feed = feed
        self._connection = feed.connection
        self._exchange = exchange
        self._number = number
        self._size = 0
        self._complete = True
        self._told_terms = False
        began = datetime.now(UTC).isoformat(timespec="milliseconds")
        feed.send(told(number, Tag.BEGAN, {"began": began}), small=True)

    def keep(self, kept: Kept, message: ProcessingRequest | ProcessingResponse | None) -> None:
        if not self._complete or not self._feed.is_on(self._connection):
            return
        self._size += len(kept.data) + ENTRY_BYTES
        if message is not None and not _is_piece(message):
            kept = _without_private(kept, message)
        self._complete = self._size <= MOST_BYTES and self._feed.send(entry(self._number, kept))

    def prepared(self, exchange: Exchange) -> bool:
        prepared = exchange.request.prepared
        assert prepared is not None  # that is when it is called
        # A run's model is a character, or has tool servers: what is processed by its settings are its rounds.
        self._tell_terms(None if exchange.is_run else prepared.model, prepared.model)
        return True

    def drop(self) -> None:
        self._tell(Tag.DROPPED)

    def end(self) -> None:
        if not self._told_terms:
            self._tell_terms(None, None)
        self._tell(Tag.ENDED, {"complete": self._complete})

    def _tell_terms(self, of: str | None, model: str | None) -> None:
        self._told_terms = True
        terms = self._feed.terms(self._exchange.context.config, of)
        client = self._exchange.request.leases.client
        self._tell(Tag.TERMS, {**terms, "model": model, "client": client, "is_run": self._exchange.is_run})

    def _tell(self, tag: Tag, words: dict[str, Any] | None = None) -> None:
        if self._feed.is_on(self._connection):
            self._feed.send(told(self._number, tag, words), small=True)


def _is_piece(message: ProcessingRequest | ProcessingResponse) -> bool:
    """Whether it is a piece of a stream and nothing else: of these there are many, and nothing private is in them."""
    if not message.HasField("response_body"):
        return False
    if isinstance(message, ProcessingRequest):
        return not (message.HasField("metadata_context") or message.attributes)
    return not (message.HasField("dynamic_metadata") or message.response_body.response.HasField("header_mutation"))


def _without_private(kept: Kept, message: ProcessingRequest | ProcessingResponse) -> Kept:
    copy = type(message).FromString(kept.data)
    hide(copy)
    return Kept(kept.at, kept.kind, copy.SerializeToString(), kept.beside)
