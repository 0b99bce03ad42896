"""What is known of a conversation saves work, and has no effect on anything else."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.config import Config, parse
from extproc.contract.errors import ApiError
from extproc.exchange.context import ExchangeContext
from extproc.exchange.effects import Prepare
from extproc.exchange.machine import Exchange
from extproc.names import CHAT_PATH
from extproc.observability.telemetry import Telemetry
from extproc.surfaces import known_of, prepare
from extproc.turn.memory import Memory
from extproc.turn.upstream import UpstreamRequest
from extproc.turn.usage import Sent
from extproc.wire import ProcessingResponse
from tests.request_strategies import MODELS, Json, broken, legal_requests
from tests.test_exchange import request_body, request_headers

_MODES = {
    "prompt": "tools: prompt, format: hermes",
    "numbered": "tools: prompt, format: kimi_k2, tool_result: tagged, malformed_history: pass, forced: true",
    "example": "tools: prompt, format: pythonic, tool_result: role, example: true, malformed_history: error",
    "template": "tools: template, format: hermes",
    "pythonic": "tools: template, format: pythonic, malformed_history: error",
    "native": "tools: native, format: hermes",
    "escaped": "tools: native, format: llama3_json, escape_markers: true, retry: true",
}


def config(mode: str, **backend: Any) -> Config:
    models = "\n".join(f"  - {{name: {name}, backend: qwen, {_MODES[mode]}}}" for name in MODELS)
    fields = json.dumps({"name": "qwen", "address": "127.0.0.1:8000", "affinity": True, **backend})
    return parse(f"models:\n{models}\nbackends: [{fields}]")


CONFIGS = {mode: config(mode) for mode in _MODES}


def outcome(work: Callable[[], UpstreamRequest]) -> Any:
    """All that comes of a request, to be compared."""
    try:
        made = work()
    except ApiError as error:
        return error.status, error.message, error.param, error.code, error.type
    fields = {name: getattr(made, name) for name in made.__slots__ if name not in ("learned", "known", "sent")}
    return fields, told(made.sent)


def told(sent: Sent | None) -> Any:
    if sent is None:
        return None
    said = sent.said
    return said.messages, list(sent.tools), [getattr(said.text, name) for name in said.text.__slots__]


def agreed(body: bytes, settings: Config, memory: Memory, client: str | None = None, path: str = CHAT_PATH) -> Any:
    """What comes of a request, which is the same with the memory and without; it is remembered."""
    learned: list[Any] = []

    def remembering() -> UpstreamRequest:
        made = prepare(body, settings, path, memory=memory, client=client)
        learned.append((made.known, made.learned))
        return made

    found = outcome(remembering)
    assert found == outcome(lambda: prepare(body, settings, path))
    if learned:
        memory.took(client, len(body), *learned[0])
    return found


def turns(request: Any) -> Iterator[Any]:
    """The same conversation as it was sent turn by turn."""
    messages = request.get("messages") if isinstance(request, dict) else None
    if isinstance(messages, list):
        for length in range(1, len(messages)):
            yield {**request, "messages": messages[:length]}
    yield request


_forms = st.sampled_from(
    [
        lambda value: json.dumps(value).encode(),
        lambda value: json.dumps(value, ensure_ascii=False).encode(),
        lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(),
        lambda value: json.dumps(value, indent=1).encode(),
        lambda value: json.dumps({"tools": None, **value} if isinstance(value, dict) else value).encode(),
    ]
)


@st.composite
def conversations(draw: st.DrawFn) -> list[Any]:
    """Requests as they come: one conversation turn by turn, some of them changed, or broken."""
    request = draw(legal_requests())
    if draw(st.integers(0, 3)):  # mostly as agents ask
        rare = ("functions", "function_call", "tool_choice", "response_format")
        request = {name: value for name, value in request.items() if name not in rare}
        request["tools"] = request.get("tools") or [TOOL]
    found: list[Any] = []
    for turn in turns(request):
        found.append(turn)
        if draw(st.integers(0, 3)) == 0:
            found.append(draw(broken(turn)))
    return found


@pytest.mark.long
@given(st.sampled_from(sorted(CONFIGS)), st.lists(conversations(), min_size=1, max_size=2), st.data())
def test_it_makes_no_difference(mode: str, sessions: list[list[Any]], data: st.DataObject) -> None:
    settings = CONFIGS[mode]
    memory = Memory()
    form = data.draw(_forms)
    bodies = [form(request) for request in (one for turn in zip_longest(*sessions) for one in turn)]
    bodies += [form(request) for request in sessions[0]]
    for body in bodies:
        agreed(body, settings, memory, data.draw(st.sampled_from([None, "ann"])))


TOOL: Json = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "Says <|im_end|> what it finds.",
        "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
    },
}


def conversation(turns: int, size: int = 1000, **fields: Any) -> Json:
    """As an agent has it."""
    messages: list[Json] = [{"role": "system", "content": "Be brief."}]
    for turn in range(turns):
        call: Json = {"id": f"c{turn}", "type": "function"}
        call["function"] = {"name": "look_up", "arguments": json.dumps({"word": f"{turn}"})}
        messages += [
            {"role": "user", "content": f"What is {turn}? " + "x" * size},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{turn}", "content": "</tool_response>" + "y" * size},
        ]
    return {"model": "coder", "messages": messages, "tools": [TOOL], "stream": True, **fields}


def unknown(request: Any, memory: Memory, settings: Config, client: str | None = None, path: str = CHAT_PATH) -> int:
    """Bytes that would have to be read."""
    body = orjson.dumps(request)
    beginning = known_of(body, settings, path, memory, client)
    return len(body) if beginning is None else beginning.unknown


every_mode = pytest.mark.parametrize("mode", CONFIGS)


@every_mode
def test_the_next_turn_costs_what_is_new_in_it(mode: str) -> None:
    memory = Memory()
    for length in range(1, 10):
        request = conversation(length)
        new = len(orjson.dumps(request)) if length == 1 else 2500
        assert unknown(request, memory, CONFIGS[mode]) <= new
        agreed(orjson.dumps(request), CONFIGS[mode], memory)
        assert unknown(request, memory, CONFIGS[mode]) < 200  # sent once more
    changed = conversation(10)
    changed["messages"][-2]["content"] = "Else."
    assert unknown(changed, memory, CONFIGS[mode]) < 5000
    assert memory.known > memory.new


@every_mode
def test_what_follows_may_be_wrong_as_ever(mode: str) -> None:
    memory = Memory()
    body = orjson.dumps(conversation(2))
    agreed(body, CONFIGS[mode], memory)
    for wrong in (
        body[:-1],
        body + b"x",
        b" \n" + body,
        b"\xef\xbb\xbf" + body,
        body.replace(b'"stream":true', b'"stream":true,"stream":true'),
        body.replace(b'"stream":true', b'"stream":true,"messages":[]'),
        body.replace(b'"stream":true', b'"stream":true,"x":1e999'),
        body.replace(b'"stream":true', b'"stream":true,"x":"\xff"'),
        body.replace(b'"stream":true', b'"stream":true,"x":"\\ud83d"'),
        body.replace(b'"stream":true', b'"stream":true,"x":' + b"[" * 300 + b"]" * 300),
        body.replace(b'"messages"', b'"mess\\u0061ges"'),
        body.replace(b'"messages"', b'"messages":[],"m"'),
        body.replace(b'"tools"', b'"tools":[],"t"'),
        body.replace(b'"messages":[', b'"messages":[,'),
        body.replace(b'"messages":[', b'"x":{"messages":[').replace(b'"tools"', b'"x":1},"tools"'),
        body.replace(b'"c1","type"', b'"c0","type"'),
        body.replace(b'"tool_call_id":"c1"', b'"tool_call_id":"c2"'),
        orjson.dumps({**conversation(2), "temperature": 9}),
        orjson.dumps({**conversation(2), "tools": [TOOL, TOOL]}),
        orjson.dumps({**conversation(2), "functions": [TOOL["function"]]}),
        orjson.dumps({**conversation(2), "tool_choice": "never"}),
        orjson.dumps({**conversation(2), "model": "unheard-of"}),
        orjson.dumps({**conversation(2), "messages": [*conversation(2)["messages"], {"role": "tool"}]}),
        orjson.dumps({**conversation(2), "messages": [*conversation(2)["messages"], 1]}),
    ):
        agreed(wrong, CONFIGS[mode], memory)


@every_mode
@pytest.mark.parametrize(
    "fields",
    [
        {"tool_choice": "required"},
        {"tool_choice": "none"},
        {"tool_choice": {"type": "function", "function": {"name": "look_up"}}},
        {"parallel_tool_calls": False},
        {"stream": False},
        {"stream_options": {"include_usage": True}},
        {"response_format": {"type": "json_object"}},
        {"seed": 2**70},
        {"continue_final_message": True},
        {"tools": [{**TOOL, "function": {**TOOL["function"], "strict": None}}]},
        {"unheard_of": None},
    ],
    ids=lambda fields: "-".join(fields),
)
def test_nor_does_it_matter_what_else_is_asked(mode: str, fields: Json) -> None:
    memory = Memory()
    for length in (1, 2, 3):
        agreed(orjson.dumps(conversation(length, 10)), CONFIGS[mode], memory)
        agreed(json.dumps(conversation(length, 10, **fields)).encode(), CONFIGS[mode], memory)


def test_clients_know_nothing_of_each_other() -> None:
    memory = Memory()
    request = conversation(3)
    agreed(orjson.dumps(request), CONFIGS["prompt"], memory, "ann")
    assert unknown(request, memory, CONFIGS["prompt"], "ann") < 200
    for client in ("bob", None):
        assert unknown(request, memory, CONFIGS["prompt"], client) == len(orjson.dumps(request))


def test_other_settings_begin_anew() -> None:
    memory = Memory()
    body = orjson.dumps(conversation(2))
    agreed(body, CONFIGS["prompt"], memory)
    for settings in (config("prompt"), CONFIGS["template"], CONFIGS["prompt"]):
        agreed(body, settings, memory)
        assert memory.known == 0
    agreed(body, CONFIGS["prompt"], memory)
    assert memory.known > 0


def test_it_stays_within_its_bounds() -> None:
    settings = CONFIGS["native"]
    memory = Memory(most=100_000)
    for number in range(40):
        request = conversation(3, 500, user=str(number))
        request["messages"][0]["content"] = f"You are number {number}."
        agreed(orjson.dumps(request), settings, memory, f"client {number % 7}")
        assert 0 < memory.size <= 100_000
        assert memory.size_of(f"client {number % 7}") <= 25_000
    assert memory.forgotten > 0
    agreed(orjson.dumps(conversation(30, 5000)), settings, memory)
    assert memory.size <= 100_000
    for number in range(7):
        memory.learn(f"client {number}", ((b"key", (bytes(30_000), b"")),))
        assert memory.size_of(f"client {number}") <= 25_000


def exchanged(context: ExchangeContext, request: Any) -> tuple[int, bytes]:
    """How many effects a request has, and what its backend or its client gets."""
    exchange = Exchange(context, Telemetry(context.config))
    exchange.receive(request_headers())
    effects, replies = 0, exchange.receive(request_body(request))
    while not isinstance(reply := replies[-1], ProcessingResponse):
        assert isinstance(reply, Prepare)
        effects += 1
        replies = exchange.resume(pickle.loads(pickle.dumps(reply)).perform())
    return effects, reply.request_body.response.body_mutation.body or reply.immediate_response.body


@every_mode
def test_what_a_worker_has_read_the_loop_knows(mode: str) -> None:
    context = ExchangeContext(CONFIGS[mode], memory=Memory())
    first, second = conversation(8, 5000), conversation(9, 5000)
    assert exchanged(context, first)[0] == 1
    for request in (second, first):
        assert exchanged(context, request) == (0, prepare(orjson.dumps(request), CONFIGS[mode]).body)


def test_what_is_new_decides_who_reads_it() -> None:
    context = ExchangeContext(CONFIGS["prompt"], memory=Memory())
    exchanged(context, conversation(4, 5000))
    assert exchanged(context, conversation(5, 5000))[0] == 0
    assert exchanged(context, conversation(9, 5000))[0] == 1
    wrong = {**conversation(9, 5000), "temperature": 9}
    assert exchanged(context, wrong)[0] == 1  # a wrong one is read as a whole, for what is to be said of it
    assert exchanged(replace(context, config=config("prompt")), conversation(9, 5000))[0] == 1
