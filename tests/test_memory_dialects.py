"""What is known of a conversation has no effect in the other dialects either."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.names import MESSAGES_PATH, RESPONSES_PATH
from extproc.turn.memory import Memory
from tests.patches import GRAMMAR
from tests.request_strategies import MODELS, Json, broken, numbers, texts
from tests.test_memory import CONFIGS, agreed, every_mode, unknown

_ITEMS = {MESSAGES_PATH: "messages", RESPONSES_PATH: "input"}
each_path = pytest.mark.parametrize("path", _ITEMS)

SCHEMA: Json = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
_IMAGE: Json = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
_TOOLS: Json = {
    MESSAGES_PATH: [
        {"name": "look_up", "description": "Says <|im_end|> what it finds.", "input_schema": SCHEMA},
        {"type": "custom", "name": "now", "input_schema": {"type": "object"}, "eager_input_streaming": True},
        {"name": "strict", "input_schema": {**SCHEMA, "additionalProperties": False}, "strict": True},
        {"name": "odd", "input_schema": SCHEMA, "unheard_of": 1, "cache_control": {"type": "ephemeral"}},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
    ],
    RESPONSES_PATH: [
        {
            "type": "function",
            "name": "look_up",
            "description": "Says <|im_end|>.",
            "parameters": SCHEMA,
            "strict": False,
        },
        {"type": "namespace", "name": "mail", "tools": [{"type": "function", "name": "send", "parameters": SCHEMA}]},
        {"type": "function", "name": "strict", "parameters": {**SCHEMA, "additionalProperties": False}, "strict": True},
        {"type": "custom", "name": "patch", "format": {"type": "grammar", "syntax": "lark", "definition": GRAMMAR}},
        {
            "type": "custom",
            "name": "odd",
            "unheard_of": 1,
            "format": {"type": "grammar", "syntax": "lark", "definition": "?"},
        },
        {"type": "shell", "environment": {"type": "local", "skills": [1]}},
        {"type": "web_search"},
    ],
}
_FIELDS: Json = {
    MESSAGES_PATH: {
        "system": ["Be brief.", "", [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "<tool_call>"}]],
        "tool_choice": [{"type": "auto"}, {"type": "none"}, {"type": "auto", "disable_parallel_tool_use": True}],
        "stream": [True, False],
        "thinking": [{"type": "enabled", "budget_tokens": 5}, {"type": "adaptive"}, {"type": "disabled"}],
        "output_config": [{"effort": "high"}, {"format": {"type": "json_schema", "schema": SCHEMA}}],
        "stop_sequences": [["END"]],
        "metadata": [{"user_id": "u"}],
        "context_management": [{"edits": []}],
        "temperature": [1, 0.5, 9],
        "max_tokens": [100, 200, 300, None],
    },
    RESPONSES_PATH: {
        "instructions": ["Be brief.", "", "<tool_call>"],
        "tool_choice": ["auto", "none", None],
        "parallel_tool_calls": [True, False],
        "stream": [True, False],
        "reasoning": [{"effort": "low", "summary": "auto"}, {"effort": "none"}],
        "include": [["reasoning.encrypted_content", "x"]],
        "text": [{"format": {"type": "text"}, "verbosity": "low"}, {"format": {"type": "json_object"}}],
        "max_output_tokens": [100, 200, 300, 0],
        "previous_response_id": [None, None, None, "x"],
        "temperature": [1, 0.5, 9],
        "store": [False],
        "client_metadata": [{"a": "b"}],
    },
}
_RARE: Json = {
    MESSAGES_PATH: [{"type": "any"}, {"type": "tool", "name": "look_up"}],
    RESPONSES_PATH: [
        "required",
        {"type": "function", "name": "look_up"},
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "look_up"}]},
    ],
}
_IDS = st.sampled_from(["c1", "c2", "c3"])
_NAMES = st.sampled_from(["look_up", "now", "mail", "x"])
_objects = st.dictionaries(texts, st.one_of(texts, numbers), max_size=2)


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


_texts = texts.map(_text)
_search_results = st.builds(
    lambda text: {"type": "search_result", "source": "s", "title": "t", "content": [_text(text)]}, texts
)
_inner = st.one_of(_texts, st.just(_IMAGE), _search_results)
_results = st.builds(
    lambda call_id, content, failed: {
        "type": "tool_result",
        "tool_use_id": call_id,
        **({} if content is None else {"content": content}),
        **({} if failed is None else {"is_error": failed}),
    },
    _IDS,
    st.one_of(st.none(), texts, st.lists(_inner, max_size=2)),
    st.sampled_from([None, False, True]),
)
_of_user = st.one_of(
    _inner,
    _results,
    _results,
    st.builds(lambda text: {"type": "document", "title": "t", "source": {"type": "text", "data": text}}, texts),
    st.just({"type": "web_search_tool_result", "tool_use_id": "s", "content": []}),
)
_of_assistant = st.one_of(
    _texts,
    st.builds(
        lambda call_id, name, given: {"type": "tool_use", "id": call_id, "name": name, "input": given},
        _IDS,
        _NAMES,
        _objects,
    ),
    st.builds(lambda text: {"type": "thinking", "thinking": text, "signature": "s"}, texts),
    st.sampled_from([{"type": "redacted_thinking", "data": "x"}, {"type": "server_tool_use", "id": "s", "name": "w"}]),
)


def _messages(role: str, blocks: st.SearchStrategy[Json], fewest: int) -> st.SearchStrategy[Json]:
    content = st.one_of(texts, st.lists(blocks, min_size=fewest, max_size=3))
    return content.map(lambda said: {"role": role, "content": said})


_items: dict[str, st.SearchStrategy[Json]] = {
    MESSAGES_PATH: st.one_of(
        _messages("user", _of_user, 1),
        _messages("user", _of_user, 1),
        _messages("assistant", _of_assistant, 0),
        _messages("assistant", _of_assistant, 0),
        _messages("system", _texts, 0),
    ),
    RESPONSES_PATH: st.one_of(
        st.builds(lambda role, said: {"role": role, "content": said}, st.sampled_from(["user", "assistant"]), texts),
        st.builds(
            lambda role, said: {"type": "message", "role": role, "content": [{"type": "input_text", "text": said}]},
            st.sampled_from(["user", "assistant", "developer", "system"]),
            texts,
        ),
        st.just({"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png,x"}]}),
        st.builds(
            lambda said, name: {"type": "reasoning", "summary": [], name: [{"type": "reasoning_text", "text": said}]},
            texts,
            st.sampled_from(["content", "summary"]),
        ),
        st.builds(
            lambda call_id, name, space, given: {
                "type": "function_call",
                "call_id": call_id,
                "name": name,
                "arguments": given,
                **({} if space is None else {"namespace": space}),
            },
            _IDS,
            _NAMES,
            st.sampled_from([None, "mail"]),
            st.one_of(
                _objects.map(json.dumps), st.sampled_from(["", "{'a': 1}", '{"a": ', "[1]", '{"a": 1e999}', "x"])
            ),
        ),
        st.builds(
            lambda call_id, said: {"type": "custom_tool_call", "call_id": call_id, "name": "patch", "input": said},
            _IDS,
            texts,
        ),
        st.builds(
            lambda call_id: {"type": "shell_call", "id": "sh", "call_id": call_id, "action": {"commands": ["ls"]}}, _IDS
        ),
        st.builds(
            lambda call_id, said: {"type": "function_call_output", "call_id": call_id, "output": said},
            _IDS,
            st.one_of(texts, texts.map(lambda said: [{"type": "input_text", "text": said}])),
        ),
        st.builds(
            lambda call_id: {
                "type": "shell_call_output",
                "call_id": call_id,
                "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
            },
            _IDS,
        ),
        st.builds(
            lambda call_id, output: {
                "type": "mcp_call",
                "id": call_id,
                "server_label": "web",
                "name": "search",
                "arguments": '{"q": 1}',
                "output": output,
            },
            _IDS,
            st.one_of(st.none(), texts),
        ),
        st.just({"type": "web_search_call", "id": "ws", "status": "completed", "odd": 1}),
        st.just({"type": "tool_search_call", "call_id": "c1", "execution": "client", "arguments": {"query": "mail"}}),
    ),
}
_FOUND: Json = {
    "type": "tool_search_output",
    "call_id": "c1",
    "execution": "client",
    "tools": [{"type": "custom", "name": "found", "format": {"type": "text"}}],
}


def _with_calls(item: Json, seen: set[str]) -> Json:
    """Without results of calls that nobody made, mostly: whatever has them is refused."""
    content = item.get("content")
    if item.get("type", "").endswith("_call"):
        seen.update(call_id for call_id in (item.get("call_id"), item.get("id")) if call_id is not None)
    elif item.get("type", "").endswith("_output") and item["call_id"] not in seen:
        return {"role": "user", "content": "Go on."}
    elif isinstance(content, list) and "type" not in item and item["role"] != "tool":
        seen.update(block["id"] for block in content if block["type"] == "tool_use")
        kept = [block for block in content if block["type"] != "tool_result" or block["tool_use_id"] in seen]
        item = {**item, "content": kept or ("" if item["role"] != "user" else "Go on.")}
    return item


def _marked(items: list[Json]) -> list[Json]:
    """With `cache_control` on the last one, where Claude Code has it: it moves along."""
    *before, last = items
    content = last.get("content")
    if isinstance(content, str):
        content = [_text(content)]
    if not content:
        return items
    return [*before, {**last, "content": [*content[:-1], {**content[-1], "cache_control": {"type": "ephemeral"}}]}]


@st.composite
def conversations(draw: st.DrawFn, path: str) -> list[Any]:
    """Requests as they come: one conversation turn by turn, some of them changed, or broken."""
    seen: set[str] = set()
    items = [_with_calls(item, seen) for item in draw(st.lists(_items[path], min_size=1, max_size=7))]
    names = draw(st.lists(st.sampled_from(sorted(_FIELDS[path])), max_size=4, unique=True))
    fields = {"model": draw(st.sampled_from(MODELS)), "max_tokens": 50}
    fields |= {name: draw(st.sampled_from(_FIELDS[path][name])) for name in names}
    fields["tools"] = draw(
        st.lists(st.sampled_from(_TOOLS[path]), min_size=1, max_size=4, unique_by=_TOOLS[path].index)
    )
    if draw(st.integers(0, 9)) == 0:
        fields["tool_choice"] = draw(st.sampled_from(_RARE[path]))
    if path == RESPONSES_PATH and "c1" in seen and draw(st.integers(0, 5)) == 0:
        items.append(_FOUND)
    marks = path == MESSAGES_PATH and draw(st.booleans())
    found: list[Any] = []
    for length in range(1, len(items) + 1):
        turn = {**fields, _ITEMS[path]: _marked(items[:length]) if marks else items[:length]}
        found.append(turn)
        if draw(st.integers(0, 5)) == 0:
            found.append(draw(broken(turn)))
    return found


@pytest.mark.long
@each_path
@given(st.data(), st.sampled_from(sorted(CONFIGS)), st.booleans())
def test_it_makes_no_difference(path: str, data: st.DataObject, mode: str, ascii_only: bool) -> None:
    memory = Memory()
    requests = data.draw(conversations(path))
    for request in requests + requests[-2:]:
        body = json.dumps(request, ensure_ascii=ascii_only).encode()
        agreed(body, CONFIGS[mode], memory, data.draw(st.sampled_from([None, "ann"])), path)


def _claude_code(turns: int) -> Iterator[Json]:
    """What it sends, turn by turn."""
    messages: list[Json] = []
    for turn in range(turns):
        if turn == 0:
            messages += [
                {"role": "user", "content": [_text("reminder " * 50), _text("Write a file.")]},
                {"role": "system", "content": "Today is Monday."},
            ]
        else:
            call = {"type": "tool_use", "id": f"t{turn}", "name": "look_up", "input": {"word": "x" * 1000}}
            result = {"type": "tool_result", "tool_use_id": f"t{turn}", "content": "</tool_response>" + "y" * 1000}
            messages += [
                {"role": "assistant", "content": [_text("I look."), call]},
                {"role": "user", "content": [result]},
            ]
        yield {
            "model": "coder",
            "messages": _marked(messages),
            "system": [
                _text("You are an agent. " * 100),
                {**_text("Be brief."), "cache_control": {"type": "ephemeral"}},
            ],
            "tools": _TOOLS[MESSAGES_PATH][:2],
            "metadata": {"user_id": "u"},
            "max_tokens": 32000,
            "thinking": {"type": "adaptive"},
            "context_management": {"edits": []},
            "output_config": {"effort": "high"},
            "stream": True,
        }


def _codex(turns: int) -> Iterator[Json]:
    """The same."""
    items: list[Json] = []
    for turn in range(turns):
        if turn == 0:
            for role in ("developer", "user"):
                said = [{"type": "input_text", "text": f"I am the {role}. " * 50}]
                items.append({"type": "message", "role": role, "content": said})
        else:
            arguments = json.dumps({"word": "x" * 1000})
            thought = [{"type": "summary_text", "text": "Hm."}]
            items += [
                {"type": "reasoning", "summary": thought, "encrypted_content": None},
                {"type": "function_call", "name": "look_up", "arguments": arguments, "call_id": f"c{turn}"},
                {"type": "function_call_output", "call_id": f"c{turn}", "output": "</tool_response>" + "y" * 1000},
            ]
        yield {
            "model": "coder",
            "instructions": "You are an agent. " * 100,
            "input": items,
            "tools": [_TOOLS[RESPONSES_PATH][index] for index in (0, 1, 3, 5, 6)],
            "tool_choice": "auto",
            "parallel_tool_calls": True,
            "reasoning": {"summary": "auto"},
            "store": False,
            "stream": True,
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": "k",
            "client_metadata": {"a": "b"},
        }


_AGENTS = {MESSAGES_PATH: _claude_code, RESPONSES_PATH: _codex}


@each_path
@every_mode
def test_the_next_turn_costs_what_is_new_in_it(mode: str, path: str) -> None:
    memory = Memory()
    for number, request in enumerate(_AGENTS[path](9)):
        # The last message of the turn before comes with other bytes now.
        new = len(orjson.dumps(request)) if number == 0 else 4500
        assert unknown(request, memory, CONFIGS[mode], path=path) <= new
        agreed(orjson.dumps(request), CONFIGS[mode], memory, path=path)
        assert unknown(request, memory, CONFIGS[mode], path=path) < 500  # sent once more
    assert memory.known > 2 * memory.new


@each_path
@every_mode
def test_what_follows_may_be_wrong_as_ever(mode: str, path: str) -> None:
    memory = Memory()
    items = _ITEMS[path]
    *_, request = _AGENTS[path](4)
    body = orjson.dumps(request)
    agreed(body, CONFIGS[mode], memory, path=path)
    stream = b'"stream":true'
    assert stream in body
    for wrong in (
        body[:-1],
        body + b"x",
        b"\xef\xbb\xbf" + body,
        body.replace(stream, stream + b"," + stream),
        body.replace(stream, stream + b',"%s":[]' % items.encode()),
        body.replace(stream, stream + b',"x":1e999'),
        body.replace(stream, stream + b',"x":"\\ud83d"'),
        body.replace(b'"%s":[' % items.encode(), b'"x":{"%s":[' % items.encode()),
        body.replace(b'"tools"', b'"tools":[],"t"'),
        orjson.dumps({**request, "temperature": 9}),
        orjson.dumps({**request, "tools": request["tools"] * 2}),
        orjson.dumps({**request, "tools": [*request["tools"], 1]}),
        orjson.dumps({**request, "tool_choice": "never"}),
        orjson.dumps({**request, "model": "unheard-of"}),
        orjson.dumps({**request, items: []}),
        orjson.dumps({**request, items: "Hello."}),
        orjson.dumps({**request, items: [*request[items], {"role": "tool"}]}),
        orjson.dumps({**request, items: [*request[items], 1]}),
        orjson.dumps({**request, items: request[items][-1:]}),
        orjson.dumps({**request, "system": 1, "instructions": 1}),
        orjson.dumps({**request, "system": [{"type": "image"}], "instructions": ["x"]}),
        orjson.dumps({**request, "max_tokens": None, "max_output_tokens": 0}),
    ):
        for _ in range(2):
            agreed(wrong, CONFIGS[mode], memory, path=path)
