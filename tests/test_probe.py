"""`extproc probe`: what is found out about a server, and the configuration that comes of it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from extproc.diagnosis.notation import written_in
from extproc.probe import ProbeError
from extproc.probe.families import format_by_name
from extproc.toolcalls import NAMED, Format, Variant
from scripted_vllm import ScriptedVLLM
from scripted_vllm.replies import Reply
from tests.played_vllm import (
    CALL,
    CALLED,
    FORCED,
    NAME,
    TAGGED,
    Played,
    ask,
    asked,
    card,
    completion,
    config_of,
    models,
    refusal,
    rendered,
    serving,
    settings,
)

# The whole


def test_a_plain_vllm_is_summed_up_in_a_configuration_that_says_why() -> None:
    vllm = ScriptedVLLM(NAME)
    vllm.play(Reply("ready"), Reply("As"), Reply(TAGGED), Reply(FORCED))
    with vllm.running():
        report = ask(vllm.url)
        port = vllm.port
    assert (
        report.yaml()
        == f"""\
# http://127.0.0.1:{port}, vLLM 0.32.0, as `extproc probe` found it.
models:
  - name: {NAME}
    backend: {NAME}
    # 4096 tokens of context
    # no tool parser is configured, but the chat template shows tools to the model, and in a trial it wrote a
    # call as it should
    tools: template
    # a guess by the model's name
    format: hermes
backends:
  - name: {NAME}
    address: 127.0.0.1:{port}
    # a structural tag binds: required, named and strict calls can be forced, all others with `forced: begun`
    structured_outputs: true
