"""Backends that are no vLLM: what each is sent, and what the settings refuse (docs/servers.md)."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from extproc.config import ConfigError, parse
from extproc.contract.errors import ApiError
from extproc.contract.parameters import FORWARDED
from extproc.contract.servers import SERVERS
from extproc.envoy.failover import health_checks
from extproc.surfaces import prepare
from extproc.turn.upstream import UpstreamRequest

CONFIG = parse(
    "models:\n"
    + "".join(
        f"  - {{name: {server} {mode}, backend: {server}, tools: {mode}, format: hermes}}\n"
        for server in SERVERS
        for mode in ("native", "template", "prompt")
        if mode != "template" or SERVERS[server].unread
    )
    + "backends:\n"
    + "".join(f"  - {{name: {server}, server: {server}, address: 127.0.0.1:1}}\n" for server in SERVERS)
)
LOOK, TELL = (
    {
        "type": "function",
        "function": {"name": name, "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}},
    }
    for name in ("look", "tell")
)
ASK = {"role": "user", "content": "What is there?"}
EVERY_SERVER = pytest.mark.parametrize("server", SERVERS)


def prepared(model: str, **fields: Any) -> UpstreamRequest:
    return prepare(orjson.dumps({"model": model, "messages": [ASK], **fields}), CONFIG)


def sent(model: str, **fields: Any) -> dict[str, Any]:
    """What the backend gets, as JSON; the model has its own name there."""
    body = prepared(model, **fields).body
    if body is None:
        return {"model": model, "messages": [ASK], **fields}
    value = orjson.loads(body)
    assert isinstance(value, dict)
    return value


class TestParameters:
    """What a server has no field for is named, and not lost unseen in it."""

    @EVERY_SERVER
    def test_what_a_server_does_not_know_is_kept_back_and_named(self, server: str) -> None:
        given = {"min_tokens": 1, "bad_words": ["no"], "structured_outputs": {"regex": "a+"}, "temperature": 0.5}
        request = prepared(f"{server} native", **given)
        body = sent(f"{server} native", **given)
        assert set(request.dropped) == given.keys() - body.keys()
        assert body["temperature"] == 0.5
        assert ("bad_words" in body) is ("structured_outputs" in body) is (server == "vllm")
        assert ("min_tokens" in body) is (server in ("vllm", "sglang"))

    def test_a_server_has_no_parameter_that_nobody_knows(self) -> None:
        for server in SERVERS.values():
            assert server.takes is None or server.takes <= FORWARDED

    def test_more_may_be_let_through_by_name(self) -> None:
        config = parse("""
