"""What is known of conversations that clients go on with: agents send the same tools and the same history each turn.

Kept is what came of reading bytes once, by a digest of these very bytes and of all that stood before them: so an entry
holds for one beginning of a conversation, under one configuration, for one client, and for nothing else. Its key has
all of it, and a secret of this process, so that nobody can make two beginnings look alike. What is wrong is never kept.

An entry is two texts, and no tree of objects: the collector has nothing to look at, and a process can give it to
another. There is a bound in bytes for all and one for each client. Who wasn't heard of for longest is forgotten first.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Iterable
from hashlib import blake2b
from typing import TypeAlias

from extproc.config import Config

Key: TypeAlias = bytes
Entry: TypeAlias = tuple[bytes, bytes]
"""What was rendered of a piece of a conversation, and the state in which it is gone on with behind it; b"" for none."""
Learned: TypeAlias = tuple[tuple[Key, Entry], ...]
"""What is to be kept, in the order of the conversation."""

MOST = 64 * 1024 * 1024
"""Bytes of all entries: some 150 conversations of 200 kB."""
_SHARE = 4
"""A client with a key gets one part in so many."""
_OF_AN_ENTRY = 250
"""Bytes that one takes besides its own."""
_DIGEST = 16


class Memory:
    """Of one process, for one configuration at a time: with another it begins anew."""

    def __init__(self, most: int = MOST, secret: bytes | None = None) -> None:
        self.secret = secret or secrets.token_bytes(32)
        """Who has it can make the same keys, and needs it for nothing else."""
        self._config: Config | None = None
        self.word = secrets.token_hex(16)
        """One that nobody outside can know."""
        self.known = self.new = self.forgotten = self.size = 0
        """Bytes: of requests that were known, or had to be read; of entries that had to go, or that there are."""
        self._most = most
        self._of_clients: OrderedDict[str | None, _Entries] = OrderedDict()

    def goes_by(self, config: Config) -> None:
        """What is asked next is asked under these settings: what is known under others is forgotten."""
        if self._config is not None and self._config is not config:
            self.secret = secrets.token_bytes(32)  # also for what a worker is about to find out under the old ones
            self._of_clients.clear()
            self.size = 0
        self._config = config

    def took(self, client: str | None, size: int, known: int, learned: Learned) -> None:
        """A request of that many bytes was read, of which so many were known."""
        self.known += known
        self.new += size - known
        self.learn(client, learned)

    def key(self, *parts: bytes) -> Key:
        """For these texts, which can't be told from each other by where one ends only."""
        digest = blake2b(key=self.secret, digest_size=_DIGEST)
        for part in parts:
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
        return digest.digest()

    def size_of(self, client: str | None) -> int:
        """Bytes of this client's entries."""
        entries = self._of_clients.get(client)
        return entries.size if entries is not None else 0

    def get(self, client: str | None, key: Key) -> Entry | None:
        """What is known by this key, if it is this client's."""
        entries = self._of_clients.get(client)
        return entries.by_key.get(key) if entries is not None else None

    def used(self, client: str | None, keys: Iterable[Key]) -> None:
        """These entries are still wanted; what comes first is wanted by more, and kept for longer."""
        entries = self._of_clients.get(client)
        if entries is None:
            return
        self._of_clients.move_to_end(client)
        for key in reversed(list(keys)):
            if key in entries.by_key:
                entries.by_key.move_to_end(key)

    def learn(self, client: str | None, learned: Learned) -> None:
        """Keep this. Where there is no more room, what wasn't wanted for longest goes."""
        if not learned:
            return
        entries = self._of_clients.setdefault(client, _Entries())
        self._of_clients.move_to_end(client)
        for key, entry in reversed(learned):
            self._forget(entries, key)
            entries.by_key[key] = entry
            entries.size += (size := _size(entry))
            self.size += size
        most = self._most if client is None else self._most // _SHARE
        while entries.size > most:
            self._forget_oldest(client, entries)
        while self.size > self._most:
            self._forget_oldest(*next(iter(self._of_clients.items())))

    def _forget_oldest(self, client: str | None, entries: _Entries) -> None:
        self.forgotten += self._forget(entries, next(iter(entries.by_key)))
        if not entries.by_key:
            del self._of_clients[client]

    def _forget(self, entries: _Entries, key: Key) -> int:
        entry = entries.by_key.pop(key, None)
        size = _size(entry) if entry is not None else 0
        entries.size -= size
        self.size -= size
        return size


class _Entries:
    """Those of one client, the longest unused first."""

    __slots__ = ("by_key", "size")

    def __init__(self) -> None:
        self.by_key: OrderedDict[Key, Entry] = OrderedDict()
        self.size = 0


def _size(entry: Entry) -> int:
    return len(entry[0]) + len(entry[1]) + _OF_AN_ENTRY
