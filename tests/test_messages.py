"""Anthropic's Messages: what a request becomes for its backend, and what an answer becomes for its client."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from extproc.config import Config, parse
from extproc.contract.errors import ApiError
from extproc.names import COUNT_TOKENS_PATH, MESSAGES_PATH
from extproc.surfaces import MESSAGES, find_problems, prepare, rewrite_completion, streamed_answer
from extproc.turn.upstream import UpstreamRequest
from scripted_vllm import Reply
from tests.gateway import Gateway
from tests.messages import (
    Json,
    calls_of,
    counted,
    error_in,
    events_of,
    listed_models,
    message_of,
    said_in,
    whole_message,
)
from tests.test_answer import CALL, completion, stream

CONFIG: Config = parse("""
models:
  - {name: coder, backend: qwen, tools: prompt}
  - {name: template, backend: qwen, tools: template}
  - {name: native, backend: qwen, tools: native}
  - {name: open, backend: qwen, tools: template, thinking: open}
  - {name: with-defaults, backend: qwen, tools: template, defaults: {n: 2, chat_template_kwargs: {preserve: true}}}
  - {name: strict, backend: qwen, tools: template, invalid_calls: error}
backends:
  - {name: qwen, address: 127.0.0.1:8000}
aliases: {"claude-*": native, claude-haiku-4-5: template, "claude-opus-*": coder}
media_urls: public
""")
WEATHER = {
    "name": "get_weather",
    "description": "Weather in a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
EMPTY: Json = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
ASK = {"role": "user", "content": "Weather in Paris?"}
CALLED = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}}


def prepared(path: str = MESSAGES_PATH, **fields: Any) -> UpstreamRequest:
    body = {"model": "template", "max_tokens": 100, "messages": [ASK], **fields}
    return prepare(orjson.dumps({name: value for name, value in body.items() if value is not None}), CONFIG, path)


def sent(path: str = MESSAGES_PATH, **fields: Any) -> Json:
    """The body that the backend gets."""
    body = prepared(path, **fields).body
    assert body is not None
    value = orjson.loads(body)
    assert isinstance(value, dict)
    return value


def shown(*messages: Json, **fields: Any) -> list[Json]:
    """The messages that the backend gets."""
    messages_ = sent(messages=list(messages), **fields)["messages"]
    assert isinstance(messages_, list)
    return messages_


def user(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks)}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def result(content: Any, **fields: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": "toolu_1", "content": content, **fields}


class TestConversations:
    def test_the_system_prompt_is_a_string_or_blocks(self) -> None:
        cached = {**text("Be brief."), "cache_control": {"type": "ephemeral"}}
        assert shown(ASK, system="Be brief.")[0] == {"role": "system", "content": "Be brief."}
        assert shown(ASK, system=[text("You help."), cached])[0] == {
            "role": "system",
            "content": "You help.\n\nBe brief.",
        }

    def test_one_among_the_messages_joins_it_or_is_a_reminder(self) -> None:
        reminder = {"role": "system", "content": "Files changed."}
        first, _, *others = shown(ASK, reminder, {"role": "assistant", "content": "Hm."}, reminder, system="Be brief.")
        assert first == {"role": "system", "content": "Be brief.\n\nFiles changed."}
        assert others == [
            {"role": "assistant", "content": "Hm."},
            {"role": "user", "content": "<system-reminder>\nFiles changed.\n</system-reminder>"},
        ]

    def test_calls_and_their_results_keep_their_places(self) -> None:
        thought = {"type": "thinking", "thinking": "I look.", "signature": "x"}
        redacted = {"type": "redacted_thinking", "data": "abc"}
        answer = {"role": "assistant", "content": [thought, redacted, text("One moment."), CALLED]}
        assert shown(ASK, answer, user(result([text("sunny")]), text("And tomorrow?")))[1:] == [
            {
                "role": "assistant",
                "content": "One moment.",
                "reasoning": "I look.",
                "tool_calls": [
                    {
                        "id": "toolu_1",
                        "type": "function",
                        "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "toolu_1", "content": "sunny"},
            {"role": "user", "content": "And tomorrow?"},
        ]

    @pytest.mark.parametrize(
        ("block", "content"),
        [
            (result("sunny"), "sunny"),
            (result(None), ""),
            (result([text("a"), text("b")]), "a\nb"),
            (result("no such city", is_error=True), "Error:\nno such city"),
            (result("<tool_use_error>no</tool_use_error>", is_error=True), "<tool_use_error>no</tool_use_error>"),
            (result("Error: no", is_error=True), "Error: no"),
        ],
    )
    def test_a_result_is_what_it_says(self, block: Json, content: str) -> None:
        assert shown(ASK, {"role": "assistant", "content": [CALLED]}, user(block))[-1]["content"] == content

    def test_images_are_shown_where_they_stand(self) -> None:
        picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}
        linked = {"type": "image", "source": {"type": "url", "url": "https://example.org/cat.png"}}
        assert shown(user(text("What is"), picture, linked))[0]["content"] == [
            text("What is"),
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}},
            {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}},
        ]
        answer = {"role": "assistant", "content": [CALLED]}
        assert shown(ASK, answer, user(result([picture])))[-1]["content"][0]["type"] == "image_url"

    def test_a_document_is_its_text(self) -> None:
        source = {"type": "text", "media_type": "text/plain", "data": "Once upon a time."}
        document = {"type": "document", "title": "A tale", "source": source, "citations": {"enabled": True}}
        assert shown(user(document))[0]["content"] == "A tale\n\nOnce upon a time."

    def test_an_answer_that_was_begun_is_gone_on_with(self) -> None:
        body = sent(messages=[ASK, {"role": "assistant", "content": "It is"}])
        assert (body["add_generation_prompt"], body["continue_final_message"]) == (False, True)

    def test_one_that_was_begun_ends_where_words_are_put_behind_it(self) -> None:
        begun = [ASK, {"role": "assistant", "content": "It is"}]
        body = sent(model="coder", messages=begun, tools=[WEATHER], tool_choice={"type": "none"})
        assert body["messages"][-1]["role"] == "user"
        assert "continue_final_message" not in body

    def test_what_anthropics_servers_did_is_left_out_and_named(self) -> None:
        searched = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
        found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
        request = prepared(messages=[ASK, {"role": "assistant", "content": [searched, found, text("Sunny.")]}, ASK])
        assert {"messages.server_tool_use", "messages.web_search_tool_result"} <= set(request.dropped)
        assert orjson.loads(request.body or b"")["messages"][1] == {"role": "assistant", "content": "Sunny."}


class TestTools:
    def test_they_are_functions_for_the_backend(self) -> None:
        body = sent(
            model="native",
            tools=[WEATHER, {**WEATHER, "name": "now", "input_schema": EMPTY, "strict": True, "type": "custom"}],
        )
        first, second = (tool["function"] for tool in body["tools"])
        assert first == {
            "name": "get_weather",
            "description": "Weather in a city",
            "parameters": WEATHER["input_schema"],
        }
        assert second["strict"] is True

    def test_anthropics_own_are_kept_back_and_named(self) -> None:
        search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}
        request = prepared(tools=[WEATHER, search])
        assert "tools.web_search" in request.dropped
        assert [tool["function"]["name"] for tool in orjson.loads(request.body or b"")["tools"]] == ["get_weather"]

    @pytest.mark.parametrize(
        ("choice", "for_the_backend"),
        [
            ({"type": "auto"}, "auto"),
            ({"type": "any"}, "required"),
            ({"type": "tool", "name": "get_weather"}, {"type": "function", "function": {"name": "get_weather"}}),
            ({"type": "none"}, "none"),
        ],
    )
    def test_a_choice_is_the_backends(self, choice: Json, for_the_backend: Any) -> None:
        assert sent(model="native", tools=[WEATHER], tool_choice=choice)["tool_choice"] == for_the_backend

    def test_calls_may_be_one_at_a_time(self) -> None:
        choice = {"type": "auto", "disable_parallel_tool_use": True}
        assert sent(model="native", tools=[WEATHER], tool_choice=choice)["parallel_tool_calls"] is False

    def test_a_demanded_call_is_forced(self) -> None:
        assert "structured_outputs" in sent(tools=[WEATHER], tool_choice={"type": "any"})


class TestParameters:
    def test_those_that_both_have_go_on(self) -> None:
        body = sent(stop_sequences=["END"], temperature=0.5, top_k=5, top_p=0.9, stream=True)
        assert {name: body[name] for name in ("max_tokens", "stop", "temperature", "top_k", "top_p", "stream")} == {
            "max_tokens": 100,
            "stop": ["END"],
            "temperature": 0.5,
            "top_k": 5,
            "top_p": 0.9,
            "stream": True,
        }
        assert body["stream_options"] == {"include_usage": True}

    def test_thinking_is_the_chat_templates_switch(self) -> None:
        on = prepared(thinking={"type": "enabled", "budget_tokens": 2048})
        assert orjson.loads(on.body or b"")["chat_template_kwargs"] == {"enable_thinking": True, "thinking": True}
        assert "thinking.budget_tokens" in on.dropped
        off = sent(thinking={"type": "disabled"})
        assert off["chat_template_kwargs"] == {"enable_thinking": False, "thinking": False}
        assert "chat_template_kwargs" not in sent(thinking={"type": "adaptive"})
        assert sent(output_config={"effort": "high"})["reasoning_effort"] == "high"

    @pytest.mark.parametrize("place", ["output_config", "output_format"])
    def test_the_form_of_the_text_is_a_response_format(self, place: str) -> None:
        schema: Json = {"type": "object", "properties": {"city": {"type": "string"}}}
        wanted: Json = {"type": "json_schema", "schema": schema}
        asked: Json = {place: {"format": wanted} if place == "output_config" else wanted}
        body = sent(**asked)
        assert body["response_format"]["json_schema"]["schema"] == schema

    def test_what_is_withheld_is_so_in_every_dialect(self) -> None:
        config = CONFIG.model_copy(update={"withheld": ("reasoning_effort", "top_k", "chat_template_kwargs")})
        fields = {"top_k": 5, "thinking": {"type": "disabled"}, "output_config": {"effort": "low"}}
        body = {"model": "native", "max_tokens": 1, "messages": [ASK], **fields}
        request = prepare(orjson.dumps(body), config, MESSAGES_PATH)
        assert request.dropped == ("chat_template_kwargs", "reasoning_effort", "top_k")
        assert not {"chat_template_kwargs", "reasoning_effort", "top_k"} & orjson.loads(request.body or b"").keys()

    def test_a_models_own_words_for_its_template_stay_beside_the_switch(self) -> None:
        body = sent(model="with-defaults", thinking={"type": "disabled"})
        assert body["chat_template_kwargs"] == {"preserve": True, "enable_thinking": False, "thinking": False}
        assert "n" not in body
        assert "n" in prepared(model="with-defaults").dropped

    def test_thinking_that_is_switched_off_was_not_begun(self) -> None:
        assert (open_ := prepared(model="open").answer) is not None
        assert open_.thinking == "open"
        for fields in ({"thinking": {"type": "disabled"}}, {"messages": [ASK, {"role": "assistant", "content": "It"}]}):
            assert (spec := prepared(model="open", **fields).answer) is not None
            assert spec.thinking is None

    def test_members_that_nobody_knows_are_named(self) -> None:
        request = prepared(
            tools=[{**WEATHER, "defer_loading": True}],
            output_config={"effort": "low", "task_budget": {}},
            thinking={"type": "adaptive", "more": 1},
        )
        assert request.dropped == ("output_config.task_budget", "thinking.more", "tools.defer_loading")

    @pytest.mark.parametrize(("eager", "dropped"), [(True, ()), (None, ()), (False, ("tools.eager_input_streaming",))])
    def test_input_streams_whether_it_is_wanted_or_not(self, eager: bool | None, dropped: tuple[str, ...]) -> None:
        assert prepared(tools=[{**WEATHER, "eager_input_streaming": eager}]).dropped == dropped

    def test_what_nobody_knows_is_dropped_and_named(self) -> None:
        request = prepared(context_management={"edits": []}, service_tier="auto", metadata={"user_id": "x"})
        assert request.dropped == ("context_management", "service_tier")

    @pytest.mark.parametrize(
        ("name", "model"),
        [
            ("native", "native"),
            ("claude-haiku-4-5", "template"),
            ("claude-opus-4-6", "coder"),
            ("claude-sonnet-5", "native"),
        ],
    )
    def test_an_alias_stands_for_a_model(self, name: str, model: str) -> None:
        assert prepared(model=name).model == model


MISTAKES: list[tuple[Json, str]] = [
    ({"model": None}, "'model'"),
    ({"model": "nobody"}, "'nobody'"),
    ({"max_tokens": None}, "'max_tokens'"),
    ({"max_tokens": 0}, "'max_tokens'"),
    ({"messages": None}, "'messages'"),
    ({"messages": []}, "'messages'"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "'messages[0].role'"),
    ({"messages": [{"role": "user"}]}, "'messages[0].content'"),
    ({"messages": [user({"type": "video"})]}, "'messages[0].content[0].type'"),
    ({"messages": [user({"type": "text"})]}, "'messages[0].content[0].text'"),
    ({"messages": [user(result("x"))]}, "'messages[0].content[0].tool_use_id'"),
    ({"messages": [{"role": "assistant", "content": [{**CALLED, "input": "x"}]}]}, "'messages[0].content[0].input'"),
    (
        {"messages": [user({"type": "image", "source": {"type": "file", "file_id": "f"}})]},
        "'messages[0].content[0].source.type'",
    ),
    (
        {"messages": [user({"type": "image", "source": {"type": "url", "url": "http://10.0.0.1/x"}})]},
        "'messages[0].content[0].source.url'",
    ),
    (
        {"messages": [user({"type": "document", "source": {"type": "base64", "data": "JVBE"}})]},
        "'messages[0].content[0].source.type'",
    ),
    ({"messages": [{"role": "user", "content": []}]}, "'messages[0].content'"),
    ({"messages": [{"role": "system", "content": "x"}]}, "'messages'"),
    ({"messages": [user({"type": "search_result", "content": []})]}, "'messages[0].content[0].source'"),
    ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "'tools[0].type'"),
    ({"tools": [WEATHER], "tool_choice": {"type": ["auto"]}}, "'tool_choice.type'"),
    ({"tools": [WEATHER], "tool_choice": {"type": "tool", "name": {}}}, "'tool_choice.name'"),
    ({"thinking": {"type": "adaptive", "display": 5}}, "'thinking.display'"),
    ({"system": [{"type": "image"}]}, "'system[0].type'"),
    ({"tools": [{"name": "f"}]}, "'tools[0].input_schema'"),
    ({"tools": [{**WEATHER, "name": "no spaces"}]}, "'tools[0].name'"),
    ({"tools": [WEATHER, WEATHER]}, "'tools[1].name'"),
    ({"tools": [{**WEATHER, "input_schema": {"type": "nonsense"}}]}, "'tools[0].input_schema"),
    ({"tool_choice": {"type": "any"}}, "'tool_choice'"),
    ({"tools": [WEATHER], "tool_choice": {"type": "tool", "name": "other"}}, "'tool_choice.name'"),
    ({"tools": [WEATHER], "tool_choice": "auto"}, "'tool_choice'"),
    ({"temperature": 3}, "'temperature'"),
    ({"thinking": {"type": "on"}}, "'thinking.type'"),
    ({"thinking": {"type": "enabled"}}, "'thinking.budget_tokens'"),
    ({"output_config": {"effort": "extreme"}}, "'output_config.effort'"),
    ({"output_format": {"type": "json_schema"}}, "'output_format.schema'"),
    ({"stop_sequences": "END"}, "'stop_sequences'"),
]


@pytest.mark.parametrize(("fields", "place"), MISTAKES, ids=[place for _, place in MISTAKES])
def test_a_mistake_is_told_with_its_place_in_this_body(fields: Json, place: str) -> None:
    with pytest.raises(ApiError) as caught:
        prepared(**fields)
    error = error_in(MESSAGES.error_body(caught.value))
    assert error["type"] in ("invalid_request_error", "not_found_error")
    assert place in error["message"]


def test_all_mistakes_can_be_told_at_once() -> None:
    body = {"model": "native", "messages": [{"role": "user"}], "temperature": 9}
    found = [problem.param for problem in find_problems(orjson.dumps(body), CONFIG, MESSAGES_PATH)]
    assert found == ["messages[0].content", "temperature", "max_tokens"]


class TestAnswers:
    REQUEST = prepared(tools=[WEATHER], stop_sequences=["END"])
    SPEC = REQUEST.answer

    def whole(self, words: str, reason: str = "stop", **fields: Any) -> Json:
        assert self.SPEC is not None
        body = orjson.loads(completion(words, reason))
        body["choices"][0] |= fields
        return whole_message(rewrite_completion(orjson.dumps(body), self.SPEC).body)

    def streamed(self, pieces: list[str], reason: str | None = "stop") -> bytes:
        assert self.SPEC is not None
        answer = streamed_answer(self.SPEC)
        return answer.feed(stream(pieces, reason)) + answer.close()

    def test_a_whole_one_has_blocks(self) -> None:
        message = self.whole(f"<think>\nHm.</think>\nI look.\n{CALL}")
        assert [block["type"] for block in message["content"]] == ["thinking", "text", "tool_use"]
        assert (message["type"], message["role"], message["model"]) == ("message", "assistant", "template")
        assert message["stop_reason"] == "tool_use"
        assert message["content"][0]["signature"]
        assert calls_of(message) == [("get_weather", {"city": "Zürich"})]
        assert message["content"][2]["id"].startswith("toolu_")

    @pytest.mark.parametrize("size", [1, 2, 7, 1000])
    def test_a_stream_builds_the_same(self, size: int) -> None:
        words = f"<think>\nHm.</think>\nI look.\n{CALL}"
        message = message_of(self.streamed([words[at : at + size] for at in range(0, len(words), size)]))
        whole = self.whole(words)
        assert calls_of(message) == calls_of(whole)
        assert [said_in(message, kind) for kind in ("text", "thinking")] == [
            said_in(whole, kind) for kind in ("text", "thinking")
        ]
        assert (message["stop_reason"], message["stop_sequence"]) == ("tool_use", None)

    @pytest.mark.parametrize(
        ("reason", "fields", "stop_reason"),
        [
            ("stop", {}, "end_turn"),
            ("stop", {"stop_reason": "END"}, "stop_sequence"),
            ("stop", {"stop_reason": 151645}, "end_turn"),
            ("length", {}, "max_tokens"),
            ("content_filter", {}, "refusal"),
        ],
    )
    def test_why_it_ended(self, reason: str, fields: Json, stop_reason: str) -> None:
        message = self.whole("Hello", reason, **fields)
        assert message["stop_reason"] == stop_reason
        assert message["stop_sequence"] == ("END" if stop_reason == "stop_sequence" else None)

    def test_the_count_tells_the_cached_tokens_apart(self) -> None:
        assert self.SPEC is not None
        body = orjson.loads(completion("Hello"))
        body["usage"] = {
            "prompt_tokens": 100,
            "completion_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 64},
        }
        usage = whole_message(rewrite_completion(orjson.dumps(body), self.SPEC).body)["usage"]
        assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["output_tokens"]) == (36, 64, 7)

    def test_a_call_that_was_cut_off_is_told_as_far_as_it_came(self) -> None:
        message = self.whole(CALL[: CALL.index("Zürich") + 3], "length")
        assert (calls_of(message), message["stop_reason"]) == ([("get_weather", {"city": "Zür"})], "max_tokens")

    @pytest.mark.parametrize(
        "words",
        [
            '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zür',
            '<tool_call>\n{"name": "get_weather", "arguments": {"city": 12',
        ],
    )
    def test_a_call_that_the_model_left_open_is_no_success(self, words: str) -> None:
        with pytest.raises(ApiError, match="no JSON object"):
            self.whole(words)

    @pytest.mark.parametrize("value", ["1e400", "123456789012345678901234567890", '"a", "city": "b"'])
    def test_arguments_are_told_as_the_model_wrote_them(self, value: str) -> None:
        assert self.SPEC is not None
        call = f'<tool_call>\n{{"name": "get_weather", "arguments": {{"city": {value}}}}}\n</tool_call>'
        body = rewrite_completion(completion(call), self.SPEC).body
        assert f'"input":{{"city": {value}}}'.encode() in body

    def test_a_reason_that_nobody_knows_is_an_error(self) -> None:
        with pytest.raises(ApiError, match="finish_reason"):
            self.whole("Hello", "abort")
        *_, last = events_of(self.streamed(["Hello"], "abort"))
        assert last["type"] == "error"

    def test_a_refusal_is_one(self) -> None:
        assert self.SPEC is not None
        body = orjson.loads(completion(""))
        body["choices"][0]["message"] |= {"content": None, "refusal": "No."}
        message = whole_message(rewrite_completion(orjson.dumps(body), self.SPEC).body)
        assert (message["content"], message["stop_reason"]) == ([text("No.")], "refusal")

    def test_what_this_dialect_can_not_say_is_an_error(self) -> None:
        assert self.SPEC is not None
        body = orjson.loads(completion("Hello"))
        body["choices"][0]["message"]["function_call"] = {"name": "get_weather", "arguments": "{}"}
        with pytest.raises(ApiError, match="the legacy form"):
            rewrite_completion(orjson.dumps(body), self.SPEC)
        body = orjson.loads(completion("Hello"))
        body["choices"] *= 2
        with pytest.raises(ApiError, match="asked for"):
            rewrite_completion(orjson.dumps(body), self.SPEC)

    def test_reasoning_amid_a_native_call_stands_behind_it(self) -> None:
        spec = prepared(model="native", tools=[WEATHER]).answer
        assert spec is not None
        chunks = [orjson.loads(line[6:]) for line in stream(["x"]).split(b"\n\n")[:3]]
        first, piece, last = chunks

        def delta(**fields: Any) -> bytes:
            return b"data: " + orjson.dumps({**piece, "choices": [{**piece["choices"][0], "delta": fields}]}) + b"\n\n"

        def call(arguments: str, **fields: Any) -> Json:
            return {"index": 0, "function": {"arguments": arguments, **fields}}

        answer = streamed_answer(spec)
        data = answer.feed(delta(tool_calls=[{"id": "c1", **call('{"city": "Pa', name="get_weather")}]))
        data += answer.feed(delta(reasoning="Hm."))
        data += answer.feed(delta(tool_calls=[call('ris"}')]))
        data += answer.feed(b"data: " + orjson.dumps(last) + b"\n\n") + answer.close()
        message = message_of(data)
        assert calls_of(message) == [("get_weather", {"city": "Paris"})]
        assert said_in(message, "thinking") == "Hm."
        assert first["choices"]

    def test_an_estimate_is_marked(self) -> None:
        assert self.SPEC is not None
        body = orjson.loads(completion("Hello"))
        del body["usage"]
        answer = rewrite_completion(orjson.dumps(body), self.SPEC, self.REQUEST.sent)
        assert whole_message(answer.body)["usage"]["estimated"] is True

    def test_arguments_that_are_no_object_are_an_error(self) -> None:
        with pytest.raises(ApiError, match="no JSON object"):
            self.whole('<tool_call>\n{"name": "get_weather", "arguments": [1]}\n</tool_call>')

    def test_thinking_that_nobody_wants_is_not_shown(self) -> None:
        spec = prepared(thinking={"type": "disabled"}).answer
        assert spec is not None
        message = whole_message(rewrite_completion(completion("<think>Hm.</think>Hello"), spec).body)
        assert message["content"] == [text("Hello")]

    def test_a_backends_own_reasoning_is_thinking(self) -> None:
        spec = prepared(model="native").answer
        assert spec is not None
        body = orjson.loads(completion("Hello"))
        body["choices"][0]["message"]["reasoning"] = "Hm."
        message = whole_message(rewrite_completion(orjson.dumps(body), spec).body)
        assert [block["type"] for block in message["content"]] == ["thinking", "text"]

    def test_a_stream_that_breaks_off_ends_with_an_error(self) -> None:
        *_, last = events_of(self.streamed(["Hello"], None))
        assert (last["type"], last["error"]["type"]) == ("error", "api_error")

    def test_a_comment_keeps_the_connection_alive(self) -> None:
        assert self.SPEC is not None
        assert events_of(streamed_answer(self.SPEC).feed(b": waiting\n\n"))[-1] == {"type": "ping"}


class TestCounting:
    def test_the_backend_is_asked_by_the_prompt_that_it_would_get(self) -> None:
        asked = sent(COUNT_TOKENS_PATH, tools=[WEATHER], system="Be brief.", max_tokens=None)
        answered = sent(tools=[WEATHER], system="Be brief.")
        assert asked.keys() == {"model", "messages", "tools"}
        assert all(asked[name] == answered[name] for name in asked)

    def test_what_shapes_the_prompt_counts(self) -> None:
        asked = sent(COUNT_TOKENS_PATH, max_tokens=None, output_config={"effort": "high"})
        assert asked["chat_template_kwargs"] == {"reasoning_effort": "high"}

    @pytest.mark.parametrize("body", [b'{"count": -5}', b'{"count": true}', b"[]"])
    def test_what_is_no_count_is_an_error(self, body: bytes) -> None:
        spec = prepared(COUNT_TOKENS_PATH, max_tokens=None).answer
        assert spec is not None
        with pytest.raises(ApiError):
            rewrite_completion(body, spec)

    def test_it_says_how_many(self) -> None:
        spec = prepared(COUNT_TOKENS_PATH, max_tokens=None).answer
        assert spec is not None
        assert counted(rewrite_completion(b'{"count": 12, "tokens": []}', spec).body) == 12
        with pytest.raises(ApiError, match="no token count"):
            rewrite_completion(b'{"tokens": []}', spec)


class TestThroughEnvoy:
    """The real one, with the real processor."""

    def test_a_conversation(self, gateway: Gateway) -> None:
        gateway.backend.play(Reply(f"I look.\n{CALL}"))
        body = {"model": "coder", "max_tokens": 100, "messages": [ASK], "tools": [WEATHER]}
        message = whole_message(gateway.http.post(MESSAGES_PATH, json=body).content)
        assert (calls_of(message), message["stop_reason"]) == ([("get_weather", {"city": "Zürich"})], "tool_use")
        [received] = gateway.backend.requests
        assert received.route == "/v1/chat/completions"
        assert message["usage"]["input_tokens"] > 0

    def test_a_stream(self, gateway: Gateway) -> None:
        gateway.backend.play(Reply(f"I look.\n{CALL}", wire_cut=7))
        body = {"model": "coder", "max_tokens": 100, "messages": [ASK], "tools": [WEATHER], "stream": True}
        answer = gateway.http.post("/messages?beta=true", json=body)
        assert answer.headers["content-type"].startswith("text/event-stream")
        message = message_of(answer.content)
        assert (calls_of(message), said_in(message, "text")) == ([("get_weather", {"city": "Zürich"})], "I look.")
        assert message["usage"]["output_tokens"] > 0

    def test_words_alone(self, gateway: Gateway) -> None:
        gateway.backend.play(Reply("Hello!"), Reply("Hello!"))
        body: Json = {"model": "coder", "max_tokens": 100, "messages": [ASK]}
        message = whole_message(gateway.http.post(MESSAGES_PATH, json=body).content)
        assert (message["content"], message["stop_reason"]) == ([text("Hello!")], "end_turn")
        streamed = message_of(gateway.http.post(MESSAGES_PATH, json={**body, "stream": True}).content)
        assert streamed["content"] == message["content"]

    def test_a_count_is_the_backends(self, gateway: Gateway) -> None:
        gateway.backend.play(Reply("Hello!"))
        body: Json = {"model": "coder", "messages": [ASK], "tools": [WEATHER]}
        count = counted(gateway.http.post(COUNT_TOKENS_PATH, json=body).content)
        message = whole_message(gateway.http.post(MESSAGES_PATH, json={**body, "max_tokens": 10}).content)
        assert count == message["usage"]["input_tokens"]
        assert [request.route for request in gateway.backend.requests] == ["/tokenize", "/v1/chat/completions"]

    @pytest.mark.parametrize(
        ("path", "body", "status", "kind"),
        [
            (MESSAGES_PATH, {"model": "nobody", "max_tokens": 1, "messages": [ASK]}, 404, "not_found_error"),
            (MESSAGES_PATH, {"model": "coder", "messages": [ASK]}, 400, "invalid_request_error"),
            (MESSAGES_PATH, {"model": "absent", "max_tokens": 1, "messages": [ASK]}, 503, "api_error"),
            (COUNT_TOKENS_PATH, {"model": "absent", "messages": [ASK]}, 503, "api_error"),
            ("/v1/nowhere", {}, 404, "not_found_error"),
        ],
    )
    def test_errors_are_in_its_words(self, gateway: Gateway, path: str, body: Json, status: int, kind: str) -> None:
        answer = gateway.http.post(path, json=body, headers={"anthropic-version": "2023-06-01"})
        assert answer.status_code == status
        error = error_in(answer.content)
        assert error["type"] in (kind, "overloaded_error")
        assert error["message"]

    def test_envoys_own_errors_are_too(self, gateway: Gateway) -> None:
        for path in (MESSAGES_PATH, "/messages", COUNT_TOKENS_PATH):
            answer = gateway.http.put(path)
            assert answer.status_code == 405
            assert error_in(answer.content)["type"] == "invalid_request_error"
        assert "error" in gateway.http.put("/v1/chat/completions").json()
        assert gateway.http.put("/v1/chat/completions").json().keys() == {"error"}

    def test_models_are_listed_in_its_words_for_who_speaks_them(self, gateway: Gateway) -> None:
        listed = gateway.http.get("/v1/models", headers={"anthropic-version": "2023-06-01"})
        assert "coder" in {model["id"] for model in listed_models(listed.content)}
        assert gateway.http.get("/v1/models").json()["object"] == "list"
