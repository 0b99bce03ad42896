"""Reads arguments as the Gemma models write them, `{key:<|"|>text<|"|>,n:42,o:{list:[1,2]}}`, as they arrive.

Keys are bare, strings stand between markers and nothing in them is escaped. Quotes in their place are understood too,
and a word that is neither a number nor a constant is a string.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from extproc.toolcalls.notations.delimited_text import StringMarkers
from extproc.toolcalls.notations.lenient_notation import JSON_NUMBER, JSON_WORDS, Notation, Shape
from extproc.toolcalls.notations.lenient_scanner import LenientScanner
from extproc.toolcalls.notations.quoted_text import json_text
from extproc.toolcalls.notations.values import allowed_types, parameter_schemas
from extproc.toolcalls.table import Body, Reader

_NUMERIC = frozenset({"integer", "number"})
_PADDED = re.compile(r"\A(-?)0+(?=[0-9])")


def lenient_word(word: str) -> str:
    """The JSON of a bare word."""
    return JSON_WORDS.get(word) or (word if JSON_NUMBER.fullmatch(word) else json_text(word))


@dataclass(frozen=True, slots=True, kw_only=True)
class LenientArguments(Body):
    """An object with bare keys, behind the marker that told the tool's name. Brackets may stand around it, or in place
    of its own."""

    markers: StringMarkers
    notation: Notation = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "notation", Notation(lenient_word, self.markers))

    def reader(self, tools: Mapping[str, Any], name: str | None) -> Reader:
        root, properties = parameter_schemas(tools.get(name or "", {}))
        numbers = {key for key, schema in properties.items() if frozenset() < allowed_types(schema, root) <= _NUMERIC}
        return LenientArgumentsReader(self.notation, name, frozenset(numbers))


class LenientArgumentsReader(LenientScanner):
    """One object; its first key shows that the call has begun."""

    __slots__ = ("_numbers", "name")

    def __init__(self, notation: Notation, name: str | None, numbers: frozenset[str]) -> None:
        """`numbers`: the parameters that can be nothing else."""
        super().__init__(notation, Shape.OBJECT)
        self.name = name
        self._numbers = numbers
        self._step = LenientArgumentsReader._opening

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

    def _end_word(self) -> None:
        if not self._at_key and len(self._open) == 1 and self._key[0] in self._numbers:
            word = "".join(self._parts).strip()
            self._parts[:] = [_PADDED.sub(r"\1", word)]
        super()._end_word()
