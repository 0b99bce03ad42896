"""The main job against a real vLLM: the OpenAI client, the real Envoy and processor, a real model.

The server runs without a tool parser and the model was never taught to call tools. It is a very small one, so the
requests here are plain, and the temperature is 0: what is tested is the gateway, not the model's wit.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletion

from tests.real_vllm.conftest import NAME, Gateway
from tests.real_vllm.server import MAX_MODEL_LENGTH, MODEL, VLLM

pytestmark = pytest.mark.vllm

CHAT = "/v1/chat/completions"
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather in a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "Name of the city"}},
            "required": ["city"],
        },
    },
}
FLIGHTS = {
    "type": "function",
    "function": {
        "name": "search_flights",
        "description": "Search flights between two airports",
        "parameters": {
            "type": "object",
            "properties": {
                "origin": {"type": "string", "description": "IATA airport code"},
                "destination": {"type": "string", "description": "IATA airport code"},
                "date": {"type": "string", "description": "YYYY-MM-DD"},
                "passengers": {"type": "integer", "description": "How many passengers"},
            },
            "required": ["origin", "destination", "date", "passengers"],
        },
    },
}
TOOLS = [WEATHER, FLIGHTS]
ASK_WEATHER = {"role": "user", "content": "What is the weather in Paris right now?"}
ASK_FLIGHTS = {"role": "user", "content": "Find flights from JFK to LHR on 2026-12-20 for 2 passengers."}
ASK_DEGREES = {"role": "user", "content": "So how many degrees is it? Answer in a normal sentence, without JSON."}
"""What a model of this size must be told to use a result; a somewhat larger one does so by itself."""
ASK_CAPITAL = {"role": "user", "content": "What is the capital of France? Answer in one short sentence."}


def body(message: dict[str, Any] = ASK_WEATHER, **fields: Any) -> dict[str, Any]:
    """A request with tools, as clients that offer tools send it."""
    offer = {"tools": TOOLS, "tool_choice": "auto"}
    return {"model": NAME, "messages": [message], "temperature": 0, "max_tokens": 120, **offer, **fields}


def without_tools(model: str, **fields: Any) -> dict[str, Any]:
    return {"model": model, "messages": [ASK_CAPITAL], "temperature": 0, "max_tokens": 30, **fields}


def complete(client: openai.OpenAI, request: dict[str, Any]) -> ChatCompletion:
    completion = client.chat.completions.create(**request)
    assert isinstance(completion, ChatCompletion)
    return completion


def accumulate(client: openai.OpenAI, request: dict[str, Any]) -> Any:
    """A stream through the client's own accumulator, which raises on illegal deltas."""
    with client.chat.completions.stream(**request) as stream:
        for _ in stream:
            pass
        return stream.get_final_completion()


def calls_of(completion: Any) -> list[tuple[str, Any]]:
    calls = completion.choices[0].message.tool_calls or []
    return [(call.function.name, json.loads(call.function.arguments)) for call in calls]


class TestWithoutTheGateway:
    def test_this_server_refuses_tools(self, vllm: VLLM) -> None:
        reply = httpx.post(vllm.url + CHAT, json=body(model=MODEL))
        assert reply.status_code == 400
        assert "--enable-auto-tool-choice" in reply.json()["error"]["message"]


class TestCalls:
    def test_a_call(self, gateway: Gateway) -> None:
        completion = complete(gateway.openai, body())
        assert completion.choices[0].finish_reason == "tool_calls"
        assert completion.choices[0].message.content is None
        assert calls_of(completion) == [("get_weather", {"city": "Paris"})]

    def test_a_streamed_call(self, gateway: Gateway) -> None:
        completion = accumulate(gateway.openai, body())
        assert completion.choices[0].finish_reason == "tool_calls"
        assert completion.choices[0].message.content is None
        assert calls_of(completion) == [("get_weather", {"city": "Paris"})]

    @pytest.mark.parametrize("read", [complete, accumulate], ids=["unary", "streamed"])
    def test_arguments_of_several_types(self, gateway: Gateway, read: Any) -> None:
        completion = read(gateway.openai, body(ASK_FLIGHTS))
        arguments = {"origin": "JFK", "destination": "LHR", "date": "2026-12-20", "passengers": 2}
        assert calls_of(completion) == [("search_flights", arguments)]

    def test_arguments_arrive_while_the_model_still_writes(self, gateway: Gateway) -> None:
        """Streamed argument by argument, not in one piece at the end."""
        pieces = [
            call.function.arguments
            for chunk in gateway.openai.chat.completions.create(**body(ASK_FLIGHTS, stream=True))
            for choice in chunk.choices
            for call in choice.delta.tool_calls or []
        ]
        assert len([piece for piece in pieces if piece]) > 5


