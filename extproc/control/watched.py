"""A file that somebody else writes: looked at by content, now and then, and never in the middle of being written."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from extproc.config import ConfigError
from extproc.config.files import read_file, shown
from extproc.config.loading import MissingConfigError

_SETTLING = 0.05
"""A file that is being written is looked at again after so many seconds, until it stays as it is,"""
_RESTLESS = 1.0
"""or for so many: one that never rests must not keep the others from being looked at."""


@dataclass(frozen=True, slots=True)
class _Unread:
    """Why a file couldn't be read."""

    reason: str
    missing: bool


class Watched:
    """A file, and what was in it when it was last looked at."""

    def __init__(self, path: Path, setting: str | None = None) -> None:
        """`setting`: what names it, which may hold a key instead of a path; None for the configuration itself."""
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

    async def _looked_again(self) -> bytes | _Unread:
        await asyncio.sleep(_SETTLING)
        return await asyncio.to_thread(_look, self.path)

    @property
    def content(self) -> bytes:
        """Raises ConfigError when it couldn't be read, as MissingConfigError if there is no configuration."""
        if isinstance(self._content, _Unread):
            if self._setting is None and self._content.missing:
                raise MissingConfigError(self.path, self._content.reason)
            name = self.path if self._setting is None else shown(self.path, self._setting)
            raise ConfigError(f"{name}: can't be read: {self._content.reason}")
        return self._content


def _look(path: Path) -> bytes | _Unread:
    """What is in the file, or why that can't be told."""
    try:
        return read_file(path)
    except OSError as error:
        return _Unread(error.strerror or str(error), isinstance(error, FileNotFoundError))
