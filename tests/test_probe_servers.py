"""`extproc probe` of servers that are no vLLM: each is known by what it answers, and asked in its own words.

What they answer here has the shape that their sources give it; the commits are in `extproc/contract/servers.py`, and
docs/servers.md says which of them were run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from extproc.probe import ProbeError, Report
from tests.played_vllm import (
    CALL,
    CALLED,
    FORCED,
    NAME,
    NOT_FOUND,
    PLAIN,
    TAGGED,
    Played,
    ask,
    completion,
    config_of,
    models,
    rendered,
    serving,
)

LLAMA_CPP: Mapping[str, Played] = {
    "version": NOT_FOUND,
    "models": models({"id": NAME, "object": "model", "owned_by": "llamacpp", "meta": {"n_ctx": 4096}}),
    "props": (200, {"build_info": "b11434-0a1b2c3", "total_slots": 4, "model_path": "model.gguf"}),
    "tokenize": (200, {"tokens": []}),
    "detokenize": (200, {"content": ""}),
    "apply-template": (200, rendered(TAGGED)["detokenize"][1]),
    "auto": CALLED,
    "none": completion(TAGGED, prompt=182),
}
SGLANG: Mapping[str, Played] = {
    "version": NOT_FOUND,
    "models": models({"id": NAME, "object": "model", "owned_by": "sglang", "root": NAME, "max_model_len": 32768}),
    "server_info": (200, {"model_path": NAME, "tool_call_parser": None, "version": "0.5.9"}),
    "auto": completion(TAGGED, prompt=182),  # without a tool parser the text is left alone
    "none": completion("I can't know the weather.", prompt=38),  # `none` hides the tools
}
OLLAMA: Mapping[str, Played] = {
    "version": NOT_FOUND,
    "models": models({"id": "qwen2.5-coder:0.5b", "object": "model", "created": 1, "owned_by": "library"}),
    # Its path ends as vLLM's: only the whole of it tells the two apart.
    "/api/version": (200, {"version": "0.13.3"}),
    "auto": CALLED,
}
TGI: Mapping[str, Played] = {
    "version": NOT_FOUND,
    "models": models({"id": NAME, "object": "model", "created": 0, "owned_by": NAME}),
    "info": (
        200,
        {"model_id": NAME, "max_concurrent_requests": 128, "router": "text-generation-router", "version": "3.3.4"},
    ),
    "auto": CALLED,
}
NO_MODEL_TOOLS: Played = (
    400,
    {"error": {"message": "registry.ollama.ai/library/x does not support tools", "type": "invalid_request_error"}},
)
WRITTEN = completion(CALL, prompt=182)
"""A call that no parser found: the template showed the tools, and the model wrote one without marks."""
STACK: Mapping[str, Played] = {
    **PLAIN,
    "version": (200, {"version": "0.1.9"}),
    "engines": (200, [{"engine_id": "a", "serving_models": [NAME], "created": 1}]),
}
KSERVE: Mapping[str, Played] = {
    **PLAIN,
    "version": NOT_FOUND,
    "models": models({"id": NAME, "object": "model", "owned_by": ""}),
}
TOLD: Mapping[str, Mapping[str, Played]] = {
    "vLLM without a tool parser": PLAIN,
    "vLLM with a tool parser": {**PLAIN, "auto": CALLED},
    "SGLang without a tool parser": SGLANG,
    "SGLang with a tool parser": {**SGLANG, "auto": CALLED},
    "llama.cpp that found a call": LLAMA_CPP,
    "llama.cpp that found none": {**LLAMA_CPP, "auto": WRITTEN, "none": WRITTEN},
    "Ollama, a model with tools": OLLAMA,
    "Ollama, a model without tools": {**OLLAMA, "auto": NO_MODEL_TOOLS},
    "text-generation-inference": TGI,
    "the router of vLLM's production-stack": STACK,
    "KServe with an empty prefix": KSERVE,
}
"""What docs/servers.md has a row for, by its first cell."""
PAGE = (Path(__file__).parent.parent / "docs" / "servers.md").read_text(encoding="utf-8")


def told_of() -> dict[str, tuple[str, str]]:
    """What the page has probe say, and the `tools` that it prints, by what is asked."""
    section = PAGE.partition("## What `extproc probe` says\n")[2].partition("\n## ")[0]
    return {asks: (says, tools) for asks, says, tools in re.findall(r"^\| (.+?) \| (.+?) \| `(\w+)` \|", section, re.M)}


def is_told(asks: str, report: Report) -> bool:
    """Whether the page's row for this says what the report does."""
    says, tools = told_of()[asks]
    either = (re.escape(one).replace("VERSION", r"[\w.-]+") for one in says.split(", or "))
    fits = any(re.fullmatch(one, report.identity) for one in either)
    return fits and config_of(report).models[0].tools == tools


@pytest.mark.parametrize("asks", TOLD)
def test_the_page_says_what_it_says(asks: str) -> None:
    report, _ = asked(TOLD[asks])
    assert is_told(asks, report), (report.identity, report.yaml())


def test_every_row_is_held() -> None:
    """The last two in tests/test_endpoint_picker.py, which has both."""
    assert told_of().keys() == {*TOLD, "an InferencePool, all paths", "this gateway"}


