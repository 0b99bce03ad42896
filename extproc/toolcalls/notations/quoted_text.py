r"""Decodes one quoted string, as it arrives, and hands it on as the inside of a JSON string.

Escapes are Python's, of which JSON's are a part; a backslash that begins none stands for itself (`"\d+"`). Line breaks
and control characters may stand as they are. Models also forget to escape quotes: `'sed -n '3p' file'`. So a quote
closes the string only if what follows could follow a string there; until that shows, the quote is held back. Text
that is written correctly always reads as it would in Python, also where strings in a row make one (`'Par' 'is'`).
"""

from __future__ import annotations

import enum
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from json.encoder import encode_basestring

from extproc.toolcalls.notations.lazy_pattern import LazyPattern

WINDOW = 256  # as much as is looked at behind a quote

_HEX = "[0-9a-fA-F]"
_ESCAPES = rf"""\\(?:
        (?P<pair>u[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}})
      | (?P<hex>x{_HEX}{{2}} | u{_HEX}{{4}} | U{_HEX}{{8}})
      | (?P<octal>[0-7]{{1,3}})
      | N\{{(?P<named>[A-Za-z0-9\ \-]{{1,80}})\}}
      | (?P<single>[\\'"abfnrtv\n])
    )"""
_ESCAPE = re.compile(_ESCAPES, re.VERBOSE)
_TEMPLATE_ESCAPE = re.compile(_ESCAPES.replace("'\"", "'\"`$"), re.VERBOSE)
"""JavaScript's, between backticks."""
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
    "`": "`",
    "$": "$",
}
# A backslash and what follows it, where nothing more has to be seen to know what it means.
_CERTAIN = rf"\\(?:[^uUxN0-7]|x{_HEX}{{2}}|u(?![dD][89a-fA-F]){_HEX}{{4}})"


def json_text(text: str) -> str:
    """`text` as a JSON string."""
    return encode_basestring(text)


def inside(text: str) -> str:
    """`text` as the inside of a JSON string."""
    return encode_basestring(text)[1:-1]


@lru_cache
def _crosses(quote: str, raw: bool, also: str) -> Callable[[str, int], re.Match[str] | None]:
    """What matches as far as the text is certainly part of the string."""
    one = quote[0]
    plain = rf"[^{one}\\{re.escape(also)}]++"
    escape = r"\\." if raw else _CERTAIN
    # One or two quotes between three, unless they may become three.
    lone = rf"|{one}(?!{one}{one}|{one}?\Z)" if len(quote) == 3 else ""
    return re.compile(rf"(?:{plain}|{escape}{lone})*+", re.DOTALL).match


PREFIX = r"(?:[rRbBfFuU]|[rR][bBfF]|[bBfF][rR])?"
"""What may stand before a string's first quote in Python."""

