"""What `tools: auto` stands for, and when a model goes to another step: without any exchange."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable
from itertools import pairwise
from math import log2
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.config import Bounds, Config, ConfigError, Model, parse
from extproc.config.measured import RECOMMENDATIONS, recommendation
from extproc.turn.call_quality import CallRate
from extproc.turn.steering import LONGEST, REFUSALS, Change, Climb, Steering, most_valid
from extproc.turn.tally import Tally, Violations

NOT_FORCED = ", structured_outputs: false"


def config(model: str = "", backend: str = "", others: str = "") -> Config:
    return parse(f"""
models:
  - {{name: coder, backend: vllm, tools: auto{model}}}
  - {{name: other, backend: vllm, tools: prompt}}
backends:
  - {{name: vllm, address: "127.0.0.1:8000"{backend}}}
{others}
""")


def climb(calls: int = 10, back: int = 20, valid: float = 0.9) -> Climb:
    return Climb(config(f", steering: {{valid: {valid}, calls: {calls}, back: {back}}}").ladders["coder"])


def good(calls: int = 1) -> Tally:
    return Tally(valid=calls)


def bad(calls: int = 1) -> Tally:
    return Tally(Violations(invalid_tool_arguments=calls))


def play(climbing: Climb, answers: Iterable[Tally]) -> list[Change]:
    """The changes that come of these answers."""
    return [change for tally in answers if (change := climbing.learn(tally)) is not None]


class TestLadder:
    @pytest.mark.parametrize(
        ("model", "backend", "steps"),
        [
            ("", "", ["template", "prompt", "forced", "retry"]),
            ("", ", structured_outputs: false", ["template", "prompt", "retry"]),
            (", format: gemma4", "", ["template", "prompt", "retry"]),
            (", escape_markers: false", "", ["template", "forced", "retry"]),
            (", retry: true", "", ["template", "prompt", "forced"]),
            (", forced: true", "", ["template", "prompt", "retry"]),
            (", forced: begun", "", ["template", "prompt", "retry"]),
            (", steering: {first: prompt}", "", ["prompt", "forced", "retry"]),
            (", steering: {first: forced}", "", ["forced", "retry"]),
            (", upstream_model: Qwen/Qwen2.5-Coder-0.5B-Instruct", "", ["prompt", "forced"]),
            (", upstream_model: /models/qwen2.5_coder-0.5b-instruct-q4_k_m", "", ["prompt", "forced"]),
            (", upstream_model: qwen2.5-coder-0.5b-IQ4_XS", "", ["prompt", "forced"]),
            (", upstream_model: qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "", ["prompt", "forced"]),
            (', upstream_model: "qwen2.5-coder:0.5b"', "", ["prompt", "forced"]),
            (', upstream_model: "qwen2.5-coder:0.5b-instruct-q4_K_M"', "", ["prompt", "forced"]),
            (", upstream_model: Qwen2.5-Coder-0.5B-Instruct-bnb-4bit", "", ["prompt", "forced"]),
            (", upstream_model: Qwen2.5-Coder-0.5B-bf16", "", ["prompt", "forced"]),
            (', upstream_model: "qwen2.5-coder:1.5b"', "", ["prompt", "forced"]),
            (', upstream_model: "qwen2.5-coder:7b"', "", ["template", "prompt", "forced", "retry"]),
            (", upstream_model: qwen2.5-coder-0.5b.gguf-sql", "", ["template", "prompt", "forced", "retry"]),
            (", upstream_model: qwen2.5-coder-0.5b-q8-sql", "", ["template", "prompt", "forced", "retry"]),
            (", upstream_model: Qwen2.5-Coder-0.5B, retry: false", "", ["prompt", "forced", "retry"]),
            (", upstream_model: Qwen2.5-Coder-0.5B, retry: true", "", ["prompt", "forced"]),
            (", upstream_model: qwen2.5-coder-0.5b-hermes-sft", "", ["template", "prompt", "forced", "retry"]),
            (", upstream_model: /qwen2.5-coder-0.5b-draft/llama-70b", "", ["template", "prompt", "forced", "retry"]),
            (", upstream_model: Qwen2.5-Coder-1.5B", "", ["prompt", "forced"]),
            (", upstream_model: Qwen2.5-Coder-11.5B", "", ["template", "prompt", "forced", "retry"]),
            (
                ", upstream_model: Qwen2.5-Coder-0.5B, steering: {first: template}",
                "",
                ["template", "prompt", "forced", "retry"],
            ),
            (", upstream_model: Qwen2.5-Coder-0.5B, format: hermes", "", ["template", "prompt", "forced", "retry"]),
            (", upstream_model: Qwen2.5-Coder-0.5B, escape_markers: false", "", ["template", "forced", "retry"]),
            (", upstream_model: Qwen2.5-Coder-0.5B, retry: true", NOT_FORCED, ["template", "prompt"]),
        ],
        ids=[
            "all",
            "not forced",
            "no grammar",
            "not escaped",
            "retried",
            "forced",
            "begun",
            "first prompt",
            "first forced",
            "measured",
            "measured by a path",
            "measured, of other bits",
            "measured, by a file",
            "measured, by a tag",
            "measured, by a longer tag",
            "measured, by bitsandbytes",
            "measured, not quantized",
            "measured, a larger one, by a tag",
            "not measured, by a tag",
            "no file",
            "a finetune of few bits",
            "measured, but not retried at first",
            "measured, and retried",
            "a finetune",
            "a folder",
            "measured, a larger one",
            "another size",
            "measured, but told",
            "measured, but in another format",
            "measured, but can't be",
            "measured, but no step would be left",
        ],
    )
    def test_it_has_the_steps_that_there_can_be(self, model: str, backend: str, steps: list[str]) -> None:
        assert [step.name for step in config(model, backend).ladders["coder"].steps] == steps

    def test_each_step_has_all_of_the_one_before(self) -> None:
        asked = [step.model for step in config().ladders["coder"].steps]
        assert [(model.tools, model.forced, model.retry) for model in asked] == [
            ("template", False, False),
            ("prompt", False, False),
            ("prompt", True, False),
            ("prompt", True, True),
        ]

    def test_a_model_that_was_measured_is_asked_as_it_calls_best(self) -> None:
        asked = [step.model for step in config(", upstream_model: Qwen2.5-Coder-0.5B").ladders["coder"].steps]
        assert {(model.tools, model.format, model.example) for model in asked} == {("prompt", "xlam", True)}

    def test_what_was_measured_has_its_numbers_in_the_docs(self) -> None:
        page = (Path(__file__).parent.parent / "docs" / "quality.md").read_text(encoding="utf-8")
        rows = [row for row in page.partition("## Families")[2].splitlines() if row.startswith("| Qwen")]
        assert rows
        told = []
        for row in rows:
            name, step, settings = (cell.strip() for cell in row.split("|")[1:4])
            found = recommendation(name)
            if found is None:
                assert (step, settings) == ("`template`", "")
                continue
            assert step == f"`{found.first}`"
            assert settings == ", ".join(
                f"`{key}: {json.dumps(value)}`".replace('"', "") for key, value in found.settings.items()
            )
            told.append(found)
        assert all(each in told for each in RECOMMENDATIONS)

    def test_each_step_is_a_model_as_one_could_be_configured(self) -> None:
        for step in config().ladders["coder"].steps:
            said = step.model.model_dump(mode="json", exclude_defaults=True)
            again = Config.model_validate(
                {"models": [said], "backends": [{"name": "vllm", "address": "127.0.0.1:8000"}]}
            )
            assert again.models == (step.model,)

    @pytest.mark.parametrize(
        ("model", "complaint"),
        [
            (
                ", format: gemma4, escape_markers: false, retry: true",
                "models[0].tools: with these settings there is nothing to step up to: write `tools: template`",
            ),
            (", steering: {valid: 1}", "models[0].steering.valid: expected less than 1"),
            (", steering: {calls: 5}", "models[0].steering.calls: expected at least 10"),
            (", steering: {calls: 201}", "models[0].steering.calls: expected at most 200"),
            (
                ", steering: {back: 20}",
                "models[0].steering.back: expected at least as many as `calls`: a step has to show how good it is",
            ),
            (", steering: {step: 1}", "models[0].steering.step: no such setting"),
            (
                ", escape_markers: false, steering: {first: prompt}",
                "models[0].steering.first: with these settings there are only the steps template, forced, retry",
            ),
            (
                ", steering: {first: retry}",
                "models[0].tools: with these settings there is nothing to step up to: "
                "write `tools: prompt` and `forced: true` and `retry: true`",
            ),
        ],
    )
    def test_what_makes_no_ladder_is_refused(self, model: str, complaint: str) -> None:
        with pytest.raises(ConfigError) as error:
            config(model)
        assert str(error.value) == f"configuration:3: {complaint}"

    def test_bounds_are_for_who_is_steered(self) -> None:
        with pytest.raises(ConfigError) as error:
            parse("""
