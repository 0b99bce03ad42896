"""What a model says to a tool that isn't an object: nothing at all, or plain text."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from extproc.toolcalls.lexer import Lexer
from extproc.toolcalls.line import QUOTES


@dataclass(frozen=True, slots=True)
class PlainTextEnds:
    """The markers that end a text."""

    said: str
    """It shows that the text was said to the tool."""
    others: Collection[str]
    """They show that it wasn't."""
    lexer: Lexer = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lexer", Lexer((self.said, *self.others)))


class PlainText:
    """A text up to one of its ends. All of it is kept, as only the end shows what it was."""

    __slots__ = ("_ends", "_pieces", "begun", "done", "is_said")

    def __init__(self, ends: PlainTextEnds) -> None:
        self.begun = False
        self.done = False
        self.is_said = False
        self._ends = ends
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def keep(self, piece: str) -> None:
        if piece:
            self._pieces.append(piece)

    def scan(self, text: str, position: int) -> int:
        while not self.done:
            found = self._ends.lexer.find(text, position)
            at, marker = found or (len(text), None)
            self.keep(text[position:at])
            if marker is None:
                return at
            position = at
            end = at + len(marker)
            quote = self._pieces[-1][-1] if self._pieces else ""
            if quote and quote in QUOTES:
                if end == len(text):
                    return at
                if text[end] == quote:
                    self.keep(marker)  # the text only speaks of it
                    position = end
                    continue
            self.done, self.is_said = True, marker == self._ends.said
        return position


class EmptyList:
    """`[]`, of which the first bracket has come; or something else."""

    __slots__ = ("done", "is_empty")

    def __init__(self) -> None:
        self.done = False
        self.is_empty = False

    def scan(self, text: str, position: int) -> int:
        while position < len(text) and text[position].isspace():
            position += 1
        if position < len(text):
            self.done, self.is_empty = True, text[position] == "]"
            position += self.is_empty
        return position
