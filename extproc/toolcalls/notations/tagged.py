"""Writes a call's arguments as JSON while a model names them one by one between tags.

A value that can only be a string leaves as it comes. One that may be something else has to be complete before its
type is known; but as soon as its beginning shows that it can be nothing but a string, it leaves as it comes too.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Any

from extproc.toolcalls.notations.edges import CData, Edges, LineBreaks
from extproc.toolcalls.notations.values import (
    CONTAINERS,
    STRING,
    STRING_OR_NULL,
    allowed_types,
    listed_strings,
    object_members,
    parameter_schemas,
    quoted,
    typed,
)

_LONGEST_WORD = 32  # characters of `null` or `true`, and the white space around it
_WORD_STARTS = frozenset("tfnTFN")
_NUMBER_STARTS = frozenset("-0123456789")
_LOOSE_STARTS = _WORD_STARTS | _NUMBER_STARTS | frozenset("{[\"'+.−(`uU")  # what a value that is no string begins with
_of_number = re.compile(r"[\s0-9.eE+\-]*").fullmatch


class Trim(enum.Enum):
    """What of a value's edges is markup."""

    NOTHING = enum.auto()
    LINE_BREAKS = enum.auto()
    """One line break after the opening tag and one before the closing tag."""
    WRAPPING_LINE_BREAKS = enum.auto()
    """The same, but only when there is one after the opening tag."""
    CDATA = enum.auto()
    """`<![CDATA[` at the beginning and `]]>` at the end, with white space around."""


class ArgumentsWriter:
    """The arguments of one call. `take()` returns the JSON text that has become certain."""

    __slots__ = (
        "_count",
        "_edges",
        "_first",
        "_in_value",
        "_key",
        "_out",
        "_packed",
        "_pieces",
        "_properties",
        "_root",
        "_size",
        "_streams",
        "_types",
    )

    def __init__(self, tool: Mapping[str, Any] | None) -> None:
        self._root, self._properties = parameter_schemas(tool or {})
        self._out: list[str] = []
        self._count = 0
        # The value that is being written:
        self._in_value = False
        self._key = ""
        self._packed = False  # it may hold all arguments
        self._types = STRING
        self._edges: Edges | None = None
        self._streams = False  # its beginning has left already
        self._pieces: list[str] = []  # what came, when it has to be complete first
        self._size = 0  # how much that is
        self._first = ""  # its first character that isn't white space

    @property
    def in_value(self) -> bool:
        return self._in_value

    def begin_value(self, key: str, trim: Trim, types: frozenset[str] | None = None, *, packed: bool = False) -> None:
        """A value for `key` begins; `types` when the output itself says what it is.

        `packed`: if the tool has no such parameter, an object in it holds the arguments themselves.
        """
        self._key = key
        self._packed = packed and bool(self._properties) and key not in self._properties
        self._in_value = True
        self._edges = _edges(trim)
        self._types = types if types is not None else allowed_types(self._properties.get(key), self._root)
        self._streams = self._types == STRING and not self._packed
        self._pieces.clear()
        self._size = 0
        self._first = ""
        if not self._packed:
            self._begin_member()
        if self._streams:
            self._out.append('"')

    def write(self, text: str) -> None:
        """The next piece of the value."""
        if self._edges is not None:
            text = self._edges.inside(text)
        if self._streams:
            self._out.append(quoted(text)[1:-1])
        elif text:
            self._hold(text)

    def _hold(self, text: str) -> None:
        self._pieces.append(text)
        self._size += len(text)
        self._first = self._first or text.lstrip()[:1]
        if not self._packed and not self._may_be_other_than_string(text):
            self._streams = True
            self._out.append(quoted("".join(self._pieces))[:-1])
            self._pieces.clear()

    def _may_be_other_than_string(self, text: str) -> bool:
        """Whether the value, of which `text` is the latest piece, may still prove to be something else."""
        if self._types == STRING_OR_NULL:
            if self._size > _LONGEST_WORD:
                return False
            word = "".join(self._pieces).strip()
            return "null".startswith(word.lower()) or "None".startswith(word)
        if not self._first:
            return True
        if "string" not in self._types:
            return self._first in _LOOSE_STARTS
        if self._first in _WORD_STARTS:
            return self._size <= _LONGEST_WORD
        if self._first in _NUMBER_STARTS:
            return _of_number(text) is not None
        return self._first == '"' or (self._first in "{[" and not self._types.isdisjoint(CONTAINERS))

    def end_value(self) -> None:
        self._end(ended=True)
        text = "".join(self._pieces)
        if self._packed:
            if members := object_members(text):
                self._out.append(("{" if self._count == 0 else ", ") + members)
                self._count += 1
                return
            self._begin_member()
        self._out.append('"' if self._streams else typed(text, self._types, self._listed()))

    def cut_off(self) -> None:
        """The output ends inside the value: what came of it stands, unfinished."""
        self._end(ended=False)
        self._in_value = True
        if self._streams or not self._first:
            return
        text = "".join(self._pieces).strip()
        if self._packed and self._first == "{":
            self._out.append(", " + text[1:] if self._count else text)
            return
        if self._packed:
            self._begin_member()
        self._out.append(text)

    def _end(self, *, ended: bool) -> None:
        held = "" if self._edges is None else self._edges.held(ended=ended)
        self._edges = None
        self.write(held)
        self._in_value = False

    def _listed(self) -> frozenset[str]:
        """The strings that the schema lists, where one of them might be taken for something else."""
        return frozenset() if self._types == STRING else listed_strings(self._properties.get(self._key), self._root)

    def _begin_member(self) -> None:
        self._out.append(("{" if self._count == 0 else ", ") + quoted(self._key) + ": ")
        self._count += 1

    def end(self) -> None:
        """The call is complete."""
        if not self._in_value:
            self._out.append("}" if self._count else "{}")

    def take(self) -> str:
        taken = "".join(self._out)
        self._out.clear()
        return taken


def _edges(trim: Trim) -> Edges | None:
    match trim:
        case Trim.NOTHING:
            return None
        case Trim.CDATA:
            return CData()
        case _:
            return LineBreaks(wrapping=trim is Trim.WRAPPING_LINE_BREAKS)