models: [{name: coder, backend: vllm, tools: prompt, steering: {valid: 0.5}}]
backends: [{name: vllm, address: "127.0.0.1:8000"}]
""")
        assert str(error.value) == "configuration:2: models[0].steering: it is for `tools: auto` alone"

    def test_a_configuration_has_its_models_at_their_first_steps(self) -> None:
        settings = config(others="aliases: {c: coder}")
        assert [model.tools for model in settings.models] == ["template", "prompt"]
        at = settings.at({"coder": 2})
        assert (at.steps["coder"].name, settings.steps["coder"].name) == ("forced", "template")
        for name in ("coder", "c"):
            assert at.model_of(name) is at.models[0] is at.steps["coder"].model
            assert settings.model_of(name) is settings.models[0]
        assert at != settings
        assert at.at({}) == settings
        assert pickle.loads(pickle.dumps(at)).steps == at.steps

    def test_envoy_has_to_know_what_the_last_step_needs(self) -> None:
        assert config().asks_itself
        assert config().at({"coder": 3}).asks_itself
        assert not parse("""
models: [{name: coder, backend: vllm, tools: prompt}]
backends: [{name: vllm, address: "127.0.0.1:8000"}]
""").asks_itself


class TestBound:
    @given(st.integers(0, 200), st.integers(0, 200))
    def test_it_is_the_share_that_is_so_far_from_what_was_seen(self, valid: int, invalid: int) -> None:
        """Wilson's interval ends where the share that was seen is z standard deviations of the true one away."""
        rate = CallRate(valid, valid + invalid)
        share, seen = most_valid(rate), rate.ratio if rate.ratio is not None else 1.0
        assert seen <= share + 1e-12 <= 1 + 1e-9
        if rate.calls:
            assert (share - seen) ** 2 == pytest.approx(2.576**2 * share * (1 - share) / rate.calls, abs=1e-9)


