"""Reads a call's arguments when they are a JSON object of their own and a marker has told the tool's name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from extproc.toolcalls.json_encoded import QuotedArguments
from extproc.toolcalls.json_scanner import JsonValue
from extproc.toolcalls.json_words import BareWord, Place
from extproc.toolcalls.table import Body, Reader, Verdict

NO_ARGUMENTS = frozenset({"null", '"null"', '"None"', '""', '" "'})
"""What is written where there are none. Words of other languages have become JSON by then."""

_LONGEST_PLAIN = 512
"""Characters of a string after which it is clear that it holds no arguments."""


@dataclass(frozen=True, slots=True)
class JsonArguments(Body):
    """A JSON object, also one that is encoded twice, or null. Anything else shows that this was no call."""

    offered_only: bool = False
    """So does the name of a tool that isn't offered: no marker has said that a call comes."""

    def reader(self, tools: Mapping[str, Any], name: str | None) -> Reader:
        return JsonArgumentsReader(name, may_be_call=not self.offered_only or name in tools)


class JsonArgumentsReader:
    """See `table.Reader`."""

    __slots__ = ("_may_be_call", "_part", "_ready", "_room", "done", "name", "verdict", "whole")

    def __init__(self, name: str | None, *, may_be_call: bool = True) -> None:
        self.name = name
        self._may_be_call = may_be_call
        self.verdict = Verdict.UNDECIDED
        self.done = False
        self.whole = False
        self._part: JsonValue | QuotedArguments | BareWord | None = None
        self._ready = ""
        self._room = _LONGEST_PLAIN

    def take(self) -> str:
        taken = self._ready
        self._ready = ""
        return taken

    def scan(self, text: str, position: int) -> int:
        part = self._part
        if type(part) is JsonValue:
            position, piece = part.scan(text, position)
            self._ready += piece
            if part.done:
                self.done, self.whole = True, part.sound
            elif position < len(text):
                # A marker outside of any string: the model forgot to close what it opened.
                self.done = True
                self._ready += part.break_off()
            return position
        if part is None:
            while position < len(text) and text[position].isspace():
                position += 1
            return position if position == len(text) else self._begin(text, position)
        if isinstance(part, QuotedArguments):
            return self._quoted(part, text, position)
        assert isinstance(part, BareWord)  # nothing else is left
        position, word = part.scan(text, position)
        if part.done:
            self._end_without_object(word)
        return position

    def _begin(self, text: str, position: int) -> int:
        character = text[position]
        match character:
            case _ if not self._may_be_call:
                self._end_without_object("")
                return position
            case "{":
                self._part = JsonValue()
                self.verdict = Verdict.CALL
            case '"' | "'":
                self._part = QuotedArguments(character)
                position += 1
            case "n" | "N":
                self._part = BareWord(Place.ALONE)
            case _:
                self._end_without_object("")
                return position
        return self.scan(text, position) if position < len(text) else position

    def _quoted(self, part: QuotedArguments, text: str, position: int) -> int:
        while position < len(text) and not self.done:
            if part.is_object:
                end = len(text)
            elif self._room:
                end = min(len(text), position + self._room)
                self._room -= end - position
            else:
                self._end_without_object("")
                break
            position, piece = part.scan(text[:end], position)
            self._ready += piece
            if part.is_object:
                self.verdict = Verdict.CALL
            if part.done and part.is_object:
                self.done, self.whole = True, part.sound
            elif part.done:
                self._end_without_object(part.plain)
            elif position < end:
                break
        return position

    def _end_without_object(self, json: str) -> None:
        self.done = True
        self.whole = json in NO_ARGUMENTS
        self.verdict = Verdict.CALL if self.whole else Verdict.NOT_A_CALL

    def end_of_input(self) -> None:
        self.done = True
        match self._part:
            case JsonValue() as value:
                self._ready += value.end_of_input()
                self.whole = value.done and value.sound
            case QuotedArguments() as quoted:
                self._ready += quoted.end_of_input()
            case BareWord() as word if word.end() == "null":
                self.whole = True
                self.verdict = Verdict.CALL