class TestConversation:
    @pytest.mark.parametrize("read", [complete, accumulate], ids=["unary", "streamed"])
    def test_the_answer_uses_the_result_of_the_call(self, gateway: Gateway, read: Any) -> None:
        messages: list[Any] = [ASK_WEATHER]
        message = read(gateway.openai, body(messages=messages)).choices[0].message
        (call,) = message.tool_calls
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call.model_dump(include={"id", "type", "function"})]},
            {"role": "tool", "tool_call_id": call.id, "content": '{"temperature_celsius": 18, "sky": "light rain"}'},
        ]
        answer = read(gateway.openai, body(messages=[*messages, ASK_DEGREES])).choices[0]
        assert answer.finish_reason == "stop"
        assert not answer.message.tool_calls
        assert "18" in answer.message.content

    def test_a_request_that_needs_no_tool_is_answered_in_words(self, gateway: Gateway) -> None:
        completion = complete(gateway.openai, body({"role": "user", "content": "Hi! How are you today?"}))
        assert completion.choices[0].finish_reason == "stop"
        assert calls_of(completion) == []
        assert completion.choices[0].message.content


class TestUsage:
    """Usage equals what vLLM itself counted, by its own metrics."""

    def test_of_a_call(self, gateway: Gateway) -> None:
        with counted(gateway.vllm) as usage:
            usage(complete(gateway.openai, body()).usage)

    def test_of_a_streamed_call(self, gateway: Gateway) -> None:
        with counted(gateway.vllm) as usage:
            usage(accumulate(gateway.openai, body(stream_options={"include_usage": True})).usage)

    def test_is_not_shown_in_a_stream_that_did_not_ask(self, gateway: Gateway) -> None:
        chunks = list(gateway.openai.chat.completions.create(**body(stream=True)))
        assert [chunk.usage for chunk in chunks if chunk.usage] == []
        assert all(chunk.choices for chunk in chunks)


class TestErrors:
    @pytest.mark.parametrize("stream", [False, True], ids=["unary", "streamed"])
    def test_a_prompt_that_is_too_long_is_refused_in_the_words_of_vllm(self, gateway: Gateway, stream: bool) -> None:
        request = body({"role": "user", "content": "word " * (MAX_MODEL_LENGTH + 100)}, stream=stream)
        with pytest.raises(openai.BadRequestError) as raised:
            gateway.openai.chat.completions.create(**request)
        error: Any = raised.value.body
        assert error["message"].startswith(f"This model's maximum context length is {MAX_MODEL_LENGTH} tokens.")
        assert error["param"] == "input_tokens"
        assert raised.value.response.headers["content-type"] == "application/json"


class TestWithoutTools:
    """A request without tools gets what vLLM says, as if nothing were between."""

    def test_unary(self, gateway: Gateway) -> None:
        through = complete(gateway.openai, without_tools(NAME))
        direct = complete(gateway.direct, without_tools(MODEL))
        assert through.choices == direct.choices
        assert through.usage == direct.usage

    def test_streamed(self, gateway: Gateway) -> None:
        through = httpx.post(gateway.url + CHAT, json=without_tools(NAME, stream=True), timeout=300)
        direct = httpx.post(gateway.vllm.url + CHAT, json=without_tools(MODEL, stream=True), timeout=300)
        assert events(through) == events(direct)
        assert through.headers["content-type"] == direct.headers["content-type"]


def events(reply: httpx.Response) -> list[Any]:
    """The events of a stream, but for what differs from one request to the next, and for how its text is cut: what a
    busy vLLM couldn't send in time it sends with the next token."""
    *chunks, done = (line.removeprefix("data: ") for line in reply.text.split("\n\n") if line)
    assert done == "[DONE]"
    joined: list[Any] = []
    for chunk in ({**json.loads(chunk), "id": "", "created": 0} for chunk in chunks):
        if joined and _without_text(joined[-1]) == _without_text(chunk):
            joined[-1]["choices"][0]["delta"]["content"] += chunk["choices"][0]["delta"]["content"]
        else:
            joined.append(chunk)
    return joined


def _without_text(chunk: Any) -> Any:
    """Of a chunk that is nothing but text; of any other something that is equal to nothing."""
    match chunk["choices"]:
        case [{"delta": {"content": str(), **others}, "finish_reason": None, **more}]:
            return {**chunk, "choices": [{**more, "delta": others}]}
    return object()


@contextmanager
def counted(vllm: VLLM) -> Iterator[Any]:
    """Gives a function that takes a usage; at the end it is compared with what vLLM counted in the block."""
    shown: list[Any] = []
    before = _counters(vllm)
    yield shown.append
    (usage,) = shown
    expected = (usage.prompt_tokens, usage.completion_tokens)
    assert min(expected) > 0
    deadline = time.monotonic() + 10  # vLLM counts just after it has answered.
    while (spent := tuple(map(int.__sub__, _counters(vllm), before))) != expected and time.monotonic() < deadline:
        time.sleep(0.1)
    assert spent == expected
    assert usage.total_tokens == sum(expected)


def _counters(vllm: VLLM) -> tuple[int, int]:
    return vllm.count("vllm:prompt_tokens_total"), vllm.count("vllm:generation_tokens_total")
