"""Strings between quotes that JSON doesn't have, as values of a JSON text."""

from __future__ import annotations

import re
from functools import lru_cache

from extproc.toolcalls.quoted_text import Ended, Follows, QuotedText, Quotes

_QUOTES = {quote: Quotes(quote) for quote in ("'", '"', "'''", '"""')}
_follows = lru_cache(maxsize=32)(Follows)


def quoted_text(quote: str, ends: re.Pattern[str]) -> QuotedText:
    """One string from behind its opening quote; `ends` says what may follow the closing one."""
    return QuotedText(_QUOTES[quote], _follows(ends))


def continues(string: QuotedText) -> bool:
    """Whether another string follows that belongs to this one."""
    return string.ended is Ended.CONTINUES
