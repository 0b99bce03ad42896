"""The directory of characters: which there are, and what changes in it.

A file is known by its content. One that has changed is loaded anew, for conversations to come; one that is broken
disables its own character and no other. Files whose names begin with `_` or `.` are none.
"""

from __future__ import annotations

import asyncio
import logging
import stat
from collections.abc import Coroutine, Iterable, Iterator
from pathlib import Path

from extproc.runner.characters.character import Character, load
from extproc.runner.characters.validation import State
from extproc.runner.characters.worker import Source

log = logging.getLogger(__name__)

LARGEST = 1 << 20
"""Bytes of a file."""
_AT_ONCE = 2
"""Files that are loaded at the same time: each takes a processor, and the gateway needs some too."""
_SETTLE = 0.1
"""Seconds for which a file has to stay the same, because an editor may still be writing it."""


class Characters:
    """All characters of a directory."""

    def __init__(self, directory: Path, memory: int) -> None:
        """`memory`: bytes that each worker may use."""
        self._directory, self._memory = directory, memory
        self._current: dict[str, Character] = {}
        self._retired: list[Character] = []
        self._is_unreadable = self._told_missing = False

    def __iter__(self) -> Iterator[Character]:
        """By name, those included that have failed."""
        return iter([self._current[name] for name in sorted(self._current)])

    def get(self, name: str) -> Character | None:
        """The character of this bare name as it is now, whatever its state."""
        return self._current.get(name)

    @property
    def problems(self) -> list[str]:
        """All that has to be fixed, one a line."""
        return [line for character in self for line in tell(character)]

    async def start(self) -> None:
        """Load them all. Raises OSError when the directory can't be read."""
        await self._take(await asyncio.to_thread(_sources, self._directory))

    async def run(self, interval: float = 1.0) -> None:
        """Take what changes, until this is cancelled."""
        while True:
            await asyncio.sleep(interval)
            try:
                await self.look()
            except OSError as error:
                if not self._is_unreadable:
                    log.error("the characters stay as they are: %s", error)
                self._is_unreadable = True
            else:
                self._is_unreadable = False

    async def look(self) -> None:
        """Take what has changed. Raises OSError when the directory can't be read."""
        found = await asyncio.to_thread(_sources, self._directory)
        if self._is_news(found):
            await asyncio.sleep(_SETTLE)
            later = await asyncio.to_thread(_sources, self._directory)
            await self._take({name: source for name, source in later.items() if found.get(name) == source}, set(later))
        self._retired = [character for character in self._retired if not character.is_closed()]

    async def close(self) -> None:
        """End all workers."""
        everyone = [*self._current.values(), *self._retired]
        for character in everyone:
            character.close()
        for character in everyone:
            await character.ended()
        await asyncio.sleep(0)  # connections are closed one step after

    def _is_news(self, found: dict[str, Source]) -> bool:
        return found.keys() != self._current.keys() or any(map(self._is_new, found.values()))

    def _is_new(self, source: Source) -> bool:
        known = self._current.get(source.name)
        return known is None or known.source != source or known.is_passing

    async def _take(self, found: dict[str, Source], present: Iterable[str] | None = None) -> None:
        """`present`: those that may stay although they are not among the found."""
        for name in self._current.keys() - (found.keys() if present is None else present):
            log.info("character %s: its file is gone", name)
            self._retire(self._current.pop(name))
        await _all(self._load(source) for source in found.values() if self._is_new(source))

    async def _load(self, source: Source) -> None:
        before = self._current.get(source.name)
        character, missing = await load(source, self._memory)
        if before is not None:
            self._retire(before)
        self._current[source.name] = character
        if missing and not self._told_missing:
            self._told_missing = True
            log.warning("this system has no %s: characters' code is confined less than it could be", missing)
        if character.state is State.FAILED_VALIDATION:
            for line in tell(character):
                log.error("%s", line)
            log.error("character %s is disabled", source.name)
        else:
            log.info("character %s is loaded; tools: %d", source.name, len(character.definitions))

    def _retire(self, character: Character) -> None:
        character.retire()
        self._retired.append(character)


async def look(directory: Path, memory: int) -> list[Character]:
    """What would become of each file. No worker stays. Raises OSError when the directory can't be read."""
    loaded: list[Character] = []

    async def one(source: Source) -> None:
        loaded.append((await load(source, memory, keep=False))[0])

    await _all(one(source) for source in (await asyncio.to_thread(_sources, directory)).values())
    return sorted(loaded, key=lambda character: character.character_name)


def tell(character: Character) -> list[str]:
    """What is wrong with a character, one a line: its file, the place in it, and the rule."""
    name = character.file.name.encode(errors="replace").decode()
    return [
        ": ".join(part for part in (name, problem.where, problem.kind, problem.message) if part)
        for problem in character.problems
    ]


async def _all(loads: Iterable[Coroutine[None, None, None]]) -> None:
    slots = asyncio.Semaphore(_AT_ONCE)

    async def in_turn(one: Coroutine[None, None, None]) -> None:
        async with slots:
            await one

    async with asyncio.TaskGroup() as group:
        for one in loads:
            group.create_task(in_turn(one))


def _sources(directory: Path) -> dict[str, Source]:
    """The files as they are, by the name of their character. Raises OSError when the directory can't be read."""
    sources = (
        _source(file) for file in directory.iterdir() if file.suffix == ".py" and not file.name.startswith(("_", "."))
    )
    return {source.name: source for source in sources if source is not None}


def _source(file: Path) -> Source | None:
    """None when it has just gone."""
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            return Source(file.stem, file, fault="isn't a regular file")
        if status.st_size > LARGEST:
            return Source(file.stem, file, fault=f"has more than {LARGEST} bytes")
        return Source(file.stem, file, file.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        return Source(file.stem, file, fault=f"can't be read: {error.strerror}")
