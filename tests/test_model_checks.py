"""The cases of the model checks are what docs/model-checks.md says, and each check fails for what it is about alone."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import jsonschema_rs
import pytest

from extproc.model_checks.bfcl import WHEEL
from extproc.model_checks.cases import Case, PossibleAnswers, digest, load, raw_cases, sample, schema, versions
from extproc.model_checks.judging import CHECKS, judge
from extproc.model_checks.possible_answers import are_right
from extproc.model_checks.reading import Answer, Call, read
from extproc.model_checks.scores import Calling, Rate, scores
from tests.model_check_cases.conversations import TOOLS
from tests.model_check_cases.conversations import cases as written_cases
from tests.real_vllm.model_checks_page import PAGE as PAGE_FILE
from tests.real_vllm.model_checks_page import with_results

RAW = raw_cases()
PAGE = PAGE_FILE.read_text(encoding="utf-8")

# The cases


def test_every_case_is_as_its_schema_says() -> None:
    validator = jsonschema_rs.validator_for(schema())
    assert [case["id"] for case in RAW if not validator.is_valid(case)] == []
    assert [id_ for id_, number in Counter(case["id"] for case in RAW).items() if number > 1] == []


def test_there_are_as_many_as_providers_are_compared_by() -> None:
    calls = Counter(case["expected"]["call"] for case in RAW)
    assert len(RAW) >= 212
    assert calls[True] >= 150
    assert calls[False] >= 90
    assert len({case["feature"] for case in RAW}) >= 30


def test_every_example_is_what_the_schema_allows() -> None:
    for case in RAW:
        offered = {tool["function"]["name"]: tool["function"]["parameters"] for tool in case["tools"]}
        assert bool(case["expected"]["example"]) == case["expected"]["call"], case["id"]
        for call in case["expected"]["example"]:
            validator = jsonschema_rs.validator_for(offered[call["name"]], validate_formats=True)
            assert validator.is_valid(call["arguments"]), case["id"]


def test_no_two_questions_are_alike() -> None:
    asked = Counter(json.dumps([case["messages"], case["tools"], case.get("tool_choice")]) for case in RAW)
    assert [question for question, number in asked.items() if number > 1] == []


def test_released_cases_are_never_changed() -> None:
    for version, sha in versions().items():
        assert digest(case for case in RAW if case["since"] == version) == sha, f"cases of version {version}"
    assert versions()
    assert {case["since"] for case in RAW} <= {*versions(), max(versions()) + 1}


def test_the_tables_have_nothing_to_add() -> None:
    ids = {case["id"] for case in RAW}
    assert [case["id"] for case in written_cases() if case["id"] not in ids] == []


def test_a_larger_sample_holds_the_smaller_one() -> None:
    few, more = sample(RAW, 20, 7), sample(RAW, 50, 7)
    assert len(few) == 20
    assert all(case in more for case in few)
    assert sample(RAW, 20, 8) != few
    assert sample(RAW, None, 7) == sample(RAW, 1000, 7) == RAW


# Reading

USAGE: dict[str, Any] = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}


def whole(**message: Any) -> dict[str, Any]:
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    told = {"role": "assistant", "content": None, **message}
    choice: dict[str, Any] = {"index": 0, "message": told, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice], "usage": USAGE}


def call(id_: str = "call_1", name: str = "f", arguments: str = "{}", **more: Any) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def events(*deltas: dict[str, Any], finish: str = "stop", done: bool = True, usage: Any = USAGE) -> str:
    choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    bodies: list[dict[str, Any]] = [{"choices": [choice]} for choice in choices]
    if usage:
        bodies.append({"choices": [], "usage": usage})
    chunks = [json.dumps({"id": "chatcmpl-1", "object": "chat.completion.chunk", **body}) for body in bodies]
    return "".join(f"data: {chunk}\n\n" for chunk in [*chunks, *(["[DONE]"] if done else [])])


def test_a_right_answer_has_no_faults() -> None:
    answer = read(200, json.dumps(whole(tool_calls=[call(arguments='{"a": 1}'), call("call_2")])), stream=False)
    assert answer == Answer(200, "", (Call("call_1", "f", '{"a": 1}'), Call("call_2", "f", "{}")), "tool_calls", 5, 3)
    first, then = call(arguments='{"a"', index=0), {"index": 0, "function": {"arguments": ": 1}"}}
    streamed = events({"tool_calls": [first]}, {"tool_calls": [then]}, finish="tool_calls")
    assert read(200, streamed, stream=True) == Answer(200, "", (Call("call_1", "f", '{"a": 1}'),), "tool_calls", 5, 3)
    assert Answer.from_json(json.loads(json.dumps(answer.as_json()))) == answer


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (whole(tool_calls=[call(""), call("b")]), "a call without an id"),
        (whole(tool_calls=[call(), call()]), "two calls with one id"),
        (whole(tool_calls=[call(type="tool")]), "a call's type is 'tool'"),
        (whole(tool_calls=[call() | {"function": {"name": "f", "arguments": {"a": 1}}}]), "arguments are no text"),
        (whole(role="user"), "role is 'user'"),
        ({**whole(), "usage": None}, "no usage"),
        ({**whole(), "usage": {**USAGE, "total_tokens": 9}}, "usage doesn't add up"),
        ({**whole(), "usage": {**USAGE, "total_tokens": "8"}}, "usage isn't three counts"),
        ({**whole(), "object": "completion"}, "object is 'completion'"),
    ],
)
def test_what_is_wrong_with_a_whole_answer_is_told(body: dict[str, Any], fault: str) -> None:
    assert read(200, json.dumps(body), stream=False).faults == (fault,)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (events({"content": "hi"}, done=False), "no [DONE]"),
        (events({"content": "hi"}, usage=None), "no usage"),
        (events({"tool_calls": [call(index=1)]}), "a call's index is 1 after 0 calls"),
        (events({"tool_calls": [call(name="", index=0)]}), "a call begins without a name"),
        (events({"tool_calls": [call(index=0)]}, {"tool_calls": [call(index=0)]}), "a call's name comes again"),
        (events({"content": "hi"}).replace('"chatcmpl-1"', '"other"', 1), "the chunks don't have one id"),
    ],
)
def test_what_is_wrong_with_a_stream_is_told(body: str, fault: str) -> None:
    assert read(200, body, stream=True).faults == (fault,)


def test_what_is_no_answer_is_an_error() -> None:
    assert read(400, '{"error": {"message": "no parser"}}', stream=False) == Answer(400, error="no parser")
    assert read(200, "nonsense", stream=False).error.startswith("no chat completion: JSONDecodeError")
    in_stream = events({"content": "hi"}) + 'data: {"error": {"message": "lost"}}\n\n'
    assert "lost" in read(200, in_stream, stream=True).error


# Judging

CASE = next(case for case in load() if case.id == "set_thermostat:call-1")
RIGHT = Answer(200, "", (Call("a", "set_thermostat", '{"room": "bedroom", "degrees": 18}'),), "tool_calls", 5, 3)
WORDS = Answer(200, "Zero.", (), "stop", 5, 3)
NEAR = next(case for case in load() if case.id == "set_thermostat:near")


def failing(case: Case, one: Answer, other: Answer | None = None) -> set[str]:
    judgement = judge(case, one, other or one)
    found = {name for checks in (judgement.whole, judgement.streamed) for name, reason in checks.items() if reason}
    assert found <= set(CHECKS)
    return found


def with_call(name: str, arguments: str) -> Answer:
    return replace(RIGHT, calls=(Call("a", name, arguments),))


def test_right_answers_pass() -> None:
    assert failing(CASE, RIGHT) == set()
    assert failing(NEAR, WORDS) == set()
    spelled_otherwise = with_call("set_thermostat", '{"degrees":18,"room":"bedroom"}')
    assert failing(CASE, RIGHT, spelled_otherwise) == set()


@pytest.mark.parametrize(
    ("case", "answer", "checks"),
    [
        (CASE, WORDS, {"decision"}),
        (NEAR, RIGHT, {"decision"}),
        (CASE, replace(RIGHT, finish_reason="stop"), {"finish_reason"}),
        (NEAR, replace(WORDS, finish_reason="tool_calls"), {"finish_reason"}),
        (CASE, with_call("heat", "{}"), {"name", "schema", "tool"}),
        (CASE, with_call("set_thermostat", '{"room": "bed'), {"json", "schema"}),
        (CASE, with_call("set_thermostat", "[]"), {"json", "schema"}),
        (CASE, with_call("set_thermostat", '{"room": "bedroom", "degrees": 18.5}'), {"schema"}),
        (CASE, with_call("set_thermostat", '{"room": "bedroom", "degrees": 31}'), {"schema"}),
        (CASE, with_call("set_thermostat", '{"degrees": 18}'), {"schema"}),
        (CASE, replace(RIGHT, faults=("no usage",)), {"form"}),
        (NEAR, replace(WORDS, content='[{"name": "sum", "arguments": {"a": 2}}]'), {"text"}),
        (NEAR, replace(WORDS, content='I call\n```json\n{"function": "f", "parameters": {}}\n```'), {"text"}),
        (NEAR, replace(WORDS, content="<tool_call>\n<function=f>"), {"text"}),
        (NEAR, replace(WORDS, content='{"name": "Ada", "age": 36}'), set()),
        (CASE, replace(RIGHT, content='{"name": "sum", "arguments": {}}'), {"text"}),
        (CASE, Answer(500, error="lost"), {"answered"}),
        (CASE, replace(with_call("set_thermostat", '{"room'), finish_reason="length"), set()),
    ],
)
def test_each_mistake_fails_exactly_its_checks(case: Case, answer: Answer, checks: set[str]) -> None:
    assert failing(case, answer) == checks


def test_formats_count() -> None:
    case = next(case for case in load() if case.id == "book_table:call-1")
    arguments = {"restaurant": "Roma", "date": "2026-03-14", "people": 4}
    assert failing(case, with_call("book_table", json.dumps(arguments))) == set()
    assert failing(case, with_call("book_table", json.dumps({**arguments, "date": "14 March"}))) == {"schema"}


def test_a_stream_that_says_something_else_is_told() -> None:
    assert failing(CASE, RIGHT, with_call("set_thermostat", '{"room": "hall", "degrees": 18}')) == {"same"}
    assert failing(NEAR, WORDS, replace(WORDS, content="One.")) == {"same"}


def test_a_named_choice_may_end_with_either_reason() -> None:
    case = next(case for case in load() if case.id == "choice_named:read_file")
    answer = with_call("read_file", '{"path": "notes.md"}')
    assert failing(case, answer) == failing(case, replace(answer, finish_reason="stop")) == set()


# Scores


def test_wilsons_interval() -> None:
    """The values of the literature's examples, and of the ends."""
    low, high = Rate(81, 263).interval or (0, 0)
    assert (round(low, 4), round(high, 4)) == (0.2553, 0.3662)  # Newcombe 1998, table I
    assert Rate(0, 20).interval == pytest.approx((0.0, 0.1611), abs=1e-4)  # the same
    assert Rate(0, 0).interval is None
    assert (Rate(10, 10).interval or (0, 0))[1] == pytest.approx(1.0)


