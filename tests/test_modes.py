"""The three ways in which tools reach a model, and what comes back from each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from extproc.config import ConfigError, parse
from extproc.contract.errors import ApiError
from extproc.contract.sse import Data, SseDecoder
from extproc.prompts.grammar import structural_tag
from extproc.surfaces import prepare, rewrite_completion, streamed_answer
from extproc.toolcalls import SYNTAXES
from extproc.toolcalls import parse as parse_answer
from extproc.turn.upstream import UpstreamRequest

CONFIG = parse("""
models:
  - {name: native, backend: vllm, tools: native}
  - {name: repaired, backend: vllm, tools: native, repair: true}
  - {name: mended, backend: vllm, tools: native, repair: true, invalid_calls: pass}
  - {name: template, backend: vllm, tools: template, format: qwen3_coder}
  - {name: thinking, backend: vllm, tools: template, format: hermes, thinking: open}
  - {name: prompt, backend: vllm, tools: prompt}
  - {name: forced template, backend: vllm, tools: template, format: qwen3_coder, forced: true}
  - {name: forced prompt, backend: vllm, tools: prompt, forced: true}
  - {name: begun template, backend: vllm, tools: template, format: qwen3_coder, forced: begun}
  - {name: begun prompt, backend: vllm, tools: prompt, forced: begun}
  - name: limited
    backend: vllm
    tools: prompt
    allowed_tools: [get_weather]
    max_tools: 1
    defaults: {temperature: 0.5, max_tokens: 100.0}
backends:
  - {name: vllm, address: 127.0.0.1:8000}
""")
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather in a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "unit": {"type": "string"}}},
    },
}
ASK = {"role": "user", "content": "Weather in Paris?"}
RECORDINGS = Path(__file__).parent / "recordings" / "native"


def prepared(model: str, **fields: Any) -> UpstreamRequest:
    return prepare(orjson.dumps({"model": model, "messages": [ASK], "tools": [WEATHER], **fields}), CONFIG)


def sent(model: str, **fields: Any) -> dict[str, Any]:
    body = prepared(model, **fields).body
    assert body is not None
    value = orjson.loads(body)
    assert isinstance(value, dict)
    return value


def recorded(name: str) -> bytes:
    return (RECORDINGS / f"{name}.body.txt").read_bytes()


def call(call_id: str, name: str = "get_weather", arguments: str = '{"city": "Paris"}') -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(call_id: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def whole(model: str, body: bytes, **fields: Any) -> dict[str, Any]:
    """The first choice of the completion that the client gets."""
    plan = prepared(model, **fields).answer
    assert plan is not None
    choice = orjson.loads(rewrite_completion(body, plan).body)["choices"][0]
    assert isinstance(choice, dict)
    return choice


def streamed(model: str, body: bytes, size: int, **fields: Any) -> dict[str, Any]:
    """The first choice of a stream, joined; the backend's bytes come `size` at a time."""
    plan = prepared(model, stream=True, **fields).answer
    assert plan is not None
    answer = streamed_answer(plan)
    out = b"".join(answer.feed(body[at : at + size]) for at in range(0, len(body), size)) + answer.close()
    content, calls, finish_reason = "", list[dict[str, Any]](), None
    for event in SseDecoder().feed(out):
        if not isinstance(event, Data) or event.data == b"[DONE]":
            continue
        for choice in orjson.loads(event.data)["choices"]:
            delta = choice["delta"]
            content += delta.get("content") or ""
            for piece in delta.get("tool_calls") or ():
                assert piece["index"] in (len(calls), len(calls) - 1)
                if piece["index"] == len(calls):
                    calls.append({"id": piece["id"], "type": piece["type"], "function": {**piece["function"]}})
                else:
                    calls[-1]["function"]["arguments"] += piece["function"]["arguments"]
            finish_reason = choice["finish_reason"] or finish_reason
    return {"message": {"content": content or None, "tool_calls": calls}, "finish_reason": finish_reason}


