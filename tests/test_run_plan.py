"""A client's request as the plan of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import orjson
import pytest

from extproc.config import Config, parse
from extproc.contract.errors import ApiError
from extproc.names import CHAT_PATH, COUNT_TOKENS_PATH, MESSAGES_PATH, RESPONSES_PATH
from extproc.runner.plan import Plan, model_of, plan, problems_of
from extproc.runner.steps import Offered
from extproc.runner.tools import ToolResult

Json: TypeAlias = dict[str, Any]

SERVERS = """
tool_servers:
  - {name: web, url: "http://127.0.0.1:1/mcp"}
  - {name: shop, url: "http://127.0.0.1:2/mcp"}
"""
CONFIG: Config = parse(f"""
models:
  - {{name: qwen, backend: qwen, tools: native, tool_servers: [web, shop]}}
  - {{name: strict, backend: qwen, tools: native, tool_servers: [web], allowed_tools: [get_weather], max_tools: 1}}
  - {{name: bare, backend: qwen, tools: native}}
backends: [{{name: qwen, address: 127.0.0.1:8000}}]
characters: /srv/characters
{SERVERS}
""")
ONE_MODEL: Config = parse(f"""
models: [{{name: qwen, backend: qwen, tools: native}}]
backends: [{{name: qwen, address: 127.0.0.1:8000}}]
{SERVERS}
""")
HI: Json = {"role": "user", "content": "Hi"}
PATHS = (CHAT_PATH, MESSAGES_PATH, RESPONSES_PATH)


class Source:
    """Offers tools; a character too, if it is asked."""

    def __init__(
        self,
        name: str,
        *tools: str,
        asks: Sequence[str] = (),
        system_prompt: str | None = None,
        model: str | None = "qwen",
        tool_servers: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.definitions: list[Json] = [defined(tool) for tool in tools]
        self.system_prompt = system_prompt
        self.model = model
        self.tool_servers = tool_servers
        self._asks = asks

    def runs(self, name: str) -> bool:
        return name not in self._asks

    async def call(self, name: str, arguments: str) -> ToolResult:
        raise AssertionError(name, arguments)  # a plan calls nothing


def defined(name: str) -> Json:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


WEB = Source("web", "web__find", "web__open", asks=["web__open"])
SHOP = Source("shop", "shop__buy")
ADA = Source("character/ada", "dice", "web__open", system_prompt="You are Ada.", tool_servers=["web"])


def planned(path: str = CHAT_PATH, /, **fields: Any) -> Plan:
    begins: Json = {"model": "qwen"}
    if path == CHAT_PATH:
        begins["messages"] = [HI]
    elif path == RESPONSES_PATH:
        begins["input"] = "Hi"
    else:
        begins |= {"messages": [HI], **({"max_tokens": 100} if path == MESSAGES_PATH else {})}
    body = orjson.dumps({**begins, **fields})
    return plan(body, path, CONFIG, {"ada": ADA}, {"web": WEB, "shop": SHOP})


def refused(path: str = CHAT_PATH, /, **fields: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        planned(path, **fields)
    return caught.value


def own_tool(path: str, name: str) -> Json:
    """A tool of the client's, as it says that in each dialect."""
    if path == CHAT_PATH:
        return defined(name)
    if path == RESPONSES_PATH:
        return {"type": "function", "name": name, "parameters": {"type": "object"}}
    return {"name": name, "input_schema": {"type": "object"}}


def shown(found: Plan) -> list[str]:
    return [tool["function"]["name"] for tool in found.body.get("tools", ())]


