"""Reads one string between markers, as the Gemma models write it: `<|"|>text<|"|>`.

Nothing in it is escaped. The marker behind it may be missing; then the next key ends it, whose own string begins with
the same marker, or the marker that ends the call. Models also put quotes in place of either marker. The end of a call
may be quoted in a string, though: so what follows it is looked at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from json.encoder import encode_basestring

from extproc.toolcalls.lexer import Lexer
from extproc.toolcalls.notations.quoted_text import Ended, Follows, QuotedText, inside

_WINDOW = 256  # as much as is looked at behind the end of a call
_LONGEST_TAIL = 160  # what `_TAIL_SO_FAR` matches is shorter

_QUOTE = r"[\"']\s{0,16}"
_CLOSERS = r"[}\])][}\])\s]{0,64}"
_may_matter = re.compile(r"[<\"'}\]),]").search
# What may belong to the notation at a string's end: it waits for what follows.
_TAIL_SO_FAR = re.compile(
    rf"(?:{_QUOTE}(?:{_CLOSERS})?|{_CLOSERS}|(?:{_QUOTE})?,\s{{0,16}}(?:[\w.\-]{{1,64}}(?:\s{{0,4}}:\s{{0,4}})?)?)\Z"
)
_NEXT_KEY = re.compile(rf"(?:{_QUOTE})?(?P<comma>,)\s{{0,16}}[\w.\-]{{1,64}}\s{{0,4}}:\s{{0,4}}\Z")
_CLOSED = re.compile(rf"(?P<quote>{_QUOTE})?(?P<closers>{_CLOSERS})\Z")
_CONTROL = re.compile(r"<(?:(\Z)|\|(?:(\Z)|[\"\w])|/?\w{1,32}+(?:(\Z)|\|(?:(\Z)|>)))").match
_CLOSERS_AT = re.compile(_CLOSERS).match
_BEHIND = re.compile(r"\s{0,16}(?:[,:}\])<]|(\Z))")
_BEHIND_VALUE = re.compile(r"\s{0,16}(?:[,}\])]|(\Z))")


@dataclass(frozen=True, slots=True)
class StringMarkers:
    """The markers of a notation whose strings stand between markers."""

    delimiter: str
    """Before and behind a string."""
    opening: str
    """Before a call."""
    closing: str
    """Behind a call."""
    lexer: Lexer = field(init=False, compare=False)
    all: Lexer = field(init=False, compare=False)
    ahead: re.Pattern[str] = field(init=False, compare=False)
    """What shows whether the end of a call was one: a string's end, or another call."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "all", Lexer((self.delimiter, self.closing, self.opening)))
        delimiter, opening = re.escape(self.delimiter), re.escape(self.opening)
        object.__setattr__(self, "lexer", Lexer((self.delimiter, self.closing)))
        object.__setattr__(
            self, "ahead", re.compile(rf"(?P<delimiter>{delimiter})|{opening}\s*(?:call\b)?\s*:?\s*[\w.:/\-]+\s*[({{]")
        )

    def at(self, text: str, position: int, *, final: bool) -> bool | None:
        """Whether a marker of this or any kind stands here; None when that isn't certain yet."""
        found = self.all.at(text, position)
        if found is not None and found[1] is not None:
            return True
        control = _CONTROL(text, position)
        if not final and (found is not None or (control is not None and control.lastindex is not None)):
            return None
        return control is not None and control.lastindex is None

    def end_of_stray(self, text: str, position: int, *, final: bool) -> int | None:
        """The end of a second quote or marker behind a string, where the two kinds were mixed; `position` itself when
        that isn't certain yet."""
        if text[position] in "\"'":
            return position + 1
        found = self.lexer.at(text, position)
        if found is None or found[1] == self.closing or (found[1] is None and final):
            return None
        return position + len(found[1] or "")