class TestNative:
    def test_the_clients_own_bytes_go_on(self) -> None:
        for fields in (
            {},
            {"tool_choice": "required"},
            {"tool_choice": "none"},
            {"tool_choice": "auto", "parallel_tool_calls": True},
        ):
            request = prepared("native", **fields)
            assert request.body is None
            assert (request.answer is None) is (fields.get("tool_choice") == "none")

    def test_a_call_is_why_the_answer_ends_whatever_the_backend_says(self) -> None:
        """vLLM says `stop` where it was told which tool to call."""
        whole_call = whole("native", recorded("tools_named"))
        for choice in (whole_call, streamed("native", recorded("tools_named_stream"), 100)):
            assert len(choice["message"]["tool_calls"]) == 1
            assert choice["finish_reason"] == "tool_calls"

    def test_what_vllm_does_not_know_is_translated(self) -> None:
        allowed = {"mode": "required", "tools": [{"type": "function", "function": {"name": "get_weather"}}]}
        other = {"type": "function", "function": {"name": "other"}}
        body = sent("native", tools=[WEATHER, other], tool_choice={"type": "allowed_tools", "allowed_tools": allowed})
        assert (body["tools"], body["tool_choice"]) == ([WEATHER], "required")
        legacy = {"tools": None, "functions": [WEATHER["function"]], "function_call": {"name": "get_weather"}}
        body = sent("native", **legacy)
        assert body["tools"] == [WEATHER]
        assert body["tool_choice"] == {"type": "function", "function": {"name": "get_weather"}}
        assert not {"functions", "function_call"} & body.keys()
        answer = prepared("native", **legacy).answer
        assert answer is not None
        assert answer.legacy

    def test_one_call_at_a_time_holds_whatever_the_backend_does(self) -> None:
        completion = json.loads(recorded("tools_required"))
        completion["choices"][0]["message"]["tool_calls"] *= 2
        choice = whole("native", json.dumps(completion).encode(), parallel_tool_calls=False)
        assert len(choice["message"]["tool_calls"]) == 1

    @pytest.mark.parametrize("name", ["tools_named", "tools_required"])
    def test_a_recorded_call_keeps_its_id_and_gets_its_finish_reason(self, name: str) -> None:
        choice = whole("repaired", recorded(name), tool_choice="required")
        (made,) = choice["message"]["tool_calls"]
        assert made["id"].startswith("chatcmpl-tool-")
        assert json.loads(made["function"]["arguments"]) == {"city": "Paris", "unit": "celsius"}
        assert choice["finish_reason"] == "tool_calls"
        assert choice["message"]["content"] is None

    @pytest.mark.parametrize("name", ["tools_named_stream", "tools_required_stream"])
    @pytest.mark.parametrize("size", [1, 7, 100_000])
    def test_and_so_in_a_stream_in_any_cut(self, name: str, size: int) -> None:
        choice = streamed("repaired", recorded(name), size, tool_choice="required")
        (made,) = choice["message"]["tool_calls"]
        assert made["id"].startswith("chatcmpl-tool-")
        assert json.loads(made["function"]["arguments"]) == {"city": "Paris", "unit": "celsius"}
        assert choice["finish_reason"] == "tool_calls"

    @pytest.mark.parametrize("size", [1, 7, 100_000])
    def test_a_call_that_the_backends_parser_left_in_the_text_is_found(self, size: int) -> None:
        for choice in (
            whole("repaired", recorded("tools_auto")),
            streamed("repaired", recorded("tools_auto_stream_usage"), size),
        ):
            (made,) = choice["message"]["tool_calls"]
            assert made["function"]["name"] == "get_weather"
            assert choice["finish_reason"] == "tool_calls"

    @pytest.mark.parametrize(
        ("slip", "arguments"),
        [
            ([{"index": 1, "id": "a", "function": {"name": "get_weather", "arguments": "{}"}}], ["{}"]),
            ([{"index": 0, "id": "a", "type": "function", "function": {"name": "get_weather"}}], ["{}"]),
            ([{"index": 0, "function": {"name": "get_weather", "arguments": {"city": "Rome"}}}], ['{"city":"Rome"}']),
            ([{"index": 0, "id": "a", "function": {"name": "get_weather", "arguments": None}}], ["{}"]),
            (
                [
                    {"index": 0, "id": "a", "function": {"name": "get_weather", "arguments": "{}"}},
                    {"index": 2, "id": "a", "function": {"name": "get_weather", "arguments": "{}"}},
                ],
                ["{}", "{}"],
            ),
        ],
    )
    def test_known_slips_are_mended(self, slip: list[dict[str, Any]], arguments: list[str]) -> None:
        message = {"role": "assistant", "content": "", "tool_calls": slip}
        completion = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        chunk = {"choices": [{"index": 0, "delta": message, "finish_reason": "stop"}]}
        stream = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()
        for choice in (whole("repaired", orjson.dumps(completion)), streamed("repaired", stream, 10)):
            calls = choice["message"]["tool_calls"]
            assert [made["function"]["arguments"] for made in calls] == arguments
            assert all(made["id"] and made["type"] == "function" for made in calls)
            assert len({made["id"] for made in calls}) == len(calls)
            assert choice["finish_reason"] == "tool_calls"

    @pytest.mark.parametrize(
        ("deltas", "content", "calls"),
        [
            (
                [
                    {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "get_weather"}}]},
                    {"tool_calls": [{"index": 1, "id": "b", "function": {"name": "get_weather"}}]},
                    {"tool_calls": [{"index": 0, "function": {"arguments": '{"city": "A"}'}}]},
                    {"tool_calls": [{"index": 1, "function": {"arguments": '{"city": "B"}'}}]},
                ],
                None,
                [("a", '{"city": "A"}'), ("b", '{"city": "B"}')],
            ),
            (
                [
                    {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "get_weather", "arguments": '{"ci'}}]},
                    {"content": "\n", "tool_calls": [{"index": 0, "function": {"arguments": 'ty": "A"}'}}]},
                    {"content": "Done."},
                ],
                "\nDone.",
                [("a", '{"city": "A"}')],
            ),
            (
                [
                    {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "get_weather", "arguments": "{}"}}]},
                    {"tool_calls": [{"index": 0, "id": "b", "function": {"name": "get_weather", "arguments": "{}"}}]},
                ],
                None,
                [("a", "{}"), ("b", "{}")],
            ),
        ],
        ids=["interleaved", "text in a call", "all numbered 0"],
    )
    def test_pieces_out_of_order_stay_with_their_calls(
        self, deltas: list[dict[str, Any]], content: str | None, calls: list[tuple[str, str]]
    ) -> None:
        chunks: list[Any] = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
        stream = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        choice = streamed("mended", stream.encode(), 1000)
        assert choice["message"]["content"] == content
        made = [(one["id"], one["function"]["arguments"]) for one in choice["message"]["tool_calls"]]
        assert made == calls

    def test_a_faulty_call_that_is_shown_as_text_is_no_reason_to_stop(self) -> None:
        config = parse("""
models: [{name: m, backend: b, tools: native, invalid_calls: text}]
backends: [{name: b, address: 127.0.0.1:1}]
""")
        plan = prepare(orjson.dumps({"model": "m", "messages": [ASK], "tools": [WEATHER]}), config).answer
        assert plan is not None
        faulty = {"index": 0, "id": "a", "type": "function", "function": {"name": "unknown", "arguments": "{}"}}
        message = {"role": "assistant", "content": None, "tool_calls": [faulty]}
        completion = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
        chunk = {"choices": [{"index": 0, "delta": message, "finish_reason": "tool_calls"}]}
        choice = orjson.loads(rewrite_completion(orjson.dumps(completion), plan).body)["choices"][0]
        assert (choice["message"]["content"], choice["finish_reason"]) == ("unknown({})", "stop")
        out = streamed_answer(plan).feed(f"data: {json.dumps(chunk)}\n\n".encode())
        assert b'"finish_reason":"stop"' in out
        assert b'"tool_calls"' not in out

    @pytest.mark.parametrize("calls", [5, [7], [{"function": 5}], [{"index": 0, "function": {"arguments": "{}"}}]])
    def test_calls_that_make_no_sense_are_a_bad_gateway(self, calls: Any) -> None:
        message = {"role": "assistant", "content": "", "tool_calls": calls}
        completion = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        plan = prepared("repaired").answer
        assert plan is not None
        with pytest.raises(ApiError) as error:
            rewrite_completion(orjson.dumps(completion), plan)
        assert error.value.status == 502