# Strings in a row are one string. Below each other they surely are; on one line they may be quotes that should have
# been escaped.
_BELOW = re.compile(
    rf"""([\ \t]*+(?:\+[\ \t]*+|\\)?+(?:\#[^\n'"]*+)?+\r?\n\s*+(?:\+\s*+)?+){PREFIX}(?:['"]|(\Z))
      | [\ \t]*+(?:\+[\ \t]*+|\\)?+(?:\#[^\n'"]*+)?+\r?(\Z)""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Follows:
    """What may follow a string where it stands. A group that takes part in a match says that the text ended before that
    was certain."""

    end: re.Pattern[str]
    """... when it is the string's end."""
    beside: re.Pattern[str] | None = None
    """... when another string follows on the same line, which belongs to it; the first group ends where that begins."""
    joins: bool = True
    """One on a line below belongs to it too."""
    first: re.Pattern[str] | LazyPattern | None = None
    """... when it is the string's end and no quote in it has been taken for text."""


class Ended(enum.Enum):
    """How a string ended."""

    CLOSED = enum.auto()
    CONTINUES = enum.auto()
    """At its end another one begins that belongs to it."""
    CALL = enum.auto()
    """With the call it stands in, brackets and all."""
    CALL_BROKEN = enum.auto()
    """With the call, which isn't complete."""


class QuotedText:
    """One string, from behind its opening quote."""

    __slots__ = ("_also", "_cross", "_escapes", "_follows", "_length", "_pristine", "_quote", "_raw", "done", "ended")

    def __init__(self, quote: str, follows: Follows | re.Pattern[str], *, raw: bool = False, also: str = "") -> None:
        """`also`: the characters at which something else may end the string."""
        self.done = False
        self.ended = Ended.CLOSED
        self._quote = quote[0]
        self._length = len(quote)
        self._raw = raw
        self._escapes = _TEMPLATE_ESCAPE if quote == "`" else _ESCAPE
        self._also = also
        self._cross = _crosses(quote, raw, also)
        self._follows = follows if isinstance(follows, Follows) else Follows(follows)
        self._pristine = True  # no quote has been taken for text

    @property
    def continues(self) -> bool:
        """Another string begins at its end, which belongs to it."""
        return self.ended is Ended.CONTINUES

    def scan(self, text: str, start: int, *, final: bool = False) -> tuple[int, str]:
        """What belongs to the string from `start`, as (end, piece).

        While the string isn't done, `text[end:]` has to come again with more text behind it; `final` says that there
        is no more.
        """
        if start == 0 and self._quote not in text and "\\" not in text and not self._also:
            return len(text), encode_basestring(text)[1:-1]
        crossed = self._cross(text, start)
        assert crossed is not None  # it may match nothing
        end = crossed.end()
        piece = text[start:end]
        if "\\" in piece and not self._raw:
            piece = _without_escapes(piece, self._escapes)
        piece = encode_basestring(piece)[1:-1]
        if end == len(text):
            return end, piece
        pieces = [piece]
        while end < len(text):
            read = self._stop(text, end, final=final)
            if read is None:
                break
            start, piece = read
            pieces.append(piece)
            if self.done:
                return start, "".join(pieces)
            crossed = self._cross(text, start)
            assert crossed is not None
            end = crossed.end()
            pieces.append(self._decoded(text[start:end]))
        return end, "".join(pieces)

    def _decoded(self, text: str) -> str:
        """Text that holds no quote which ends anything, and no escape whose end isn't certain."""
        if "\\" in text and not self._raw:
            text = _without_escapes(text, self._escapes)
        return encode_basestring(text)[1:-1]

    def _stop(self, text: str, at: int, *, final: bool) -> tuple[int, str] | None:
        """What stands where plain text ends, as (end, piece); None when that isn't certain yet."""
        character = text[at]
        if character == self._quote:
            return self._end_or_quote(text, at, final=final)
        if character == "\\":
            return self._escape(text, at)
        return self._other(text, at, final=final)

    def _other(self, text: str, at: int, *, final: bool) -> tuple[int, str] | None:
        """A character at which something else could end the string."""
        return at + 1, inside(text[at])

    def _escape(self, text: str, at: int) -> tuple[int, str] | None:
        if self._raw or _UNFINISHED.match(text, at):
            return None
        escape = self._escapes.match(text, at)
        if escape is None:
            return at + 1, "\\\\"
        return escape.end(), inside(_character(escape))

    def _end_or_quote(self, text: str, at: int, *, final: bool) -> tuple[int, str] | None:
        """Whether a quote closes the string."""
        end = at + self._length
        if end > len(text):  # less than three of them, and three close
            return (at + 1, inside(text[at])) if final else None
        limit = end + WINDOW
        certain = final or len(text) >= limit
        follows = self._follows.end.match(text, end, limit)
        if follows is not None:
            if follows.lastindex is not None and not certain:
                return None
            self.done = True
            return end, ""
        if self._length == 1 and self._follows.joins:
            another = self._another(text, end, limit)
            if another is not None:
                if another.lastindex != 1 and not certain:
                    return None
                if another.lastindex == 1 or another.re is not _BELOW:
                    self.done = True
                    self.ended = Ended.CONTINUES
                    return another.end(1), ""
        if self._pristine and self._follows.first is not None:
            first = self._follows.first.match(text, end, limit)
            if first is not None and first.lastindex is not None and not certain:
                return None
            if first is not None and (first.lastindex is None or (final and first.lastgroup == "end")):
                self.done = True
                return end, ""
        self._pristine = False
        return at + 1, inside(text[at])

    def _another(self, text: str, end: int, limit: int) -> re.Match[str] | None:
        """What leads to another string that belongs to this one."""
        below = _BELOW.match(text, end, limit)
        if below is not None or not self._pristine or self._follows.beside is None:
            return below
        return self._follows.beside.match(text, end, limit)


def _without_escapes(text: str, escapes: re.Pattern[str]) -> str:
    """The text that this stands for in a string. Its last backslash has something behind it."""
    if "\0" not in text:
        # Behind the doubled ones each backslash that is left begins an escape; mostly all are these.
        simple = text.replace("\\\\", "\0").replace("\\n", "\n").replace("\\t", "\t")
        simple = simple.replace("\\'", "'").replace('\\"', '"')
        if "\\" not in simple:
            return simple.replace("\0", "\\")
    return escapes.sub(_character, text)


def _character(escape: re.Match[str]) -> str:
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
