"""The scripted vLLM with a tool parser shows calls as a real one was recorded to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from scripted_vllm import Cut, Reply, ScriptedVLLM, Usage
from scripted_vllm.checks import ChatRequest
from tests.scripted_wire import CHAT

RECORDINGS = Path(__file__).parent / "recordings" / "native"
PARIS = ("get_weather", '{"city": "Paris", "unit": "celsius"}')
REQUEST = {
    "model": "qwen2.5-coder-0.5b",
    "messages": [{"role": "user", "content": "Weather in Paris?"}],
    "tools": [{"type": "function", "function": {"name": "get_weather"}}],
}


@pytest.fixture
def vllm() -> Iterator[ScriptedVLLM]:
    with ScriptedVLLM(tool_parser=True).running() as server:
        yield server


def answer(vllm: ScriptedVLLM, **fields: Any) -> httpx.Response:
    return httpx.post(vllm.url + CHAT, json={**REQUEST, **fields})


def masked(body: bytes) -> bytes:
    """Without what differs from answer to answer."""
    return re.sub(rb'(chatcmpl-(tool-)?|"created":)[0-9a-f]{10,16}', rb"\g<1>0", body)


def recorded(name: str) -> bytes:
    return masked((RECORDINGS / f"{name}.body.txt").read_bytes())


def test_an_answer_in_one_piece_byte_for_byte(vllm: ScriptedVLLM) -> None:
    vllm.play(Reply(calls=[PARIS], usage=Usage(256, 32)))
    assert masked(answer(vllm).content) == recorded("tools_required")


def test_a_stream_but_for_where_the_tokens_end(vllm: ScriptedVLLM) -> None:
    vllm.play(Reply(calls=[PARIS]))
    ours = masked(answer(vllm, stream=True).content).split(b"\n\n")
    theirs = recorded("tools_required_stream").split(b"\n\n")
    assert (ours[:2], ours[-3:]) == (theirs[:2], theirs[-3:])
    assert arguments(ours[2:-3]) == arguments(theirs[2:-3]) == PARIS[1]
    assert ours[2] == theirs[2]


def arguments(pieces: list[bytes]) -> str:
    """What these events say of the arguments of their only call."""
    deltas = [json.loads(piece.removeprefix(b"data: "))["choices"][0]["delta"] for piece in pieces]
    return "".join(delta["tool_calls"][0]["function"].get("arguments", "") for delta in deltas)


def test_text_and_several_calls(vllm: ScriptedVLLM) -> None:
    rome = ("get_weather", '{"city": "Rome"}')
    vllm.play(Reply("I look.", calls=[PARIS, rome]), Reply("I look.", calls=[PARIS, rome]))
    whole = answer(vllm).json()
    assert whole["choices"][0]["message"]["content"] == "I look."
    found: list[dict[str, Any]] = []
    streamed = answer(vllm, stream=True, stream_options={"include_usage": True})
    chunks = [json.loads(line[6:]) for line in streamed.text.splitlines() if line.startswith("data: {")]
    for chunk in chunks:
        for choice in chunk["choices"]:
            for call in choice["delta"].get("tool_calls", ()):
                if call["index"] == len(found):
                    found.append({"name": call["function"]["name"], "arguments": ""})
                found[call["index"]]["arguments"] += call["function"].get("arguments", "")
    assert found == [call["function"] for call in whole["choices"][0]["message"]["tool_calls"]]
    assert len(found) == 2
    assert chunks[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]


def test_a_call_that_no_token_is_left_for_is_not_made(vllm: ScriptedVLLM) -> None:
    vllm.play(Reply("I look at it.", calls=[PARIS]))
    (choice,) = answer(vllm, max_tokens=2).json()["choices"]
    assert (choice["finish_reason"], "tool_calls" in choice["message"]) == ("length", False)


def test_trouble_counts_the_pieces_of_calls_too(vllm: ScriptedVLLM) -> None:
    vllm.play(Reply(calls=[PARIS], trouble=Cut(after=2)))
    seen: list[bytes] = []
    with (
        httpx.stream("POST", vllm.url + CHAT, json={**REQUEST, "stream": True}) as response,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        seen.extend(response.iter_raw())
    assert arguments(b"".join(seen).split(b"\n\n")[1:-1]) == '{"'


def test_a_model_of_ones_own_answers_what_nothing_is_queued_for() -> None:
    def speak(request: ChatRequest) -> Reply:
        return Reply(f"You offer {len(request.tools)} tools.")

    with ScriptedVLLM(tool_parser=True, speak=speak).running() as vllm:
        vllm.play(Reply("First."))
        said = [answer(vllm).json()["choices"][0]["message"]["content"] for _ in range(2)]
    assert said == ["First.", "You offer 1 tools."]