class TestTemplate:
    def test_the_tools_stay_and_the_backends_parser_is_kept_out(self) -> None:
        body = sent("template", tool_choice="auto", parallel_tool_calls=False)
        assert (body["tools"], body["tool_choice"], body["messages"]) == ([WEATHER], "none", [ASK])
        assert (body["skip_special_tokens"], body["spaces_between_special_tokens"]) == (False, False)
        assert "parallel_tool_calls" not in body

    def test_a_demand_is_put_into_words_where_the_decoder_can_not_be_forced(self) -> None:
        config = parse("""
models: [{name: m, backend: b, tools: template}]
backends: [{name: b, address: 127.0.0.1:1, structured_outputs: false}]
""")
        request = {"model": "m", "messages": [ASK], "tools": [WEATHER], "tool_choice": "required"}
        messages = orjson.loads(prepare(orjson.dumps(request), config).body or b"")["messages"]
        assert "You must call one of the tools now" in messages[-1]["content"]
        forced = sent("template", tool_choice="required")
        assert forced["messages"] == [ASK]
        assert "structural_tag" in forced["structured_outputs"]

    @pytest.mark.parametrize("format_", [None, {"type": "text"}])
    def test_a_strict_tool_is_forced_unless_the_client_forces_the_text(self, format_: Any) -> None:
        strict = {"type": "function", "function": {"name": "f", "strict": True}}
        assert "structured_outputs" in sent("template", tools=[strict], response_format=format_)
        own = {"regex": "a+"}
        assert sent("template", tools=[strict], structured_outputs=own)["structured_outputs"] == own

    def test_all_tools_are_as_good_as_strict_where_the_model_is_forced(self) -> None:
        city = {"type": "string"}
        closed = {"type": "object", "properties": {"city": city}, "required": ["city"], "additionalProperties": False}
        loose, strict = (
            [{"type": "function", "function": {"name": "f", "parameters": closed, **more}}]
            for more in ({}, {"strict": True})
        )
        for mode in ("template", "prompt"):
            forced = sent(f"forced {mode}", tools=loose)["structured_outputs"]
            assert forced == sent(mode, tools=strict)["structured_outputs"]
            assert "structured_outputs" not in sent(mode, tools=loose)
            assert "structured_outputs" not in sent(f"forced {mode}", tool_choice="none")
            own = {"regex": "a+"}
            assert sent(f"forced {mode}", structured_outputs=own)["structured_outputs"] == own

    @pytest.mark.parametrize(("mode", "format_"), [("template", "qwen3_coder"), ("prompt", "hermes")])
    def test_a_call_that_has_begun_is_held_to_its_schema(self, mode: str, format_: str) -> None:
        for parallel in (True, False):
            made = sent(f"begun {mode}", parallel_tool_calls=parallel)["structured_outputs"]["structural_tag"]
            tag = structural_tag(SYNTAXES[format_], [WEATHER], "auto", parallel=parallel, forced="begun")
            assert orjson.loads(made) == tag
        own = {"regex": "a+"}
        assert sent(f"begun {mode}", structured_outputs=own)["structured_outputs"] == own
        assert "structured_outputs" not in sent(f"begun {mode}", tool_choice="none")
        for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
            demanded = [sent(name, tool_choice=choice)["structured_outputs"] for name in (mode, f"begun {mode}")]
            assert demanded[0] == demanded[1]

    def test_another_word_is_refused(self) -> None:
        with pytest.raises(ConfigError) as error:
            parse("""
models: [{name: m, backend: b, tools: prompt, forced: always}]
backends: [{name: b, address: 127.0.0.1:1}]
""")
        assert str(error.value) == "configuration:2: models[0].forced: expected true, false or 'begun'"

    @pytest.mark.parametrize("forced", ["true", "begun"])
    @pytest.mark.parametrize(
        ("model", "backend", "complaint"),
        [
            ("tools: native", "", "it isn't for native mode, in which the backend's own parser reads the calls"),
            ("tools: prompt, format: gemma4", "", "no grammar can hold calls of the format gemma4 amid text"),
            ("tools: prompt, format: inkling", "", "no grammar can hold calls of the format inkling amid text"),
            (
                "tools: prompt",
                ", structured_outputs: false",
                "the backend 'b' has `structured_outputs: false`: nothing can be forced there",
            ),
        ],
    )
    def test_what_can_not_be_forced_is_refused(self, model: str, backend: str, complaint: str, forced: str) -> None:
        with pytest.raises(ConfigError) as error:
            parse(f"""
models: [{{name: m, backend: b, {model}, forced: {forced}}}]
backends: [{{name: b, address: 127.0.0.1:1{backend}}}]
""")
        assert str(error.value) == f"configuration:2: models[0].forced: {complaint}"

    def test_a_schema_of_the_text_is_kept_from_a_backend_that_finds_the_calls_itself(self) -> None:
        request = prepared("native", response_format={"type": "json_object"})
        body = orjson.loads(request.body or b"")
        assert not {"response_format", "structured_outputs"} & body.keys()
        assert body["messages"][0]["content"] == (
            "If no tool fits, or no call is needed any more, answer with nothing but a JSON object."
        )
        assert request.answer is not None
        assert request.answer.text_schema == {}
        assert request.dropped == ()
        answering = prepared("native", tool_choice="none", response_format={"type": "json_object"})
        assert answering.body is None  # as no call can come, the backend's decoder may see to it

    def test_who_may_not_call_is_not_shown_any(self) -> None:
        request = prepared("template", tool_choice="none")
        assert request.answer is not None  # a model that calls all the same shows no markup
        assert request.answer.tools == []
        assert "tools" not in orjson.loads(request.body or b"")

    @pytest.mark.parametrize("mode", ["template", "native"])
    def test_history_goes_on_as_messages_with_results_in_the_order_of_the_calls(self, mode: str) -> None:
        said = {"role": "assistant", "content": None, "tool_calls": [call("a"), call("b", "read_file", "")]}
        messages = sent(mode, messages=[ASK, said, result("b", "second"), result("a", "first")])["messages"]
        assert [message["content"] for message in messages] == ["Weather in Paris?", None, "first", "second"]
        assert [made["function"]["arguments"] for made in messages[1]["tool_calls"]] == ['{"city": "Paris"}', "{}"]

    @pytest.mark.parametrize("size", [1, 9, 10_000])
    def test_calls_are_read_from_the_text_and_the_templates_own_tokens_left_out(self, size: int) -> None:
        text = (
            "I look.<|im_end|>\n<tool_call>\n<function=get_weather>\n<parameter=city>\nParis <|im_end|>\n</parameter>\n"
            "</function>\n</tool_call><|im_end|>"
        )
        completion = {"choices": [{"index": 0, "message": {"content": text}, "finish_reason": "stop"}]}
        chunk = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}
        stream = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()
        for choice in (whole("template", orjson.dumps(completion)), streamed("template", stream, size)):
            assert choice["message"]["content"] == "I look."
            (made,) = choice["message"]["tool_calls"]
            assert json.loads(made["function"]["arguments"]) == {"city": "Paris <|im_end|>"}

    def test_text_that_begins_inside_the_thinking(self) -> None:
        text = 'Hm, the weather.\n</think>\n\n<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>'
        completion = {"choices": [{"index": 0, "message": {"content": text}, "finish_reason": "stop"}]}
        message = whole("thinking", orjson.dumps(completion))["message"]
        assert (message["content"], message["reasoning"].strip()) == (None, "Hm, the weather.")
        assert message["tool_calls"][0]["function"]["name"] == "get_weather"


