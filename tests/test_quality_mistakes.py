"""What is wrong with wrong answers (`bench.quality.mistakes`): each kind is told, and the page has their numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from bench.quality import page
from bench.quality.__main__ import counted
from bench.quality.mistakes import MISTAKES, mistake
from extproc.model_checks.cases import Case, PossibleAnswers
from extproc.model_checks.judging import checks, is_right
from extproc.model_checks.reading import Answer, Call

PARAMETERS = {
    "type": "dict",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "unit": {"type": "string"}},
    "required": ["city"],
}
FUNCTIONS = [{"name": name, "description": "", "parameters": PARAMETERS} for name in ("weather", "tides")]
PARIS = ("weather", {"city": ["Paris"], "days": [3], "unit": ["", "celsius"]})
ROME = ("weather", {"city": ["Rome"], "days": [""], "unit": ["", "celsius"]})
RIGHT = {"city": "Paris", "days": 3}


def case(*wanted: Any) -> Case:
    tools = [{"type": "function", "function": {**one, "parameters": {}}} for one in FUNCTIONS]
    possible = PossibleAnswers(FUNCTIONS, wanted or (PARIS,))
    return Case("a", "simple_python", [], tools, True, names=frozenset(("weather",)), possible=possible)


def calls(*arguments: Any, name: str = "weather", content: str = "") -> Answer:
    made = tuple(Call(f"call {at}", name, json.dumps(one)) for at, one in enumerate(arguments))
    return Answer(200, content, calls=made, finish_reason="tool_calls")


WRONG: Sequence[tuple[str, Answer]] = (
    ("no answer", Answer(500, error="none")),
    ("no call", Answer(200, "It is sunny.", finish_reason="stop")),
    ("cut off", Answer(200, calls=calls(RIGHT).calls, finish_reason="length")),
    ("cut off", Answer(200, "It is", finish_reason="length")),
    ("a tool that isn't meant", calls(RIGHT, name="tides")),
    ("too many calls", calls(RIGHT, RIGHT)),
    ("an argument too few", calls({"city": "Paris"})),
    ("an argument too few", calls({"city": "Rome"})),
    ("a wrong value", calls({**RIGHT, "city": "Rome"})),
    ("a wrong value", calls({**RIGHT, "city": "Rome", "unit": "kelvin"})),
    ("an argument too few", calls({"days": 3})),
    ("a wrong value", calls([])),
    ("an argument too many", calls({**RIGHT, "unit": "kelvin"})),
    ("an argument too many", calls({**RIGHT, "wind": True})),
    ("a call in the text besides", calls(RIGHT, content='{"name": "sail", "arguments": {"to": "Rome"}}')),
)


@pytest.mark.parametrize(("kind", "answer"), WRONG)
def test_each_is_told(kind: str, answer: Answer) -> None:
    asked = case()
    assert not is_right(asked, answer, checks(asked, answer))
    assert mistake(asked, answer) == kind


def test_each_can_be_told() -> None:
    assert {*MISTAKES} - {kind for kind, _ in WRONG} == {"too few calls"}
    assert mistake(case(PARIS, ROME), calls(RIGHT)) == "too few calls"


@pytest.mark.parametrize(
    ("kind", "second"),
    [
        ("an argument too many", {"city": "Rome", "unit": "kelvin"}),
        ("a wrong value", {"city": "Oslo"}),
        ("an argument too few", {}),
    ],
)
def test_of_several_calls_the_wrong_one_tells(kind: str, second: dict[str, Any]) -> None:
    asked = case(PARIS, ROME)
    assert mistake(asked, calls(second, RIGHT)) == kind
    assert is_right(asked, calls({"city": "Rome"}, RIGHT), checks(asked, calls({"city": "Rome"}, RIGHT)))


def test_they_are_counted_by_category_and_right_answers_make_none() -> None:
    asked = case()
    assert counted([asked], {"a": calls(RIGHT)})["mistakes"] == {"simple_python": {}}
    assert counted([asked], {"a": calls({**RIGHT, "city": "Rome"})})["mistakes"] == {
        "simple_python": {"a wrong value": 1}
    }


def test_the_page_has_their_numbers() -> None:
    told = page.mistakes()
    assert "too few calls" in told
    assert told in page.PAGE.read_text(encoding="utf-8")


def test_all_that_is_wrong_is_told() -> None:
    for file in page.RESULTS.glob("*.json"):
        found = json.loads(file.read_text(encoding="utf-8"))
        for category, kinds in found.get("mistakes", {}).items():
            counts = found["categories"][category]
            assert sum(kinds.values()) == counts["of"] - counts["right"], file.name
