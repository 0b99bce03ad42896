r"""What may follow a value in JSON, by which the end of a string is told from a quote inside of it.

Models forget to escape quotes: `"print("hello")"`. So a quote closes a string only if what follows could follow a
string there: a bracket, or a comma and what may come next. In JSON something of the kind always does. The patterns say
what it is, as `QuotedText` wants it: a group that takes part in a match says that the text ended before that was
certain.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from extproc.toolcalls.notations.json_markers import MARKER
from extproc.toolcalls.notations.lazy_pattern import LazyPattern

WINDOW = 256  # as much as is looked at behind a quote


def _key(quote: str, *, odd: str = "") -> str:
    """A key between quotes, and its colon. `odd` stands for a key with what could begin a marker: nothing behind that
    may be waited for, because the marker may end the value."""
    inside = rf"[^{quote}\\<`]*+"
    end = rf"{quote}\s*+(?:(\Z)|:|=(?:(\Z)|>))"
    return rf"{quote}{inside}(?:\\[^<`]{inside})*+(?:\\?(\Z)|{end}{odd})"


_OR_MARKER = r"|\\?[<`]"
_CURLY_KEY = r"[“‘][^“”‘’\"\\<`]{0,64}+(?:(\Z)|[”’]\s*+(?:(\Z)|:))"
_KEYS = rf"""{_key('"', odd=_OR_MARKER)}|{_key("'", odd=_OR_MARKER)}|{_CURLY_KEY}"""
_SURE_KEYS = rf"""{_key('"')}|{_key("'")}|{_CURLY_KEY}"""
_PLAIN = r"[\w$.\-]{1,64}+"
_KEY_BEHIND_BLANKS = rf"""(?<=\s)(?:"{_PLAIN}(?:(\Z)|"\s*+(?:(\Z)|:))|'{_PLAIN}(?:(\Z)|'\s*+(?:(\Z)|:))|["'](\Z))"""
_COMMENT = r"/(?:(\Z)|[/*])|\#"
_BEHIND_COMMENT = r"/(?:(\Z)|[/*])|(?<=\s)\#"
_BARE_KEY = r"[\w$][\w$.\-]*+\s*+(?:(\Z)|:(?:(\Z)|[^/:]))"
_LITERALS = ("true", "false", "null", "True", "False", "None", "NaN", "Infinity")
_BEGINNINGS = sorted({word[:size] for word in _LITERALS for size in range(1, len(word) + 1)}, key=len, reverse=True)
_LITERAL = rf"(?:{'|'.join(_LITERALS)})(?:(\Z)|\b)|(?:{'|'.join(_BEGINNINGS)})(\Z)"
_NUMBER = r"[+-](?:(\Z)|[.\d])|\.(?:(\Z)|\d)|\d"
_PREFIXED = r"""[rRbBuUfF](?:(\Z)|[rRbBuUfF]?+(?:(\Z)|["']))"""

ANYTHING = re.compile("")
"""For a key, or a value outside of brackets: the first quote closes it."""
IN_OBJECT = re.compile(
    rf"""\s*+(?:(\Z)|[}}\]]|{MARKER}|,\s*+(?:(\Z)|[}}\],<`]|{_COMMENT}|{_KEYS}|{_BARE_KEY})"""
    rf"""|{_KEY_BEHIND_BLANKS}|{_BEHIND_COMMENT})""",
    re.DOTALL,
)
"""For a value in an object: the next key, with its colon. The comma before it may be missing."""
IN_LIST = re.compile(
    rf"""\s*+(?:(\Z)|[}}\])]|{MARKER}|,\s*+(?:(\Z)|["'“‘\[\]{{}}(),<`]|{_COMMENT}|{_NUMBER}|{_PREFIXED}|{_LITERAL})"""
    rf"""|(?<=\s)["'{{\[]|{_BEHIND_COMMENT})"""
)
"""For a value in a list: another one."""
NEXT_MEMBER = re.compile(r"""\s*+(?:(\Z)|,\s*+(?:(\Z)|["']))""")
"""Another member of an object, or what looks like one."""

SEMICOLON_IN_OBJECT = rf"""\s*+;\s*+(?:(\Z)|[}}\]]|{_KEYS}|{_BARE_KEY})"""
SEMICOLON_IN_LIST = rf"""\s*+;\s*+(?:(\Z)|["'“‘\[\]{{]|{_NUMBER}|{_PREFIXED}|{_LITERAL})"""
"""One in place of a comma."""

# What makes the first quote in a string its last one, although what stands there is no JSON: a key without a value, or
# something without a quote, and then the next key, or brackets that close and what may come behind them.
_LONE_KEY = rf"""\s*+,\s*+"{_PLAIN}(?:(\Z)|"\s*+(?:(\Z)|[}},]))"""
_BEHIND_BRACKETS = rf"(?P<end>\Z)|{MARKER}|,\s*+(?:(\Z)|\{{|{_SURE_KEYS})"
_STRAY = (
    r"""(?!\w)[^"'“‘{}\[\]<`\\]{1,64}+(?:(\Z)|(?<=[,;])(?:KEY)|(?<=[,;]\s)(?:KEY)|(?<=[,;]\s\s)(?:KEY)"""
    r"""|[}\]](?:\s*+[}\])])*+\s*+(?:BEHIND))"""
)
_STRAY = _STRAY.replace("KEY", _SURE_KEYS).replace("BEHIND", _BEHIND_BRACKETS)
FIRST_IN_OBJECT = LazyPattern(rf"{SEMICOLON_IN_OBJECT}|{_LONE_KEY}|{_STRAY}", re.DOTALL)
FIRST_IN_LIST = LazyPattern(rf"{SEMICOLON_IN_LIST}|{_STRAY}", re.DOTALL)

# What closes a string that has shown quotes which aren't escaped must be beyond doubt.
_MEMBER = LazyPattern(rf"""(\Z)|{_SURE_KEYS}|[}}\]]""", re.DOTALL)
_ELEMENT = LazyPattern(rf"""(\Z)|["'“‘\[\]{{]|{_NUMBER}|{_PREFIXED}|{_LITERAL}""")
_BEHIND_ALL = re.compile(r"[\s}\]]*+(?:(\Z)|([<`])|([,;\[]))")
_blanks = re.compile(r"\s*+").match


def is_certain(found: re.Match[str], text: str, end: int, *, final: bool) -> bool:
    """Whether a match behind `end` needs no more text, or can't have any."""
    return found.lastindex is None or final or len(text) >= end + WINDOW


def surely_is_last(found: re.Match[str] | None, text: str, end: int, *, final: bool) -> bool | None:
    """The same of a match of `FIRST_IN_OBJECT` and the like; None when that isn't certain yet."""
    if found is None or found.lastindex is None:
        return found is not None
    if not final:
        return None if len(text) < end + WINDOW else False
    return found.lastgroup == "end"


def surely_closes(text: str, end: int, closers: Sequence[str], *, nested: bool, final: bool) -> bool | None:
    """Whether the quote before `end` closes a string that has shown other quotes; None when that isn't certain yet.

    `closers` are those of the brackets around it, from the outer to the inner one. `nested`: brackets were opened in
    the string that are still open, so what looks like the next key or value belongs to it.
    """
    limit = end + WINDOW
    depth = len(closers)
    at = after_blanks(text, end, limit)
    while depth and at < limit and text[at : at + 1] == (closers[depth - 1] or "}"):
        depth -= 1
        at = after_blanks(text, at + 1, limit)
    if at >= min(len(text), limit):
        return True if final or at >= limit else None
    if depth == 0:
        behind = _BEHIND_ALL.match(text, at, limit)
        if behind is None:
            return False
        if behind[1] is not None:
            return True if final or len(text) >= limit else None
        return behind[2] is not None or not nested
    if text[at] in "<`":
        return depth < len(closers)
    if text[at] != "," or nested:
        return False
    at = after_blanks(text, at + 1, limit)
    found = (_ELEMENT if closers[depth - 1] in ("]", ")") else _MEMBER).match(text, at, limit)
    if found is None:
        return False
    return True if is_certain(found, text, end, final=final) else None


def after_blanks(text: str, at: int, limit: int) -> int:
    """Where the blanks at `at` end."""
    found = _blanks(text, at, limit)
    return at if found is None else found.end()
