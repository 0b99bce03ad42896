"""What becomes of a text that is scanned piece by piece, where most of it is handed on as it is."""

from __future__ import annotations

from extproc.toolcalls.repairs import Repair


class RepairedText:
    """The text that is being scanned: what of it is replaced, and what has to come again with more text behind it."""

    __slots__ = ("_before", "_final", "_held", "_mark", "_out", "_settled", "repair")

    def __init__(self) -> None:
        self.repair: Repair | None = None
        """What had to be repaired first."""
        self._final = False
        """There is no more text."""
        self._held = ""
        """What can't be understood before more text comes."""
        self._before = ""
        """Ends with the character before that, or before the text that comes."""
        self._out: list[str] = []  # what the text has become
        self._mark = 0  # up to here
        self._settled = -1  # the place from which on it has to be held

    def _begin(self, position: int) -> None:
        self._mark, self._settled = position, -1

    def _end(self, text: str, start: int, position: int) -> str:
        """What `text[start:position]` has become."""
        if self._settled >= 0:
            position = self._settled
            self._held = text[position:]
        if position > start:
            self._before = text[position - 1]
        piece = text[self._mark : position]
        if self._out:
            piece = "".join([*self._out, piece])
            self._out.clear()
        return piece

    def _replace(self, text: str, start: int, end: int, replacement: str) -> int:
        """Hand on `replacement` for `text[start:end]`."""
        self._out += (text[self._mark : start], replacement)
        self._mark = end
        return end

    def _repair(self, what: Repair, text: str, start: int, end: int, replacement: str) -> int:
        """The same, because it is wrong."""
        self.repair = self.repair or what
        return self._replace(text, start, end, replacement)

    def _wait(self, text: str, position: int) -> int:
        """What stands at `position` has to come again."""
        self._settled = position
        return len(text)

    def _is_last(self, text: str, position: int, size: int = 1) -> bool:
        """Whether the text ends before `size` characters have come, and there may be more."""
        return len(text) < position + size and not self._final

    def _character_before(self, text: str, position: int) -> str:
        return text[position - 1 : position] or self._before[-1:]
