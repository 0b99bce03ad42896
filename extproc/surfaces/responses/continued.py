"""A Responses request whose beginning is known (`extproc.surfaces.continued`).

What the model says, thinks and calls is one message, which is complete by the item behind it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any, TypeAlias

from extproc.contract.json_array import JsonArray
from extproc.contract.json_body import encode
from extproc.contract.rules import Rules
from extproc.surfaces.continued import Continued, Offer, UnusualError
from extproc.surfaces.responses.content import MOST_ITEMS, instructions_problems, is_shown, item_problems, parts_in
from extproc.surfaces.responses.conversation import Conversation
from extproc.surfaces.responses.request import memory_problems, other_problems, turn_of
from extproc.surfaces.responses.tools import choice_problems, finds_tools, read_tools, tool_problems
from extproc.turn.turn import Turn

Json: TypeAlias = dict[str, Any]


class _Reading:
    def __init__(self, head: Json, rules: Rules) -> None:
        self._reader = rules.argument_reader()
        self.conversation = Conversation(head, self._reader)
        self.is_shown = False
        self._calls: set[str] = set()
        self._items = 0

    def add(self, item: Any, rules: Rules) -> list[Json]:
        self._items += 1 + parts_in(item)
        if self._items > MOST_ITEMS or finds_tools(item):  # which are offered from then on
            raise UnusualError
        for _ in item_problems(item, "", self._calls, self._reader, rules.media_urls):
            raise UnusualError
        self.is_shown = self.is_shown or is_shown(item)
        return self.conversation.add(item)

    def rest(self) -> list[Json]:
        return self.conversation.rest()


def _offer(head: Json) -> Offer:
    for _ in chain(tool_problems(head), choice_problems(head)):
        raise UnusualError
    tools = read_tools(head)
    return Offer(
        list(tools.definitions),
        is_as_sent=False,
        has_grammars=any(known.grammar is not None for known in tools.names.values()),
        details=replace(tools, definitions=[], shown=JsonArray(encode(tools.shown))),
    )


def _begin(head: Json, rules: Rules) -> _Reading:
    for _ in instructions_problems(head):
        raise UnusualError
    return _Reading(head, rules)


def _turn(fields: Json, _rules: Rules, offer: Offer, reading: _Reading) -> Turn:
    for _ in chain(memory_problems(fields), other_problems(fields)):
        raise UnusualError
    if not reading.is_shown:
        raise UnusualError
    return turn_of(fields, reading.conversation, [], replace(offer.details, definitions=fields["tools"]))


CONTINUED = Continued("input", ("tools", "tool_choice", "instructions"), _offer, _begin, _turn)