"""
    )
    assert config_of(report).models[0].tools == "template"
    assert report.summary().splitlines()[:6] == [
        f"http://127.0.0.1:{port}: vLLM 0.32.0",
        "",
        f"  {NAME}",
        "    context             4096 tokens",
        "    tool parser         none",
        "    chat template       shows tools",
    ]
    assert "\n    mode                template: no tool parser is configured" in report.summary()


def test_asking_costs_few_tokens() -> None:
    vllm = ScriptedVLLM(NAME)
    with vllm.running():
        ask(vllm.url)
    sent = [request.json for request in vllm.requests if request.route == "/v1/chat/completions"]
    assert len(sent) <= 7
    assert sum(body["max_tokens"] for body in sent) < 1000
    assert {body["temperature"] for body in sent} == {0}


# The mode


def test_native_when_a_tool_parser_finds_a_call() -> None:
    report = asked(auto=CALLED)
    [model] = config_of(report).models
    assert (model.tools, model.repair) == ("native", True)
    assert "repairs vLLM's slips: finish_reason `stop`" in report.yaml()


def test_native_when_the_trial_is_cut_off() -> None:
    assert settings(auto=completion("Let me see", prompt=182, finish="length"))[0] == "native"


@pytest.mark.parametrize("text", [CALL, f"```json\n{CALL}\n```", "It is sunny."])
def test_prompt_when_the_tool_parser_finds_nothing(text: str) -> None:
    assert settings(auto=completion(text, prompt=182)) == ("prompt", "hermes")


def test_prompt_when_the_chat_template_shows_no_tools_in_spite_of_a_tool_parser() -> None:
    assert settings(auto=completion("It is sunny.", prompt=38))[0] == "prompt"


def test_a_model_that_calls_has_not_to_be_tried_twice() -> None:
    with serving(auto=CALLED) as server:
        ask(server.url)
    assert [name for name, _ in server.asked].count("none") == 1


def test_template_when_the_trial_is_cut_off() -> None:
    assert settings(none=completion("First I", prompt=182, finish="length")) == ("template", "hermes")


@pytest.mark.parametrize("text", [CALL, f"```json\n{CALL}\n```", "I can't know the weather."])
def test_prompt_when_the_model_needs_to_be_told_how_to_call(text: str) -> None:
    assert settings(none=completion(text, prompt=182)) == ("prompt", "hermes")


def test_a_bare_object_is_a_call_as_it_should_be_for_a_model_that_writes_them_bare() -> None:
    listed = models(card("meta-llama/Llama-3.1-8B-Instruct"))
    assert settings(models=listed, none=completion(CALL, prompt=182)) == ("template", "llama3_json")


def test_prompt_when_tools_do_not_reach_the_prompt() -> None:
    none = completion("I can't know the weather.", prompt=38)
    assert "no place for them, or the server was started with" in asked(none=none).yaml().replace("\n    # ", " ")
    excluded = asked(none=none, **rendered(TAGGED))
    assert "tools: the server was started with --exclude-tools" in excluded.yaml().replace("\n    # ", " ")
    assert "shows tools, but not with tool_choice none" in excluded.summary()
    hidden = asked(none=none, **rendered("", tools=""))
    assert "the chat template shows no tools" in hidden.yaml()
    assert {config_of(report).models[0].tools for report in (excluded, hidden)} == {"prompt"}


def test_prompt_when_nothing_is_counted() -> None:
    status, uncounted = completion(TAGGED)
    assert settings(none=(status, {**uncounted, "usage": None}))[0] == "prompt"


def test_prompt_when_tools_are_refused_whatever_is_chosen() -> None:
    report = asked(none=refusal("tools aren't\nsupported\x1b[31m\u2028here"))
    assert config_of(report).models[0].tools == "prompt"
    assert "(status 400: tools aren't supported?[31m here)" in report.yaml().replace("\n    # ", " ")


def test_prompt_in_hermes_when_the_model_is_unknown() -> None:
    listed = models(card("gpt-4", root="/models/latest"))
    assert settings(models=listed, none=completion("No.", prompt=182)) == ("prompt", "hermes")
    assert "unknown" in asked(models=listed, none=completion("No.", prompt=182)).yaml()


# The format


def test_the_chat_template_tells_the_format_whatever_the_model_is_called() -> None:
    xml = "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>"
    listed = models(card("gpt-4", root="/models/Llama-3.1-8B"))
    none = completion(xml, prompt=182)
    assert settings(models=listed, none=none, **rendered(xml)) == ("template", "qwen3_coder")


def test_a_trial_tells_the_format_when_nothing_else_does() -> None:
    listed = models(card("gpt-4", root="/models/latest"))
    none = completion('[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}', prompt=182)
    assert settings(models=listed, none=none) == ("template", "mistral")


@pytest.mark.parametrize("format_", NAMED, ids=lambda format_: format_.name)
def test_every_format_is_recognized_in_a_prompt(format_: Format | Variant) -> None:
    turn = f"<|im_end|>\n<|im_start|>assistant\n{format_.example}<|im_end|>\n<|im_start|>user\n<tool_response>\n"
    assert written_in(turn, expected=format_.name, exactly=True) == format_.name


AMBIGUOUS = {("llama3_json", "Llama 4"), ("pythonic", "Llama 3.2")}
NAMES = [
    (format_.name, re.sub(r" to .*", "", model))
    for format_ in NAMED
    for model in format_.models
    if format_.name != "json" and (format_.name, model) not in AMBIGUOUS
]


@pytest.mark.parametrize(("format_", "model"), NAMES)
def test_the_models_of_a_format_are_known_by_name(format_: str, model: str) -> None:
    assert format_by_name(model) == format_by_name(model.replace(" ", "-")) == format_


@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8", "qwen3_coder"),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "hermes"),
        ("/models/hub/models--Qwen--Qwen3-8B/snapshots/0123abcd", "hermes"),
        ("/data/mistral/qwen2.5-7b", "hermes"),
        ("NousResearch/Hermes-3-Llama-3.1-8B", "hermes"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama3_json"),
        ("meta-llama/Llama-3.2-3B-Instruct", "pythonic"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", None),
        ("zai-org/glm-4-9b-chat", None),
        ("", None),
    ],
)
def test_names_as_they_are_spelled_in_the_wild(name: str, format_: str | None) -> None:
    assert format_by_name(name) == format_


# Structured outputs and reasoning


@pytest.mark.parametrize(
    ("answers", "binds", "why"),
    [
        ({}, True, "a structural tag binds"),
        ({"structural_tag": completion("ready")}, False, "a choice binds, but no structural tag"),
        ({"structural_tag": refusal("no such kind")}, False, "a choice binds, but no structural tag"),
        ({"structural_tag": completion("ready"), "choice": completion("ready")}, False, "they don't bind"),
        ({"structural_tag": refusal("overloaded", 503)}, True, "whether they bind is open"),
    ],
)
def test_structured_outputs_count_when_they_bind(answers: dict[str, Played], binds: bool, why: str) -> None:
    report = asked(**answers)
    assert config_of(report).backends[0].structured_outputs is binds
    assert f"# {why}" in report.yaml()


def test_a_reasoning_parser_is_told_by_what_it_counts() -> None:
    assert "reasoning           no parser\n" in asked().summary()
    report = asked(chat=completion(reasoning_tokens=0))
    assert "reasoning           a parser is configured\n" in report.summary()
    assert config_of(report).backends[0].structured_outputs


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({}, ["no_tool_parser: The backend was sent tools as they are, and has no tool parser. Set `tools: template`"]),
        (
            {"none": completion("I can't know the weather.", prompt=38)},
            [
                "tools_not_shown: The model never saw the tools",
                "(the prompt has 38 tokens with a tool, and 38 without;",
            ],
        ),
        (
            {
                "auto": completion("I would use get_weather.", prompt=182),
                "none": completion("Hm.", prompt=182, finish="length"),
            },
            [
                "call_as_prose: The model spoke of a tool, and called none.",
                "`tools: prompt`, with `example: true` unless an agent asks",
            ],
        ),
        (
            {"none": completion("[get_weather(city='Paris')]", prompt=182)},
            ["other_format: The model wrote calls in another format", "it is `hermes` now."],
        ),
        (
            {"chat": completion(None, reasoning="ready")},
            ["unclosed_thinking: ", "Start vLLM without `--reasoning-parser`."],
        ),
    ],
)
def test_what_stands_in_the_way_of_calls_is_named_as_in_a_diagnosis(
    answers: dict[str, Played], said: list[str]
) -> None:
    summary = asked(**answers).summary()
    for words in said:
        assert words in summary
    assert "docs/no-tool-calls.md#" in summary


def test_where_a_parser_finds_calls_nothing_stands_in_their_way() -> None:
    assert "cause " not in asked(auto=CALLED).summary()


def test_a_tool_that_was_called_was_shown_whatever_was_counted() -> None:
    status, called = CALLED
    uncounted = {**called, "usage": {**called["usage"], "prompt_tokens": 38}}
    report = asked(auto=(status, uncounted), none=refusal("no such choice"))
    assert "tools_not_shown" not in report.summary()
    assert config_of(report).models[0].tools == "native"


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_a_reasoning_parser_that_takes_everything_is_a_warning(field: str) -> None:
    message: dict[str, Any] = {field: "ready"}
    swallowed = completion(None, **message)
    report = asked(chat=swallowed, structural_tag=swallowed)
    assert not config_of(report).backends[0].structured_outputs
    assert "start vLLM without --reasoning-parser" in report.yaml().replace("\n    # ", " ")
    assert f"fills `{field}`" in report.summary()
    assert "WARNING" in report.summary()


def test_a_model_that_thinks_gets_the_time_to_end_it() -> None:
    thinking = completion(None, finish="length", reasoning="Well", reasoning_tokens=16)
    ended = completion(FORCED, reasoning="Well.", reasoning_tokens=300)
    report = asked(chat=thinking, structural_tag=ended)
    assert config_of(report).backends[0].structured_outputs
    assert "WARNING" not in report.summary()
    assert "whether they bind is open" in asked(chat=thinking, structural_tag=thinking).yaml()


def test_a_constraint_that_binds_the_reasoning_is_a_warning() -> None:
    forced = completion(None, reasoning=FORCED, reasoning_tokens=9)
    report = asked(chat=completion(reasoning_tokens=0), structural_tag=forced)
    assert not config_of(report).backends[0].structured_outputs
    assert "start vLLM without enable_in_reasoning" in report.summary()


def test_thinking_that_the_chat_template_begins_is_told() -> None:
    [model] = config_of(asked(**rendered(TAGGED, opened="<think>\n"))).models
    assert model.thinking == "open"
    [model] = config_of(asked(**rendered(TAGGED, opened="<think>\n\n</think>\n\n"))).models
    assert model.thinking == "tags"
    [model] = config_of(asked(chat=completion(reasoning_tokens=0), **rendered(TAGGED, opened="<think>\n"))).models
    assert model.thinking == "tags"


# Models


def test_other_names_and_adapters_are_served_as_the_model_is() -> None:
    root = "Qwen/Qwen2.5-7B-Instruct"
    listed = models(
        card("coder", root=root, max_model_len=32768),
        card("gpt-4: the best", root=root, max_model_len=32768),
        card("sql", root="/loras/sql", parent="coder"),
    )
    with serving(models=listed) as server:
        report = ask(server.url)
        config = config_of(report)
        assert [(model.name, model.tools, model.format) for model in config.models] == [
            ("coder", "template", "hermes"),
            ("gpt-4: the best", "template", "hermes"),
            ("sql", "template", "hermes"),
        ]
        assert "# another name of coder" in report.yaml()
        assert "# an adapter of coder" in report.yaml()
        assert [name for name, _ in server.asked].count("chat") == 1
        assert [model.name for model in config_of(ask(server.url, "sql")).models] == ["sql"]
        with pytest.raises(ProbeError, match="serves no model 'nope'; there are: coder, gpt-4: the best, sql"):
            ask(server.url, "nope")


def test_a_router_of_many_models_is_asked_for_one() -> None:
    listed = models(*(card(f"model-{number}") for number in range(20)))
    with serving(models=listed) as server:
        with pytest.raises(ProbeError, match="serves 20 models; choose one with --model"):
            ask(server.url)
        assert len(config_of(ask(server.url, "model-7")).models) == 1


@pytest.mark.parametrize("name", ["...", "模型", 'a "b"\n# c: [', "x" * 256, "\ud7ff\x00", "yes", "1e3", "- a"])
def test_any_name_that_a_model_may_have_is_written_so_that_it_is_read_back(name: str) -> None:
    assert [model.name for model in config_of(asked(models=models(card(name)))).models] == [name]
