"""A Messages request whose beginning is known (`extproc.surfaces.continued`).

Clients move `cache_control` from message to message, so that the last ones of a request come with other bytes in the
next: they are read again, and the rest is known.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any, TypeAlias

from extproc.contract.rules import Rules
from extproc.surfaces.continued import Continued, Offer, UnusualError
from extproc.surfaces.messages.content import MOST_ITEMS, Conversation, blocks_in, message_problems, system_problems
from extproc.surfaces.messages.request import length_problems, other_problems, turn_of
from extproc.surfaces.messages.tools import choice_problems, read_tools, tool_problems
from extproc.turn.turn import Turn

Json: TypeAlias = dict[str, Any]


class _Reading:
    def __init__(self, head: Json) -> None:
        self.conversation = Conversation(head)
        self._calls: set[str] = set()
        self._items = 0

    def add(self, item: Any, rules: Rules) -> list[Json]:
        self._items += 1 + blocks_in(item)
        if self._items > MOST_ITEMS:
            raise UnusualError
        for _ in message_problems(item, "", self._calls, rules):
            raise UnusualError
        return self.conversation.add(item)

    def rest(self) -> list[Json]:
        return self.conversation.rest()


def _offer(head: Json) -> Offer:
    for _ in chain(tool_problems(head), choice_problems(head)):
        raise UnusualError
    tools = read_tools(head)
    return Offer(list(tools.definitions), is_as_sent=False, details=replace(tools, definitions=[]))


def _begin(head: Json, rules: Rules) -> _Reading:
    for _ in system_problems(head, rules):
        raise UnusualError
    return _Reading(head)


def _turn(fields: Json, _rules: Rules, offer: Offer, reading: _Reading) -> Turn:
    for _ in chain(other_problems(fields), length_problems(fields)):
        raise UnusualError
    if reading.conversation.is_empty:
        raise UnusualError
    return turn_of(fields, reading.conversation, [], replace(offer.details, definitions=fields["tools"]))


CONTINUED = Continued("messages", ("tools", "tool_choice", "system"), _offer, _begin, _turn)
