"""Sets of characters, as ranges of code points: sorted, apart from one another, without surrogates."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import cache
from typing import TypeAlias

Range: TypeAlias = tuple[int, int]
"""The first and the last code point."""
Characters: TypeAlias = tuple[Range, ...]

_LAST = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)


def only(text: str) -> Characters:
    """The characters of a text."""
    return union([(ord(character), ord(character))] for character in text)


def between(first: str, last: str) -> Characters:
    """The characters from one to another."""
    return without(((ord(first), ord(last)),), (_SURROGATES,))


def union(sets: Iterable[Iterable[Range]]) -> Characters:
    """The characters of any of the sets, which need not be in order."""
    merged: list[Range] = []
    for first, last in sorted(range_ for ranges in sets for range_ in ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return tuple(merged)


def without(characters: Characters, others: Characters) -> Characters:
    """The characters that are not among the others."""
    left: list[Range] = []
    at = 0
    for first, last in characters:
        while at < len(others) and others[at][1] < first:
            at += 1
        for out_first, out_last in others[at:]:
            if out_first > last:
                break
            if first < out_first:
                left.append((first, out_first - 1))
            first = out_last + 1
            if first > last:
                break
        if first <= last:
            left.append((first, last))
    return tuple(left)


EVERYTHING: Characters = without(((0, _LAST),), (_SURROGATES,))


def negated(characters: Characters) -> Characters:
    """All the other characters."""
    return without(EVERYTHING, characters)


@cache
def class_of(letter: str) -> Characters:
    """What `\\d`, `\\s`, `\\w` mean, and in upper case their opposites: by Unicode, as Python's `re` has it."""
    if letter.isupper():
        return negated(class_of(letter.lower()))
    everything = "".join(map(chr, range(_LAST_OF_A_CLASS + 1)))
    return tuple((match.start(), match.end() - 1) for match in re.finditer(rf"\{letter}+", everything))


_LAST_OF_A_CLASS = 0x3FFFF  # behind it is nothing but variation selectors, tags and private use


def in_any_case(characters: Characters, spend: Callable[[int], None] = lambda _: None) -> Characters:
    """The set with the upper and lower case of its characters: those that are one character each.

    `spend` is told how many characters are looked at.
    """
    cases = _cases()
    spend(min(len(cases), sum(last - first + 1 for first, last in characters)))
    codes: Iterable[int] = (code for first, last in characters for code in range(first, last + 1))
    if sum(last - first + 1 for first, last in characters) > len(cases):
        codes = (code for code in cases if _has(characters, code))
    more = [(other, other) for code in codes for other in cases.get(code, ())]
    return union([characters, more]) if more else characters


def _has(characters: Characters, code: int) -> bool:
    at = bisect_right(characters, (code, _LAST)) - 1
    return at >= 0 and code <= characters[at][1]


@cache
def _cases() -> dict[int, list[int]]:
    """For each character that has another case, all that differ from it in that alone."""
    groups: dict[str, list[int]] = {}
    for match in re.finditer(r"[^\W\d_]", "".join(map(chr, range(_LAST_WITH_CASE + 1)))):
        letter = match[0]
        upper = letter.upper()
        groups.setdefault((upper if len(upper) == 1 else letter).lower(), []).append(ord(letter))
    return {code: group for group in groups.values() if len(group) > 1 for code in group}


_LAST_WITH_CASE = 0x1E943
