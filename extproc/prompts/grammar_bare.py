"""Where a call begins in JSON without a marker, for grammars of text that may hold one.

The parser takes an object for a call once it has the name of an offered tool and a key of arguments. A grammar can be
triggered by the name alone: so behind it stands either that key, and then arguments by the schema, or something by
which the object has shown that its arguments don't come next.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

_KEYS = ("arguments", "parameters")
_BLANKS = r"[ \n\t]*"


@lru_cache(16)
def no_call_behind_name(marker: str) -> str:
    """A pattern, in xgrammar's notation, of the shortest text behind the name that no key of arguments begins with.

    It has at least one character: that the text ends behind a name can't be said. Nothing in it begins the format's
    `marker`, of which the decoder would see only the rest.
    """
    begins = _escaped(marker[:1])
    inside = "|".join(f"{before}[^{without}]" for before, without in _other_keys())
    return rf"{_BLANKS}([^, \n\t{begins}]|,{_BLANKS}([^\"\' \n\t{begins}]|\"({inside})))"


def _other_keys() -> Iterator[tuple[str, str]]:
    """How a key may begin, and which characters behind that would still lead to one of `_KEYS`."""
    for before in sorted({key[:size] for key in _KEYS for size in range(len(key) + 1)}):
        ahead = {key[len(before)] for key in _KEYS if key.startswith(before) and key != before}
        if before in _KEYS:
            ahead.add('"')
        yield before, _escaped("".join(sorted(ahead)))


def _escaped(characters: str) -> str:
    """In a class of characters."""
    return re.sub(r'["\[\]\\^-]', r"\\\g<0>", characters)
