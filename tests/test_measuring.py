"""`extproc probe --measure`: each way of asking is tried as the gateway asks, and the best one is recommended."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from extproc.cli import main
from extproc.config import parse
from extproc.model_checks.scores import Rate
from extproc.probe import Measured, Measuring, Origin, Report
from extproc.probe.measuring import measure
from extproc.probe.measuring.questions import CATEGORIES, chosen, written
from extproc.probe.measuring.scores import Score, recommended, worse_than_alone
from extproc.probe.measuring.table import table
from extproc.probe.measuring.ways import Way
from extproc.probe.server import Server as ProbedServer
from scripted_vllm import ScriptedVLLM
from scripted_vllm.checks import ChatRequest
from scripted_vllm.replies import Reply
from scripted_vllm.troubles import Fail, Refuse
from tests.played_vllm import FORCED, NAME, TAGGED, ask, config_of, serving

Calls = list[tuple[str, dict[str, object]]]

ROOT = Path(__file__).parent.parent

TEMPLATE = "tools: template, format: hermes"
TOLD = "tools: prompt, format: hermes"
TOLD_TWICE = "tools: prompt, format: hermes, example: true"
LISTED = "tools: prompt, format: xlam, example: true"
HELD = ", forced: begun"


def right_calls() -> dict[str, Calls]:
    """What is to be called, by the words of the question."""
    return {
        case.messages[-1]["content"]: [
            (name, {key: one[0] for key, one in values.items() if one[0] != ""}) for name, values in case.possible.calls
        ]
        if case.possible is not None
        else []
        for case in written()
    }


def tagged(calls: Calls) -> str:
    return "\n".join(
        f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>" for name, arguments in calls
    )


def listed(calls: Calls) -> str:
    return json.dumps([{"name": name, "arguments": arguments} for name, arguments in calls])


def asks_for_list(request: ChatRequest) -> bool:
    return '[{"name": ' in str(request.messages[0]["content"])


def model(write: Callable[[ChatRequest, Calls], str], trial: str = TAGGED) -> ScriptedVLLM:
    """One that knows what to call, and writes it so; the first answers are those to what `probe` asks anyway."""
    known = right_calls()

    def speak(request: ChatRequest) -> Reply:
        asked = str(request.messages[-1]["content"])
        said = write(request, known[max((text for text in known if asked.startswith(text)), key=len)])
        return Reply(said if said not in ("", "[]") else "There is no tool for that.")

    server = ScriptedVLLM(NAME, speak=speak)
    server.play(Reply("ready"), Reply("As"), Reply(trial), Reply(FORCED))
    return server


def measured(server: ScriptedVLLM, questions: int = 40) -> Report:
    with server.running():
        return ask(server.url, measuring=Measuring(questions=questions))


def questions(server: ScriptedVLLM) -> list[dict[str, Any]]:
    """The requests of the measure: they have a seed."""
    sent = (request.json for request in server.requests if request.route == "/v1/chat/completions")
    return [body for body in sent if "seed" in body]


def totals(report: Report) -> dict[str, tuple[int, ...]]:
    found = report.probed[0].measured
    assert found is not None
    return {score.way.told: tuple(rate.right for rate in score.categories.values()) for score in found.scores}


class TestMeasuring:
    def test_a_model_that_calls_several_tools_only_in_a_list_is_asked_for_lists(self) -> None:
        report = measured(model(lambda asked, calls: listed(calls) if asks_for_list(asked) else tagged(calls[:1])))
        assert totals(report) == {
            TEMPLATE: (10, 10, 0, 10),
            TOLD: (10, 10, 0, 10),
            TOLD_TWICE: (10, 10, 0, 10),
            LISTED: (10, 10, 10, 10),
            LISTED + HELD: (10, 10, 10, 10),
        }
        served = config_of(report).models[0]
        assert (served.tools, served.format, served.example, served.forced) == ("prompt", "xlam", True, False)
        assert "    # measured: right in 40 of 40 questions (seed 0)\n" in report.yaml()
        assert f"    #   {LISTED} * " in report.yaml()
        assert "\n    format              xlam: measured: a list brings more right answers\n" in report.summary()

    def test_a_model_that_calls_as_it_learned_to_is_asked_in_the_cheapest_way(self) -> None:
        report = measured(model(lambda asked, calls: listed(calls) if asks_for_list(asked) else tagged(calls)), 8)
        assert set(totals(report).values()) == {(2, 2, 2, 2)}
        found = report.probed[0].measured
        assert found is not None
        assert found.best is not None
        assert found.best.prompt_tokens == min(score.prompt_tokens or 0 for score in found.scores)

    def test_calls_in_the_servers_own_field_count_as_calls_do(self) -> None:
        """The server alone, and native mode: with a tool parser, tools go to it."""
        known = right_calls()

        def speak(request: ChatRequest) -> Reply:
            calls = known.get(str(request.messages[-1]["content"]), [("get_weather", {"city": "Paris"})])
            if request.tools:
                made = [(name, json.dumps(arguments)) for name, arguments in calls[:1]]
                return Reply("" if made else "No tool does that.", calls=made)
            return Reply("ready")

        server = ScriptedVLLM(NAME, speak=speak, tool_parser=True)
        report = measured(server, 8)
        assert totals(report)["the server alone"] == (2, 2, 0, 2)
        assert totals(report)["tools: native, format: hermes"] == (2, 2, 0, 2)
        assert config_of(report).models[0].tools == "native"

    def test_where_no_call_is_right_nothing_follows(self) -> None:
        plain = measured(model(lambda _asked, _calls: "I would look out of the window."), 8)
        assert set(totals(plain).values()) == {(0, 0, 0, 2)}
        served = config_of(plain).models[0]
        assert (served.tools, served.format, served.example) == ("template", "hermes", False)
        assert "measured: right in" not in plain.yaml()
        assert TEMPLATE in plain.yaml()

    def test_a_call_of_no_tool_is_no_answer_in_words(self) -> None:
        made_up = '[{"name": "search", "arguments": {"query": "it"}}]'
        known = right_calls()
        server = ScriptedVLLM(
            NAME, speak=lambda asked: Reply(tagged(known[str(asked.messages[-1]["content"])]) or made_up)
        )
        server.play(Reply("ready"), Reply("As"), Reply(TAGGED), Reply(FORCED))
        report = measured(server, 8)
        assert set(totals(report).values()) == {(2, 2, 2, 0)}
        assert f"{TEMPLATE}: 2 of 8 answers have a call in their text" in report.summary()

    def test_a_model_that_makes_up_tools_until_it_is_told_is_asked_once_more(self) -> None:
        made_up = '[{"name": "search", "arguments": {"query": "it"}}]'

        def write(asked: ChatRequest, calls: Calls) -> str:
            told = "There is no tool named 'search' " in str(asked.messages[-1]["content"])
            return tagged(calls) if calls else "I don't know." if told else made_up

        report = measured(model(write), 8)
        [best] = [told for told, rates in totals(report).items() if sum(rates) == 8]
        assert best.endswith("retry: true")
        assert config_of(report).models[0].retry
        assert "\n    retry: true\n" in report.yaml()

    @pytest.mark.parametrize("sure", [True, False])
    def test_a_model_that_calls_needlessly_is_asked_whether_it_is_sure_if_that_helps(self, *, sure: bool) -> None:
        """Of the needless calls it is unsure, of the others not; or of all."""
        known = right_calls()
        offered = {case.messages[-1]["content"]: case.tools[0]["function"]["name"] for case in written()}

        def speak(request: ChatRequest) -> Reply:
            asked = str(request.messages[-1]["content"])
            question = max((text for text in known if asked.startswith(text)), key=len)
            calls = known[question]
            if "may not do what the user asks." in asked:
                return Reply("There is no tool for that.")
            doubt = {"token": "t", "logprob": -0.01 if calls and sure else -0.5, "bytes": [116], "top_logprobs": []}
            return Reply(tagged(calls or [(offered[question], {})]), logprobs=[doubt] * 200)

        server = ScriptedVLLM(NAME, speak=speak)
        server.play(Reply("ready"), Reply("As"), Reply(TAGGED), Reply(FORCED))
        report = measured(server, 8)
        found = {told: rates for told, rates in totals(report).items() if "min_confidence" in told}
        assert list(found.values()) == [(2, 2, 2, 2) if sure else (0, 0, 0, 2)] * 2
        served = config_of(report).models[0]
        assert (served.retry, served.min_confidence) == ((True, 0.92) if sure else (False, None))
        assert ("\n    min_confidence: 0.92\n" in report.yaml()) == sure

    def test_a_server_that_refuses_to_tell_probabilities_says_nothing_of_the_other_ways(self) -> None:
        known = right_calls()
        offered = {case.messages[-1]["content"]: case.tools[0]["function"]["name"] for case in written()}

        def speak(request: ChatRequest) -> Reply:
            if request.logprobs:
                return Reply(trouble=Fail(400, message="no logprobs here"))
            question = str(request.messages[-1]["content"])
            return Reply(tagged(known[question] or [(offered[question], {})]))

        server = ScriptedVLLM(NAME, speak=speak)
        server.play(Reply("ready"), Reply("As"), Reply(TAGGED), Reply(FORCED))
        report = measured(server, 8)
        assert not any("min_confidence" in told for told in totals(report))
        assert "measured: right in 6 of 8 questions" in report.yaml()

    def test_nobody_asks_how_sure_a_model_is_that_calls_nothing_needlessly(self) -> None:
        server = model(lambda _asked, calls: tagged(calls))
        assert not any("min_confidence" in told for told in totals(measured(server, 8)))
        assert not any(body.get("logprobs") for body in questions(server))

    def test_what_gets_no_answer_is_counted_and_said(self) -> None:
        server = ScriptedVLLM(NAME, speak=lambda _request: Reply(trouble=Fail(503, message="full\nof others")))
        server.play(Reply("ready"), Reply("As"), Reply(TAGGED), Reply(FORCED))
        report = measured(server, 4)
        assert totals(report) == {TEMPLATE: (0, 0, 0, 0)}  # so the other ways aren't asked at all
        assert "; measured nothing: too many questions got no answer (tools: template" in report.summary()
        assert f"{TEMPLATE}: 4 of 4 weren't answered: status 503: full of others" in report.summary()
        assert config_of(report).models[0].tools == "template"

    @pytest.mark.parametrize(
        "message",
        [
            {"role": "assistant", "content": 5},
            {"role": "assistant", "tool_calls": [{"function": None}]},
            None,
            {"role": "assistant", "content": json.loads("[" * 200 + "]" * 200)},
            {"tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "[" * 9000}}]},
        ],
        ids=["number", "no function", "no message", "deep", "deep arguments"],
    )
    def test_odd_answers_are_none(self, message: object) -> None:
        odd = {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        with serving() as server:
            [probed] = ask(server.url).probed
        played = dict.fromkeys(("none", "chat", "structural_tag"), (200, odd))
        with serving(**played) as server:
            asked_of = ProbedServer(Origin.parse(server.url), timeout=10)
            found = measure(asked_of, probed.findings, probed.judged, Measuring(4))
        assert found.best is None
        assert [each.right_calls for each in found.scores] == [0] * len(found.scores)

    def test_a_server_that_hangs_is_left_after_the_first_questions(self) -> None:
        server = ScriptedVLLM(NAME, speak=lambda _request: Reply(trouble=Refuse()))
        server.play(Reply("ready"), Reply("As"), Reply(TAGGED), Reply(FORCED))
        with server.running():
            report = ask(server.url, measuring=Measuring(questions=8, concurrency=2))
        assert len(questions(server)) == 2
        assert f"{TEMPLATE}: 8 of 8 weren't answered: " in report.summary()

    def test_answers_that_were_cut_off_are_wrong_and_said(self) -> None:
        cut = ScriptedVLLM(NAME, speak=lambda _request: Reply("I wonder.", finish_reason="length"))
        cut.play(Reply("ready"), Reply("As"), Reply(TAGGED), Reply(FORCED))
        report = measured(cut, 8)
        assert set(totals(report).values()) == {(0, 0, 0, 0)}
        assert f"{TEMPLATE}: 8 of 8 answers reached their token limit" in report.summary()

    def test_a_model_that_thinks_has_time_to(self) -> None:
        server = model(lambda _asked, calls: tagged(calls), trial=f"<think>A tool.</think>{TAGGED}")
        measured(server, 4)
        assert {request["max_tokens"] for request in questions(server)} == {1500}

    def test_what_another_model_of_the_server_cant_have_isnt_written(self) -> None:
        """`structured_outputs` is the backend's."""
        report = measured(model(lambda _asked, calls: tagged(calls)), 8)
        [bound] = report.probed
        assert bound.measured is not None
        held = replace(bound.measured, best=score((2, 2, 2, 2), forced="begun"))
        binds = replace(bound, measured=held)
        assert config_of(replace(report, probed=(binds,))).models[0].forced == "begun"
        card = replace(bound.findings.card, name="other")
        unbound = replace(bound.judged, structured_outputs=False)
        other = replace(bound, findings=replace(bound.findings, card=card), judged=unbound)
        both = replace(report, probed=(binds, other))
        assert [each.forced for each in config_of(both).models] == [False, False]
        assert "# `forced: begun` did best, but another model of this server can't be forced" in both.yaml()

    def test_adapters_have_what_was_not_measured(self) -> None:
        report = measured(model(lambda asked, calls: listed(calls) if asks_for_list(asked) else tagged(calls[:1])), 8)
        adapter = replace(report.probed[0].findings.card, name="sql", parent=NAME)
        with_adapter = replace(report, probed=(replace(report.probed[0], adapters=(adapter,)),))
        assert [each.format for each in config_of(with_adapter).models] == ["xlam", "hermes"]
        assert "    # not measured: --model asks it by its name\n" in with_adapter.yaml()

    @pytest.mark.parametrize("name", ["measured", "qwen-\N{SNAKE}", 'a "b"', "red\x1b[31m"])
    def test_models_may_have_any_name(self, name: str) -> None:
        known = right_calls()

        def speak(asked: ChatRequest) -> Reply:
            return Reply(tagged(known[str(asked.messages[-1]["content"])]) or "No tool does that.")

        server = ScriptedVLLM(name, speak=speak)
        server.play(Reply("ready"), Reply("As"), Reply(TAGGED), Reply(FORCED))
        heard: set[str] = set()
        with server.running():
            report = ask(server.url, measuring=Measuring(4, told=lambda way, _done, _of: heard.add(way)))
        assert totals(report)[TEMPLATE] == (1, 1, 1, 1)
        assert all(way.isprintable() for way in heard)  # on a terminal it is written as it is

    def test_progress_is_told(self) -> None:
        heard: list[tuple[str, int, int]] = []
        server = model(lambda _asked, calls: tagged(calls))
        with server.running():
            ask(server.url, measuring=Measuring(questions=4, told=lambda *line: heard.append(line)))
        assert heard[:4] == [(f"{NAME}, {TEMPLATE}", done, 4) for done in (1, 2, 3, 4)]

    def test_the_command_prints_what_is_best(self, capsys: pytest.CaptureFixture[str]) -> None:
        server = model(lambda asked, calls: listed(calls) if asks_for_list(asked) else tagged(calls[:1]))
        with server.running():
            options = ["--model", NAME, "--measure", "--questions", "8", "--seed", "1", "--concurrency", "2"]
            assert main(["probe", server.url, *options]) == 0
        printed, told = capsys.readouterr()
        assert parse(printed).models[0].format == "xlam"
        assert "# left out by itself after a system prompt" in printed
        assert f"{NAME}, {LISTED}: 8 of 8 answered\n" in told
        assert "\n    measured            right answers " in told

    def test_the_table_is_as_printed(self) -> None:
        """docs/quality.md: its numbers, told anew."""
        page = (ROOT / "docs" / "quality.md").read_text(encoding="utf-8")
        shown = page.partition("```text\nright answers")[2].partition("\n```")[0]
        scores = []
        for line in shown.splitlines()[1:]:
            way, *cells = re.split(r" {2,}", line)
            *rates, tokens = (tuple(map(int, cell.split("/"))) for cell in cells)
            settings = dict(pair.split(": ") for pair in way.removesuffix(" *").split(", "))
            made = Score(
                way=Way(settings),
                categories={name: Rate(*rate) for name, rate in zip(CATEGORIES, rates[:4], strict=True)},
                valid=Rate(*rates[5]),
                prompt_tokens=tokens[0],
                failed=0,
            )
            assert (made.total.right, made.total.of) == rates[4]
            scores.append(made)
        best, _ = recommended(scores)
        assert "\n".join(table(Measured(tuple(scores), best))) == f"right answers{shown}"

    def test_its_options_are_for_it(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as ended:
            main(["probe", "http://127.0.0.1:9", "--questions", "8"])
        assert ended.value.code == 2
        assert "--questions is for --measure" in capsys.readouterr().err


def score(
    right: tuple[int, int, int, int], *, tokens: float = 100, valid: int = 10, alone: bool = False, **settings: Any
) -> Score:
    return Score(
        way=Way(None if alone else {"tools": "prompt", "format": "hermes", **settings}),
        categories={name: Rate(number, 10) for name, number in zip(CATEGORIES, right, strict=True)},
        valid=Rate(valid, 10),
        prompt_tokens=tokens,
        failed=0,
    )


class TestChoice:
    def test_where_much_got_no_answer_nothing_follows(self) -> None:
        """A way that was refused for another reason than what it is would look bad."""
        plain, refused = score((5, 5, 0, 10)), replace(score((0, 0, 0, 0)), failed=40)
        assert recommended([plain, refused])[0] is None
        assert recommended([plain, replace(refused, failed=2)])[0] is plain

    def test_more_right_answers_are_worth_tokens(self) -> None:
        plain, dear = score((5, 5, 0, 10)), score((8, 5, 0, 10), tokens=900)
        assert recommended([plain, dear])[0] is dear

    def test_one_question_in_twenty_is_not(self) -> None:
        plain, dear = score((5, 5, 0, 10)), score((7, 5, 0, 10), tokens=900)
        assert recommended([plain, dear])[0] is plain

    def test_of_equals_the_one_with_valid_calls_is_taken_then_the_first(self) -> None:
        plain, valid, other = score((5, 5, 0, 10), valid=9), score((5, 5, 0, 10)), score((6, 5, 0, 10))
        assert recommended([plain, valid, other])[0] is valid

    def test_one_that_is_nowhere_worse_than_the_server_alone_is_taken_first(self) -> None:
        alone, native = score((9, 9, 9, 9), alone=True), score((9, 9, 9, 9), tokens=300, tools="native")
        prompt = score((9, 9, 9, 7), tokens=200)
        assert recommended([alone, native, prompt])[0] is native
        assert recommended([native, prompt])[0] is prompt
        all_worse = replace(native, categories={**native.categories, "one": Rate(8, 10)})
        assert recommended([alone, all_worse, prompt])[0] is prompt

    def test_a_second_request_is_worth_any_right_answer(self) -> None:
        """It is asked only where the first answer was wrong."""
        once, again = score((9, 9, 9, 9)), score((9, 9, 9, 10), tokens=130, retry=True)
        other = score((9, 9, 9, 9), tokens=120, tools="template")
        assert recommended([once, other, again])[0] is again
        assert recommended([once, other, score((9, 9, 9, 9), tokens=130, retry=True)])[0] is once
        assert recommended([score((9, 9, 9, 3)), other, again])[0] is again

    def test_a_second_request_is_worth_more_than_a_grammar_that_changes_nothing(self) -> None:
        """Numbers of a real 1.5B."""
        plain, again = score((8, 9, 10, 8)), score((8, 9, 10, 10), tokens=119, retry=True)
        held = score((8, 9, 10, 8), forced="begun")
        assert recommended([plain, held, again])[0] is again
        assert recommended([plain, score((9, 9, 10, 10), forced="begun"), again])[0] is not again

    def test_right_calls_arent_given_for_words(self) -> None:
        plain = score((9, 9, 9, 7), retry=True)
        assert recommended([plain, score((9, 9, 8, 9), retry=True, min_confidence=0.92)])[0] is plain
        sure = score((9, 9, 9, 8), retry=True, min_confidence=0.92)
        assert recommended([plain, sure])[0] is sure
        far = score((9, 9, 8, 10), retry=True, min_confidence=0.92)
        assert recommended([score((9, 9, 9, 3), retry=True), far])[0] is far

    def test_of_two_numbers_the_one_with_more_right_answers_is_taken(self) -> None:
        once = score((9, 9, 9, 3))
        low, high = (
            score((9, 9, 9, right), retry=True, min_confidence=least) for right, least in ((8, 0.92), (9, 0.95))
        )
        assert recommended([once, low, high])[0] is high
        assert recommended([once, low, score((9, 9, 9, 8), retry=True, min_confidence=0.95)])[0] is low

    def test_the_server_alone_is_no_setting(self) -> None:
        assert recommended([score((10, 10, 10, 10), alone=True)])[0] is None

    def test_silence_is_no_merit_of_its_own(self) -> None:
        assert recommended([score((0, 0, 0, 10))])[0] is None

    def test_where_the_server_alone_is_better_is_said(self) -> None:
        alone, through = score((0, 0, 0, 10), alone=True), score((9, 9, 9, 7))
        assert worse_than_alone(through, [alone, through]) == ["none"]
        assert worse_than_alone(through, [through]) == []


class TestQuestions:
    def test_there_are_as_many_of_each_kind(self) -> None:
        assert Counter(case.feature for case in chosen(40, 0)) == dict.fromkeys(CATEGORIES, 10)

    def test_a_larger_sample_holds_the_smaller_one(self) -> None:
        few, many = ({case.id for case in chosen(number, 3)} for number in (8, 80))
        assert few < many
        assert len(many) == 80

    def test_others_are_taken_by_another_seed(self) -> None:
        assert chosen(8, 0) != chosen(8, 1)
