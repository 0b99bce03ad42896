r"""Decodes one quoted string, as it arrives, and hands it on as the inside of a JSON string.

Escapes are Python's, of which JSON's are a part; a backslash that begins none stands for itself (`"\d+"`). Line breaks
and control characters may stand as they are. Models also forget to escape quotes: `'sed -n '3p' file'`. So a quote
closes the string only if what follows could follow a string there; until that shows, the quote is held back. Text
that is written correctly always reads as it would in Python.
"""

from __future__ import annotations

import json
import re
import unicodedata

_WINDOW = 256  # as much as is looked at behind a quote

json_text = json.JSONEncoder(ensure_ascii=False).encode

_HEX = "[0-9a-fA-F]"
_ESCAPE = re.compile(
    rf"""\\(?:
        (?P<pair>u[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}})
      | (?P<hex>x{_HEX}{{2}} | u{_HEX}{{4}} | U{_HEX}{{8}})
      | (?P<octal>[0-7]{{1,3}})
      | N\{{(?P<named>[A-Za-z0-9\ \-]{{1,80}})\}}
      | (?P<single>[\\'"abfnrtv\n])
    )""",
    re.VERBOSE,
)
# What may still become an escape, or the second half of a surrogate pair.
_UNFINISHED = re.compile(
    rf"""\\(?:
        x{_HEX}? | u{_HEX}{{0,3}} | U{_HEX}{{0,7}} | [0-7]{{1,2}} | N(?:\{{[A-Za-z0-9\ \-]{{0,80}})?
      | u[dD][89abAB]{_HEX}{{2}}(?:\\(?:u(?:[dD](?:[c-fC-F]{_HEX}?)?)?)?)?
    )?\Z""",
    re.VERBOSE,
)
_SINGLE = {
    "\\": "\\",
    "'": "'",
    '"': '"',
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\n": "",
}
# Strings in a row are one string; on one line they are rather quotes that should have been escaped.
_ANOTHER_BELOW = re.compile(r"[ \t]*\r?\n\s*['\"]")
_STOPS = {
    "'": re.compile(r"['\\]").search,
    '"': re.compile(r'["\\]').search,
    "'''": re.compile(r"'''|\\|'{1,2}\Z").search,
    '"""': re.compile(r'"""|\\|"{1,2}\Z').search,
}


def inside(text: str) -> str:
    """`text` as the inside of a JSON string."""
    return json_text(text)[1:-1]


class QuotedText:
    """One string, from behind its opening quote.

    `ends` says what may follow the closing quote. A group of it that takes part in a match says that the text ended
    before that was certain.
    """

    __slots__ = ("_ends", "_quote", "_raw", "_stop", "continues", "done")

    def __init__(self, quote: str, ends: re.Pattern[str], *, raw: bool = False) -> None:
        self.done = False
        self.continues = False
        """The string ended, but another one follows that belongs to it."""
        self._quote = quote
        self._ends = ends
        self._raw = raw
        self._stop = _STOPS[quote]

    def scan(self, text: str, start: int, *, final: bool = False) -> tuple[int, str]:
        """What belongs to the string from `start`, as (end, piece).

        While the string isn't done, `text[end:]` has to come again with more text behind it; `final` says that there
        is no more.
        """
        stop = self._stop(text, start)
        if stop is None:
            return len(text), json_text(text[start:])[1:-1]
        pieces: list[str] = []
        while stop is not None and not self.done:
            at = stop.start()
            pieces.append(inside(text[start:at]))
            is_escape = stop.group() == "\\"
            read = self._escape(text, at) if is_escape else self._end_or_quote(text, at, final=final)
            if read is None:
                return at, "".join(pieces)
            start, piece = read
            pieces.append(piece)
            stop = self._stop(text, start)
        if not self.done:
            pieces.append(inside(text[start:]))
            start = len(text)
        return start, "".join(pieces)

    def _escape(self, text: str, at: int) -> tuple[int, str] | None:
        """What stands at a backslash, as (end, piece); None when that isn't certain yet."""
        if self._raw:
            return (at + 2, inside(text[at : at + 2])) if at + 1 < len(text) else None
        if _UNFINISHED.match(text, at):
            return None
        escape = _ESCAPE.match(text, at)
        if escape is None:
            return at + 1, "\\\\"
        return escape.end(), inside(_decoded(escape))

    def _end_or_quote(self, text: str, at: int, *, final: bool) -> tuple[int, str] | None:
        """Whether a quote closes the string, as (end, piece); None when that isn't certain yet."""
        end = at + len(self._quote)
        if end > len(text):  # less than three of them, and three close
            return (at + 1, inside(text[at])) if final else None
        follows = self._ends.match(text, end, end + _WINDOW)
        if follows is None:
            self.continues = len(self._quote) == 1 and _ANOTHER_BELOW.match(text, end, end + _WINDOW) is not None
            self.done = self.continues
            return (end, "") if self.done else (at + 1, inside(text[at]))
        if follows.lastindex is not None and not final and len(text) < end + _WINDOW:
            return None
        self.done = True
        return end, ""


def _decoded(escape: re.Match[str]) -> str:
    """The character that an escape stands for."""
    kind, word = escape.lastgroup, escape[escape.lastgroup or 0]
    match kind:
        case "single":
            return _SINGLE[word]
        case "pair":
            high, low = int(word[1:5], 16), int(word[7:], 16)
            return chr(0x10000 + ((high & 0x3FF) << 10) + (low & 0x3FF))
        case "named":
            try:
                return unicodedata.lookup(word)
            except KeyError:
                return escape.group()
        case _:
            code = int(word, 8) if kind == "octal" else int(word[1:], 16)
            if code > 0x10FFFF:
                return escape.group()
            # Half a surrogate pair is no character, and can't be encoded.
            return "\ufffd" if 0xD800 <= code <= 0xDFFF else chr(code)
