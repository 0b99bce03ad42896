"""Every legal request is accepted: what real clients send, and what OpenAI's reference and vLLM's allow.

The requests are data: see requests/README.md. Each goes through `prepare`, and through the front door to a backend that
has to get it and whose answer has to come back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import orjson
import pytest
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)

from extproc.config import Config, parse
from extproc.contract.errors import ApiError
from extproc.contract.parameters import FORWARDED
from extproc.surfaces import prepare
from extproc.turn.upstream import UpstreamRequest
from scripted_vllm import Reply
from tests.gateway import MODEL, AskedVLLM, Gateway, running_gateway
from tests.requests import Json, load
from tests.requests.redact import redacted

CHAT = "/v1/chat/completions"
CONFIG: Config = parse("""
models:
  - {name: coder, backend: qwen, tools: prompt}
  - {name: refusing, backend: qwen, tools: prompt, malformed_history: error}
  - {name: passing, backend: qwen, tools: prompt, malformed_history: pass}
backends:
  - {name: qwen, address: 127.0.0.1:8000}
withheld: []  # of what vLLM takes
""")


def _many_turns(turns: int) -> Json:
    """A long session: each turn has words, calls at once, their results in another order, and an answer."""
    messages: list[Json] = [{"role": "system", "content": "Be brief."}]
    for turn in range(turns):
        ids = [f"call_{turn}_{number}" for number in range(3)]
        calls = [
            {"id": call_id, "type": "function", "function": {"name": "look_up", "arguments": f'{{"turn": {turn}}}'}}
            for call_id in ids
        ]
        messages += [
            {"role": "user", "content": f"What about {turn}?"},
            {"role": "assistant", "content": None, "tool_calls": calls},
            *({"role": "tool", "tool_call_id": call_id, "content": f"result {call_id}"} for call_id in reversed(ids)),
            {"role": "assistant", "content": f"That was {turn}."},
        ]
    return {"messages": [*messages, {"role": "user", "content": "And all of it?"}], "tools": _many_tools(1)["tools"]}


def _many_tools(count: int) -> Json:
    parameters = {"type": "object", "properties": {"turn": {"type": "integer"}}, "required": ["turn"]}
    names = ["look_up", *(f"look_up_{number}" for number in range(1, count))]
    tools = [{"type": "function", "function": {"name": name, "parameters": parameters}} for name in names]
    return {"messages": [{"role": "user", "content": "Look it up."}], "tools": tools}


CLIENTS = load("clients")
REFERENCE = load("reference")
MALFORMED = {name: CLIENTS.pop(name) for name in list(CLIENTS) if "malformed" in name}
"""Some clients send a model's broken arguments back as they are: the model's setting says what becomes of them."""

LEGAL = {**CLIENTS, **REFERENCE, "turns-200": _many_turns(200), "tools-128": _many_tools(128)}

every_request = pytest.mark.parametrize("request_body", LEGAL.values(), ids=LEGAL)
every_capture = pytest.mark.parametrize(
    "captured", [*CLIENTS.values(), *MALFORMED.values()], ids=[*CLIENTS, *MALFORMED]
)


@pytest.fixture(scope="module")
def long_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """In front of a model that takes images, with room for the longest of them and for the answer that is asked for."""
    backend = AskedVLLM(model=MODEL, max_model_len=262_144, multimodal=True)
    with backend.running(), running_gateway(tmp_path_factory.mktemp("legal"), backend, "withheld: []") as gateway:
        yield gateway


def prepared(body: Json, model: str = "coder") -> UpstreamRequest:
    return prepare(orjson.dumps({**body, "model": model}), CONFIG)


def callable_names(body: Json) -> list[str]:
    """The tools or functions that the answer may call."""
    offered = [tool["function"]["name"] for tool in body.get("tools") or ()]
    offered += [function["name"] for function in body.get("functions") or ()]
    choice = body.get("tool_choice") or body.get("function_call")
    if choice == "none":
        return []
    if not isinstance(choice, dict):
        return offered
    if choice.get("type") == "allowed_tools":
        return [tool["function"]["name"] for tool in choice["allowed_tools"]["tools"]]
    return [choice.get("function", choice)["name"]]


def answer_of(reply: httpx.Response) -> list[tuple[str, str]]:
    """What each choice ended with, and the one name that it called, if any."""
    if "event-stream" not in reply.headers["content-type"]:
        choices = reply.json()["choices"]
        messages = [(choice["finish_reason"], choice["message"]) for choice in choices]
        return [(reason, _called(message)) for reason, message in messages]
    *events, done = [line.removeprefix("data: ") for line in reply.text.splitlines() if line]
    assert done == "[DONE]"
    reasons: dict[int, str] = {}
    names: dict[int, str] = {}
    for choice in (choice for event in events for choice in json.loads(event)["choices"]):
        index = choice["index"]
        names[index] = names.get(index, "") + _called(choice["delta"])
        reasons[index] = choice["finish_reason"] or reasons.get(index, "")
    return [(reasons[index], names[index]) for index in sorted(reasons)]


def _called(message: Json) -> str:
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    calls += [message["function_call"]] if message.get("function_call") else []
    return "".join(call.get("name") or "" for call in calls)


@every_request
def test_it_is_accepted(request_body: Json) -> None:
    assert isinstance(prepared(request_body), UpstreamRequest)


@every_request
def test_it_is_accepted_at_the_front_door(request_body: Json, long_gateway: Gateway) -> None:
    backend = long_gateway.backend
    backend.forget()
    name = next(iter(callable_names(request_body)), "")
    call = f"<tool_call>\n{json.dumps({'name': name, 'arguments': {}})}\n</tool_call>"
    backend.play(Reply(call if name else "Fine"))
    reply = long_gateway.http.post(CHAT, json={**request_body, "model": "coder"})
    assert [request.path for request in backend.requests] == [CHAT]
    assert reply.status_code == 200, reply.text
    called = "function_call" if request_body.get("functions") else "tool_calls"
    ending = "length" if request_body.get("max_tokens") == 1 else "stop"
    assert answer_of(reply) == [(called, name) if name else (ending, "")] * int(request_body.get("n") or 1)


class TestWhatTheBackendGets:
    """Of requests that it is told in another form."""

    def test_images_in_their_places(self, long_gateway: Gateway) -> None:
        (_, user, _, results) = self.sent("history-of-calls-with-images", long_gateway)["messages"]
        url = "data:image/png;base64,iVBORw0KGgo"
        compare, picture, rest = user["content"]
        assert (compare["text"], picture, rest["text"]) == (
            "Compare these:",
            {"type": "image_url", "image_url": {"url": f"{url}="}},
            "with what the camera sees.",
        )
        left, first, between, second, behind = results["content"]
        assert left == {"type": "text", "text": "The tool take_picture returned:\n```\nleft:\n```\n"}
        assert first == {"type": "image_url", "image_url": {"url": f"{url}A"}}
        assert between["text"] == "\n```\ndone\n```\n\nThe tool take_picture returned:\n"
        assert second == {"type": "image_url", "image_url": {"url": f"{url}B", "detail": "low"}}
        assert behind["text"] == "\n\nContinue."

    def test_integers(self, long_gateway: Gateway) -> None:
        sent = self.sent("parameters-integers-with-a-fraction-of-nought", long_gateway)
        asked = {name: value for name, value in sent.items() if name not in ("model", "messages", "logprobs")}
        assert repr(asked) == repr(
            {
                "top_logprobs": 2,
                "max_completion_tokens": 10,
                "max_tokens": 10,
                "n": 1,
                "seed": 7,
                "stop_token_ids": [1, 2],
            }
        )

    def sent(self, name: str, gateway: Gateway) -> Json:
        gateway.backend.forget()
        assert gateway.http.post(CHAT, json={**REFERENCE[name], "model": MODEL}).status_code == 200
        (request,) = gateway.backend.requests
        fields: Json = json.loads(request.body)
        return fields


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_broken_arguments_that_a_client_returns_are_the_models_setting(body: Json) -> None:
    with pytest.raises(ApiError) as error:
        prepared(body, "refusing")
    assert error.value.code == "malformed_tool_arguments"
    assert prepared(body).repaired
    assert isinstance(prepared(body, "passing"), UpstreamRequest)


class TestTheData:
    def test_every_client_is_there(self) -> None:
        clients = "ai-sdk cline2 cline3 kilo langchain openai-node openai-python opencode qwen-code".split()
        for client in clients:
            mine = [body for name, body in CLIENTS.items() if name.startswith(client)]
            assert any(message["role"] == "tool" for body in mine for message in body["messages"]), client
        assert all(name.startswith(tuple(clients)) for name in CLIENTS)

    @every_capture
    def test_nothing_of_a_clients_text_is_kept(self, captured: Json) -> None:
        assert redacted(captured) == captured

    @pytest.mark.parametrize("params", [CompletionCreateParamsNonStreaming, CompletionCreateParamsStreaming])
    def test_every_parameter_of_openai_is_covered(self, params: Any) -> None:
        covered = {name for body in REFERENCE.values() for name in body}
        assert params.__required_keys__ | params.__optional_keys__ <= covered

    def test_every_parameter_of_vllm_is_covered(self) -> None:
        assert {name for body in REFERENCE.values() for name in body} >= FORWARDED
