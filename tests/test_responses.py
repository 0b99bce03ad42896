"""OpenAI's Responses: what a request becomes for its backend, and what an answer becomes for its client."""

from __future__ import annotations

import time
from typing import Any

import orjson
import pytest

from extproc.config import Config, parse
from extproc.contract.errors import ApiError
from extproc.names import RESPONSES_PATH
from extproc.surfaces import prepare, rewrite_completion, streamed_answer
from extproc.turn.upstream import UpstreamRequest
from scripted_vllm import Reply
from tests.gateway import Gateway
from tests.responses import Json, events_of, response_calls, response_of, response_text
from tests.test_answer import CALL, completion, stream

CONFIG: Config = parse("""
models:
  - {name: template, backend: qwen, tools: template}
  - {name: native, backend: qwen, tools: native}
  - {name: thinker, backend: qwen, tools: template, thinking: open}
  - {name: fussy, backend: qwen, tools: native, malformed_history: error}
backends:
  - {name: qwen, address: 127.0.0.1:8000}
media_urls: public
""")
WEATHER: Json = {
    "type": "function",
    "name": "get_weather",
    "description": "Weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
PATCH: Json = {"type": "custom", "name": "apply_patch", "description": "Change files"}
AGENTS: Json = {"type": "namespace", "name": "agents", "tools": [{"type": "function", "name": "spawn"}]}
CALLED: Json = {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": '{"city": "Paris"}'}
RESULT: Json = {"type": "function_call_output", "call_id": "c1", "output": "sunny"}


def prepared(**fields: Any) -> UpstreamRequest:
    body = {"model": "native", "input": "Weather in Paris?", **fields}
    kept = {name: value for name, value in body.items() if value is not None}
    return prepare(orjson.dumps(kept), CONFIG, RESPONSES_PATH)


def sent(**fields: Any) -> Json:
    """The body that the backend gets."""
    body = prepared(**fields).body
    assert body is not None
    value = orjson.loads(body)
    assert isinstance(value, dict)
    return value


def shown(*items: Json, **fields: Any) -> list[Json]:
    """The messages that the backend gets."""
    messages = sent(input=list(items), **fields)["messages"]
    assert isinstance(messages, list)
    return messages


def message(role: str, *parts: Json) -> Json:
    return {"type": "message", "role": role, "content": list(parts)}


def asked(text: str) -> Json:
    return {"type": "input_text", "text": text}


class TestConversations:
    def test_words_alone_are_the_users(self) -> None:
        assert sent()["messages"] == [{"role": "user", "content": "Weather in Paris?"}]

    def test_instructions_and_developers_make_the_system_prompt(self) -> None:
        first, *_ = shown(message("developer", asked("Ask first.")), message("user", asked("Hi")), instructions="Help.")
        assert first == {"role": "system", "content": "Help.\n\nAsk first."}

    def test_what_the_model_did_in_a_row_is_one_message(self) -> None:
        thought = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "I look."}]}
        said = message("assistant", {"type": "output_text", "text": "One moment.", "annotations": []})
        assert shown(message("user", asked("Hi")), thought, said, CALLED, RESULT)[1:] == [
            {
                "role": "assistant",
                "reasoning": "I look.",
                "content": "One moment.",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
        ]

    def test_calls_alone_have_no_content(self) -> None:
        assert shown(message("user", asked("Hi")), CALLED, RESULT)[1]["content"] is None

    def test_a_custom_tools_input_is_an_argument(self) -> None:
        item = {"type": "custom_tool_call", "call_id": "c2", "name": "apply_patch", "input": "*** Begin\n"}
        done = {"type": "custom_tool_call_output", "call_id": "c2", "output": [asked("Done.")]}
        _, called, result = shown(message("user", asked("Hi")), item, done)
        assert orjson.loads(called["tool_calls"][0]["function"]["arguments"]) == {"input": "*** Begin\n"}
        assert result["content"] == "Done."

    def test_images_are_parts(self) -> None:
        picture = {"type": "input_image", "image_url": "https://example.org/cat.png", "detail": "low"}
        [question] = shown(message("user", asked("What is it?"), picture))
        assert question["content"] == [
            {"type": "text", "text": "What is it?"},
            {"type": "image_url", "image_url": {"url": "https://example.org/cat.png", "detail": "low"}},
        ]
        [question] = shown(message("user", {**picture, "detail": "original"}))
        assert question["content"] == [{"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}}]

    def test_what_openais_servers_did_is_left_out_and_named(self) -> None:
        searched = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
        request = prepared(input=[message("user", asked("Hi")), searched, message("user", asked("And?"))])
        assert "input.web_search_call" in request.dropped

    def test_all_that_the_model_thought_in_a_row_is_shown(self) -> None:
        first, second = (
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": text}]}
            for text in ("I look.", "I call.")
        )
        said = message("assistant", {"type": "output_text", "text": "One moment."})
        answer = shown(message("user", asked("Hi")), first, said, second, CALLED, RESULT)[1]
        assert (answer["reasoning"], answer["content"]) == ("I look.\nI call.", "One moment.")

    def test_what_the_model_said_in_several_items_stands_on_lines_of_its_own(self) -> None:
        said = [message("assistant", {"type": "output_text", "text": text}) for text in ("One", "", "two")]
        assert shown(message("user", asked("Hi")), *said)[1]["content"] == "One\ntwo"

    def test_instructions_behind_an_answer_stay_where_they_are(self) -> None:
        later = [message("developer", asked("Be brief.")), message("user", asked("And?"))]
        roles = [each["role"] for each in shown(message("user", asked("Hi")), CALLED, RESULT, *later)]
        assert roles == ["user", "assistant", "tool", "system", "user"]

    def test_members_of_items_that_nobody_reads_are_named(self) -> None:
        thought = {"type": "reasoning", "summary": [], "content": [], "encrypted_content": "gAAAA"}
        said = {**message("assistant", {"type": "output_text", "text": "Hm"}), "phase": "commentary", "id": "msg_1"}
        request = prepared(input=[message("user", asked("Hi")), thought, said])
        assert request.dropped == ("input.encrypted_content", "input.phase")

    @pytest.mark.parametrize(
        "items",
        [
            [("user", 8000), ("developer", 8000)],
            [("user", 1), ("assistant", 16000)],
        ],
    )
    def test_a_long_one_takes_time_in_proportion(self, items: list[tuple[str, int]]) -> None:
        long = [message(role, asked("x" * 500)) for role, count in items for _ in range(count)]
        started = time.process_time()
        shown(*long)
        assert time.process_time() - started < 2  # with every item looking at all before it, some 5 and 14 s

    def test_arguments_that_are_no_json_are_repaired(self) -> None:
        request = prepared(input=[message("user", asked("Hi")), {**CALLED, "arguments": '{"city": "Par'}, RESULT])
        assert request.repaired == 1


class TestTools:
    def test_all_of_the_clients_own_are_functions(self) -> None:
        tools = sent(tools=[WEATHER, PATCH, AGENTS])["tools"]
        assert [tool["function"]["name"] for tool in tools] == ["get_weather", "apply_patch", "agents__spawn"]
        assert tools[1]["function"]["parameters"]["required"] == ["input"]

    def test_the_others_are_kept_back_and_named(self) -> None:
        assert "tools.web_search" in prepared(tools=[WEATHER, {"type": "web_search"}]).dropped

    def test_a_grammar_is_told_and_named_as_not_forced(self) -> None:
        grammar = {"type": "grammar", "syntax": "lark", "definition": "start: PATCH"}
        request = prepared(tools=[{**PATCH, "format": grammar}])
        assert "tools.apply_patch.format" in request.dropped
        assert b"start: PATCH" in (request.body or b"")

    @pytest.mark.parametrize(
        ("choice", "for_the_backend"),
        [
            ("auto", "auto"),
            ("none", "none"),
            ("required", "required"),
            ({"type": "function", "name": "get_weather"}, {"type": "function", "function": {"name": "get_weather"}}),
            ({"type": "custom", "name": "apply_patch"}, {"type": "function", "function": {"name": "apply_patch"}}),
        ],
    )
    def test_a_choice_is_the_backends(self, choice: Any, for_the_backend: Any) -> None:
        assert sent(tools=[WEATHER, PATCH], tool_choice=choice)["tool_choice"] == for_the_backend

    def test_only_some_may_be_allowed(self) -> None:
        choice = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "get_weather"}]}
        body = sent(tools=[WEATHER, PATCH], tool_choice=choice)
        assert [tool["function"]["name"] for tool in body["tools"]] == ["get_weather"]
        assert body["tool_choice"] == "required"


