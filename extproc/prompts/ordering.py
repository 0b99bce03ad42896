"""Which call each result belongs to, and results in the order of their calls.

Results may come in any order, but a model that is shown them without their ids takes the first for the first call's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

Json: TypeAlias = dict[str, Any]


class Result(NamedTuple):
    """A message of role tool, and the call that it answers."""

    message: Json
    place: int
    """The call's number in the conversation, from 0."""
    name: str
    """The tool's."""


class CallOrder:
    """The messages of a valid conversation, one by one; results that stand together come as one list, sorted by their
    calls."""

    __slots__ = ("_called", "_places", "_waiting")

    def __init__(self) -> None:
        self._called: dict[str, tuple[int, str]] = {}  # id -> (place among the calls, tool); ids may come again
        self._places = 0  # how many there were
        self._waiting: list[Result] = []

    def add(self, message: Json) -> list[Json | list[Result]]:
        """What follows by this message: results wait for each other."""
        if message["role"] == "tool":
            known = self._called.get(message["tool_call_id"])
            # A legacy result may come without its call, but names the function.
            place, name = known if known is not None else (self._next_place(), message["name"])
            self._waiting.append(Result(message, place, name))
            return []
        found: list[Json | list[Result]] = [*self.rest()]
        for call in message.get("tool_calls") or ():
            self._called[call["id"]] = (self._next_place(), call["function"]["name"])
        found.append(message)
        return found

    def rest(self) -> list[list[Result]]:
        """The results that wait."""
        waiting, self._waiting = self._waiting, []
        return [sorted(waiting, key=lambda result: result.place)] if waiting else []

    def _next_place(self) -> int:
        self._places += 1
        return self._places - 1


def in_call_order(messages: Iterable[Json]) -> Iterator[Json | list[Result]]:
    """The same of all messages at once."""
    order = CallOrder()
    for message in messages:
        yield from order.add(message)
    yield from order.rest()
