"""Which call each result belongs to, and results in the order of their calls.

Results may come in any order, but a model that is shown them without their ids takes the first for the first call's.
"""

from __future__ import annotations

import itertools
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


def in_call_order(messages: Iterable[Json]) -> Iterator[Json | list[Result]]:
    """The messages of a valid conversation; results that stand together come as one list, sorted by their calls."""
    called: dict[str, tuple[int, str]] = {}  # id -> (place among the calls, tool); ids may come again
    places = itertools.count()
    waiting: list[Result] = []
    for message in messages:
        if message["role"] == "tool":
            # A legacy result may come without its call, but names the function.
            place, name = called.get(message["tool_call_id"]) or (next(places), message["name"])
            waiting.append(Result(message, place, name))
            continue
        if waiting:
            yield sorted(waiting, key=lambda result: result.place)
            waiting = []
        for call in message.get("tool_calls") or ():
            called[call["id"]] = (next(places), call["function"]["name"])
        yield message
    if waiting:
        yield sorted(waiting, key=lambda result: result.place)