class TestClimb:
    def test_a_bad_model_steps_up_to_the_end_and_no_further(self) -> None:
        climbing = climb()
        changes = play(climbing, [bad()] * 30)
        assert [(change.before, change.after, change.direction) for change in changes] == [
            ("template", "prompt", "up"),
            ("prompt", "forced", "up"),
            ("forced", "retry", "up"),
        ]
        assert {change.rate for change in changes} == {CallRate(0, 10)}
        assert climbing.model.retry

    def test_some_bad_calls_in_a_row_change_nothing(self) -> None:
        climbing = climb(calls=30, back=100)
        assert play(climbing, [*[good()] * 60, *[bad()] * 9, *[good()] * 20]) == []

    def test_it_stays_where_it_calls_well_and_tries_the_step_below(self) -> None:
        climbing = climb(calls=10, back=40)
        assert [change.after for change in play(climbing, [bad()] * 10)] == ["prompt"]
        assert play(climbing, [good()] * 39) == []
        assert [change.direction for change in play(climbing, [good()])] == ["back"]

    def test_a_step_that_is_bad_again_waits_for_twice_as_long(self) -> None:
        climbing = climb(calls=10, back=20)
        waited = []
        for _ in range(9):
            assert [change.direction for change in play(climbing, [bad()] * 10)] == ["up"]
            waited.append(next(at for at in range(1, 10_000) if climbing.learn(good()) is not None))
        assert waited == [20, 40, 80, 160, 320, 640, 1280, 1280, 1280]
        assert waited[-1] == 20 * LONGEST

    def test_a_step_that_did_well_for_long_is_trusted_anew(self) -> None:
        climbing = climb(calls=10, back=20)
        for wait in (20, 40, 80):
            play(climbing, [bad()] * 10)
            play(climbing, [good()] * wait)
        assert climbing.place == 0
        assert play(climbing, [good()] * (20 * LONGEST)) == []
        while climbing.place == 0:
            climbing.learn(bad())
        assert [change.direction for change in play(climbing, [good()] * 20)] == ["back"]

    def test_one_answer_of_many_calls_is_no_more_than_a_few(self) -> None:
        climbing = climb(calls=10, back=20)
        assert play(climbing, [bad(128), bad(128), bad(128)]) == []
        (change,) = play(climbing, [bad(128)])
        assert change.rate == CallRate(0, 12)
        play(climbing, [Tally(Violations(unknown_tool_call=10), valid=20)])
        assert [change.rate for change in play(climbing, [bad()] * 10)] == [CallRate(2, 10)]

    def test_what_is_no_call_counts_for_nothing(self) -> None:
        climbing = climb()
        assert play(climbing, [Tally(Violations(invalid_response_text=1), cut_off=1)] * 100) == []
        assert climbing.model.tools == "template"

    def test_a_step_whose_grammar_is_refused_is_left_for_good(self) -> None:
        climbing = climb()
        play(climbing, [bad()] * 20)
        assert climbing.model.forced
        refused = [climbing.refused() for _ in range(REFUSALS - 1)]
        climbing.learn(good())  # it takes some, so that it knows grammars
        refused += [climbing.refused() for _ in range(REFUSALS - 1)]
        assert refused == [None] * 4
        change = climbing.refused()
        assert change is not None
        assert (change.before, change.after, change.direction) == ("forced", "prompt", "barred")
        assert play(climbing, [bad()] * 15) == []
        assert climbing.model.tools == "prompt"
        assert [climbing.refused() for _ in range(9)] == [None] * 9

    @given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=200), st.integers(10, 30))
    def test_it_never_leaves_its_ladder_nor_a_step_before_it_is_known(
        self, answers: list[tuple[int, int]], calls: int
    ) -> None:
        climbing, known = climb(calls=calls, back=30), 0
        for valid, invalid in answers:
            before = climbing.place
            change = climbing.learn(Tally(Violations(unknown_tool_call=invalid), valid))
            known += valid + invalid
            assert 0 <= climbing.place < len(climbing.ladder.steps)
            if change is None:
                assert climbing.place == before
            else:
                assert climbing.place - before == {"up": 1, "back": -1}[change.direction]
                assert known >= (calls if change.direction == "up" else 30)
                known = 0

    @settings(max_examples=20)
    @given(st.integers(0, 100), st.integers(3, 9))
    def test_at_a_constant_rate_changes_become_rare(self, percent: int, at_once: int) -> None:
        climbing, count, back = climb(calls=10, back=50), 0, 50
        steps = len(climbing.ladder.steps) - 1
        places = [number * percent // 100 for number in range(0, 6001, at_once)]
        for before, after in pairwise(places):
            valid = after - before
            count += climbing.learn(Tally(Violations(unknown_tool_call=at_once - valid), valid)) is not None
        assert count <= 2 * steps * (log2(6000 / back) + 2)

    @settings(max_examples=20)
    @given(st.lists(st.booleans(), max_size=300))
    def test_a_model_that_has_learned_to_call_comes_back_and_stays(self, before: list[bool]) -> None:
        climbing = climb(calls=10, back=10)
        play(climbing, [good() if valid else bad() for valid in before])
        play(climbing, [good(3)] * (10 * LONGEST))
        assert climbing.place == 0
        assert play(climbing, [good(3)] * 20) == []


class TestSteering:
    def at(self, steering: Steering, settings: Config) -> str:
        return steering.at(settings).steps["coder"].name

    def learn(self, steering: Steering, model: Model, tally: Tally, times: int = 1) -> None:
        for _ in range(times):
            steering.learn(model, tally)

    def up(self, steering: Steering, settings: Config) -> None:
        for _ in range(30):
            steering.learn(steering.at(settings).models[0], bad(3))

    def test_a_configuration_is_the_same_until_a_step_changes(self) -> None:
        steering, settings = Steering(), config()
        assert steering.at(settings) is settings
        self.learn(steering, settings.models[0], bad(3), 9)
        assert steering.at(settings) is settings
        self.learn(steering, settings.models[0], bad(3))
        at = steering.at(settings)
        assert at.steps["coder"].name == "prompt"
        assert steering.at(settings) is at
        assert at.models[1] is settings.models[1]

    def test_an_answer_counts_for_the_step_that_was_asked(self) -> None:
        steering, settings = Steering(), config()
        steering.at(settings)
        first = settings.models[0]
        self.learn(steering, first, bad(3), 100)
        assert steering.refused(first) is None
        assert self.at(steering, settings) == "prompt"

    def test_what_is_not_steered_teaches_nothing(self) -> None:
        steering, settings = Steering(), config()
        steering.at(settings)
        assert steering.learn(settings.models[1], bad(100)) is None
        assert steering.steps() == {
            ("coder", "template"): True,
            ("coder", "prompt"): False,
            ("coder", "forced"): False,
            ("coder", "retry"): False,
        }

    @pytest.mark.parametrize(
        ("change", "step"),
        [
            ({"others": "limits: {silence_seconds: 7}"}, "retry"),
            ({"model": ", steering: {valid: 0.8}"}, "template"),
            ({"model": ", defaults: {temperature: 0}"}, "template"),
            ({"backend": ", structured_outputs: false"}, "template"),
        ],
        ids=["other settings", "bounds", "model", "backend"],
    )
    def test_a_reload_leaves_it_where_its_ladder_is_the_same(self, change: dict[str, Any], step: str) -> None:
        steering, settings = Steering(), config()
        self.up(steering, settings)
        assert self.at(steering, settings) == "retry"
        late = steering.at(settings).models[0]
        assert self.at(steering, config(**change)) == step
        if step == "retry":  # what was asked before the reload counts as well
            self.learn(steering, late, good(3), 167)
            assert self.at(steering, config(**change)) == "forced"


def test_the_bounds_by_default() -> None:
    assert Bounds() == Bounds(valid=0.9, calls=30, back=500)
