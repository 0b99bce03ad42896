"""What stands on the line that an output's text has got to: whether it is blank, and whether a quote is open in it."""

from __future__ import annotations

QUOTES = '`"'


class Line:
    """The current line, up to the last character that was read. It is looked at only when somebody asks."""

    __slots__ = ("_before_last", "_blank", "_last", "_open", "_unread")

    def __init__(self) -> None:
        self._unread: list[str] = []
        self.clear()

    def clear(self) -> None:
        self._unread.clear()
        self._blank = self._before_last = True  # nothing but white space came; the same, without the last character
        self._last = ""
        self._open = ""  # the quotes of which an odd number came

    def copy(self) -> Line:
        line = Line()
        self._look()
        line._blank, line._before_last, line._last, line._open = self._blank, self._before_last, self._last, self._open
        return line

    def read(self, text: str) -> None:
        newline = text.rfind("\n")
        if newline >= 0:
            self.clear()
            text = text[newline + 1 :]
        self._unread.append(text)

    @property
    def blank(self) -> bool:
        """Nothing but white space came since the last line break."""
        self._look()
        return self._blank

    @property
    def last(self) -> str:
        """The last character; none at the line's beginning."""
        self._look()
        return self._last

    @property
    def opens_quote(self) -> bool:
        """The last character opens a quote."""
        self._look()
        return bool(self._last) and self._last in self._open

    @property
    def opens_code(self) -> bool:
        """It opens a piece of code inside a sentence."""
        return self.opens_quote and self._last == "`" and not self._before_last

    def _look(self) -> None:
        text = "".join(self._unread)
        self._unread.clear()
        if not text:
            return
        self._last = text[-1]
        self._before_last = self._blank and not text[:-1].strip()
        self._blank = self._before_last and not self._last.strip()
        self._open = "".join(quote for quote in QUOTES if (quote in self._open) ^ (text.count(quote) % 2 == 1))
