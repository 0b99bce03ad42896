"""The scripted vLLM says what a real vLLM said, and says it as its script has it."""

from __future__ import annotations

import gc
import http.client
import json
import re
import socket
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from scripted_vllm import Reply, ScriptedVLLM, Usage
from tests.scripted_wire import CHAT, HELLO, STREAM, TEXT, events, exchange, http_chunks, pieces, post

RECORDINGS = Path(__file__).parent / "recordings" / "plain"


@pytest.fixture
def vllm() -> Iterator[ScriptedVLLM]:
    with ScriptedVLLM().running() as server:
        yield server


@pytest.fixture
def client(vllm: ScriptedVLLM) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=vllm.url, timeout=20) as client:
        yield client


# What a real vLLM was recorded to say.


@dataclass(frozen=True)
class Recording:
    name: str

    def _bytes(self, part: str) -> bytes:
        return (RECORDINGS / f"{self.name}.{part}.txt").read_bytes()

    @property
    def request(self) -> tuple[str, str, bytes]:
        line, _, body = self._bytes("request").partition(b"\n")
        method, _, path = line.decode().partition(" ")
        return method, path, body.removesuffix(b"\n")

    @property
    def status_line(self) -> str:
        return self._bytes("headers").decode().partition("\r\n")[0]

    @property
    def headers(self) -> list[tuple[str, str]]:
        lines = self._bytes("headers").decode().rstrip().split("\r\n")[1:]
        return [(name, value) for name, _, value in (line.partition(": ") for line in lines)]

    @property
    def body(self) -> bytes:
        return self._bytes("body")

    def replies(self) -> list[Reply]:
        """What the model said and counted, one reply per choice; none where vLLM didn't ask the model."""
        if b"data: " in self.body:
            events = [json.loads(line[6:]) for line in self.body.splitlines() if line.startswith(b"data: {")]
            return _replies_of_stream(events)
        answer = json.loads(self.body or b"{}")
        usage = answer.get("usage")
        return [_reply_of_choice(choice, usage) for choice in answer.get("choices", ())]


def _reply_of_choice(choice: dict[str, Any], usage: dict[str, int]) -> Reply:
    text = choice["message"]["content"] if "message" in choice else choice["text"]
    if choice["stop_reason"]:
        text += f"{choice['stop_reason']}, and so on"
    return Reply(
        text,
        finish_reason=choice["finish_reason"],
        # Of several choices the recording tells only the sum.
        usage=Usage(usage["prompt_tokens"], 0 if choice["index"] else usage["completion_tokens"]),
        logprobs=(choice["logprobs"] or {}).get("content"),
    )


def _replies_of_stream(events: list[dict[str, Any]]) -> list[Reply]:
    usage = next((event["usage"] for event in reversed(events) if event.get("usage")), None)
    choices: dict[int, list[dict[str, Any]]] = {}
    for event in events:
        for choice in event["choices"]:
            choices.setdefault(choice["index"], []).append(choice)
    replies = []
    for deltas in choices.values():
        pieces = [delta["delta"]["content"] if "delta" in delta else delta["text"] for delta in deltas]
        last = deltas[-1]
        if last["stop_reason"]:
            pieces += [last["stop_reason"], ", and so on"]
        counted = usage or {"prompt_tokens": 0, "completion_tokens": len(pieces)}
        entries = [entry for delta in deltas if delta["logprobs"] for entry in delta["logprobs"]["content"]]
        replies.append(
            Reply(
                pieces=[piece for piece in pieces if piece],
                finish_reason=last["finish_reason"],
                usage=Usage(counted["prompt_tokens"], counted["completion_tokens"]),
                logprobs=entries or None,
            )
        )
    return replies


def comparable(body: bytes) -> bytes:
    """The body without what differs from one answer to the next: ids, times, and numbers of tokens in a vocabulary."""
    body = re.sub(rb'"id":"(chatcmpl|cmpl|modelperm)-[0-9a-f]{16}"', rb'"id":"\1-*"', body)
    body = re.sub(rb'"created":\d{10}', b'"created":*', body)
    return re.sub(rb'token_ids":\[\d+(,\d+)*\]', b'token_ids":[*]', body)


@pytest.mark.parametrize("name", sorted(path.name.split(".")[0] for path in RECORDINGS.glob("*.request.txt")))
def test_answers_as_a_real_vllm_was_recorded_to_answer(vllm: ScriptedVLLM, name: str) -> None:
    recording = Recording(name)
    vllm.play(*recording.replies())
    method, path, body = recording.request
    connection = http.client.HTTPConnection("127.0.0.1", vllm.port, timeout=20)
    try:
        connection.request(method, path, body, {"content-type": "application/json"})
        answer = connection.getresponse()
        received = answer.read()
    finally:
        connection.close()

    assert f"HTTP/1.1 {answer.status} {answer.reason}" == recording.status_line
    assert comparable(received) == comparable(recording.body)
    undated = [("date", "*") if header == "date" else (header, value) for header, value in answer.getheaders()]
    assert undated == [("date", "*"), *recording.headers[1:]]


