"""The measure of calls (`bench.quality`): its own questions can be answered, and its page tells what was measured."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.quality import RULE, page
from bench.quality.__main__ import KINDS, counted, counted_by
from bench.quality.questions import near
from bench.quality.ways import WAYS
from extproc.model_checks.calls_as_text import call_as_text
from extproc.model_checks.cases import Case
from extproc.model_checks.reading import Answer, Call
from extproc.model_checks.scores import Rate
from extproc.probe.measuring.questions import written

ANSWER = Answer(200, "No tool can do that.", finish_reason="stop")


def answered(case: Case) -> Answer:
    """Rightly: with the first values that are right, without what may be left out."""
    if case.possible is None:
        return ANSWER
    made = [
        (name, {key: one[0] for key, one in values.items() if one[0] != ""}) for name, values in case.possible.calls
    ]
    calls = tuple(Call(f"call {number}", name, json.dumps(values)) for number, (name, values) in enumerate(made))
    return Answer(200, calls=calls, finish_reason="tool_calls")


def test_right_answers_to_all_questions_are_right() -> None:
    cases = [*written(), *near()]
    assert Counter(case.feature for case in cases) == {"one": 20, "of four": 20, "none": 20, "several": 20, "near": 30}
    found = counted(cases, {case.id: answered(case) for case in cases})
    assert all(one["right"] == one["of"] for one in found["categories"].values())
    assert (
        found["valid"]
        == found["calls"]
        == 60 + sum(len(answered(case).calls) - 1 for case in cases if case.feature == "several")
    )


def test_calls_are_counted_one_by_one() -> None:
    [case] = [case for case in written() if case.id == "several 0"]
    first, *others = answered(case).calls
    broken = Answer(200, calls=(Call(first.id, first.name, "{}"), *others), finish_reason="tool_calls")
    found = counted([case], {case.id: broken})
    assert (found["calls"], found["valid"]) == (len(others) + 1, len(others))


def test_words_where_a_call_is_due_are_wrong() -> None:
    cases = written()
    found = counted(cases, {case.id: ANSWER for case in cases})
    assert {name: one["right"] for name, one in found["categories"].items()} == {
        "one": 0, "of four": 0, "none": 20, "several": 0,
    }  # fmt: skip


def test_a_call_of_no_tool_in_the_text_is_no_answer_in_words() -> None:
    cases = [case for case in written() if case.feature == "none"]
    left = Answer(200, '[{"name": "sqrt", "arguments": {"number": 144}}]', finish_reason="stop")
    assert counted(cases, {case.id: left for case in cases})["categories"]["none"]["right"] == 0


@pytest.mark.parametrize(
    "left",
    [
        '{"name": "sqrt", "arguments": [144]}',
        '{"name": "sqrt", "arguments": null}',
        "{'name': 'sqrt', 'arguments': {'x': 144}}",
        '{"arguments": {"x": 144}, "name": "sqrt"}',
        "[{'args': {'a': {'b': 1}}, 'tool': \"it's\"}]",
    ],
)
def test_a_call_in_another_shape_is_none_either(left: str) -> None:
    assert call_as_text(f"Here it is:\n```\n{left}\n```") in ("sqrt", "it's")
    case = next(case for case in written() if case.feature == "none")
    assert counted([case], {case.id: Answer(200, left, finish_reason="stop")})["categories"]["none"]["right"] == 0


def test_other_objects_are_words() -> None:
    for text in (
        '{"name": "Ada", "age": 36}',
        '{"arguments": {"for": 1}, "title": "x"}',
        '{"arguments": ["for"], "name": "x"}',
        '{"arguments": {"x": 1}, "name": "x", "id": 1}',
    ):
        assert call_as_text(text) is None


def right(cases: Sequence[Case], change: Callable[[Answer], Answer]) -> int:
    found = counted(cases, {case.id: change(answered(case)) for case in cases})
    return sum(one["right"] for one in found["categories"].values())


def test_a_call_that_is_left_beside_right_ones_makes_them_wrong() -> None:
    cases = [case for case in written() if case.call]
    left = '{"name": "made_up", "arguments": {"x": 1}}]'
    assert right(cases, lambda answer: replace(answer, content=left)) == 0
    assert right(cases, lambda answer: replace(answer, content="I look it up.")) == len(cases)


def test_answers_that_are_cut_off_are_wrong() -> None:
    assert right(written(), lambda answer: replace(answer, finish_reason="length")) == 0


def test_an_answer_that_says_nothing_is_wrong() -> None:
    cases = [case for case in written() if not case.call]
    assert right(cases, lambda answer: replace(answer, content=" \n")) == 0
    assert right(cases, lambda answer: answer) == len(cases)


def test_results_say_by_which_rule_they_were_judged() -> None:
    [way] = [way for way in WAYS if way.name == "alone"]
    assert page.row(way, row({"a": 1}, 1), None)[-1] == "2026-11-27, earlier rule"
    assert page.row(way, row({"a": 1}, 1, rule=RULE), None)[-1] == "2026-11-27"


def test_one_call_is_no_answer_to_what_needs_several() -> None:
    cases = [case for case in written() if case.feature == "several"]
    first = {case.id: Answer(200, calls=answered(case).calls[:1], finish_reason="tool_calls") for case in cases}
    assert counted(cases, first)["categories"]["several"]["right"] == 0


def test_the_page_has_the_tables_of_the_results() -> None:
    assert page.tables() in page.PAGE.read_text(encoding="utf-8")


def test_it_is_told_what_became_of_questions_that_need_no_call() -> None:
    cases = [case for case in written() if case.feature == "none"][:5]
    offered = cases[2].tools[0]["function"]["name"]
    answers = (
        ANSWER,
        Answer(200, '[{"name": "sqrt", "arguments": {"number": 144}}]', finish_reason="stop"),
        Answer(200, json.dumps({"name": offered, "arguments": {}}), finish_reason="stop"),
        Answer(200, calls=(Call("call 0", "f", "{}"),), finish_reason="tool_calls"),
        Answer(200, "The square root of", finish_reason="length"),
    )
    found = counted(cases, {case.id: answer for case, answer in zip(cases, answers, strict=True)})
    assert found["kinds"] == dict.fromkeys(KINDS, 1)


def test_without_tools_only_what_needs_none_is_asked() -> None:
    [way] = [way for way in WAYS if not way.offers]
    cases = way.questions(written())
    assert {case.feature for case in cases} == {"none"}
    assert "tools" not in cases[0].request("m", stream=False, max_tokens=1)
    assert WAYS[0].questions(written()) == list(written())


def row(prompts: dict[str, int], of: int, **more: Any) -> dict[str, Any]:
    """Of a way that was asked so many questions of one category."""
    counts = {"simple_python": {"right": 0, "of": of, "failed": 0}}
    told = {"seed": 0, "wording": "", "date": "2026-11-27", "categories": counts, "answers": of, "calls": 0, "valid": 0}
    return told | {"tokens": [sum(prompts.values()), 0], "prompts": prompts} | more


def tokens_of(name: str, found: dict[str, Any], template: dict[str, Any]) -> str:
    [way] = [way for way in WAYS if way.name == name]
    return page.row(way, found, template)[-2]


def test_prompts_are_compared_over_the_same_questions() -> None:
    template, twice = row({"a": 100}, 1), row({"a": 200, "b": 900}, 2)
    assert tokens_of("hermes", twice, template) == "550 (2.00), 0"
    assert tokens_of("hermes", row({"b": 900}, 2), template) == "450, 0"
    unknown = {key: one for key, one in twice.items() if key != "prompts"}
    assert tokens_of("hermes", unknown, template) == "550, 0"


def test_second_requests_cost_what_the_server_counted() -> None:
    template = row({"a": 100}, 1)
    answered_again = row({"a": 100}, 1)
    assert tokens_of("retry", answered_again, template) == "100 (1.00), 0, without discarded answers"
    told = answered_again | counted_by((1000, 70), (1230, 90))
    assert tokens_of("retry", told, template) == "230 (2.30), 20"
    assert tokens_of("retry", told, row({"a": 100, "b": 900}, 2)) == "230 (2.30), 20"
    assert tokens_of("retry", told, row({"b": 900}, 2)) == "230, 20"


def test_an_interval_is_no_point() -> None:
    assert page.share(Rate(874, 874)) == "874 of 874, 100 % (99.6-100)"
    assert page.share(Rate(0, 874)) == "0 of 874, 0 % (0-0.4)"
    assert page.share(Rate(0, 50)) == "0 of 50, 0 % (0-7)"


def test_results_of_other_questions_are_no_row_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    page.save("development/0.5B-alone", {"right": 1})
    assert json.loads((tmp_path / "development" / "0.5B-alone.json").read_text(encoding="utf-8")) == {"right": 1}
    assert page.tables() == ""
