"""Spellings that reach into values: Python's, Gemma's, and elements in elements."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from extproc.toolcalls.syntax.arguments import Harmless, Member, Spelled, Style


class _Number(str):
    """A number as it was spelled: `1.0`, `1e5`, integers of any size."""


def value_of(text: str) -> Any:
    """What a JSON text means; its numbers stay text."""
    return json.loads(text, parse_int=_Number, parse_float=_Number)


_CONSTANTS = {None: "null", True: "true", False: "false"}


@dataclass(frozen=True, slots=True)
class PythonKeywords(Spelled):
    """`key='text', other=[1]`, or `**{'a key': 1}` when some key is no identifier."""

    style: Style | None = None
    json_values: bool = False
    """Only strings are Python's, everything else is JSON."""

    def spell(self, arguments: Sequence[Member], harmless: Harmless, /) -> str:
        spelled = [(harmless(key), self._value(value, harmless)) for key, value in arguments]
        if all(key.isidentifier() for key, _ in spelled):
            return ", ".join(f"{key}={value}" for key, value in spelled)
        return "**{" + ", ".join(f"{key!r}: {value}" for key, value in spelled) + "}"

    def _value(self, text: str, harmless: Harmless) -> str:
        if self.json_values and not text.startswith('"'):
            return harmless(text)
        return python_literal(value_of(text), harmless)


@dataclass(frozen=True, slots=True)
class PythonDictionary(Spelled):
    """`{'key': 'text', 'other': [1]}`."""

    style: Style | None = None

    def spell(self, arguments: Sequence[Member], harmless: Harmless, /) -> str:
        return python_literal({key: value_of(value) for key, value in arguments}, harmless, _literal)


_NOT_IN_JSON = re.compile(r"\\[xU]")


def _literal(text: str) -> str:
    """As Python spells it. What stands in double quotes, because of an apostrophe, is read as JSON though."""
    literal = repr(text)
    if literal.startswith('"') and _NOT_IN_JSON.search(literal):
        return "'" + repr('"' + text)[2:]
    return literal


def python_literal(value: Any, harmless: Harmless, spell: Callable[[str], str] = repr) -> str:
    match value:
        case _Number():
            return str(value)
        case str():
            return spell(harmless(value))
        case Mapping():
            inside = (f"{spell(harmless(key))}: {python_literal(one, harmless, spell)}" for key, one in value.items())
            return "{" + ", ".join(inside) + "}"
        case list():
            return "[" + ", ".join(python_literal(one, harmless, spell) for one in value) + "]"
        case _:
            return repr(value)


_BARE_KEY = re.compile(r"[\w.\-]+")


@dataclass(frozen=True, slots=True)
class BareKeys(Spelled):
    """Gemma's `key:<|"|>text<|"|>,o:{n:1}`, without the outermost brackets. A string can't hold the delimiter."""

    style: Style | None = None
    delimiter: str = '<|"|>'

    @property
    def markup(self) -> tuple[str, ...]:
        return (self.delimiter,)

    def spell(self, arguments: Sequence[Member], harmless: Harmless, /) -> str:
        return self._members({key: value_of(value) for key, value in arguments}, harmless)

    def _members(self, object_: Mapping[str, Any], harmless: Harmless) -> str:
        return ",".join(f"{self._key(harmless(key))}:{self._value(value, harmless)}" for key, value in object_.items())

    def _key(self, key: str) -> str:
        return key if _BARE_KEY.fullmatch(key) else self.delimiter + key + self.delimiter

    def _value(self, value: Any, harmless: Harmless) -> str:
        match value:
            case _Number():
                return str(value)
            case str():
                return self.delimiter + harmless(value) + self.delimiter
            case Mapping():
                return "{" + self._members(value, harmless) + "}"
            case list():
                return "[" + ",".join(self._value(one, harmless) for one in value) + "]"
            case _:
                return _CONSTANTS[value]


@dataclass(frozen=True, slots=True)
class NestedElements(Spelled):
    """`<key>value</key>`, every tag behind `marker`; objects are elements in an element, lists are `item` elements.

    A string can't hold the marker, and an object's key has to be fit for a tag.
    """

    style: Style | None
    marker: str

    @property
    def markup(self) -> tuple[str, ...]:
        return (self.marker,)

    def spell(self, arguments: Sequence[Member], harmless: Harmless, /) -> str:
        return "".join(self._element(key, value_of(value), harmless) for key, value in arguments)

    def _element(self, key: str, value: Any, harmless: Harmless) -> str:
        match value:
            case _Number():
                inside = str(value)
            case str():
                inside = harmless(value)
            case Mapping():
                inside = "".join(self._element(name, one, harmless) for name, one in value.items())
            case list():
                inside = "".join(self._element("item", one, harmless) for one in value)
            case _:
                inside = _CONSTANTS[value]
        tag = harmless(key)
        return f"{self.marker}<{tag}>{inside}{self.marker}</{tag}>"
