"""Finds the markers of one state in a text that arrives in pieces.

A lexer never looks at a character twice and never holds back more than could still become a marker: `find`
returns the first whole marker, or the place where an unfinished one begins, or nothing. The search itself is
one regular expression made from the markers' trie, in which every inner node may also end at the end of the
text; so an unfinished marker is found by the same pass that finds a whole one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any, TypeAlias

_Trie: TypeAlias = dict[str, "_Trie"]
_END = ""  # the key that says "a marker ends here"; no character is the empty string


class Lexer:
    """Searches for any of `markers`; of two that begin at the same place the longer one wins."""

    __slots__ = ("_extensible", "_given", "_markers", "_match", "_search")

    def __init__(self, markers: Collection[str]) -> None:
        if not markers or "" in markers:
            raise ValueError("a lexer needs markers, none of them empty")
        self._given = markers

    def __getattr__(self, name: str) -> Any:
        # Made when the first text comes: of the thousands of lexers of all formats a process uses a few, and to make
        # them all takes longer than all else that it does at its start.
        if name not in ("_extensible", "_markers", "_match", "_search"):
            raise AttributeError(name)
        self._markers = markers = frozenset(self._given)
        # Markers that begin another one: at the end of the text they may still grow.
        self._extensible = frozenset(
            short for short in markers for long in markers if short != long and long.startswith(short)
        )
        pattern = re.compile(_pattern(_trie(markers)))
        self._search = pattern.search
        self._match = pattern.match
        return getattr(self, name)

    def find(self, text: str, start: int, end: int | None = None) -> tuple[int, str | None] | None:
        """The first marker of `text` from `start`, as (position, marker).

        (position, None) means that the text ends, from there, in something that may become a marker. None
        means that there is neither: all of the text is settled. With `end` the text ends there.
        """
        match = self._search(text, start, len(text) if end is None else end)
        return None if match is None else (match.start(), self._whole(match))

    def at(self, text: str, start: int) -> tuple[int, str | None] | None:
        """The same for a marker that begins at `start`."""
        match = self._match(text, start)
        return None if match is None else (start, self._whole(match))

    def _whole(self, match: re.Match[str]) -> str | None:
        found = match.group()
        if found not in self._markers or (match.end() == match.endpos and found in self._extensible):
            return None
        return found


def _trie(markers: Iterable[str]) -> _Trie:
    root: _Trie = {}
    for marker in markers:
        node = root
        for character in marker:
            node = node.setdefault(character, {})
        node[_END] = {}
    return root


def _pattern(node: _Trie, *, root: bool = True) -> str:
    branches = [re.escape(c) + _pattern(child, root=False) for c, child in sorted(node.items()) if c != _END]
    if not branches:
        return ""
    if root:
        return "|".join(branches)
    return "(?:" + "|".join([*branches, "" if _END in node else r"\Z"]) + ")"
