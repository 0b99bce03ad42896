"""Reads arguments as the Gemma models write them, `{key:<|"|>text<|"|>,n:42,o:{list:[1,2]}}`, as they arrive.

Keys are bare, strings stand between markers and nothing in them is escaped. Quotes in their place are understood too,
and a word that is neither a number nor a constant is a string.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from extproc.toolcalls.delimited_text import StringMarkers
from extproc.toolcalls.loose_notation import JSON_NUMBER, JSON_WORDS, Notation, Shape
from extproc.toolcalls.loose_scanner import LooseScanner
from extproc.toolcalls.quoted_text import json_text
from extproc.toolcalls.table import Body, Reader


def loose_word(word: str) -> str:
    """The JSON of a bare word."""
    return JSON_WORDS.get(word) or (word if JSON_NUMBER.fullmatch(word) else json_text(word))


@dataclass(frozen=True, slots=True, kw_only=True)
class LooseArguments(Body):
    """An object with bare keys, behind the marker that told the tool's name. Brackets may stand around it, or in place
    of its own."""

    markers: StringMarkers
    notation: Notation = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "notation", Notation(loose_word, self.markers))

    def reader(self, tools: Mapping[str, Any], name: str | None) -> Reader:
        return LooseArgumentsReader(self.notation, name)


class LooseArgumentsReader(LooseScanner):
    """One object; its first key shows that the call has begun."""

    __slots__ = ("name",)

    def __init__(self, notation: Notation, name: str | None) -> None:
        super().__init__(notation, Shape.OBJECT)
        self.name = name
        self._step = LooseArgumentsReader._opening

    def _opening(self, text: str, position: int) -> int:
        """The bracket that led here, and perhaps another. Round ones alone may also be a remark's."""
        character = text[position]
        if character == "(":
            self._notation = replace(self._notation, rounded=True)
            self._strict = True
            return position + 1
        if character.isspace():
            return position + 1
        self.begin()
        if character != "{":
            return position
        self._strict = False
        return position + 1
