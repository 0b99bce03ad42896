"""The questions by which it was chosen how prompt mode speaks (docs/prompt-mode.md), and that judge nobody.

Eighty were written for it (questions.jsonl), as such questions are usually put: 20 each for the one tool offered, for
one of four, for two or three calls of one tool, and about something that the tool has nothing to do with. Thirty are
the model checks' own, about something near that no offered tool does. The others are short ones of BFCL's `live_*`.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from extproc.model_checks import bfcl, cases
from extproc.model_checks.cases import Case, PossibleAnswers

_FILE = Path(__file__).with_name("questions.jsonl")
_LIVE, _LIVE_LONGEST = 25, 2200
"""How many there are of each category, and how many characters their tools and messages have at most."""


def development(wheel: Path) -> list[Case]:
    """All of them; `wheel` is BFCL's."""
    return [*written(), *near(), *_live(bfcl.load(wheel, per_category=100, seed=1))]


def written() -> list[Case]:
    """Those that were written for it."""
    return [_case(json.loads(line)) for line in _FILE.read_text(encoding="utf-8").splitlines()]


def near() -> list[Case]:
    """Those of the model checks."""
    names = {name if ":" in name else f"{name}:near" for name in _NEAR}
    return [dataclasses.replace(case, feature="near") for case in cases.load() if case.id in names]


_NEAR = """
add_to_list assign_task average block_address book_table create_note deploy_service filter_products find_customer
get_time get_weather hire_car list_open_tickets move_piece order_eggs read_file save_scores set_colour set_deadline
set_log_level set_notifications set_permissions set_priority set_thermostat set_timer set_variables ship_order
talk:2 update_todo write_file
""".split()


def _live(asked: Sequence[Case]) -> list[Case]:
    taken: Counter[str] = Counter()
    found = []
    for case in asked:
        length = len(json.dumps([case.tools, case.messages], ensure_ascii=False))
        if case.feature != "live_relevance" and length <= _LIVE_LONGEST and taken[case.feature] < _LIVE:
            taken[case.feature] += 1
            found.append(case)
    return found


def _case(line: Mapping[str, Any]) -> Case:
    """`possible` has for each call the values that are right, as in BFCL's data; "" for what may be left out."""
    functions = [_judged(tool["function"]) for tool in line["tools"]]
    calls = [next(iter(call.items())) for call in line["possible"]]
    return Case(
        id=line["id"],
        feature=line["feature"],
        messages=line["messages"],
        tools=line["tools"],
        call=bool(calls),
        names=frozenset(name for name, _ in calls),
        possible=PossibleAnswers(functions, calls) if calls else None,
    )


def _judged(value: Any) -> Any:
    """The definition with BFCL's names of types, by which values are judged."""
    if isinstance(value, dict):
        return {name: _TYPES.get(one, one) if name == "type" else _judged(one) for name, one in value.items()}
    return value


_TYPES = {"number": "float", "object": "dict"}