models: [{name: m, backend: b, tools: native}]
backends: [{name: b, server: ollama, address: 127.0.0.1:1, parameters: [min_p, keep_alive]}]
""")
        body = {"model": "m", "messages": [ASK], "min_p": 0.1, "keep_alive": "1h", "top_k": 5}
        request = prepare(orjson.dumps(body), config)
        assert request.dropped == ("top_k",)
        assert orjson.loads(request.body or b"").keys() == {"model", "messages", "min_p", "keep_alive"}

    @EVERY_SERVER
    def test_the_limit_has_the_name_that_the_server_knows(self, server: str) -> None:
        body = sent(f"{server} native", max_completion_tokens=7)
        assert prepared(f"{server} native", max_completion_tokens=7).dropped == ()
        assert body.keys() - {"model", "messages"} == {
            "max_tokens" if server in ("ollama", "tgi") else "max_completion_tokens"
        }
        both = sent("ollama native", max_completion_tokens=7, max_tokens=9)
        assert both["max_tokens"] == 7

    @pytest.mark.parametrize(
        ("effort", "said"), [("none", "none"), ("minimal", "low"), ("high", "high"), ("max", "high")]
    )
    def test_ollama_gets_an_effort_that_it_takes(self, effort: str, said: str) -> None:
        assert sent("ollama native", reasoning_effort=effort)["reasoning_effort"] == said
        assert sent("sglang native", reasoning_effort=effort)["reasoning_effort"] == effort

    def test_what_contradicts_an_effort_is_named(self) -> None:
        request = prepared("ollama native", reasoning_effort="high", chat_template_kwargs={"enable_thinking": False})
        assert request.dropped == ("chat_template_kwargs",)
        assert orjson.loads(request.body or b"")["reasoning_effort"] == "high"

    def test_ollama_is_told_not_to_think_by_the_effort(self) -> None:
        body = {"model": "ollama native", "max_tokens": 5, "messages": [ASK], "thinking": {"type": "disabled"}}
        request = prepare(orjson.dumps(body), CONFIG, "/v1/messages")
        assert orjson.loads(request.body or b"").keys() == {"model", "messages", "max_tokens", "reasoning_effort"}
        assert orjson.loads(request.body or b"")["reasoning_effort"] == "none"
        assert request.dropped == ()
        for told in ({"enable_thinking": True}, {"enable_thinking": False, "mood": "calm"}):
            request = prepared("ollama native", chat_template_kwargs=told)
            assert request.dropped == ("chat_template_kwargs",)
            assert orjson.loads(request.body or b"").keys() == {"model", "messages"}

    def test_tgi_gets_a_list_of_stops_and_a_schema_as_a_grammar(self) -> None:
        schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
        format_ = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
        body = sent("tgi native", stop="END", response_format=format_)
        assert (body["stop"], body["response_format"]) == (["END"], {"type": "json", "value": schema})
        assert prepared("tgi native", response_format={"type": "json_object"}).dropped == ("response_format",)
        assert sent("vllm native", response_format=format_)["response_format"] == format_

    def test_llama_cpp_gets_no_structural_tag(self) -> None:
        tag = {"type": "structural_tag", "format": {"type": "any_text"}}
        assert prepared("llama.cpp native", response_format=tag).dropped == ("response_format",)
        assert sent("sglang native", response_format=tag)["response_format"] == tag


class TestTools:
    def test_special_tokens_are_shown_by_what_the_server_knows(self) -> None:
        names = {"skip_special_tokens", "spaces_between_special_tokens"}
        for server, shown in (("vllm", names), ("sglang", {"skip_special_tokens"}), ("ollama", set())):
            assert sent(f"{server} prompt", tools=[LOOK]).keys() & names == shown

    @pytest.mark.parametrize(("server", "choice"), [("vllm", "none"), ("llama.cpp", "none"), ("sglang", "auto")])
    def test_a_template_shows_tools_by_the_choice_that_hides_none(self, server: str, choice: str) -> None:
        body = sent(f"{server} template", tools=[LOOK])
        assert (body["tools"], body["tool_choice"]) == ([LOOK], choice)

    def test_a_demanded_call_is_forced_where_the_server_takes_a_structural_tag(self) -> None:
        for mode in ("template", "prompt"):
            vllm, sglang = (
                sent(f"{server} {mode}", tools=[LOOK], tool_choice="required") for server in ("vllm", "sglang")
            )
            assert orjson.loads(vllm["structured_outputs"]["structural_tag"]) == sglang["response_format"]
            assert "structured_outputs" not in sglang
            assert sglang["response_format"]["type"] == "structural_tag"
            asked = prepared(f"sglang {mode}", tools=[LOOK], tool_choice="required").asked
            assert asked is not None
            assert asked.forced

    @pytest.mark.parametrize("server", ["llama.cpp", "ollama", "tgi"])
    def test_elsewhere_it_is_demanded_in_words(self, server: str) -> None:
        body = sent(f"{server} prompt", tools=[LOOK], tool_choice="required")
        assert "You must call one of the tools now" in body["messages"][-1]["content"]
        assert not body.keys() & {"structured_outputs", "response_format", "tools", "tool_choice"}

    def test_a_server_without_the_choice_by_name_gets_the_one_tool_to_choose(self) -> None:
        choice = {"type": "function", "function": {"name": "tell"}}
        body = sent("llama.cpp native", tools=[LOOK, TELL], tool_choice=choice)
        assert (body["tools"], body["tool_choice"]) == ([TELL], "required")
        assert sent("sglang native", tools=[LOOK, TELL], tool_choice=choice)["tool_choice"] == choice

    def test_a_server_without_choices_is_told_in_words(self) -> None:
        for choice, words in (
            ("required", "You must call one of the tools now. Their names are: look, tell."),
            ({"type": "function", "function": {"name": "tell"}}, "You must call the tool tell now."),
        ):
            body = sent("ollama native", tools=[LOOK, TELL], tool_choice=choice)
            assert body["messages"] == [{"role": "user", "content": f"What is there?\n\n{words}"}]
            assert body["tools"] == [LOOK, TELL]
        assert "tools" not in sent("ollama native", tools=[LOOK], tool_choice="none")
        assert sent("ollama native", tools=[LOOK], tool_choice="auto")["messages"] == [ASK]

    def test_what_a_server_can_not_is_refused_in_the_settings(self) -> None:
        for server, settings, complaint in (
            (
                "ollama",
                "tools: template",
                "models[0].tools: the backend 'b' has `server: ollama`, and Ollama reads calls itself",
            ),
            (
                "tgi",
                "tools: auto",
                "models[0].tools: the backend 'b' has `server: tgi`, and text-generation-inference reads",
            ),
            (
                "llama.cpp",
                "tools: prompt, forced: true",
                "models[0].forced: the backend 'b' has `server: llama.cpp`: nothing",
            ),
        ):
            with pytest.raises(ConfigError) as error:
                parse(f"""
models: [{{name: m, backend: b, {settings}}}]
backends: [{{name: b, server: {server}, address: 127.0.0.1:1}}]
""")
            assert complaint in str(error.value)

    def test_a_ladder_has_no_step_that_the_server_can_not_take(self) -> None:
        for server, steps in (
            ("sglang", ["template", "prompt", "forced", "retry"]),
            ("llama.cpp", ["template", "prompt", "retry"]),
        ):
            config = parse(f"""
models: [{{name: m, backend: b, tools: auto}}]
backends: [{{name: b, server: {server}, address: 127.0.0.1:1}}]
""")
            assert [step.name for step in config.ladders["m"].steps] == steps


@EVERY_SERVER
def test_tokens_are_counted_by_vllm_alone(server: str) -> None:
    body = orjson.dumps({"model": f"{server} prompt", "messages": [ASK]})
    if server == "vllm":
        assert prepare(body, CONFIG, "/v1/messages/count_tokens").body is not None
        return
    with pytest.raises(ApiError, match=r"404 tokens_not_counted: The model's server, .*, doesn't count the tokens"):
        prepare(body, CONFIG, "/v1/messages/count_tokens")


def test_a_server_is_asked_for_its_health_where_it_tells() -> None:
    asked = {
        backend.name: [check.http_health_check.path for check in health_checks(backend)]  # type: ignore[union-attr]
        for backend in CONFIG.backends
    }
    assert asked == {name: ["/api/version" if name == "ollama" else "/health"] for name in SERVERS}