def test_where_no_models_are_listed_it_says_so() -> None:
    with pytest.raises(ProbeError) as error:
        asked(PLAIN, models=NOT_FOUND, version=NOT_FOUND)
    [quoted] = re.findall(r'probe ends with "(this is no vLLM.+?)"', PAGE)
    assert quoted in str(error.value)


def asked(answers: Mapping[str, Played], **others: Any) -> tuple[Report, list[str]]:
    """The report, and what was asked for it."""
    with serving(**{**answers, **others}) as server:
        report = ask(server.url)
        return report, [name for name, _ in server.asked]


@pytest.mark.parametrize(
    ("answers", "server", "identity", "tools"),
    [
        (LLAMA_CPP, "llama.cpp", "llama.cpp b11434-0a1b2c3", "native"),
        (SGLANG, "sglang", "SGLang 0.5.9", "template"),
        (OLLAMA, "ollama", "Ollama 0.13.3", "native"),
        (TGI, "tgi", "text-generation-inference 3.3.4", "native"),
    ],
    ids=["llama.cpp", "sglang", "ollama", "tgi"],
)
def test_a_server_is_known_and_its_entries_are_right(
    answers: Mapping[str, Played], server: str, identity: str, tools: str
) -> None:
    report, _ = asked(answers)
    assert report.identity == identity
    config = config_of(report)
    assert (config.backends[0].server, config.models[0].tools) == (server, tools)
    assert f"\n    server: {server}\n" in report.yaml()
    assert "vLLM" not in report.yaml()


def test_each_is_asked_in_its_own_words() -> None:
    _, llama_cpp = asked(LLAMA_CPP)
    assert {"apply-template", "none"} <= set(llama_cpp)
    assert not {"structural_tag", "choice", "tokenize"} & set(llama_cpp)
    _, sglang = asked(SGLANG)
    assert "structural_tag" in sglang
    assert not {"none", "choice"} & set(sglang)
    for answers in (OLLAMA, TGI):
        assert not {"none", "structural_tag", "choice"} & set(asked(answers)[1])


def test_sglang_forces_by_a_structural_tag_if_it_binds() -> None:
    report, _ = asked(SGLANG, structural_tag=completion(FORCED))
    assert config_of(report).backends[0].can_force
    report, _ = asked(SGLANG, structural_tag=completion("ready"))
    assert not config_of(report).backends[0].can_force
    assert "# they don't bind" in report.yaml()


def test_sglang_with_a_tool_parser_is_native() -> None:
    report, _ = asked(SGLANG, auto=CALLED)
    [model] = config_of(report).models
    assert (model.tools, model.repair) == ("native", True)
    assert "reads what the server's own parser leaves" in report.yaml()


def test_an_older_sglang_is_known_by_its_older_path() -> None:
    report, _ = asked(SGLANG, server_info=NOT_FOUND, get_server_info=SGLANG["server_info"])
    assert report.identity == "SGLang 0.5.9"
    hidden, _ = asked(SGLANG, server_info=NOT_FOUND)
    assert hidden.identity == "SGLang that doesn't tell its version"


def test_llama_cpp_shows_its_template() -> None:
    xml = "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>"
    listed = models({"id": "gpt-4", "object": "model", "owned_by": "llamacpp", "meta": {"n_ctx": 4096}})
    report, _ = asked(LLAMA_CPP, models=listed, **{"apply-template": rendered(xml)["detokenize"]})
    assert config_of(report).models[0].format == "qwen3_coder"
    assert "# 4096 tokens of context" in report.yaml()


def test_ollama_with_a_model_without_tools_is_asked_by_a_prompt() -> None:
    report, _ = asked(OLLAMA, auto=NO_MODEL_TOOLS)
    assert config_of(report).models[0].tools == "prompt"
    assert "does not support tools" in report.yaml()


def test_a_model_of_ones_own_at_ollama_is_known_by_the_path() -> None:
    listed = models({"id": "me/mine:latest", "object": "model", "created": 1, "owned_by": "me"})
    assert asked(OLLAMA, models=listed)[0].identity == "Ollama 0.13.3"


def test_the_router_of_vllms_production_stack_is_no_vllm_of_that_version() -> None:
    report, _ = asked(STACK)
    assert report.identity == "the router 0.1.9 of vLLM's production-stack"
    assert "server:" not in report.yaml()


def test_kserves_prefix_is_told_of() -> None:
    listed = {"/openai/v1/models": models({"id": NAME, "object": "model", "owned_by": ""})}
    with pytest.raises(
        ProbeError, match=r'its API at /openai/v1 and not at /v1: start it with KSERVE_OPENAI_ROUTE_PREFIX=""'
    ):
        asked(PLAIN, models=(200, {"models": [NAME]}), **listed)


def test_who_says_nothing_is_asked_as_a_vllm() -> None:
    listed = models({"id": NAME, "object": "model", "owned_by": "somebody"})
    report, _ = asked(PLAIN, version=NOT_FOUND, models=listed)
    assert report.identity == "a server that doesn't say it is vLLM"
    assert config_of(report).backends[0].server == "vllm"
