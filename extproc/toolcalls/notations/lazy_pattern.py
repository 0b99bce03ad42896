"""Patterns that are compiled when they are needed first, or when there is time: a large one takes milliseconds, for
which every start would wait."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property


class LazyPattern:
    """Its `match` is that of the pattern itself, from the first time on."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._pattern = pattern
        self._flags = flags
        _ALL.append(self)

    @cached_property
    def match(self) -> Callable[..., re.Match[str] | None]:
        return re.compile(self._pattern, self._flags).match


_ALL: list[LazyPattern] = []


def compile_patterns() -> None:
    """Compile all that aren't yet."""
    for pattern in _ALL:
        _ = pattern.match