class DelimitedText:
    """One string, from behind its marker. `depth` brackets are open around it; `keyed` says that it is the value of a
    key, so that another key may follow."""

    __slots__ = ("_depth", "_empty", "_keyed", "_markers", "done", "ended")

    def __init__(self, markers: StringMarkers, depth: int, *, keyed: bool) -> None:
        self.done = False
        self.ended = Ended.CLOSED
        self._markers = markers
        self._depth = depth
        self._keyed = keyed
        self._empty = True

    def scan(self, text: str, start: int, *, final: bool = False) -> tuple[int, str]:
        """As `QuotedText.scan`."""
        if _may_matter(text, start) is None:
            self._empty = self._empty and start == len(text)
            return len(text), encode_basestring(text[start:])[1:-1]
        at = start
        while True:
            found = self._markers.lexer.find(text, at)
            at, marker = (len(text), None) if found is None else found
            read = None if marker is None else self._marker(text, start, at, marker, final=final)
            if read is None:
                break
            stop, at = read
            if self.done:
                return at, inside(text[start:stop])
            if stop < at:
                start = at  # the marker is no text
        end = len(text) if final else self._tail(text, start, at)
        self._empty = self._empty and end == start
        return end, inside(text[start:end])

    def _tail(self, text: str, start: int, end: int) -> int:
        """Where that begins which may be part of the notation."""
        tail = _TAIL_SO_FAR.search(text, max(start, end - _LONGEST_TAIL), end)
        return end if tail is None else tail.start()

    def _marker(self, text: str, start: int, at: int, marker: str, *, final: bool) -> tuple[int, int] | None:
        """Where the string's text stops, and where its reading goes on; None when that isn't certain yet."""
        end = at + len(marker)
        if marker == self._markers.closing:
            is_end = self._ends_call(text, end, final=final)
            if is_end is None:
                return None
            if not is_end:
                return end, end
            self.done = True
            return self._without_closers(text, start, at), at
        if self._empty and at == start:
            behind = _BEHIND.match(text, end)
            if behind is None and (final or text[end : end + 17].strip() or len(text) > end + 16):
                return at, end  # said twice
        else:
            key = _NEXT_KEY.search(text, max(start, at - _LONGEST_TAIL), at) if self._keyed else None
            behind = None
            if key is not None:
                behind = _BEHIND_VALUE.match(text, end)
                if behind is None:
                    self.done = True
                    return key.start(), key.start("comma")
        if behind is not None and behind.lastindex is not None and not final:
            return None
        self.done = True
        return at, end

    def _ends_call(self, text: str, end: int, *, final: bool) -> bool | None:
        """Whether a call's end in the string is one: it isn't if the string ends behind it as it should."""
        ahead = self._markers.ahead.search(text, end, end + _WINDOW)
        if ahead is None:
            return True if final or len(text) >= end + _WINDOW else None
        if ahead["delimiter"] is None:
            return True
        behind = _BEHIND_VALUE.match(text, ahead.end())
        if behind is not None and behind.lastindex is not None and not final:
            return None
        return behind is None

    def _without_closers(self, text: str, start: int, end: int) -> int:
        """Where the string's text stops before the end of the call: brackets that close what is open are none of it."""
        self.ended = Ended.CALL_BROKEN
        closed = _CLOSED.search(text, max(start, end - _LONGEST_TAIL), end)
        if closed is None:
            return end
        closers = [at for at in range(*closed.span("closers")) if not text[at].isspace()]
        if len(closers) >= self._depth:
            self.ended = Ended.CALL
        if len(closers) > self._depth:
            return closers[-self._depth]
        return closed.start()


class HandQuotedText(QuotedText):
    """One string between quotes in such a notation, from behind the first quote. A marker may end it all the same."""

    __slots__ = ("_depth", "_markers")

    def __init__(self, quote: str, follows: Follows, markers: StringMarkers, depth: int) -> None:
        super().__init__(quote, follows, also="<}])")
        self._markers = markers
        self._depth = depth

    def _other(self, text: str, at: int, *, final: bool) -> tuple[int, str] | None:
        closers = _CLOSERS_AT(text, at)
        end = at if closers is None else closers.end()
        found = self._markers.lexer.at(text, end) if end < len(text) else (end, None)
        if found is None or (found[1] is None and final):
            return max(end, at + 1), inside(text[at : max(end, at + 1)])
        marker = found[1]
        if marker is None:
            return None
        if marker == self._markers.closing:
            self.done = True
            count = sum(not character.isspace() for character in text[at:end])
            self.ended = Ended.CALL if count >= self._depth else Ended.CALL_BROKEN
            return end, ""
        if end > at:
            return end, inside(text[at:end])
        behind = _BEHIND.match(text, end + len(marker))
        if behind is None:
            return end + len(marker), inside(marker)
        if behind.lastindex is not None and not final:
            return None
        self.done = True
        return end + len(marker), ""