@pytest.mark.parametrize("name", ["chat", "chat_n2", "chat_max_completion_tokens", "content_parts"])
def test_counts_the_tokens_of_plain_english_as_the_real_tokenizer_does(client: httpx.Client, name: str) -> None:
    recording = Recording(name)
    counted = client.post(CHAT, content=recording.request[2]).json()["usage"]["prompt_tokens"]
    assert counted == json.loads(recording.body)["usage"]["prompt_tokens"]


def test_metrics_have_the_form_of_the_real_ones(client: httpx.Client, vllm: ScriptedVLLM) -> None:
    vllm.play(Reply("Hi.", usage=Usage(30, 3)))
    client.post(CHAT, json=HELLO)
    page = client.get("/metrics")
    assert page.headers["content-type"] == "text/plain; version=1.0.0; charset=utf-8"
    assert 'vllm:prompt_tokens_total{engine="0",model_name="qwen2.5-coder-0.5b"} 30.0\n' in page.text
    assert 'vllm:num_requests_running{engine="0",model_name="qwen2.5-coder-0.5b"} 0.0\n' in page.text


def test_a_chat_model_serves_no_embeddings(client: httpx.Client) -> None:
    answer = client.post("/v1/embeddings", json={"input": "hello"})
    assert (answer.status_code, answer.json()) == (404, {"detail": "Not Found"})


def test_the_request_id_becomes_part_of_the_answers_id(client: httpx.Client) -> None:
    assert client.post(CHAT, json=HELLO, headers={"X-Request-Id": "abc"}).json()["id"] == "chatcmpl-abc"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": 4090}, "input_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"n": 2, "temperature": 0}, None),
        ({"n": 0}, "n"),
        ({"temperature": "hot"}, "body.temperature"),
        ({"stream": 3}, "body.stream"),
        ({"stop": ["a", 1]}, "body.stop.1"),
        ({"messages": ["hi"]}, "body.messages.0"),
        ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "body.messages.0.tool_calls.function"),
        ({"messages": [{"role": "user", "content": ["hi"]}]}, "body.messages.0.content"),
    ],
)
def test_refuses_what_it_cannot_serve(client: httpx.Client, fields: dict[str, Any], param: str | None) -> None:
    answer = client.post(CHAT, json={**HELLO, **fields})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


@pytest.mark.parametrize("body", [b"[1]", b"null", b"\xff\xfe{", b'"hi"'])
def test_refuses_bodies_that_are_no_json_object(client: httpx.Client, body: bytes) -> None:
    answer = client.post(CHAT, content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, 400)


# The script: what is said, and how it is cut.


def test_replies_are_taken_in_order_and_then_the_built_in_model_answers(
    client: httpx.Client, vllm: ScriptedVLLM
) -> None:
    vllm.play(Reply("one"), Reply("two"))
    said = [client.post(CHAT, json=HELLO).json()["choices"][0]["message"]["content"] for _ in range(3)]
    assert said == ["one", "two", "You said: hello"]


@pytest.mark.parametrize(
    ("fields", "thinks"),
    [
        ({}, True),
        ({"response_format": {"type": "text"}}, True),
        ({"response_format": {"type": "json_object"}}, False),
        ({"structured_outputs": {"json": {}}}, False),
        ({"chat_template_kwargs": {"enable_thinking": False}}, False),
    ],
)
def test_the_built_in_model_thinks_if_it_is_to_and_is_free_to(fields: dict[str, Any], thinks: bool) -> None:
    shown = {"role": "system", "content": '<tools>\n{"name": "add"}\n</tools>'}
    with ScriptedVLLM(think=True).running() as server:
        asked = {**HELLO, "messages": [shown, *HELLO["messages"]], **fields}
        said = httpx.post(server.url + CHAT, json=asked, timeout=20).json()["choices"][0]["message"]
    assert said["reasoning"] is None
    assert said["content"].startswith("<think>\n") is thinks
    assert said["content"].endswith("You said: hello")


