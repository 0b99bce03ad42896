"""Reads a call that may be one of those before it, said once more without being meant again.

Made twice, such a call could do harm. So it is kept until it is complete: then it is markup if it was called already
with the same arguments, a call if its tool is an offered one, and text otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Set

from extproc.toolcalls.repairs import Repair
from extproc.toolcalls.table import Reader, Verdict, left_by, repair_of


class RepeatedCall:
    """`reader` reads the call; `made` are the calls before it. See `table.Reader`."""

    __slots__ = ("_made", "_offered", "_pieces", "_reader", "done", "left", "verdict", "whole")

    def __init__(self, reader: Reader, made: Set[tuple[str, str]], offered: Collection[str]) -> None:
        self.verdict = Verdict.UNDECIDED
        self.done = False
        self.whole = False
        self.left = ""
        self._reader = reader
        self._made = made
        self._offered = offered
        self._pieces: list[str] = []

    @property
    def name(self) -> str | None:
        return self._reader.name if self.verdict is Verdict.CALL else None

    @property
    def repair(self) -> Repair | None:
        """See `table.repair_of`."""
        return repair_of(self._reader)

    def take(self) -> str:
        if self.verdict is not Verdict.CALL:
            return ""
        arguments = "".join(self._pieces)
        self._pieces.clear()
        return arguments

    def scan(self, text: str, position: int) -> int:
        end = self._reader.scan(text, position)
        self._pieces.append(self._reader.take())
        if self._reader.done:
            self._decide()
        return end

    def end_of_input(self) -> None:
        self._reader.end_of_input()
        self._pieces.append(self._reader.take())
        self._decide()

    def _decide(self) -> None:
        reader = self._reader
        self.done, self.whole, self.left = True, reader.whole, left_by(reader)
        name, arguments = reader.name, "".join(self._pieces)
        if name is None or reader.verdict is not Verdict.CALL:
            self.verdict = Verdict.NOT_A_CALL
        elif self._is_made(name, arguments):
            self.verdict = Verdict.MARKUP
        else:
            self.verdict = Verdict.CALL if name in self._offered else Verdict.NOT_A_CALL

    def _is_made(self, name: str, arguments: str) -> bool:
        """Whether this was called; of a call that is cut off, whether it could have become one that was."""
        if self.whole:
            return (name, arguments or "{}") in self._made
        return any(made == name and said.startswith(arguments) for made, said in self._made)