LOOK_UP = [{"type": "function", "function": {"name": "look_up", "parameters": {"properties": {"person": {}}}}}]
"""The tool of the examples."""


def arguments_of(call: Any) -> str:
    assert call.name == "look_up"
    person: str = orjson.loads(call.arguments)["person"]
    return person


class TestPrompt:
    @pytest.mark.parametrize("name", sorted(SYNTAXES))
    @pytest.mark.parametrize("results", ["plain", "tagged", "role"])
    def test_every_format_that_can_be_asked_for_is_shown_in_its_own_way(self, name: str, results: str) -> None:
        config = parse(f"""
models: [{{name: m, backend: b, tools: prompt, format: "{name}", tool_result: {results}, example: true}}]
backends: [{{name: b, address: 127.0.0.1:1}}]
""")
        said = {"role": "assistant", "content": "I look.", "tool_calls": [call("a"), call("b")]}
        messages = [ASK, said, result("b", "second"), result("a", "first")]
        body = prepare(orjson.dumps({"model": "m", "messages": messages, "tools": [WEATHER]}), config).body
        rendered = orjson.loads(body or b"")["messages"]
        written = SYNTAXES[name].write([("get_weather", '{"city": "Paris"}')] * 2)
        example, shown = rendered[1:5], rendered[5:]
        assert [message["role"] for message in example] == ["user", "assistant"] * 2
        made = [parse_answer(turn["content"], format=name, tools=LOOK_UP).calls for turn in example]
        assert [[arguments_of(one) for one in calls] for calls in made] == [[], [], [], ["Ada", "Bob"]]
        assert shown[1] == {"role": "assistant", "content": f"I look.\n{written}"}
        text = "\n".join(message["content"] for message in shown[2:])
        assert text.index("first") < text.index("second")
        assert {message["role"] for message in shown[2:]} == {"tool" if results == "role" else "user"}

    @pytest.mark.parametrize(
        ("before", "wants", "roles"),
        [
            (["user"], {}, ["system", "user", "assistant", "user", "assistant", "user"]),
            (["system", "user"], {}, ["system", "user", "assistant", "user", "assistant", "user"]),
            (["assistant", "user"], {}, ["system", "assistant", "user"]),
            (["system", "assistant", "user"], {}, ["system", "assistant", "user"]),
            (["system"], {}, ["system"]),
            (["user"], {"response_format": {"type": "json_object"}}, ["system", "user"]),
        ],
    )
    def test_an_example_stands_before_the_users_words_alone(
        self, before: list[str], wants: dict[str, Any], roles: list[str]
    ) -> None:
        config = parse("""
models: [{name: m, backend: b, tools: prompt, example: true}]
backends: [{name: b, address: 127.0.0.1:1}]
""")
        messages = [{"role": role, "content": "Words."} for role in before]
        body = prepare(orjson.dumps({"model": "m", "messages": messages, "tools": [WEATHER], **wants}), config).body
        assert [message["role"] for message in orjson.loads(body or b"")["messages"]] == roles

    def test_a_conversation_that_grows_keeps_its_beginning_in_every_format(self) -> None:
        for name in SYNTAXES:
            config = parse(f"""
models: [{{name: m, backend: b, tools: prompt, format: "{name}", tool_result: tagged}}]
backends: [{{name: b, address: 127.0.0.1:1}}]
""")
            conversation: list[dict[str, Any]] = [ASK]
            earlier: list[dict[str, Any]] = []
            for turn in range(20):
                body = prepare(orjson.dumps({"model": "m", "messages": conversation, "tools": [WEATHER]}), config).body
                rendered = orjson.loads(body or b"")["messages"]
                assert rendered[: len(earlier)] == earlier
                earlier = rendered
                calls = [call(f"{turn}a"), call(f"{turn}b")]
                conversation += [
                    {"role": "assistant", "content": None, "tool_calls": calls},
                    result(f"{turn}b", "second"),
                    result(f"{turn}a", "first"),
                ]


