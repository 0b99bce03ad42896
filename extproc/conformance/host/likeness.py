"""Whether two bodies are the same, though a server writes its own ids and times into them."""

from __future__ import annotations

import re

_WORD = re.compile(rb"([A-Za-z0-9]+)")


def same_but_for_words(wanted: bytes, got: bytes, again: bytes) -> bool:
    """Whether they are the same, but for words that are another each time."""
    if wanted == got:
        return True
    words = [_WORD.split(body) for body in (wanted, got, again)]
    if len({len(each) for each in words}) > 1:
        return False
    return all(one == two or one != three for one, two, three in zip(*words, strict=True))
