"""A JSON array that is kept as its text, and decoded only if somebody looks into it.

For what is passed on far more often than it is read: it is one object however long it is, costs nothing to copy or to
pickle but its bytes, and goes into a body as it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """Tool definitions whose names are known without looking."""

    __slots__ = ("names",)

    def __init__(self, json: bytes, names: tuple[str, ...]) -> None:
        super().__init__(json)
        self.names = names

    def __len__(self) -> int:
        return len(self.names)

    def __reduce__(self) -> tuple[type[JsonArray], tuple[Any, ...]]:
        return type(self), (self.json, self.names)


def tool_names(tools: Sequence[Json]) -> Sequence[str]:
    """The names of valid tool definitions."""
    return tools.names if isinstance(tools, ToolArray) else [tool["function"]["name"] for tool in tools]
