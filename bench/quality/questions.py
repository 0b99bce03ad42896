"""The questions by which it was chosen how prompt mode speaks (docs/prompt-mode.md), and that judge nobody.

Eighty are those that `extproc probe --measure` asks (`extproc.probe.measuring.questions`). Thirty are the model checks'
own, about something near that no offered tool does. The others are short ones of BFCL's `live_*`.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from extproc.model_checks import bfcl, cases
from extproc.model_checks.cases import Case
from extproc.probe.measuring.questions import written

_LIVE, _LIVE_LONGEST = 25, 2200
"""How many there are of each category, and how many characters their tools and messages have at most."""


def development(wheel: Path) -> list[Case]:
    """All of them; `wheel` is BFCL's."""
    return [*written(), *near(), *_live(bfcl.load(wheel, per_category=100, seed=1))]


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