def test_f1_is_that_of_precision_and_recall() -> None:
    calling = Calling(right_calls=60, wrong_calls=20, missed_calls=15, right_words=5)
    precision, recall = calling.precision.value or 0, calling.recall.value or 0
    assert (precision, recall) == (0.75, 0.8)
    assert calling.f1 == pytest.approx(2 * precision * recall / (precision + recall))
    low, high = calling.f1_interval or (0, 0)
    assert low < (calling.f1 or 0) < high
    assert Calling(0, 0, 0, 9).f1 is None


def test_scores_count_each_way_of_asking() -> None:
    cut = replace(with_call("set_thermostat", "{"), finish_reason="length")
    judged = [
        judge(CASE, RIGHT, WORDS),
        judge(NEAR, WORDS, WORDS),
        judge(NEAR, RIGHT, Answer(500)),
        judge(CASE, cut, cut),
    ]
    one, other = scores(judged, "whole"), scores(judged, "streamed")
    assert one.calling == Calling(right_calls=2, wrong_calls=1, missed_calls=0, right_words=1)
    assert other.calling == Calling(right_calls=1, wrong_calls=0, missed_calls=1, right_words=1)
    assert (one.cut_off, other.cut_off) == (1, 1)
    assert (one.checks["schema"], other.checks["answered"]) == (Rate(2, 2), Rate(3, 4))
    assert other.checks["same"] == Rate(2, 3)