class TestParameters:
    def test_those_that_both_have_go_on(self) -> None:
        body = sent(max_output_tokens=50, temperature=0.5, top_p=0.9, stream=True, reasoning={"effort": "low"})
        assert (body["max_completion_tokens"], body["temperature"], body["top_p"]) == (50, 0.5, 0.9)
        assert (body["stream_options"], body["reasoning_effort"]) == ({"include_usage": True}, "low")

    def test_no_effort_is_no_thinking(self) -> None:
        request = prepared(model="thinker", reasoning={"effort": "none"}, tools=[WEATHER])
        body = orjson.loads(request.body or b"")
        assert (body["reasoning_effort"], body["chat_template_kwargs"]["enable_thinking"]) == ("none", False)
        assert request.answer is not None
        answer = orjson.loads(rewrite_completion(completion("Hello"), request.answer).body)
        assert response_text(answer) == "Hello"
        assert "chat_template_kwargs" not in sent(reasoning={"effort": "low"})

    def test_the_form_of_the_text_is_a_response_format(self) -> None:
        schema: Json = {"type": "object", "properties": {}}
        wanted = {"type": "json_schema", "name": "city", "schema": schema, "strict": False}
        assert sent(text={"format": wanted})["response_format"]["json_schema"]["schema"] == schema
        assert sent(text={"format": {"type": "json_object"}})["response_format"] == {"type": "json_object"}

    def test_what_nobody_knows_is_dropped_and_named(self) -> None:
        assert prepared(service_tier="auto", store=True, prompt_cache_key="k").dropped == ("service_tier",)
        assert prepared(truncation="disabled", service_tier="disabled").dropped == ("service_tier",)

    @pytest.mark.parametrize(
        ("fields", "names"),
        [
            ({"reasoning": {"effort": "low", "summary": "auto"}}, ("reasoning.summary",)),
            ({"text": {"verbosity": "low", "format": {"type": "text"}}}, ("text.verbosity",)),
            ({"stream_options": {"include_obfuscation": False, "other": 1}}, ("stream_options.other",)),
            (
                {"include": ["reasoning.encrypted_content", "message.output_text.logprobs"]},
                ("include.message.output_text.logprobs",),
            ),
            ({"tools": [{**PATCH, "async": True, "allowed_callers": ["direct"]}]}, ("tools.apply_patch.async",)),
            ({"tools": [{**WEATHER, "allowed_callers": ["programmatic"]}]}, ("tools.get_weather.allowed_callers",)),
            ({"tools": [{**WEATHER, "allowed_callers": 5, "async": False}]}, ("tools.get_weather.allowed_callers",)),
            (
                {"tools": [{**AGENTS, "description": "Of agents", "tools": [{**WEATHER, "output_schema": {}}]}]},
                ("tools.agents.description", "tools.agents__get_weather.output_schema"),
            ),
        ],
    )
    def test_so_are_members_that_nobody_reads(self, fields: Json, names: tuple[str, ...]) -> None:
        assert prepared(**fields).dropped == names

    def test_what_gives_way_to_a_call_is_named_as_the_client_calls_it(self) -> None:
        request = prepared(tools=[WEATHER], tool_choice="required", text={"format": {"type": "json_object"}})
        assert request.dropped == ("text.format",)


