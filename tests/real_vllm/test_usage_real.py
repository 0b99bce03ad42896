"""Usage at the gateway equals vLLM's own, to the token: what vLLM counts when it gets the very same body directly."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from extproc.config import parse
from extproc.surfaces import prepare
from tests.real_vllm.conftest import NAME, TEMPLATE, Gateway
from tests.real_vllm.server import MODEL
from tests.real_vllm.test_real_vllm import ASK_DEGREES, ASK_WEATHER, CHAT, TOOLS

pytestmark = pytest.mark.vllm

CONFIG = parse(f"""
models:
  - {{name: {NAME}, backend: qwen, upstream_model: {MODEL}, tools: prompt, format: hermes}}
  - {{name: {TEMPLATE}, backend: qwen, upstream_model: {MODEL}, tools: template, format: hermes}}
backends:
  - {{name: qwen, address: "127.0.0.1:8000"}}
""")
"""What the gateway here goes by, as far as it decides on bodies."""
CALL = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
AFTER_A_CALL = [
    ASK_WEATHER,
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": '{"temperature_celsius": 18, "sky": "light rain"}'},
    ASK_DEGREES,
]


@pytest.fixture(params=[NAME, TEMPLATE])
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[[ASK_WEATHER], AFTER_A_CALL], ids=["a call", "an answer after a call"])
def messages(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return list(request.param)


def test_of_a_whole_answer(gateway: Gateway, model: str, messages: list[dict[str, Any]]) -> None:
    body = asked(model, messages)
    through, direct = post(gateway.url, body), post(gateway.vllm.url, sent(body))
    assert through.json()["usage"] == direct.json()["usage"]
    assert through.json()["usage"]["completion_tokens"] > 0
    assert "x-extproc-usage" not in through.headers


def test_of_a_stream(gateway: Gateway, model: str, messages: list[dict[str, Any]]) -> None:
    body = asked(model, messages, stream=True, stream_options={"include_usage": True})
    *chunks, last = events(post(gateway.url, body))
    *_, counted = events(post(gateway.vllm.url, sent(body)))
    assert last["choices"] == counted["choices"] == []
    assert last["usage"] == counted["usage"]
    assert last["usage"]["completion_tokens"] > 0
    assert all(chunk["choices"] and chunk["usage"] is None for chunk in chunks)


def asked(model: str, messages: list[dict[str, Any]], **fields: Any) -> bytes:
    request = {"model": model, "messages": messages, "tools": TOOLS, "temperature": 0, "max_tokens": 40, **fields}
    return json.dumps(request).encode()


def sent(body: bytes) -> bytes:
    """What the gateway makes of a request."""
    prepared = prepare(body, CONFIG).body
    assert prepared is not None
    return prepared


def post(url: str, body: bytes) -> httpx.Response:
    reply = httpx.post(url + CHAT, content=body, headers={"content-type": "application/json"}, timeout=300)
    return reply.raise_for_status()


def events(reply: httpx.Response) -> list[dict[str, Any]]:
    *chunks, done = (line.removeprefix("data: ") for line in reply.text.split("\n\n") if line)
    assert done == "[DONE]"
    return [json.loads(chunk) for chunk in chunks]