@pytest.mark.parametrize("path", PATHS)
class TestTools:
    def test_ours_are_there_without_any_of_the_clients(self, path: str) -> None:
        found = planned(path)
        assert shown(found) == ["web__find", "web__open", "shop__buy"]
        assert found.body["tool_choice"] == "auto"
        assert found.offered == {
            "web__find": Offered("web", "find"),
            "web__open": Offered("web", "open", runs=False),
            "shop__buy": Offered("shop", "buy"),
        }
        assert found.sources == {"web": WEB, "shop": SHOP}

    def test_the_clients_come_behind_them(self, path: str) -> None:
        found = planned(path, tools=[own_tool(path, "get_weather")])
        assert shown(found) == ["web__find", "web__open", "shop__buy", "get_weather"]
        assert "get_weather" not in found.offered
        assert [tool["function"]["name"] for tool in found.spec.tools] == ["get_weather"]

    def test_two_of_one_name_are_refused_at_the_clients_place(self, path: str) -> None:
        error = refused(path, tools=[own_tool(path, "get_weather"), own_tool(path, "web__find")])
        place = {CHAT_PATH: "tools[1].function.name"}.get(path, "tools[1].name")
        assert (error.status, error.param) == (400, place)
        assert "web__find" in error.message

    def test_a_client_that_wants_no_calls_gets_none(self, path: str) -> None:
        none: Any = {"type": "none"} if path == MESSAGES_PATH else "none"
        alone = planned(path, tool_choice=none)
        assert (shown(alone), alone.offered) == ([], {})
        assert "tool_choice" not in alone.body
        found = planned(path, tool_choice=none, tools=[own_tool(path, "get_weather")])
        assert (shown(found), found.offered, found.body["tool_choice"]) == (["get_weather"], {}, "none")
        assert found.spec.tools == []

    def test_a_demanded_call_is_one_of_the_clients(self, path: str) -> None:
        any_: Any = {"type": "any"} if path == MESSAGES_PATH else "required"
        found = planned(path, tool_choice=any_, tools=[own_tool(path, "get_weather")])
        assert (shown(found), found.offered, found.body["tool_choice"]) == (["get_weather"], {}, "required")
        named: Json = {
            CHAT_PATH: {"type": "function", "function": {"name": "get_weather"}},
            MESSAGES_PATH: {"type": "tool", "name": "get_weather"},
            RESPONSES_PATH: {"type": "function", "name": "get_weather"},
        }
        found = planned(path, tool_choice=named[path], tools=[own_tool(path, "get_weather")])
        assert (shown(found), found.offered) == (["get_weather"], {})
        assert found.body["tool_choice"] == named[CHAT_PATH]

    def test_what_a_model_may_be_offered_holds_for_the_clients(self, path: str) -> None:
        assert shown(planned(path, model="strict", tools=[own_tool(path, "get_weather")])) == [
            "web__find",
            "web__open",
            "get_weather",
        ]
        place = {CHAT_PATH: "tools[0].function.name"}.get(path, "tools[0].name")
        assert refused(path, model="strict", tools=[own_tool(path, "get_time")]).param == place

    def test_one_call_at_a_time_is_passed_on(self, path: str) -> None:
        fields: Json = {"parallel_tool_calls": False}
        if path == MESSAGES_PATH:
            fields = {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}
        found = planned(path, tools=[own_tool(path, "get_weather")], **fields)
        assert found.body["parallel_tool_calls"] is False
        assert "parallel_tool_calls" not in planned(path).body


