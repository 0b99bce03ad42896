"""A JSON array that is kept as its text, and decoded only if somebody looks into it.

For what is passed on far more often than it is read: it is one object however long it is, costs nothing to copy or to
pickle but its bytes, and goes into a body as it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, overload

import jiter

Json: TypeAlias = dict[str, Any]


class JsonArray(Sequence[Json]):
    """An array of objects. Nobody changes them."""

    __slots__ = ("_items", "json")

    def __init__(self, json: bytes) -> None:
        """`json` is its text, which has been decoded before: it is taken to be well."""
        self.json = json
        self._items: list[Json] | None = None

    @property
    def items(self) -> list[Json]:
        """Decoded, once."""
        if self._items is None:
            self._items = jiter.from_json(self.json)
        return self._items

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> Json: ...
    @overload
    def __getitem__(self, index: slice) -> list[Json]: ...
    def __getitem__(self, index: int | slice) -> Json | list[Json]:
        return self.items[index]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, JsonArray):
            return self.json == other.json or self.items == other.items
        return self.items == other if isinstance(other, list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type[JsonArray], tuple[Any, ...]]:
        return type(self), (self.json,)


class ToolArray(JsonArray):
    """Tool definitions that are known by name, and decoded one by one: a model calls one or two of fifty."""

    __slots__ = ("lengths", "names")

    def __init__(self, json: bytes, names: tuple[str, ...], lengths: tuple[int, ...]) -> None:
        """`lengths` are those of the definitions' texts in `json`, which stand side by side with a comma between."""
        super().__init__(json)
        self.names = names
        self.lengths = lengths

    def __len__(self) -> int:
        return len(self.names)

    def __reduce__(self) -> tuple[type[JsonArray], tuple[Any, ...]]:
        return type(self), (self.json, self.names, self.lengths)


class ToolsByName(Mapping[str, Json]):
    """Tool definitions by name, in their order; each is decoded when somebody asks for it."""

    __slots__ = ("_decoded", "_json", "_places")

    def __init__(self, tools: ToolArray) -> None:
        self._json = tools.json
        self._decoded: dict[str, Json] = {}
        self._places: dict[str, tuple[int, int]] = {}
        start = 1
        for name, length in zip(tools.names, tools.lengths, strict=True):
            self._places[name] = (start, start + length)
            start += length + 1

    def __getitem__(self, name: str) -> Json:
        if name not in self._decoded:
            start, end = self._places[name]
            self._decoded[name] = jiter.from_json(self._json[start:end])
        return self._decoded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def tools_by_name(tools: Sequence[Json]) -> Mapping[str, Json]:
    """Valid tool definitions by name."""
    return ToolsByName(tools) if isinstance(tools, ToolArray) else {tool["function"]["name"]: tool for tool in tools}


def tool_names(tools: Sequence[Json]) -> Sequence[str]:
    """The names of valid tool definitions."""
    return tools.names if isinstance(tools, ToolArray) else [tool["function"]["name"] for tool in tools]
