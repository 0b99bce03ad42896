"""Reads a call's arguments when they are a JSON object of their own and a marker has told the tool's name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from extproc.toolcalls.notations.json_encoded import QuotedArguments
from extproc.toolcalls.notations.json_scanner import JsonValue
from extproc.toolcalls.notations.json_words import BareWord, Place
from extproc.toolcalls.notations.plain_text import EmptyList, PlainText, PlainTextEnds
from extproc.toolcalls.repairs import Repair
from extproc.toolcalls.table import Body, Reader, Verdict

NO_ARGUMENTS = frozenset({"null", '"null"', '"None"', '""', '" "'})
"""What is written where there are none. Words of other languages have become JSON by then."""

_LONGEST_PLAIN = 512
"""Characters of a string after which it is clear that it holds no arguments."""


@dataclass(frozen=True, slots=True)
class JsonArguments(Body):
    """A JSON object, also one that is encoded twice, an empty list, or null. Anything else shows that this was no call,
    unless it is said to an offered tool up to one of the `plain` ends."""

    offered_only: bool = False
    """So does the name of a tool that isn't offered: no marker has said that a call comes."""
    plain: PlainTextEnds | None = None

    def reader(self, tools: Mapping[str, Any], name: str | None) -> Reader:
        plain = PlainText(self.plain) if self.plain is not None and name in tools else None
        return JsonArgumentsReader(name, may_be_call=not self.offered_only or name in tools, plain=plain)


class JsonArgumentsReader:
    """See `table.Reader`."""

    __slots__ = ("_may_be_call", "_part", "_plain", "_ready", "_room", "done", "left", "name", "verdict", "whole")

    def __init__(self, name: str | None, *, may_be_call: bool = True, plain: PlainText | None = None) -> None:
        self.name = name
        self._may_be_call = may_be_call
        self.verdict = Verdict.UNDECIDED
        self.done = False
        self.whole = False
        self.left = ""
        self._part: JsonValue | QuotedArguments | BareWord | EmptyList | None = None
        self._plain = plain
        self._ready = ""
        self._room = _LONGEST_PLAIN

    @property
    def repair(self) -> Repair | None:
        """See `table.repair_of`."""
        return self._part.repair if isinstance(self._part, JsonValue | QuotedArguments) else None

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
            self.left = part.rest
            return position
        if self._plain is None:
            return self._other(text, position)
        return self._perhaps_plain(self._plain, text, position)

    def _perhaps_plain(self, plain: PlainText, text: str, position: int) -> int:
        """What is no arguments may have been said to the tool nevertheless."""
        start = position
        if not plain.begun:
            position = self._other(text, position)
            if self.verdict is Verdict.CALL or not self.done:
                plain.keep(text[start:position])
                return position
            plain.begun, self.done, self.verdict = True, False, Verdict.UNDECIDED
            plain.keep(text[start:position])
        position = plain.scan(text, position)
        if plain.done:
            self._end_plain(plain, said=plain.is_said)
        return position

    def _end_plain(self, plain: PlainText, *, said: bool) -> None:
        self.done = True
        self.verdict = Verdict.CALL if said else Verdict.NOT_A_CALL
        self._ready = plain.text if said else ""

    def _other(self, text: str, position: int) -> int:
        """What is no object, or not yet."""
        part = self._part
        if part is None:
            while position < len(text) and text[position].isspace():
                position += 1
            return position if position == len(text) else self._begin(text, position)
        if isinstance(part, QuotedArguments):
            return self._quoted(part, text, position)
        if isinstance(part, EmptyList):
            position = part.scan(text, position)
            if part.done:
                self._end_without_object("null" if part.is_empty else "")
            return position
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
            case "[":
                self._part = EmptyList()
                position += 1
            case _:
                self._end_without_object("")
                return position
        if position == len(text):
            return position
        return self.scan(text, position) if character == "{" else self._other(text, position)

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
                self.done, self.whole, self.left = True, part.sound, part.rest
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
        if self._plain is not None and self._plain.begun:
            self._end_plain(self._plain, said=True)
            return
        match self._part:
            case JsonValue() as value:
                self._ready += value.end_of_input()
                self.whole = value.done and value.sound
                self.left = value.rest
            case QuotedArguments() as quoted:
                self._ready += quoted.end_of_input()
            case BareWord() as word if word.end() == "null":
                self.whole = True
                self.verdict = Verdict.CALL