def test_it_remembers_what_it_was_sent(client: httpx.Client, vllm: ScriptedVLLM) -> None:
    client.post(CHAT, json=HELLO, headers={"Authorization": "Bearer x"})
    client.get("/health?verbose=1")
    chat, health = vllm.requests
    assert (chat.method, chat.path, chat.json, chat.header("authorization")) == ("POST", CHAT, HELLO, "Bearer x")
    assert (health.method, health.path, health.route, health.body) == ("GET", "/health?verbose=1", "/health", b"")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_text_streams_in_pieces_of_any_size(client: httpx.Client, vllm: ScriptedVLLM, size: int) -> None:
    vllm.play(Reply(TEXT, pieces=size))
    assert pieces(client.post(CHAT, json=STREAM).content) == [TEXT[i : i + size] for i in range(0, len(TEXT), size)]


def test_a_text_streams_token_by_token_by_default(client: httpx.Client, vllm: ScriptedVLLM) -> None:
    vllm.play(Reply('{"name": "get_weather"}\n'))
    streamed = pieces(client.post(CHAT, json=STREAM).content)
    assert streamed == ['{"', "name", '":', ' "', "get", "_weather", '"}\n']


def test_max_tokens_ends_a_text(client: httpx.Client, vllm: ScriptedVLLM) -> None:
    vllm.play(Reply("one two three four"), Reply("one two three four"))
    body = {**STREAM, "max_tokens": 3, "stream_options": {"include_usage": True}}
    *_, last, usage = events(client.post(CHAT, json=body).content)
    assert last["choices"][0] | {"logprobs": 0} == {
        "index": 0,
        "delta": {"content": " three"},
        "logprobs": 0,
        "finish_reason": "length",
        "stop_reason": None,
        "token_ids": None,
    }
    assert usage["usage"]["completion_tokens"] == 3
    whole = client.post(CHAT, json={**HELLO, "max_tokens": 3}).json()
    assert whole["choices"][0]["message"]["content"] == "one two three"
    assert whole["choices"][0]["finish_reason"] == "length"


def test_continuous_usage_grows_to_the_final_count(client: httpx.Client, vllm: ScriptedVLLM) -> None:
    vllm.play(Reply("one two three four", pieces=6))
    options = {"include_usage": True, "continuous_usage_stats": True}
    stream = events(client.post(CHAT, json={**STREAM, "stream_options": options}).content)
    assert [event["usage"]["completion_tokens"] for event in stream] == [0, 2, 3, 4, 5, 5]


def test_an_empty_answer_has_a_role_and_an_end(client: httpx.Client, vllm: ScriptedVLLM) -> None:
    vllm.play(Reply(""))
    first, last = events(client.post(CHAT, json=STREAM).content)
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert last["choices"][0]["finish_reason"] == "stop"


def test_logprobs_are_made_up_when_none_are_given(client: httpx.Client, vllm: ScriptedVLLM) -> None:
    vllm.play(Reply("Hi you"))
    answer = client.post(CHAT, json={**HELLO, "logprobs": True, "top_logprobs": 1}).json()
    assert [entry["token"] for entry in answer["choices"][0]["logprobs"]["content"]] == ["Hi", " you", "<|im_end|>"]


def test_each_event_is_one_http_chunk(vllm: ScriptedVLLM) -> None:
    vllm.play(Reply(pieces=["a", "b"]))
    chunks = http_chunks(exchange(vllm, post(STREAM, "Connection: close")))
    assert len(chunks) == 5
    assert all(chunk.startswith(b"data: ") and chunk.endswith(b"\n\n") for chunk in chunks)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_the_bytes_of_a_stream_can_be_cut_anywhere(vllm: ScriptedVLLM, size: int) -> None:
    vllm.play(Reply(TEXT, wire_cut=size))
    chunks = http_chunks(exchange(vllm, post(STREAM, "Connection: close")))
    assert {len(chunk) for chunk in chunks[:-1]} == {size}
    assert "".join(pieces(b"".join(chunks))) == TEXT


def test_the_bytes_of_a_stream_can_be_cut_at_given_sizes(vllm: ScriptedVLLM) -> None:
    vllm.play(Reply(TEXT, wire_cut=[5, 100, 1]))
    chunks = http_chunks(exchange(vllm, post(STREAM, "Connection: close")))
    assert [len(chunk) for chunk in chunks[:3]] == [5, 100, 1]
    assert len(chunks) == 4
    assert "".join(pieces(b"".join(chunks))) == TEXT


@pytest.mark.parametrize("wrong", [{"pieces": 0}, {"text": "ab", "pieces": ["a"]}, {"wire_cut": 0}])
def test_an_impossible_reply_is_an_error_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"pieces|wire_cut"):
        Reply(**wrong)


def test_connections_that_are_just_being_made_are_closed_with_the_server() -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", ResourceWarning)
        for _ in range(20):
            backend = ScriptedVLLM()
            with backend.running():
                clients = [socket.create_connection(("127.0.0.1", backend.port)) for _ in range(5)]
            for client in clients:
                client.close()
        gc.collect()
    assert [str(each.message) for each in warned] == []
