"""The keys of those who may come in: read from a file that holds their SHA-256 hashes, and found by them.

    # one on each line; a name may stand more than once, so that a key can be changed without a gap
    alice: 2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b
    # of a team, by what stands before the slash
    search/bob: 89e01536ac207279409d4de1e5253e01f4a1769e696db0d6062ca9b8f56767c8

A line that can't be read lets nobody in and keeps nobody else out: who takes a key back by changing its line to
anything else at all, or by writing beside it what is no line, has taken it back.

A hash without salt and without stretching is enough for keys that are long and random, as the ones that `hash_line` is
meant for: there is nothing to be guessed. How long it takes to find one tells at most of a hash, of which nobody can
make a key. Neither a key nor a line of the file ever stands in a message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Self

_WORD = r"[A-Za-z0-9_.@-]{1,64}"
_LINE = re.compile(rf"((?:{_WORD}/)?{_WORD})\s*:\s*([0-9A-Fa-f]{{64}})")
_NAME = re.compile(rf"(?:{_WORD}/)?{_WORD}")
_SHORTEST = 16
GRACE = 300.0
"""Seconds that keys hold when there is none any more in their file: enough for an alert to reach somebody. Who wants
all of them out at once leaves one line there, with any other hash."""
_MOST_TOLD = 20
"""Lines: a file that is something else altogether would fill the log."""
_EXPECTED = (
    "expected 'name: hash' or 'team/name: hash', as `extproc hash-key` prints it; names have at most 64 letters, "
    "digits, '_', '.', '@' and '-', a hash has 64 hexadecimal digits; this line lets nobody in"
)


@dataclass(frozen=True, repr=False)
class ApiKeys:
    """Names, with the hashes of their keys; without any, nobody comes in."""

    _entries: tuple[tuple[str, bytes], ...] = ()
    unreadable: tuple[int, ...] = ()
    """The numbers of the lines that can't be read, from 1 on."""

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """What is in a file."""
        entries: list[tuple[str, bytes]] = []
        unreadable: list[int] = []
        for number, line in enumerate(content.decode("utf-8-sig", "replace").split("\n"), 1):
            told = line.partition("#")[0].strip()
            if not told:
                continue
            found = _LINE.fullmatch(told)
            if found is None:
                unreadable.append(number)
            else:
                entries.append((found[1], bytes.fromhex(found[2])))
        return cls(tuple(entries), tuple(unreadable))

    def complaints(self, source: str) -> list[str]:
        """A sentence for each line of the file `source` that can't be read, which quotes nothing of it."""
        told = [f"{source}:{number}: {_EXPECTED}" for number in self.unreadable[:_MOST_TOLD]]
        more = len(self.unreadable) - len(told)
        return [*told, f"{source}: and {more} lines more that can't be read"] if more else told

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> tuple[tuple[str, bytes], ...]:
        """The names, with the hashes: a name may stand more than once."""
        return self._entries

    @cached_property
    def names(self) -> frozenset[str]:
        """All clients that there are."""
        return frozenset(name for name, _ in self._entries)

    @property
    def teams(self) -> frozenset[str]:
        """All teams that keys have."""
        return frozenset(filter(None, map(team_of, self.names)))

    def owner(self, key: str) -> str | None:
        """The name that the key stands under, if any; the last, if under several."""
        return self._owners.get(_hash(key))

    @cached_property
    def _owners(self) -> Mapping[bytes, str]:
        return {digest: name for name, digest in self._entries}

    def __repr__(self) -> str:
        return f"ApiKeys({len(self._entries)} keys)"


def team_of(client: str | None) -> str | None:
    """The team that a key's name has before its slash, if it has one."""
    team, slash, _ = (client or "").partition("/")
    return team if slash else None


def hash_line(name: str, key: str) -> str:
    """The file's line for a key. Raises ValueError, which quotes nothing of it, when that can't be one."""
    if _NAME.fullmatch(name) is None:
        raise ValueError("expected NAME or TEAM/NAME, each made of at most 64 letters, digits, '_', '.', '@' and '-'")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError("a key is made of printable ASCII characters without spaces: no other comes through a header")
    if len(key) < _SHORTEST:
        raise ValueError(f"a key has at least {_SHORTEST} characters; make one with `openssl rand -hex 32`")
    return f"{name}: {_hash(key).hex()}"


def _hash(key: str) -> bytes:
    return sha256(key.encode("utf-8", "surrogatepass")).digest()
