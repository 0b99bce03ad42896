"""A file that somebody else writes: looked at by content, now and then, and never in the middle of being written."""

from __future__ import annotations

import asyncio
from pathlib import Path

from extproc.config import ConfigError
from extproc.config.files import read_file, shown

_SETTLING = 0.05
"""A file that is being written is looked at again after so many seconds, until it stays as it is,"""
_RESTLESS = 1.0
"""or for so many: one that never rests must not keep the others from being looked at."""


class Watched:
    """A file, and what was in it when it was last looked at."""

    def __init__(self, path: Path, setting: str = "--config") -> None:
        """`setting`: what it is named by, for messages."""
        self._setting = setting
        self.path = path
        self._content = _look(path)

    async def changed(self) -> bool:
        """Whether it holds something else now. It may still be written to: then wait a while for it to be complete."""
        before, self._content = self._content, await asyncio.to_thread(_look, self.path)
        if self._content == before:
            return False
        clock = asyncio.get_running_loop().time
        until = clock() + _RESTLESS
        while (now := await self._looked_again()) != self._content:
            self._content = now
            if clock() >= until:
                break  # the next look sees the rest
        return self._content != before

    async def _looked_again(self) -> bytes | str:
        await asyncio.sleep(_SETTLING)
        return await asyncio.to_thread(_look, self.path)

    @property
    def content(self) -> bytes:
        """Raises ConfigError when it couldn't be read."""
        if isinstance(self._content, str):
            raise ConfigError(f"{shown(self.path, self._setting)}: can't be read: {self._content}")
        return self._content


def _look(path: Path) -> bytes | str:
    """What is in the file, or why that can't be told."""
    try:
        return read_file(path)
    except OSError as error:
        return error.strerror or str(error)
