"""A chat completion request whose beginning is known (`extproc.surfaces.continued`)."""

from __future__ import annotations

from itertools import chain
from typing import Any, TypeAlias

from extproc.contract.parameters import parameter_problems
from extproc.contract.rules import Rules
from extproc.contract.withheld import refusals
from extproc.surfaces.chat.choice import choice_problems
from extproc.surfaces.chat.definitions import definition_problems
from extproc.surfaces.chat.messages import MOST_ITEMS, Calls, PartRules, one_message_problems, parts_and_calls
from extproc.surfaces.chat.normalising import Normalising
from extproc.surfaces.chat.request import turn_of
from extproc.surfaces.continued import Continued, Offer, UnusualError
from extproc.turn.turn import Turn

Json: TypeAlias = dict[str, Any]


class _Reading:
    def __init__(self, rules: Rules) -> None:
        reader = rules.argument_reader()
        self._calls = Calls(reader)
        self._normalising = Normalising(reader)
        self._items = 0

    @property
    def repaired(self) -> int:
        return self._normalising.repaired

    def add(self, item: Any, rules: Rules) -> list[Json]:
        self._items += 1 + parts_and_calls(item)
        parts = PartRules(rules.withheld, rules.media_urls)
        for _ in one_message_problems(item, "", self._calls, parts):
            raise UnusualError
        if self._items > MOST_ITEMS:
            raise UnusualError
        return [self._normalising.add(item)]

    def rest(self) -> list[Json]:
        return []


def _offer(head: Json) -> Offer:
    for _ in definition_problems(head):
        raise UnusualError
    return Offer(head["tools"], is_as_sent=True)


def _begin(_head: Json, rules: Rules) -> _Reading:
    return _Reading(rules)


def _turn(fields: Json, rules: Rules, _offer: Offer, reading: _Reading) -> Turn:
    if fields.get("functions") is not None or fields.get("continue_final_message") is not None:
        raise UnusualError
    for _ in chain(refusals(fields, rules.withheld), choice_problems(fields), parameter_problems(fields)):
        raise UnusualError
    return turn_of(fields, rules, [], reading.repaired)


CONTINUED = Continued("messages", ("tools", "tool_choice"), _offer, _begin, _turn)
