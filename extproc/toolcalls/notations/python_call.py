"""Reads one call in Python's syntax, `name(key=value, ...)`, as it arrives, and hands its arguments on as JSON.

Values are Python's literals, and what models write for them: `true` and `null`, words without quotes, quotes that
should have been escaped. Integers of any size and `1.0` keep their spelling. An expression that is no literal is
handed on as the text it is; nothing is ever evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from extproc.toolcalls.names import offered_name
from extproc.toolcalls.notations.json_call import JsonCall
from extproc.toolcalls.notations.lenient_notation import JSON_NUMBER, JSON_WORDS, Notation, Place, Shape
from extproc.toolcalls.notations.lenient_scanner import LenientScanner
from extproc.toolcalls.notations.quoted_text import json_text
from extproc.toolcalls.notations.values import allowed_types, parameter_schemas
from extproc.toolcalls.states import State
from extproc.toolcalls.table import Body, Reader, Verdict, left_by

_lead = re.compile(r"[\s\[]*").match

_DIGITS = r"[0-9](?:_?[0-9])*"
_DECIMAL = re.compile(rf"([+-]?)((?:{_DIGITS})?)(\.(?:{_DIGITS})?)?([eE][+-]?{_DIGITS})?")
_OTHER_BASE = re.compile(r"[+-]?0(?:[xX](?:_?[0-9a-fA-F])+|[oO](?:_?[0-7])+|[bB](?:_?[01])+)")
_LONGEST_OTHER_BASE = 1000  # Python refuses to spell out much larger integers


def python_word(word: str) -> str:
    """The JSON of what is neither string nor brackets: a number or a constant, else its text."""
    if word in JSON_WORDS:
        return JSON_WORDS[word]
    if JSON_NUMBER.fullmatch(word):
        return word
    if len(word) <= _LONGEST_OTHER_BASE and _OTHER_BASE.fullmatch(word):
        return str(int(word, 0))
    number = _DECIMAL.fullmatch(word)
    if number is None or not any(character.isdigit() for character in (number[2] + (number[3] or ""))[:2]):
        return json_text(word)
    sign, whole, fraction, exponent = (part.replace("_", "") for part in number.groups(""))
    if fraction == ".":
        fraction = ".0"
    digits = whole.lstrip("0") or "0"
    if digits != whole and whole.strip("0") and not fraction and not exponent:
        return json_text(word)  # `007` is no number in Python
    return ("-" if sign == "-" else "") + digits + fraction + exponent


_NOTATIONS = {place: Notation(python_word, place=place) for place in Place}


_UNMARKED = frozenset({Place.BARE_LIST, Place.FENCE})
_JSON_LISTS = frozenset({Place.BARE_LIST, Place.LIST})


@dataclass(frozen=True, slots=True)
class PythonCall(Body):
    """A call such as `f(a='x', b=[1])`, and the `[` that opens a list of them.

    Where no marker says "call", only an offered tool's name is one, with arguments that are named or literals, or with
    none. A list may also hold the calls as JSON.
    """

    place: Place = Place.LIST

    def reader(self, tools: Mapping[str, Any], name: str | None) -> Reader:
        return PythonCallReader(self.place, tools)


_LONGEST_HEAD = 256
_NAME = r"(?P<name>[\w.\-]+)[ \t]*\("
_PLAIN_HEAD = re.compile(_NAME).match
# What models write around a call: `result = f()`, `print(f())`.
_HEAD = re.compile(
    rf"(?:(?:await|return)[ \t]+|[^\W\d]\w*[ \t]*=(?!=)[ \t]*){{0,3}}(?P<wrapper>print[ \t]*\([ \t]*)?{_NAME}"
).match
_HEAD_SO_FAR = re.compile(r"(?:print[ \t]*\(|[\w.\-= \t])*+").match
_WORD = re.compile(r"(?P<name>[\w.\-]*+)[ \t]*+").match


class PythonCallReader(LenientScanner):
    """One call, from its name, or the `[` before it, to the bracket behind its arguments. See `table.Reader`."""

    __slots__ = ("_head", "_json", "_name", "_place", "_tools")

    def __init__(self, place: Place, tools: Mapping[str, Any]) -> None:
        super().__init__(_NOTATIONS[place], Shape.CALL, strict=place in _UNMARKED)
        self._place = place
        self._tools = tools
        self._head = ""  # what came before the arguments
        self._name: str | None = None
        self._json: Reader | None = None
        self._step = PythonCallReader._before

    @property
    def name(self) -> str | None:
        """The tool's name; only a bracket tells where it ends."""
        return self._name if self._json is None else self._json.name

    def end_of_input(self) -> None:
        if self._json is None:
            super().end_of_input()
            return
        self._json.end_of_input()
        self._follow_json(self._json)

    def _before(self, text: str, position: int) -> int:
        """Brackets, blanks and comments."""
        lead = _lead(text, position)
        position = position if lead is None else lead.end()
        if position == len(text):
            return position
        if text[position] == "#" and self._place is not Place.BARE_LIST:
            end = self._comment(text, position)
            return self._reject(position) if end is None else end
        if text[position] == "{" and self._place in _JSON_LISTS:
            self._json = JsonCall(then=State.PROSE, offered_only=self._strict).reader(self._tools, None)
            self._step = PythonCallReader._in_json
        else:
            self._step = PythonCallReader._in_head
        return position

    def _in_json(self, text: str, position: int) -> int:
        assert self._json is not None  # made on the way here
        end = self._json.scan(text, position)
        self._follow_json(self._json)
        return end

    def _follow_json(self, json: Reader) -> None:
        self.verdict, self.done, self.whole, self.left = json.verdict, json.done, json.whole, left_by(json)
        self._out.append(json.take())

    def _in_head(self, text: str, position: int) -> int:
        """The name and a bracket, perhaps with a variable or `print` before."""
        before = len(self._head)
        head = self._head + text[position : position + _LONGEST_HEAD - before]
        plain = self._place is Place.BARE_LIST
        found = _PLAIN_HEAD(head) if plain else _HEAD(head)
        if found is not None and (found["name"] != "print" or "print" in self._tools):
            name = _called(found["name"], self._tools)
            if name in self._tools or self._place not in _UNMARKED:
                self._begin_arguments(name, wrapped=not plain and found["wrapper"] is not None)
                return position + found.end() - before
        end = self._end_of_word(head) if plain else _end_of_head(head)
        if end < len(head) or end == _LONGEST_HEAD:
            self._reject(position)
        self._head = head
        return position + end - before

    def _reject(self, position: int) -> int:
        self.verdict = Verdict.NOT_A_CALL
        self.done = True
        return position

    def _end_of_word(self, head: str) -> int:
        """How far this may be the head of a bare call: its name has to be a tool's as soon as it is whole."""
        word = _WORD(head)
        assert word is not None  # it may match nothing
        name = word["name"]
        is_whole = len(name) < len(head)
        return len(name) if is_whole and _called(name, self._tools) not in self._tools else word.end()

    def _begin_arguments(self, name: str, *, wrapped: bool) -> None:
        self._name = name
        if wrapped:
            self._notation = _NOTATIONS[Place.WRAPPED]
        root, properties = parameter_schemas(self._tools.get(name, {}))
        self._positions = tuple(properties)
        self._takes_object = any("object" in allowed_types(schema, root) for schema in list(properties.values())[:1])
        self.begin()


def _end_of_head(head: str) -> int:
    so_far = _HEAD_SO_FAR(head)
    assert so_far is not None  # it may match nothing
    return so_far.end()


def _called(name: str, offered: Collection[str]) -> str:
    """The offered tool that the name surely means; it may be said to belong to something: `api.f`."""
    known = offered_name(name, offered)
    rest = name
    while known not in offered and "." in rest:
        rest = rest.partition(".")[2]
        if rest in offered:
            return rest
    return known