class TestAffinity:
    CONFIG = parse("""
models: [{name: m, backend: b, tools: prompt}, {name: other, backend: o, tools: prompt}]
backends: [{name: b, address: ["127.0.0.1:1", "127.0.0.1:2"], affinity: true}, {name: o, address: "127.0.0.1:3"}]
""")

    def affinity(self, *messages: dict[str, Any], model: str = "m", **fields: Any) -> str | None:
        return prepare(orjson.dumps({"model": model, "messages": messages, **fields}), self.CONFIG).affinity

    def test_a_conversation_keeps_its_own_as_it_grows(self) -> None:
        system = {"role": "system", "content": "Be brief."}
        first = self.affinity(system, ASK)
        assert first is not None
        turns = [{"role": "assistant", "content": "18"}, {"role": "user", "content": "And tomorrow?"}]
        assert self.affinity(system, ASK, *turns, tools=[WEATHER]) == first
        assert self.affinity(system, {"role": "user", "content": "Something else"}) != first
        assert self.affinity({"role": "system", "content": "Be long."}, ASK) != first

    def test_only_where_the_backend_asks_for_it(self) -> None:
        assert self.affinity(ASK, model="other") is None


class TestLimitsOfAModel:
    def test_defaults_are_for_what_the_client_leaves_out(self) -> None:
        assert sent("limited")["temperature"] == 0.5
        assert repr(sent("limited")["max_tokens"]) == "100"
        body = sent("limited", temperature=0, max_completion_tokens=5)
        assert body["temperature"] == 0
        assert "max_tokens" not in body

    def test_only_allowed_tools_may_be_offered_and_only_so_many(self) -> None:
        other = {"type": "function", "function": {"name": "rm_rf"}}
        for tools, param, says in (
            ([other], "tools[0].function.name", "allowed: get_weather"),
            ([WEATHER, other], "tools", "at most 1"),
        ):
            with pytest.raises(ApiError) as error:
                prepared("limited", tools=tools)
            assert (error.value.status, error.value.param) == (400, param)
            assert says in error.value.message

    @pytest.mark.parametrize(
        ("setting", "says"),
        [
            ("defaults: {temperature: 9}", "defaults.temperature: Invalid 'temperature': decimal above maximum value."),
            ("defaults: {stream: true}", "defaults.stream: only sampling parameters"),
            ("defaults: {tools: []}", "defaults.tools: only sampling parameters"),
            ("tools: template, format: nonesuch", "format: no tool-call format is named"),
            ("max_tools: 1025", "max_tools:"),
        ],
    )
    def test_a_configuration_that_can_not_hold_is_refused(self, setting: str, says: str) -> None:
        tools = "" if "tools:" in setting.partition("{")[0] and "max_tools" not in setting else "tools: prompt, "
        with pytest.raises(ConfigError) as error:
            parse(f"models: [{{name: m, backend: b, {tools}{setting}}}]\nbackends: [{{name: b, address: 127.0.0.1:1}}]")
        assert says in str(error.value)
