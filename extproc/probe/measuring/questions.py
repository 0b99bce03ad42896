"""The questions that a model is measured by: twenty each for the one tool offered, for one of four, for two or three
calls of one tool, and about something that the tool offered has nothing to do with.

They were written for this, as such questions are usually put. How prompt mode speaks was chosen by them too
(docs/prompt-mode.md), so they show how ways of asking compare for one model, and judge no gateway.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

from extproc.model_checks.cases import Case, PossibleAnswers, sample

NONE = "none"
"""The category in which a call is wrong."""
CATEGORIES = {"one": "one tool", "of four": "of four", "several": "several calls", NONE: "none fits"}
"""By the name in the file, what a person is told."""


def chosen(number: int, seed: int) -> list[Case]:
    """So many, as many of each category as of the others; a larger sample of the same seed holds the smaller one."""
    each = max(number // len(CATEGORIES), 1)
    return [
        case
        for category in CATEGORIES
        for case in sample([case for case in written() if case.feature == category], each, seed)
    ]


@lru_cache(maxsize=1)
def written() -> tuple[Case, ...]:
    """All of them."""
    text = files("extproc.probe.measuring").joinpath("questions.jsonl").read_text(encoding="utf-8")
    return tuple(_case(json.loads(line)) for line in text.splitlines())


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
