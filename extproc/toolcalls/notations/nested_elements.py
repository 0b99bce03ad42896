"""Reads a call's arguments when they are nested elements: `<key>value</key>`, every tag behind one marker.

What stands behind a marker and is no tag is text; the marker is nothing then. Attributes say nothing, except that
`<parameter name="key">` opens `key`. The tag of the next call, or one that ends the section of calls, ends a call whose
own end is missing; but not in an element that can only be a string: a call that stands there is quoted. Text before
the first element shows that it was no call, unless it is all arguments as a JSON object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from extproc.toolcalls.lexer import Lexer
from extproc.toolcalls.notations.element_schema import ElementSchema
from extproc.toolcalls.notations.element_writer import ElementWriter
from extproc.toolcalls.notations.values import parameter_schemas
from extproc.toolcalls.table import Body, Reader, Verdict

_LONGEST_TAG = 256
_tag_end = re.compile(r"[<>]").search
_VALUE = r"(?:\"[^\"]*+\"|'[^']*+'|[^\s\"']++)"
_attributes = re.compile(rf"(?P<tag>[^\s=\"']++)(?:\s++[\w:.\-]++\s*+=\s*+{_VALUE})++").fullmatch
_name_attribute = re.compile(r"\sname\s*+=\s*+[\"']?([^\"']++)").search
_PARAMETERS = frozenset(("parameter", "param", "argument", "arg"))


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedElements(Body):
    """Elements up to the tag that closes the call, which belongs to it."""

    marker: str
    """What stands before every tag."""
    call: str
    """The name of the tags around a call."""
    section: str
    """The name of the tags around all calls."""

    def reader(self, tools: Mapping[str, Any], name: str | None) -> Reader:
        return NestedElementsReader(self, name, tools.get(name or ""))


class NestedElementsReader:
    """See `table.Reader`."""

    __slots__ = ("_arguments", "_is_json", "_lexer", "_rest", "_table", "done", "name", "verdict", "whole")

    def __init__(self, table: NestedElements, name: str | None, tool: Mapping[str, Any] | None) -> None:
        self.name = name
        self.verdict = Verdict.UNDECIDED
        self.done = False
        self.whole = False
        self._table = table
        self._lexer = Lexer([table.marker])
        schema, _ = parameter_schemas(tool or {})
        self._arguments = ElementWriter(ElementSchema([schema], schema))
        self._is_json = False  # no element came, but a brace
        self._rest = ""

    def take(self) -> str:
        return self._arguments.take()

    def scan(self, text: str, position: int) -> int:
        while position < len(text) and not self.done:
            found = self._lexer.find(text, position)
            at, marker = (len(text), None) if found is None else found
            if at > position and (start := self._text(text, position, at)) is not None:
                return start
            behind = None if marker is None else self._tag(text, at, at + len(marker))
            position = at if behind is None else behind
            if behind is None:
                break
        self._rest = text[position:]
        return position

    def end_of_input(self) -> None:
        if not self.done:
            self.done = True
            # The beginning of a marker is one, unless it is a bracket.
            self._arguments.cut_off(self._rest if len(self._rest) == 1 else "")

    def _text(self, text: str, position: int, end: int) -> int | None:
        """Text between tags; returns where it begins if it shows that this is no call."""
        piece = text[position:end]
        if self.verdict is Verdict.UNDECIDED and not self._is_json:
            solid = piece.lstrip()
            self._is_json = solid.startswith("{")
            if solid and not self._is_json:
                self._no_call()
                return end - len(solid)
        self._arguments.text(piece)
        return None

    def _no_call(self) -> None:
        self.verdict = Verdict.NOT_A_CALL
        self.done = True

    def _tag(self, text: str, marker: int, start: int) -> int | None:
        """What stands behind a marker; returns where the text goes on, None if more of it has to come first."""
        if start == len(text):
            return None
        end = _tag_end(text, start + 1, start + _LONGEST_TAG)
        if end is None and text[start] == "<" and len(text) < start + _LONGEST_TAG:
            return None
        if end is None or text[start] != "<" or end.group() == "<" or not text[start + 1 : end.start()].strip("/ "):
            return start  # no tag: the marker stands for nothing, and text goes on
        spelled = text[start : end.end()]
        inside = spelled[1:-1].strip()
        closing = inside.startswith("/")
        name = inside.strip("/").strip()
        if closing and name == self._table.call and not self._arguments.is_open(name):
            self._end_call()
            return end.end() if self.whole else marker
        if self._is_outside(closing, name):
            self._end_call()
            return marker  # it belongs to what follows
        if closing:
            self._arguments.close(name, spelled)
        else:
            self._begin(name, spelled, closed=inside.endswith("/"))
        return end.end()

    def _is_outside(self, closing: bool, inside: str) -> bool:
        """Whether a tag is none of this call, whose own end is missing."""
        arguments = self._arguments
        if closing:
            return inside == self._table.section and not arguments.is_open(inside)
        attributes = _attributes(inside)
        opens_call = attributes is not None and attributes["tag"] == self._table.call and _name_attribute(inside)
        return (
            bool(inside == self._table.section or opens_call) and not arguments.in_text and not arguments.knows(inside)
        )

    def _begin(self, inside: str, spelled: str, *, closed: bool) -> None:
        arguments = self._arguments
        tag = key = inside
        if not arguments.knows(inside) and (attributes := _attributes(inside)):
            tag = key = attributes["tag"]
            named = _name_attribute(inside) if tag in _PARAMETERS and not arguments.knows(tag) else None
            key = named[1] if named is not None else tag
        self.verdict = Verdict.CALL
        arguments.begin(tag, key, spelled)
        if closed:
            arguments.close(tag, "")

    def _end_call(self) -> None:
        if not self._arguments.end():
            self._no_call()
            return
        self.verdict = Verdict.CALL
        self.done = self.whole = True