class TestRounds:
    @pytest.mark.parametrize("path", PATHS)
    def test_every_round_is_a_stream_with_its_count(self, path: str) -> None:
        for stream in (False, True):
            found = planned(path, stream=stream)
            assert found.body["stream"] is True
            assert found.body["stream_options"] == {"include_usage": True}
            assert found.turn.stream is stream
            assert found.body["model"] == found.model == "qwen"
            assert "messages" not in found.body
            assert found.messages == [HI]

    def test_parameters_go_to_all_of_them(self) -> None:
        found = planned(temperature=0.5, stop=["x"], seed=None, n=1)
        assert (found.body["temperature"], found.body["stop"]) == (0.5, ["x"])
        assert not {"seed", "n"} & set(found.body)

    @pytest.mark.parametrize(
        ("path", "fields", "tokens", "name"),
        [
            (CHAT_PATH, {}, None, "max_completion_tokens"),
            (CHAT_PATH, {"max_tokens": 7}, 7, "max_tokens"),
            (CHAT_PATH, {"max_tokens": 7.0}, 7, "max_tokens"),
            (CHAT_PATH, {"max_tokens": 7, "max_completion_tokens": 8}, 8, "max_completion_tokens"),
            (CHAT_PATH, {"max_tokens": None}, None, "max_completion_tokens"),
            (MESSAGES_PATH, {"max_tokens": 9}, 9, "max_tokens"),
            (RESPONSES_PATH, {"max_output_tokens": 20}, 20, "max_completion_tokens"),
        ],
    )
    def test_the_length_is_that_of_the_whole_answer(self, path: str, fields: Json, tokens: int, name: str) -> None:
        found = planned(path, **fields)
        assert (found.tokens, found.tokens_name) == (tokens, name)
        assert not {"max_tokens", "max_completion_tokens"} & set(found.body)

    def test_what_no_round_asks_is_named(self) -> None:
        found = planned(logprobs=True, top_logprobs=0, prompt_logprobs=0, echo=False, surely_unknown=1)
        assert {"logprobs", "top_logprobs", "prompt_logprobs"} <= set(found.dropped)
        assert "echo" not in found.dropped
        assert not {"logprobs", "top_logprobs", "prompt_logprobs", "echo"} & set(found.body)
        running = planned(stream=True, stream_options={"include_usage": True, "continuous_usage_stats": True})
        assert running.dropped == ("stream_options.continuous_usage_stats",)
        assert planned(logprobs=False, logit_bias=None).dropped == ()
        assert "service_tier_" in planned(MESSAGES_PATH, service_tier_="x").dropped

    @pytest.mark.parametrize("path", [CHAT_PATH])
    def test_one_answer_is_all_there_is(self, path: str) -> None:
        assert refused(path, n=2).param == "n"
        assert planned(path, n=1).tokens is None

    def test_an_answer_that_the_client_has_begun_goes_on(self) -> None:
        words: Json = {"role": "assistant", "content": "Well"}
        on = {"add_generation_prompt": False, "continue_final_message": True}
        found = planned(MESSAGES_PATH, messages=[HI, words])
        assert found.begun
        assert {name: found.body[name] for name in on} == on
        assert planned(messages=[HI, words], **on).begun
        assert not planned(messages=[HI, words]).begun
        assert not planned(messages=[HI], **on).begun
        parts = {"role": "assistant", "content": [{"type": "text", "text": "Well"}]}
        assert planned(messages=[HI, parts], **on).begun is isinstance(
            planned(messages=[HI, parts]).messages[-1]["content"], str
        )


class TestAnswers:
    def test_legacy_functions_have_one_call_and_its_old_form(self) -> None:
        functions = [{"name": "get_weather", "parameters": {"type": "object"}}]
        found = planned(functions=functions)
        assert found.spec.legacy
        assert found.body["parallel_tool_calls"] is False
        assert shown(found) == ["web__find", "web__open", "shop__buy", "get_weather"]
        assert not {"functions", "function_call"} & set(found.body)
        assert planned(functions=functions, function_call="none").offered == {}
        assert planned(function_call="none").offered == {}
        error = refused(functions=[{"name": "web__find", "parameters": {"type": "object"}}])
        assert error.param == "functions[0].name"

    def test_each_dialect_has_its_own(self) -> None:
        assert [planned(path).spec.dialect for path in PATHS] == ["chat", "messages", "responses"]
        assert [planned(path).spec.include_usage for path in PATHS] == [False, True, True]
        assert planned(stream=True, stream_options={"include_usage": True}).spec.include_usage
        assert planned(MESSAGES_PATH, stop_sequences=["x"]).spec.stop == ("x",)

    def test_counting_asks_no_model(self) -> None:
        found = planned(COUNT_TOKENS_PATH)
        assert found.spec.counts
        alone = planned(COUNT_TOKENS_PATH, model="bare").prompt_tokens
        assert found.prompt_tokens > alone > 0
        longer = planned(COUNT_TOKENS_PATH, messages=[{"role": "user", "content": "Hi, " * 50}])
        assert longer.prompt_tokens > found.prompt_tokens
        assert planned(COUNT_TOKENS_PATH, model="character/ada").messages[0]["content"] == "You are Ada."


