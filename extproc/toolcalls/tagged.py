"""Writes a call's arguments as JSON while a model names them one by one between tags.

A value that can only be a string leaves as it comes. One that may be something else has to be complete before its
type is known; but as soon as its beginning shows that it can be nothing but a string, it leaves as it comes too.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from extproc.toolcalls.values import (
    STRING,
    STRING_OR_NULL,
    allowed_types,
    object_members,
    parameter_schemas,
    quoted,
    typed,
)

_LONGEST_NULL = 32  # characters of `null` and the white space around it
_VALUE_STARTS = frozenset("{[\"'-0123456789tfnTFN")  # what JSON and Python literals begin with
_CDATA, _CDATA_END = "<![CDATA[", "]]>"


class Trim(enum.Enum):
    """What of a value's edges is markup."""

    NOTHING = enum.auto()
    LINE_BREAKS = enum.auto()
    """One line break after the opening tag and one before the closing tag."""
    WRAPPING_LINE_BREAKS = enum.auto()
    """The same, but only when there is one after the opening tag."""
    CDATA = enum.auto()
    """`<![CDATA[` at the beginning and `]]>` at the end."""


class ArgumentsWriter:
    """The arguments of one call. `take()` returns the JSON text that has become certain."""

    __slots__ = (
        "_count",
        "_decided",
        "_edge",
        "_in_value",
        "_out",
        "_packed_key",
        "_pieces",
        "_properties",
        "_root",
        "_size",
        "_streams",
        "_trim",
        "_types",
        "_wrapping",
    )

    def __init__(self, tool: Mapping[str, Any] | None) -> None:
        self._root, self._properties = parameter_schemas(tool or {})
        self._out: list[str] = []
        self._count = 0
        self._in_value = False
        self._trim = Trim.NOTHING
        self._types = STRING
        self._packed_key: str | None = None
        self._streams = False  # the value's beginning has left already
        self._edge: str | None = None  # held at the end of what came; None before the beginning is known
        self._wrapping: list[str] = []  # the beginning, when it may be a wrapping
        self._decided = False  # the value may be other than a string, and has to be complete first
        self._pieces: list[str] = []  # of a value that has to be complete first
        self._size = 0  # how much that is

    @property
    def in_value(self) -> bool:
        return self._in_value

    def begin_value(self, key: str, trim: Trim, types: frozenset[str] | None = None, *, packed: bool = False) -> None:
        """A value for `key` begins; `types` when the output itself says what it is.

        `packed`: if the tool has no such parameter, an object in it holds the arguments themselves.
        """
        self._packed_key = key if packed and self._properties and key not in self._properties else None
        if self._packed_key is None:
            self._begin_member(key)
        self._in_value = True
        self._trim = trim
        self._types = types if types is not None else allowed_types(self._properties.get(key), self._root)
        self._streams = self._types == STRING and self._packed_key is None
        self._edge = None
        self._wrapping.clear()
        self._decided = False
        self._pieces.clear()
        self._size = 0
        if self._streams:
            self._out.append('"')

    def write(self, text: str) -> None:
        """The next piece of the value."""
        if not text:
            return
        match self._trim:
            case Trim.WRAPPING_LINE_BREAKS:
                self._trim = Trim.LINE_BREAKS if text[0] == "\n" else Trim.NOTHING
                self.write(text)
                return
            case Trim.LINE_BREAKS:
                text = self._without_line_breaks(text)
            case Trim.CDATA:
                text = self._without_cdata(text)
        self._append(text)

    def _without_line_breaks(self, text: str) -> str:
        if self._edge is None:
            text = text.removeprefix("\n")
            self._edge = ""
        text = self._edge + text
        self._edge = "\n" if text.endswith("\n") else ""
        return text[:-1] if self._edge else text

    def _without_cdata(self, text: str) -> str:
        if self._edge is None:  # nothing but the beginning of the wrapping came yet
            text = "".join(self._wrapping) + text
            self._wrapping = [text]
            if len(text) < len(_CDATA) and _CDATA.startswith(text):
                return ""
            self._wrapping.clear()
            if not text.startswith(_CDATA):
                self._trim = Trim.NOTHING
                return text
            self._edge = ""
            text = text[len(_CDATA) :]
        text = self._edge + text
        keep = max(len(text) - len(_CDATA_END), 0)
        self._edge = text[keep:]
        return text[:keep]

    def _append(self, text: str) -> None:
        if not text:
            return
        if self._streams:
            self._out.append(quoted(text)[1:-1])
            return
        self._pieces.append(text)
        self._size += len(text)
        if self._packed_key is None and not self._decided and not self._may_be_other_than_string(text):
            self._streams = True
            self._out.append(quoted("".join(self._pieces))[:-1])
            self._pieces.clear()

    def _may_be_other_than_string(self, text: str) -> bool:
        if self._types == STRING_OR_NULL:
            return self._size <= _LONGEST_NULL and "null".startswith("".join(self._pieces).strip())
        text = text.lstrip()  # all that came before is white space
        self._decided = bool(text)
        return not text or text[0] in _VALUE_STARTS

    def end_value(self) -> None:
        self._in_value = False
        if self._trim is Trim.CDATA:
            self._append("".join(self._wrapping) + (self._edge or "").removesuffix(_CDATA_END))
        text = "".join(self._pieces)
        if self._packed_key is not None:
            if members := object_members(text):
                self._out.append(("{" if self._count == 0 else ", ") + members)
                self._count += 1
                return
            self._begin_member(self._packed_key)
        self._out.append('"' if self._streams else typed(text, self._types))

    def cut_off(self) -> None:
        """The output ends inside the value: what came of it stands, unfinished."""
        self._append("".join(self._wrapping) + (self._edge or ""))
        if not self._streams and self._pieces:
            if self._packed_key is not None:
                self._begin_member(self._packed_key)
            self._out.append("".join(self._pieces).strip())

    def _begin_member(self, key: str) -> None:
        self._out.append(("{" if self._count == 0 else ", ") + quoted(key) + ": ")
        self._count += 1

    def end(self) -> None:
        """The call is complete."""
        if not self._in_value:
            self._out.append("}" if self._count else "{}")

    def take(self) -> str:
        taken = "".join(self._out)
        self._out.clear()
        return taken