# BFCL's possible answers

FUNCTION: dict[str, Any] = {
    "name": "trip.book",
    "parameters": {
        "type": "dict",
        "required": ["city"],
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "price": {"type": "float"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "hotel": {"type": "dict"},
            "stops": {"type": "array", "items": {"type": "dict"}},
        },
    },
}
VALUES: dict[str, list[Any]] = {
    "city": ["New York, NY", "NYC"],
    "days": [3, ""],
    "price": [100.0, ""],
    "tags": [["Sea", "sun"], ""],
    "hotel": [{"name": ["Ritz"], "stars": [5, ""]}, ""],
    "stops": [[{"at": ["Bonn"]}], ""],
}
POSSIBLE = PossibleAnswers([FUNCTION], [("trip.book", VALUES)])


@pytest.mark.parametrize(
    ("arguments", "right"),
    [
        ({"city": "new york NY"}, True),
        ({"city": "NYC", "days": 3, "price": 100, "tags": ["sea", "Sun"]}, True),
        ({"city": "NYC", "hotel": {"name": "ritz"}, "stops": [{"at": "bonn"}]}, True),
        ({"city": "Boston"}, False),
        ({}, False),
        ({"city": "NYC", "days": "3"}, False),
        ({"city": "NYC", "days": True}, False),
        ({"city": "NYC", "days": 4}, False),
        ({"city": "NYC", "people": 1}, False),
        ({"city": "NYC", "tags": ["sea"]}, False),
        ({"city": "NYC", "tags": [1, 2]}, False),
        ({"city": "NYC", "hotel": {"name": "Ritz", "pool": True}}, False),
        ({"city": "NYC", "hotel": {"stars": 5}}, False),
        ({"city": "NYC", "stops": [{"at": "Bonn"}, {"at": "Ulm"}]}, False),
        ("nonsense", False),
    ],
)
def test_calls_are_compared_with_the_possible_answers(arguments: Any, right: bool) -> None:
    assert are_right(POSSIBLE, [("trip_book", arguments)]) is right


def test_several_calls_may_come_in_any_order() -> None:
    possible = PossibleAnswers([FUNCTION], [("trip.book", {"city": ["Rome"]}), ("trip.book", {"city": ["Oslo"]})])
    rome, oslo = ("trip_book", {"city": "Rome"}), ("trip_book", {"city": "Oslo"})
    assert are_right(possible, [oslo, rome])
    assert not are_right(possible, [rome, rome])
    assert not are_right(possible, [rome])
    assert not are_right(possible, [("book", {"city": "Rome"}), oslo])


# The page


def test_the_page_says_what_there_is() -> None:
    calls = sum(case["expected"]["call"] for case in RAW)
    words = " ".join(PAGE.split())
    assert f"There are {len(RAW)} cases in" in words
    assert f"In {calls} a tool should be called, and in {len(RAW) - calls} none should." in words
    assert f"Each of {len(TOOLS)} tools has three cases" in words
    assert [name for name, meaning in CHECKS.items() if f"| `{name}` | {meaning} |" not in PAGE] == []
    assert WHEEL in PAGE


def test_the_page_is_made_of_the_results() -> None:
    assert with_results(PAGE) == PAGE, "run python -m tests.real_vllm.model_checks --page"
