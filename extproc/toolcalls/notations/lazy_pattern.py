"""Patterns that are compiled when they are needed first: a large one takes milliseconds, for which every start would
wait, and few outputs come to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property


class LazyPattern:
    """Its `match` is that of the pattern itself, from the first time on."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._pattern = pattern
        self._flags = flags

    @cached_property
    def match(self) -> Callable[..., re.Match[str] | None]:
        return re.compile(self._pattern, self._flags).match
