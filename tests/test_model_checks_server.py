"""The model checks ask real servers: a model that answers well passes, and each mistake fails exactly its checks."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from extproc.cli import main as extproc
from extproc.model_checks import bfcl
from extproc.model_checks.asking import Results, Server, ServerError, ask_all, require_allowed
from extproc.model_checks.cases import Case, load, raw_cases, sample
from extproc.model_checks.command import main
from extproc.model_checks.judging import Judgement, judge
from scripted_vllm import Cut, Fail, NoDone, Reply, ScriptedVLLM, Stall
from scripted_vllm.checks import ChatRequest
from tests.gateway import Gateway

EXAMPLES = {case["id"]: case["expected"]["example"] for case in raw_cases()}
CASES = load()
FEW = sample(CASES, 12, 3)
Speak = Callable[[Case, ChatRequest], Reply]


def well(case: Case, _: ChatRequest) -> Reply:
    calls = [(call["name"], json.dumps(call["arguments"])) for call in EXAMPLES[case.id]]
    return Reply(calls=calls) if calls else Reply("In words.")


@contextmanager
def serving(speak: Speak, cases: Sequence[Case] = CASES) -> Iterator[str]:
    """A server whose model answers as the case says; gives its base URL."""
    known = {_key(case.messages, case.tools): case for case in cases}

    def spoken(request: ChatRequest) -> Reply:
        return speak(known[_key(request.messages, request.tools)], request)

    with ScriptedVLLM("m", 32768, tool_parser=True, speak=spoken).running() as server:
        yield f"{server.url}/v1"


def _key(messages: Any, tools: Any) -> str:
    return json.dumps([messages, tools], sort_keys=True)


def judged(url: str, cases: Sequence[Case], *, timeout: float = 30.0, concurrency: int = 4) -> list[Judgement]:
    results = Results(None, {})
    ask_all(Server(url, "m", timeout=timeout, concurrency=concurrency), cases, results)
    return [judge(case, results.answers[case.id, "whole"], results.answers[case.id, "streamed"]) for case in cases]


def failing(judgements: Sequence[Judgement]) -> set[str]:
    return {
        name
        for one in judgements
        for checks in (one.whole, one.streamed)
        for name, reason in checks.items()
        if reason is not None
    }


def test_a_model_that_answers_well_passes_every_case() -> None:
    # Both choices ask the same in one case; the model doesn't see which.
    with serving(well) as url:
        judgements = judged(url, [case for case in CASES if case.feature != "choice_none"], concurrency=8)
    assert failing(judgements) == set()
    assert sum(one.called["streamed"] for one in judgements) == sum(one.case.call for one in judgements) > 150


def silent(_: Case, __: ChatRequest) -> Reply:
    return Reply("In words.")


def eager(case: Case, _: ChatRequest) -> Reply:
    return Reply(calls=[(case.tools[0]["function"]["name"], "{}")])


def inventive(case: Case, request: ChatRequest) -> Reply:
    return Reply(calls=[("no_such_tool", "{}")]) if case.call else well(case, request)


def broken(case: Case, request: ChatRequest) -> Reply:
    right = well(case, request)
    return Reply(calls=[(name, arguments[:-1]) for name, arguments in right.calls]) if right.calls else right


def listing(case: Case, request: ChatRequest) -> Reply:
    """Arguments that are JSON and of no schema of ours."""
    right = well(case, request)
    return Reply(calls=[(name, '{"a": 1, "room": []}') for name, _ in right.calls]) if right.calls else right


def otherwise(case: Case, request: ChatRequest) -> Reply:
    """Streams other words."""
    return Reply("Other words.") if request.stream and not case.call else well(case, request)


def ending(case: Case, request: ChatRequest) -> Reply:
    return Reply(trouble=NoDone(), calls=well(case, request).calls, text=well(case, request).text)


def refusing(case: Case, request: ChatRequest) -> Reply:
    return Reply(trouble=Fail(500)) if case.call else well(case, request)


def cutting(case: Case, request: ChatRequest) -> Reply:
    return Reply("In so many words.", trouble=Cut(1)) if not case.call else well(case, request)


@pytest.mark.parametrize(
    ("speak", "checks"),
    [
        (silent, {"decision"}),
        (inventive, {"name", "schema", "tool"}),
        (broken, {"json", "schema"}),
        (otherwise, {"same"}),
        (ending, {"form"}),
        (refusing, {"answered"}),
        (cutting, {"answered"}),
    ],
)
def test_each_mistake_fails_exactly_its_checks(speak: Speak, checks: set[str]) -> None:
    with serving(speak) as url:
        assert failing(judged(url, FEW)) == checks


def test_arguments_are_held_to_their_schemas() -> None:
    cases = [case for case in CASES if case.feature in ("bounds", "closed", "reference", "any_of") and case.call]
    with serving(listing) as url:
        judgements = judged(url, cases)
    assert failing(judgements) == {"schema"}
    assert all(one.whole["schema"] and one.streamed["schema"] for one in judgements)


def test_a_call_where_none_is_due_is_a_wrong_decision() -> None:
    near = [case for case in CASES if case.id.endswith(":near")][:6]
    with serving(eager) as url:
        judgements = judged(url, near)
    assert all(one.whole["decision"] and one.streamed["decision"] for one in judgements)


def late(_: Case, __: ChatRequest) -> Reply:
    return Reply(trouble=Stall(None, 5))


def test_who_says_nothing_is_no_more_than_late() -> None:
    with serving(late) as url:
        [judgement] = judged(url, FEW[:1], timeout=0.3)
    assert judgement.whole == {"answered": "status 0: no answer within 0.3 s"} == judgement.streamed


def test_ours_passes_behind_a_model_that_writes_well(gateway: Gateway) -> None:
    cases = [case for case in sample(CASES, 40, 1) if not case.feature.startswith("choice")]
    judgements = []
    for case in cases:
        gateway.backend.play(*(Reply(_written(case)) for _ in ("whole", "streamed")))
        results = Results(None, {})
        ask_all(Server(f"{gateway.url}/v1", "coder", concurrency=1), [case], results)
        judgements.append(judge(case, results.answers[case.id, "whole"], results.answers[case.id, "streamed"]))
        gateway.backend.forget()
    assert failing(judgements) == set()
    assert len(judgements) > 30


def _written(case: Case) -> str:
    calls = [json.dumps(call, ensure_ascii=False) for call in EXAMPLES[case.id]]
    return "\n".join(f"<tool_call>\n{call}\n</tool_call>" for call in calls) or "In words."


# Runs that are stopped, and the command


def test_a_run_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    file, run = tmp_path / "run.jsonl", {"model": "m"}
    asked: list[str] = []

    def speak(case: Case, request: ChatRequest) -> Reply:
        asked.append(case.id)
        return well(case, request)

    with serving(speak) as url:
        server = Server(url, "m")
        ask_all(server, FEW[:3], Results(file, run))
        whole = file.read_text(encoding="utf-8")
        file.write_text(whole[:-20], encoding="utf-8")  # killed in the middle of a line
        results = Results(file, run)
        assert len(results.answers) == 5
        asked.clear()
        ask_all(server, FEW[:4], results)
    assert asked.count(FEW[3].id) == 2
    assert len(asked) == 3
    assert len(results.answers) == 8 == len(Results(file, run).answers)


def test_the_command_judges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.jsonl"
    with serving(well) as url:
        words = ["conformance", "model", url, "--model", "m", "--limit", "10", "--seed", "3", "--results", str(file)]
        assert extproc([*words, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["sets"]["cases"]["whole"]["checks"]["decision"] == {
        "right": 10,
        "of": 10,
        "share": 1.0,
        "interval": [0.7225, 1.0],
    }
    assert said["sets"]["cases"]["wrong"] == {}
    # All is answered already, so nobody has to be there.
    assert extproc([*words, "--markdown"]) == 0
    assert "| F1 of calling | 100 % (" in capsys.readouterr().out
    assert extproc([*words[:4], "other", *words[5:]]) == 2
    assert "is of another run" in capsys.readouterr().err


def test_what_no_model_is_to_blame_for_is_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(silent) as url:
        assert main([url, "--model", "m", "--limit", "4"]) == 0
    with serving(refusing) as url:
        assert main([url, "--model", "m", "--limit", "4"]) == 1
    assert "answered: status 500" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["http://127.0.0.1:1/v1"], "http://127.0.0.1:1/v1: "),
        (["http://example.com/v1"], "example.com isn't this machine's loopback interface"),
        (["file:///etc/passwd"], "is no http URL"),
        (["http://127.0.0.1:1/v1", "--only", "bfcl"], "--only bfcl needs --bfcl WHEEL"),
        (["http://127.0.0.1:1/v1", "--bfcl", os.devnull], "holds no data of bfcl-eval"),
    ],
)
def test_the_command_says_why_it_judged_nothing(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--model", "m", "--limit", "1"]) == 2
    assert complaint in capsys.readouterr().err


def test_others_are_asked_only_when_told() -> None:
    require_allowed("https://example.com/v1", remote=True)
    require_allowed("http://[::1]:8000/v1", remote=False)
    with pytest.raises(ServerError):
        require_allowed("http://10.0.0.1/v1", remote=False)


# BFCL's questions, in a wheel like its own


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    function = {
        "name": "math.add",
        "description": "Adds.",
        "parameters": {
            "type": "dict",
            "required": ["a"],
            "properties": {"a": {"type": "float"}, "b": {"type": "tuple", "items": {"type": "integer"}}, "c": {}},
        },
    }
    place = tmp_path / "bfcl_eval-0-py3-none-any.whl"
    with zipfile.ZipFile(place, "w") as file:
        for category in bfcl.CATEGORIES:
            questions = [
                {"id": f"{category}_{n}", "question": [[{"role": "user", "content": f"{n}"}]], "function": [function]}
                for n in range(3)
            ]
            answers = [{"id": "-", "ground_truth": [{"math.add": {"a": [n], "b": [""], "c": [""]}}]} for n in range(3)]
            name = f"BFCL_v4_{category}.json"
            file.writestr(f"bfcl_eval/data/{name}", "".join(json.dumps(one) + "\n" for one in questions))
            if "relevance" not in category:
                lines = "".join(json.dumps(one) + "\n" for one in answers)
                file.writestr(f"bfcl_eval/data/possible_answer/{name}", lines)
    return place


def test_bfcls_questions_become_cases(wheel: Path) -> None:
    cases = bfcl.load(wheel, per_category=2, seed=1)
    assert [case.feature for case in cases] == [one for one in bfcl.CATEGORIES for _ in range(2)]
    [tool] = cases[0].tools
    assert tool["function"]["name"] == "math_add"
    assert tool["function"]["parameters"] == {
        "type": "object",
        "required": ["a"],
        "properties": {
            "a": {"type": "number", "format": "float", "description": " This is a float type value."},
            "b": {"type": "array", "items": {"type": "integer"}},
            "c": {"type": "string"},
        },
    }
    assert {case.call for case in cases if case.feature == "live_irrelevance"} == {False}
    assert not bfcl.is_pinned(wheel)


def test_bfcls_questions_are_judged_by_their_values(wheel: Path) -> None:
    cases = bfcl.load(wheel)

    def speak(case: Case, _: ChatRequest) -> Reply:
        number = int(case.id[-1])
        told = number if number else 7  # of three questions the first is answered wrongly
        return Reply(calls=[("math_add", json.dumps({"a": told}))]) if case.call else Reply("No.")

    # The model doesn't know which category asks.
    chosen = [case for case in cases if case.feature == "live_simple"]
    with serving(speak, chosen) as url:
        judgements = judged(url, chosen)
    assert [one.whole["match"] is None for one in judgements] == [False, True, True]
    assert failing(judgements) == {"match"}
