"""No request of Messages or Responses breaks the gateway: it is accepted, or refused as the client's mistake.

What was accepted can be answered, whatever the model says. Chat completions have `test_request_fuzz`.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.config import Config, parse
from extproc.contract.errors import ApiError
from extproc.names import COUNT_TOKENS_PATH, MESSAGES_PATH, RESPONSES_PATH
from extproc.surfaces import find_problems, prepare, rewrite_completion, streamed_answer, surface_of
from extproc.turn.upstream import UpstreamRequest
from tests.messages import message_of
from tests.patches import GRAMMAR
from tests.request_strategies import Json, broken, encoded, json_values
from tests.responses import response_of
from tests.test_answer import completion, stream

CONFIG: Config = parse("""
models:
  - {name: prompt, backend: qwen, tools: prompt, format: hermes}
  - {name: template, backend: qwen, tools: template, format: qwen3_coder, malformed_history: repair}
  - {name: native, backend: qwen, tools: native, invalid_calls: text}
  - {name: many, backend: qwen, tools: native, max_tools: 1024}
  - {name: strict, backend: qwen, tools: prompt, format: hermes, invalid_calls: error}
backends:
  - {name: qwen, address: 127.0.0.1:8000}
media_urls: public
""")
MODELS = ("prompt", "template", "native", "strict")
SCHEMA: Json = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": ["integer", "null"]}}}
CAT: Json = {"type": "base64", "media_type": "image/png", "data": "aGk="}

MESSAGES: Json = {
    "model": "prompt",
    "max_tokens": 100,
    "system": [{"type": "text", "text": "Help.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "image", "source": CAT}]},
        {"role": "system", "content": "Be brief."},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "x"},
                {"type": "redacted_thinking", "data": "y"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t1", "name": "get_weather", "input": {"city": "Paris"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "is_error": True,
                    "content": [{"type": "text", "text": "no"}, {"type": "image", "source": CAT}],
                },
                {"type": "text", "text": "And?"},
            ],
        },
    ],
    "tools": [
        {"name": "get_weather", "description": "Weather", "input_schema": SCHEMA, "cache_control": None},
        {"type": "custom", "name": "now", "input_schema": {"type": "object"}},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
    ],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": False},
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "stop_sequences": ["END"],
    "metadata": {"user_id": "u"},
    "temperature": 0.5,
    "top_k": 5,
    "stream": True,
}
COUNTED: Json = {name: MESSAGES[name] for name in ("model", "system", "messages", "tools", "tool_choice", "thinking")}
RESPONSES: Json = {
    "model": "prompt",
    "instructions": "Help.",
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "Hi"}, {"type": "input_image", "image_url": "data:image/png,x"}],
        },
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": '{"city": "Paris"}'},
        {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "*** Begin Patch"},
        {"type": "shell_call", "id": "sh_1", "call_id": "c3", "action": {"commands": ["ls"], "timeout_ms": 5}},
        {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "Done"}]},
        {
            "type": "shell_call_output",
            "call_id": "c3",
            "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
        },
        {"type": "web_search_call", "id": "ws", "status": "completed"},
        {
            "type": "mcp_call",
            "id": "mcp_1",
            "server_label": "web",
            "name": "search",
            "arguments": '{"q": "weather"}',
            "output": None,
            "error": {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": "no"}]},
            "status": "failed",
        },
        {"type": "tool_search_call", "call_id": "c4", "execution": "client", "arguments": {"query": "mail"}},
        {
            "type": "tool_search_output",
            "call_id": "c4",
            "execution": "client",
            "tools": [{"type": "custom", "name": "found", "format": {"type": "text"}}, {"type": "apply_patch"}],
        },
    ],
    "tools": [
        {"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False},
        {
            "type": "custom",
            "name": "patch",
            "format": {"type": "grammar", "syntax": "lark", "definition": GRAMMAR},
        },
        {"type": "namespace", "name": "mail", "tools": [{"type": "function", "name": "send", "parameters": SCHEMA}]},
        {"type": "shell", "environment": {"type": "local"}},
        {"type": "web_search"},
    ],
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "get_weather"}]},
    "parallel_tool_calls": True,
    "reasoning": {"effort": "low", "summary": "auto"},
    "text": {"format": {"type": "text"}, "verbosity": "low"},
    "include": ["reasoning.encrypted_content"],
    "max_output_tokens": 100,
    "metadata": {"a": "b"},
    "store": False,
    "stream": True,
}
BASES = {MESSAGES_PATH: MESSAGES, COUNT_TOKENS_PATH: COUNTED, RESPONSES_PATH: RESPONSES}
each_path = pytest.mark.parametrize("path", BASES)
NAMES = ("get_weather", "now", "patch", "mail__send", "shell", "unheard_of")


def outcome(body: bytes, path: str) -> UpstreamRequest | ApiError:
    """What becomes of a request; anything else than these two is a bug."""
    found = find_problems(body, CONFIG, path)
    for problem in found:
        assert 400 <= problem.status < 500
        assert 0 < len(problem.message) < 2000
        assert problem.message in str(surface_of(path).error(problem)["error"]["message"])
    if found:
        with pytest.raises(ApiError) as refused:
            prepare(body, CONFIG, path)
        assert (found[0].code, found[0].param) == (refused.value.code, refused.value.param)
        return refused.value
    prepared = prepare(body, CONFIG, path)
    assert prepared.body is not None
    sent = json.loads(prepared.body)
    assert sent["messages"]
    assert not set(prepared.dropped) & sent.keys()
    return prepared


@each_path
@pytest.mark.parametrize("model", MODELS)
def test_the_request_that_is_broken_below_is_a_legal_one(path: str, model: str) -> None:
    assert isinstance(outcome(encoded({**BASES[path], "model": model}), path), UpstreamRequest)


@each_path
@given(data=st.data(), model=st.sampled_from(MODELS), arguments=json_values, name=st.sampled_from(NAMES))
def test_a_broken_request_is_refused_or_can_be_answered(
    path: str, data: st.DataObject, model: str, arguments: Any, name: str
) -> None:
    for _ in range(4):
        request = data.draw(broken({**BASES[path], "model": model}))
        result = outcome(encoded(request), path)
        if isinstance(result, UpstreamRequest) and path != COUNT_TOKENS_PATH:
            assert_can_be_answered(result, path, name, arguments)


def assert_can_be_answered(request: UpstreamRequest, path: str, name: str, arguments: Any) -> None:
    """Whole, and as a stream that a strict client can follow; or with an error, and then in both ways."""
    assert request.answer is not None
    said = f"I look.\n<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"
    try:
        whole = json.loads(rewrite_completion(completion(said), request.answer).body)
    except ApiError:
        whole = None
    answer = streamed_answer(request.answer)
    streamed = answer.feed(stream([said[:9], said[9:]], "stop")) + answer.close()
    if whole is None and path == MESSAGES_PATH and request.answer.invalid_calls == "pass":
        # What has left can't be taken back: the client sees what the model wrote, and that it is no object.
        assert not isinstance(arguments, dict)
        assert b"input_json_delta" in streamed
    elif whole is None:
        assert b"response.failed" in streamed or b"event: error" in streamed
    elif path == RESPONSES_PATH:
        built = response_of(streamed, published=False)["output"]
        assert [_without_ids(item) for item in built] == [_without_ids(item) for item in whole["output"]]
    else:
        built = message_of(streamed)["content"]
        assert [_without_ids(block) for block in built] == [_without_ids(block) for block in whole["content"]]


def _without_ids(item: Json) -> Json:
    return {name: value for name, value in item.items() if name not in ("id", "call_id", "signature")}


@pytest.mark.parametrize("path", [MESSAGES_PATH, RESPONSES_PATH])
def test_agents_may_offer_more_tools_where_the_model_may_be_offered_them(path: str) -> None:
    named = [{"type": "function", "name": f"f{n}", "parameters": {"type": "object"}} for n in range(200)]
    offered = [{"name": tool["name"], "input_schema": {"type": "object"}} for tool in named]
    fields: Json = {
        "max_tokens": 5,
        "messages": [{"role": "user", "content": "Hi"}],
        "input": "Hi",
        "tools": named if path == RESPONSES_PATH else offered,
    }
    fields.pop("input" if path == MESSAGES_PATH else "messages")
    assert isinstance(outcome(encoded({**fields, "model": "many"}), path), UpstreamRequest)
    refused = find_problems(encoded({**fields, "model": "many", "tools": fields["tools"] * 6}), CONFIG, path)
    assert refused[0].param == "tools"
    with pytest.raises(ApiError, match="at most 128 for the model"):
        prepare(encoded({**fields, "model": "prompt"}), CONFIG, path)
