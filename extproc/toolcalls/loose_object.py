"""Reads arguments as the Gemma models write them, `{key:<|"|>text<|"|>,n:42,o:{list:[1,2]}}`, as they arrive.

Keys are bare, strings stand between markers and nothing in them is escaped. Quotes in their place are understood too,
and a word that is neither a number nor a constant is a string.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from extproc.toolcalls.loose_notation import JSON_NUMBER, JSON_WORDS, Notation, Shape
from extproc.toolcalls.loose_scanner import LooseScanner
from extproc.toolcalls.quoted_text import json_text
from extproc.toolcalls.table import Body, Reader, Verdict


def loose_word(word: str) -> str:
    """The JSON of a bare word."""
    return JSON_WORDS.get(word) or (word if JSON_NUMBER.fullmatch(word) else json_text(word))


@dataclass(frozen=True, slots=True, kw_only=True)
class LooseArguments(Body):
    """An object with bare keys, behind the marker that told the tool's name."""

    delimiter: str
    """What stands before and behind a string."""
    notation: Notation = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "notation", Notation(loose_word, self.delimiter))

    def reader(self, tools: Mapping[str, Any], name: str | None) -> Reader:
        return LooseArgumentsReader(self.notation, name)


class LooseArgumentsReader:
    """One object; its first key shows that the call has begun. See `table.Reader`."""

    __slots__ = ("_arguments", "_opened", "done", "name", "verdict", "whole")

    def __init__(self, notation: Notation, name: str | None) -> None:
        self.verdict = Verdict.UNDECIDED
        self.done = False
        self.whole = False
        self.name = name
        self._opened = False
        self._arguments = LooseScanner(notation, Shape.OBJECT)

    def take(self) -> str:
        return self._arguments.take()

    def scan(self, text: str, position: int) -> int:
        if not self._opened:
            self._opened = True
            position += 1  # the bracket that led here
        arguments = self._arguments
        position = arguments.scan(text, position)
        if self.verdict is Verdict.UNDECIDED and (arguments.begun or arguments.done):
            self.verdict = Verdict.CALL
        self.done, self.whole = arguments.done, arguments.whole
        return position

    def end_of_input(self) -> None:
        self._arguments.end_of_input()
        if self._arguments.begun:
            self.verdict = Verdict.CALL
        self.done, self.whole = True, self._arguments.whole