NEAR: Json = {"type": "input_image", "image_url": "http://10.0.0.1/"}
MISTAKES: list[tuple[Json, str]] = [
    ({"model": None}, "model"),
    ({"input": None}, "input"),
    ({"input": []}, "input"),
    ({"input": [{"type": "nonsense"}]}, "input[0].type"),
    ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
    ({"input": [message("user", asked("x")), {"type": "compaction", "encrypted_content": "x"}]}, "input[1].type"),
    ({"input": [{"type": "web_search_call", "id": "x", "status": "completed"}]}, "input"),
    ({"input": [{"type": "reasoning", "summary": [], "encrypted_content": "x"}]}, "input"),
    ({"input": [{"type": "reasoning", "summary": True}]}, "input[0].summary"),
    ({"input": [{"type": "reasoning", "summary": [], "content": 1}]}, "input[0].content"),
    (
        {"input": [message("user", {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": 5})]},
        "input[0].content[0].detail",
    ),
    ({"input": [message("tool", asked("x"))]}, "input[0].role"),
    ({"input": [message("user", {"type": "input_file"})]}, "input[0].content[0].type"),
    ({"input": [message("user", {"type": "input_text"})]}, "input[0].content[0].text"),
    ({"input": [RESULT]}, "input[0].call_id"),
    ({"input": [{**CALLED, "name": ""}]}, "input[0].name"),
    ({"input": [{**CALLED, "namespace": 1}]}, "input[0].namespace"),
    ({"input": [CALLED, {**RESULT, "output": [asked("")] * 65536}]}, "input"),
    ({"model": "fussy", "input": [{**CALLED, "arguments": "{"}]}, "input[0].arguments"),
    (
        {"input": [message("user", {"type": "input_image", "image_url": "http://10.0.0.1/"})]},
        "input[0].content[0].image_url",
    ),
    ({"instructions": 1}, "instructions"),
    ({"previous_response_id": "resp_1"}, "previous_response_id"),
    ({"conversation": "conv_1"}, "conversation"),
    ({"background": True}, "background"),
    ({"truncation": "auto"}, "truncation"),
    ({"tools": [{"type": "function"}]}, "tools[0].name"),
    ({"tools": [WEATHER, WEATHER]}, "tools[1].name"),
    ({"tools": [{**AGENTS, "tools": [{"type": "function", "name": "no spaces"}]}]}, "tools[0].tools[0].name"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tools": [WEATHER], "tool_choice": {"type": "function", "name": "other"}}, "tool_choice.name"),
    ({"tools": [WEATHER], "tool_choice": {"type": "web_search"}}, "tool_choice.type"),
    ({"temperature": 3}, "temperature"),
    ({"reasoning": {"effort": "extreme"}}, "reasoning.effort"),
    ({"reasoning": {"effort": 1}}, "reasoning.effort"),
    ({"prompt_cache_key": 1}, "prompt_cache_key"),
    ({"text": {"verbosity": 1}}, "text.verbosity"),
    ({"text": {"format": "json"}}, "text.format"),
    ({"text": {"format": {"type": "yaml"}}}, "text.format.type"),
    ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format.name"),
    ({"text": {"format": {"type": "json_schema", "name": "x", "schema": []}}}, "text.format.schema"),
    ({"tools": [{**AGENTS, "description": 1}]}, "tools[0].description"),
]


@pytest.mark.parametrize(("fields", "place"), MISTAKES, ids=[place for _, place in MISTAKES])
def test_a_mistake_is_told_with_its_place_in_this_body(fields: Json, place: str) -> None:
    with pytest.raises(ApiError) as caught:
        prepared(**fields)
    assert (caught.value.status, caught.value.param) == (400, place)
    assert f"'{place}" in caught.value.message
    assert "response_format" not in caught.value.message


@pytest.mark.parametrize(
    ("fields", "way_out"),
    [
        ({"previous_response_id": "resp_1"}, "agentic-api"),
        ({"conversation": "conv_1"}, "agentic-api"),
        ({"background": True}, "wait for the answer"),
        ({"prompt": {"id": "pmpt_1"}}, "as 'instructions' and 'input'"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "the items themselves"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_needs_a_memory_is_refused_with_a_way_out_that_leads_there(fields: Json, way_out: str) -> None:
    """agentic-api keeps conversations, and ignores the rest of these (tests/clients/test_agentic_api.py)."""
    with pytest.raises(ApiError, match="keeps nothing between requests") as caught:
        prepared(**fields)
    assert way_out in caught.value.message
    assert ("agentic-api" in caught.value.message) == (way_out == "agentic-api")


class TestAnswers:
    REQUEST = prepared(model="template", tools=[WEATHER, PATCH, AGENTS], stream=True)

    def whole(self, words: str, reason: str = "stop") -> Json:
        assert self.REQUEST.answer is not None
        answer = orjson.loads(rewrite_completion(completion(words, reason), self.REQUEST.answer).body)
        assert isinstance(answer, dict)
        return answer

    def streamed(self, pieces: list[str], reason: str | None = "stop") -> bytes:
        assert self.REQUEST.answer is not None
        answer = streamed_answer(self.REQUEST.answer)
        return answer.feed(stream(pieces, reason)) + answer.close()

    def test_a_whole_one_has_items(self) -> None:
        response = self.whole(f"<think>\nHm.</think>\nI look.\n{CALL}")
        assert [item["type"] for item in response["output"]] == ["reasoning", "message", "function_call"]
        assert response_calls(response) == [("get_weather", {"city": "Zürich"})]
        assert (response["status"], response["model"], response["store"]) == ("completed", "template", False)
        assert [tool["name"] for tool in response["tools"]] == ["get_weather", "apply_patch", "agents"]

    @pytest.mark.parametrize("size", [1, 2, 7, 1000])
    def test_a_stream_builds_the_same(self, size: int) -> None:
        words = f"<think>\nHm.</think>\nI look.\n{CALL}"
        response = response_of(self.streamed([words[at : at + size] for at in range(0, len(words), size)]))
        whole = self.whole(words)
        assert response_calls(response) == response_calls(whole)
        assert response_text(response) == response_text(whole)
        assert response_text(response, "reasoning") == response_text(whole, "reasoning")
        assert response["usage"]["total_tokens"] > 0

    def test_a_custom_tool_gets_its_text(self) -> None:
        call = '<tool_call>\n{"name": "apply_patch", "arguments": {"input": "*** Begin\\n\\"x\\""}}\n</tool_call>'
        response = response_of(self.streamed([call]))
        assert response["output"][0]["type"] == "custom_tool_call"
        assert response_calls(response) == [("apply_patch", '*** Begin\n"x"')]

    def test_a_tool_of_a_namespace_goes_back_with_it(self) -> None:
        [item] = self.whole('<tool_call>\n{"name": "agents__spawn", "arguments": {}}\n</tool_call>')["output"]
        assert (item["name"], item["namespace"]) == ("spawn", "agents")

    @pytest.mark.parametrize(("reason", "why"), [("length", "max_output_tokens"), ("content_filter", "content_filter")])
    def test_one_that_was_cut_off_says_so(self, reason: str, why: str) -> None:
        for response in (self.whole("Hello", reason), response_of(self.streamed(["Hello"], reason))):
            assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": why})

    def test_a_stream_that_breaks_off_has_failed(self) -> None:
        *_, last = events_of(self.streamed(["Hello"], None))
        assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
        assert last["response"]["error"]["code"] == "server_error"
        [item] = last["response"]["output"]
        assert (item["status"], item["content"][0]["text"]) == ("incomplete", "Hello")

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            ('{"input": null}', ""),
            ("{}", ""),
            ('{"input": 5}', "5"),
            ('{"input": {"a": [1]}}', '{"a":[1]}'),
            ('"*** Begin\\n"', "*** Begin\n"),
            ('{"patch": "x"}', '{"patch": "x"}'),
        ],
    )
    def test_a_custom_tool_sees_nothing_of_the_parameter_that_the_model_was_shown(
        self, arguments: str, text: str
    ) -> None:
        call = f'<tool_call>\n{{"name": "apply_patch", "arguments": {arguments}}}\n</tool_call>'
        for response in (self.whole(call), response_of(self.streamed([call]))):
            assert response_calls(response) == [("apply_patch", text)]


class TestThroughEnvoy:
    """The real one, with the real processor and OpenAI's own library."""

    def test_a_conversation(self, gateway: Gateway) -> None:
        gateway.backend.play(Reply(f"I look.\n{CALL}"), Reply("It is sunny."))
        first = gateway.openai.responses.create(model="coder", input="Weather?", tools=[WEATHER])  # type: ignore[list-item]
        assert first.output_text == "I look."
        [call] = [item for item in first.output if item.type == "function_call"]
        again: Any = [
            {"role": "user", "content": "Weather?"},
            *(item.model_dump(exclude_none=True) for item in first.output),
            {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"},
        ]
        assert gateway.openai.responses.create(model="coder", input=again).output_text == "It is sunny."
        assert {request.route for request in gateway.backend.requests} == {"/v1/chat/completions"}

    def test_a_stream(self, gateway: Gateway) -> None:
        gateway.backend.play(Reply(f"I look.\n{CALL}", wire_cut=7))
        with gateway.openai.responses.stream(model="coder", input="Weather?", tools=[WEATHER]) as events:  # type: ignore[list-item]
            kinds = [event.type for event in events]
            response = events.get_final_response()
        assert kinds[0] == "response.created"
        assert kinds[-1] == "response.completed"
        assert response.output_text == "I look."
        assert response.usage is not None

    def test_a_conversation_kept_elsewhere_is_refused_with_the_way_out(self, gateway: Gateway) -> None:
        answer = gateway.http.post(RESPONSES_PATH, json={"model": "coder", "input": "x", "previous_response_id": "r"})
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == "previous_response_id"
        assert "agentic-api" in answer.json()["error"]["message"]
        assert gateway.http.get(f"{RESPONSES_PATH}/resp_1").status_code == 404
