"""Which patterns xgrammar reads as they are meant.

xgrammar 0.2.8 takes every pattern for one of the whole string, passes over assertions and over anchors that stand
inside, and lets `.`, `\\s` and `[^a]` match only what needs no escape. A pattern is left to it where none of that makes
a difference: anchored at both ends, and made of characters that stand in JSON, and in a model's elements, as they are.

Source: measured, docs/forced-decoding.md. What the parts mean is ECMA 262's, as JSON Schema has it.
"""

from __future__ import annotations

import re

_LARGEST = 200
"""Characters, repetitions counted. Compiling takes up to 0.7 s with so many."""

_ESCAPE = r"\\(?:[dw]|[.^$*+?()\[\]{}|/-])"
_TOKEN = re.compile(
    rf"""
    (?P<open> \( (?:\?:)? ) |
    (?P<close> \) ) |
    (?P<or> \| ) |
    (?P<one>
        [a-zA-Z0-9\ !\#%',/:;=@_`~-] | {_ESCAPE} |
        \[ -? (?: [a-z]-[a-z] | [A-Z]-[A-Z] | [0-9]-[0-9] | [a-zA-Z0-9\ !\#%',/:;=@_`~.*+?(){{}}|$] | {_ESCAPE} )+ -? \]
    ) |
    (?P<times> (?: [*+?] | \{{ (?P<least>[0-9]{{1,4}}) (?: (?P<range>,) (?P<most>[0-9]{{1,4}})? )? \}} ) \?? )
    """,
    re.VERBOSE,
)
_RANGE = re.compile(r"(?<!\\)(\w)-(\w)")


def is_plain_pattern(pattern: str) -> bool:
    """Whether xgrammar accepts the strings that match the pattern, and no others."""
    if not (len(pattern) > 1 and pattern.startswith("^") and pattern.endswith("$")):
        return False
    around: list[int] = []  # the sizes of the groups that are open, up to here
    size = 0
    last = 0  # the size of what a quantifier would repeat
    at, end = 1, len(pattern) - 1
    while at < end:
        token = _TOKEN.match(pattern, at, end)
        if token is None:
            return False
        match token.lastgroup:
            case "open":
                around.append(size)
                size = last = 0
            case "close" if around:
                last = max(size, 1)
                size = around.pop() + last
            case "or" if around:  # elsewhere an alternative would have but one of the anchors
                last = 0
            case "one" if all(first <= second for first, second in _RANGE.findall(token.group())):
                last = 1
                size += 1
            case "times" if last and (times := _times(token)):
                size += last * (times - 1)
                last = 0
            case _:
                return False
        if size > _LARGEST:
            return False
        at = token.end()
    return not around


def _times(token: re.Match[str]) -> int:
    """How often a quantifier lets something stand at most; where there is no limit, at least. 0 for a range of none."""
    if token["least"] is None:
        return 1
    least = int(token["least"])
    most = int(token["most"]) if token["most"] else max(least, 1) if token["range"] else least
    return most if least <= most else 0