@pytest.mark.parametrize("path", PATHS)
class TestCharacters:
    def test_its_tools_come_first(self, path: str) -> None:
        found = planned(path, model="character/ada")
        assert shown(found) == ["dice", "web__open", "web__find"]
        assert found.offered["dice"] == Offered("character/ada", "dice")
        # Of two with one name the character's own.
        assert found.offered["web__open"].source == "character/ada"
        assert set(found.sources) == {"character/ada", "web"}

    def test_its_model_is_asked_in_its_own_name(self, path: str) -> None:
        found = planned(path, model="character/ada")
        assert (found.model, found.body["model"], found.spec.model) == ("character/ada", "qwen", "character/ada")

    def test_its_words_are_the_system_prompt(self, path: str) -> None:
        assert planned(path, model="character/ada").messages == [{"role": "system", "content": "You are Ada."}, HI]

    def test_they_stand_before_the_clients(self, path: str) -> None:
        by_path: dict[str, Json] = {
            CHAT_PATH: {"messages": [{"role": "system", "content": "Be brief."}, HI]},
            MESSAGES_PATH: {"system": "Be brief."},
            RESPONSES_PATH: {"instructions": "Be brief."},
        }
        first, *others = planned(path, model="character/ada", **by_path[path]).messages
        assert first == {"role": "system", "content": "You are Ada.\n\nBe brief."}
        assert others == [HI]


class TestCasting:
    def test_a_system_message_may_be_in_parts(self) -> None:
        parts = [{"type": "text", "text": "Be brief."}]
        for role in ("system", "developer"):
            first, _ = planned(model="character/ada", messages=[{"role": role, "content": parts}, HI]).messages
            content = first["content"]
            text = content if isinstance(content, str) else "\n\n".join(part["text"] for part in content)
            assert text == "You are Ada.\n\nBe brief."

    def test_the_clients_body_stays_as_it_was(self) -> None:
        system = {"role": "system", "content": "Be brief."}
        assert planned(messages=[system, HI]).messages == [system, HI]

    def test_who_isnt_there_is_not_found(self) -> None:
        error = refused(model="character/eve")
        assert (error.status, error.code) == (404, "model_not_found")
        assert "character/ada" in error.message
        error = refused(model="gpt")
        assert (error.status, error.code) == (404, "model_not_found")
        assert "qwen" in error.message

    @pytest.mark.parametrize("model", [None, "", 3])
    def test_a_request_without_a_model_is_refused(self, model: Any) -> None:
        assert refused(model=model).param == "model"

    def test_what_is_no_object_is_refused(self) -> None:
        with pytest.raises(ApiError):
            plan(b"[]", CHAT_PATH, CONFIG, {}, {})

    def test_a_server_that_is_away_offers_nothing(self) -> None:
        body = orjson.dumps({"model": "qwen", "messages": [HI]})
        found = plan(body, CHAT_PATH, CONFIG, {}, {"shop": SHOP})
        assert (shown(found), set(found.sources)) == (["shop__buy"], {"shop"})

    def test_a_model_without_tools_is_asked_for_words(self) -> None:
        found = planned(model="bare")
        assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(found.body)
        assert found.offered == {}

    def test_a_character_whose_model_is_gone_is_unavailable(self) -> None:
        eve = Source("character/eve", model="gone")
        body = orjson.dumps({"model": "character/eve", "messages": [HI]})
        with pytest.raises(ApiError) as caught:
            plan(body, CHAT_PATH, CONFIG, {"eve": eve}, {})
        assert (caught.value.status, caught.value.code) == (503, "character_unavailable")

    def test_what_keeps_a_character_from_being_played(self) -> None:
        nobodys = Source("character/bob", model=None, tool_servers=["web", "bank"])
        assert model_of(nobodys, CONFIG) is None
        several, server = problems_of(nobodys, CONFIG)
        assert several.startswith("MODEL: there are several models")
        assert server == "TOOL_SERVERS: no tool server is named 'bank'"
        [unknown] = problems_of(Source("character/bob", model="gone"), CONFIG)
        assert unknown.startswith("MODEL: no model is named 'gone'")
        only = model_of(nobodys, ONE_MODEL)
        assert only is not None
        assert only.name == "qwen"
        assert problems_of(ADA, CONFIG) == []
