"""Finds the ends of comments, which JSON doesn't know and models write."""

from __future__ import annotations

import re

_LONGEST = 512
_line_comment = re.compile(r"(?://|#)[^\n<`]*+(\Z)?+").match
_block_comment = re.compile(r"/(?:(\Z)|\*(?:[^*<`]|\*(?!/))*+(?:(\Z)|\*/))").match


def end_of_comment(text: str, position: int, *, final: bool) -> int | None:
    """Where the comment ends that begins at `position`: there itself when that isn't certain yet, None when it is none.

    One that has no end near by is none: it would hide the rest of the output. So does none hold what a marker could
    begin with.
    """
    limit = position + _LONGEST
    found = _block_comment(text, position, limit) or _line_comment(text, position, limit)
    if found is None:
        return None
    if found.lastindex is not None:
        return None if final or len(text) >= limit else position
    return found.end()


def end_of_comment_for_value(text: str, position: int, *, final: bool) -> int | None:
    """The same where a value may stand. There a comment has a blank behind its marks; `#fff` and `//host` are words."""
    size = 3 if text.startswith("//", position) else 2
    if len(text) < position + size:
        return None if final else position
    mark = text[position : position + size]
    return end_of_comment(text, position, final=final) if mark == "/*" or mark[-1].isspace() else None
