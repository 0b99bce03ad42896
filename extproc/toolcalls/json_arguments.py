"""Reads a call's arguments when they are a JSON object of their own and a marker has told the tool's name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from extproc.toolcalls.json_scanner import JsonValue
from extproc.toolcalls.table import Body, Reader, Verdict


@dataclass(frozen=True, slots=True)
class JsonArguments(Body):
    """A JSON object, handed on verbatim. Anything else shows that this was no call."""

    offered_only: bool = False
    """So does the name of a tool that isn't offered: no marker has said that a call comes."""

    def reader(self, tools: Mapping[str, Any], name: str | None) -> Reader:
        return JsonArgumentsReader(name, may_be_call=not self.offered_only or name in tools)


class JsonArgumentsReader:
    """See `table.Reader`."""

    __slots__ = ("_may_be_call", "_pieces", "_value", "done", "name", "verdict", "whole")

    def __init__(self, name: str | None, *, may_be_call: bool = True) -> None:
        self.name = name
        self._may_be_call = may_be_call
        self.verdict = Verdict.UNDECIDED
        self.done = False
        self.whole = False
        self._value = JsonValue()
        self._pieces: list[str] = []

    def take(self) -> str:
        taken = "".join(self._pieces)
        self._pieces.clear()
        return taken

    def scan(self, text: str, position: int) -> int:
        if self.verdict is Verdict.UNDECIDED:
            while position < len(text) and text[position].isspace():
                position += 1
            if position == len(text):
                return position
            if text[position] != "{" or not self._may_be_call:
                self.done = True
                self.verdict = Verdict.NOT_A_CALL
                return position
            self.verdict = Verdict.CALL
        position, piece = self._value.scan(text, position)
        self._pieces.append(piece)
        if self._value.done:
            self.done = self.whole = True
        elif position < len(text):
            # A marker outside of any string: the model forgot to close what it opened.
            self.done = True
            self._pieces.append(self._value.closers())
        return position

    def end_of_input(self) -> None:
        self.done = True
