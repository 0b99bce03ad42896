"""Reads a call's arguments when they are nested elements: `<key>value</key>`, every tag behind one marker.

Elements inside an element make it an object, `item` elements a list; text makes it a leaf, which the schema types.
Which of them an element is shows only in what follows, so an element leaves when that is known: a leaf when it is
complete, except that a long text leaves as it comes.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from extproc.toolcalls.lexer import Lexer
from extproc.toolcalls.table import Body, Reader, Verdict
from extproc.toolcalls.values import STRING, allowed_types, parameter_schemas, quoted, typed

_LONG = 32  # characters after which a text that can only be a string leaves as it comes
_ITEM = "item"
_LONGEST_TAG = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedElements(Body):
    """Elements up to the tag that closes the call, which belongs to it."""

    marker: str
    """What stands before every tag."""
    closing: str
    """The name in the tag that closes the call."""

    def reader(self, tools: Mapping[str, Any], name: str | None) -> Reader:
        return NestedElementsReader(self, name, tools.get(name or ""))


class _Kind(enum.Enum):
    UNKNOWN = enum.auto()
    TEXT = enum.auto()
    OBJECT = enum.auto()
    LIST = enum.auto()


@dataclass(slots=True)
class _Element:
    tag: str
    schema: Any
    kind: _Kind = _Kind.UNKNOWN
    members: int = 0
    streams: bool = False
    """A text whose beginning has left already."""
    pieces: list[str] = field(default_factory=list)
    size: int = 0


class NestedElementsReader:
    """See `table.Reader`."""

    __slots__ = ("_held", "_in_tag", "_lexer", "_open", "_out", "_root", "_table", "done", "name", "verdict", "whole")

    def __init__(self, table: NestedElements, name: str | None, tool: Mapping[str, Any] | None) -> None:
        self.name = name
        self.verdict = Verdict.UNDECIDED
        self.done = False
        self.whole = False
        self._table = table
        self._lexer = Lexer([table.marker])
        self._root, _ = parameter_schemas(tool or {})
        self._open = [_Element("", self._root, _Kind.OBJECT)]
        self._out: list[str] = []
        self._held = ""  # the beginning of a marker or of a tag
        self._in_tag = False

    def take(self) -> str:
        taken = "".join(self._out)
        self._out.clear()
        return taken

    def scan(self, text: str, position: int) -> int:
        start = position
        offset = len(self._held)
        text, position = self._held + text[position:], 0
        self._held = ""
        while position < len(text) and not self.done:
            position = self._tag(text, position) if self._in_tag else self._text(text, position)
        return start + position - offset

    def end_of_input(self) -> None:
        if self.done:
            return
        self.done = True
        element = self._open[-1]
        if element.kind is _Kind.UNKNOWN and element.pieces:
            self._member(self._open[-2], element.tag)
            self._out.append(quoted("".join(element.pieces))[:-1])

    def _text(self, text: str, position: int) -> int:
        found = self._lexer.find(text, position)
        at, marker = (len(text), None) if found is None else found
        self._characters(text[position:at])
        if marker is None:
            self._held = text[at:]
            return len(text)
        self._in_tag = True
        return at + len(marker)

    def _tag(self, text: str, position: int) -> int:
        end = text.find(">", position)
        if end < 0 and len(text) - position < _LONGEST_TAG:
            self._held = text[position:]
            return len(text)
        self._in_tag = False
        tag = text[position + 1 : end].strip()
        if end < 0 or text[position] != "<":
            return position  # no tag: the marker stands for nothing, and text goes on
        if tag == "/" + self._table.closing:
            self._end_call()
        elif tag.startswith("/"):
            self._close(tag[1:].strip())
        else:
            self._begin(tag)
        return end + 1

    def _characters(self, text: str) -> None:
        element = self._open[-1]
        if not text or element.kind in (_Kind.OBJECT, _Kind.LIST):
            return  # what stands between elements means nothing
        if element.streams:
            self._out.append(quoted(text)[1:-1])
            return
        element.pieces.append(text)
        element.size += len(text)
        if element.size > _LONG and self._types(element) == STRING:
            element.kind = _Kind.TEXT
            element.streams = True
            self._member(self._open[-2], element.tag)
            self._out.append(quoted("".join(element.pieces))[:-1])
            element.pieces.clear()

    def _begin(self, tag: str) -> None:
        parent = self._open[-1]
        if parent.kind is _Kind.TEXT or (parent.kind is _Kind.UNKNOWN and "".join(parent.pieces).strip()):
            self._close(parent.tag)  # its closing tag is missing
            parent = self._open[-1]
        if parent.kind is _Kind.UNKNOWN:
            parent.kind = _Kind.LIST if tag == _ITEM else _Kind.OBJECT
            self._member(self._open[-2], parent.tag)
        self._open.append(_Element(tag, self._schema_of(parent, tag)))

    def _close(self, tag: str) -> None:
        if not any(element.tag == tag for element in self._open[1:]):
            return  # one too many
        while self._close_last() != tag:
            pass

    def _close_last(self) -> str:
        element = self._open.pop()
        if element.streams:
            self._out.append('"')
        elif element.kind in (_Kind.OBJECT, _Kind.LIST):
            opening, closing = ("{", "}") if element.kind is _Kind.OBJECT else ("[", "]")
            self._out.append(closing if element.members else opening + closing)
        else:
            self._member(self._open[-1], element.tag)
            self._out.append(_leaf("".join(element.pieces), self._types(element)))
        return element.tag

    def _member(self, parent: _Element, tag: str) -> None:
        self.verdict = Verdict.CALL
        opening = "[" if parent.kind is _Kind.LIST else "{"
        self._out.append(", " if parent.members else opening)
        if parent.kind is not _Kind.LIST:
            self._out.append(quoted(tag) + ": ")
        parent.members += 1

    def _end_call(self) -> None:
        while self._open:
            if len(self._open) == 1 and not self._open[0].members:
                self._open.pop()
                self._out.append("{}")
            else:
                self._close_last()
        self.verdict = Verdict.CALL
        self.done = self.whole = True

    def _types(self, element: _Element) -> frozenset[str]:
        return allowed_types(element.schema, self._root)

    def _schema_of(self, parent: _Element, tag: str) -> Any:
        if not isinstance(parent.schema, Mapping):
            return None
        if parent.kind is _Kind.LIST:
            return parent.schema.get("items")
        properties = parent.schema.get("properties")
        return properties.get(tag) if isinstance(properties, Mapping) else None


def _leaf(text: str, types: frozenset[str]) -> str:
    """The JSON text of an element without elements: an empty one may be an empty container."""
    if not text.strip() and "string" not in types:
        if "array" in types:
            return "[]"
        if "object" in types:
            return "{}"
    return typed(text, types)
