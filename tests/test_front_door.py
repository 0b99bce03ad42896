"""The main job, as clients see it: the official OpenAI client, the real Envoy, the real processor.

Only the GPU is played: the scripted vLLM says what a real one says, byte for byte.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import orjson
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionToolParam

from extproc.exchange.api_keys import hash_line
from scripted_vllm import (
    Comments,
    Cut,
    ErrorBody,
    ErrorEvent,
    Fail,
    Garbage,
    Gzip,
    NoDone,
    Nonsense,
    Refuse,
    Reply,
    Usage,
)
from tests.gateway import MODEL, AskedVLLM, Gateway, running_gateway
from tests.sample_rows import mostly_long
from tests.test_toolcalls import SAMPLES

CHAT = "/v1/chat/completions"
WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather in a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
ASK = {"role": "user", "content": "What is the weather in Zürich?"}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich"}}\n</tool_call>'


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "coder", "messages": [ASK], "tools": [WEATHER], **fields}


def complete(gateway: Gateway, **fields: Any) -> ChatCompletion:
    completion = gateway.openai.chat.completions.create(**body(**fields))
    assert isinstance(completion, ChatCompletion)
    return completion


def accumulate(gateway: Gateway, **fields: Any) -> Any:
    """A stream through the client's own accumulator, which raises on illegal deltas."""
    with gateway.openai.chat.completions.stream(**body(**fields)) as stream:
        for _ in stream:
            pass
        return stream.get_final_completion()


def calls_of(completion: Any, choice: int = 0) -> list[tuple[str, Any]]:
    calls = completion.choices[choice].message.tool_calls or []
    return [(call.function.name, json.loads(call.function.arguments)) for call in calls]


class TestMainJob:
    def test_without_the_gateway_the_same_request_fails(self, gateway: Gateway) -> None:
        reply = httpx.post(f"{gateway.backend.url}{CHAT}", json=body(model=MODEL))
        assert reply.status_code == 400
        assert "--enable-auto-tool-choice" in reply.text

    def test_a_call(self, gateway: Gateway) -> None:
        gateway.backend.play(Reply(CALL, usage=Usage(100, 20)))
        completion = complete(gateway)
        choice = completion.choices[0]
        assert choice.finish_reason == "tool_calls"
        assert choice.message.content is None
        assert choice.message.role == "assistant"
        assert calls_of(completion) == [("get_weather", {"city": "Zürich"})]
        assert completion.usage is not None
        assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (100, 20)

    def test_a_streamed_call(self, gateway: Gateway) -> None:
        gateway.backend.play(Reply(f"I look.\n{CALL}\n{CALL}"))
        completion = accumulate(gateway)
        assert completion.choices[0].finish_reason == "tool_calls"
        assert completion.choices[0].message.content == "I look."
        assert calls_of(completion) == [("get_weather", {"city": "Zürich"})] * 2
        ids = {call.id for call in completion.choices[0].message.tool_calls}
        assert len(ids) == 2
        assert completion.usage is None

    def test_a_whole_conversation_with_a_small_model(self, gateway: Gateway) -> None:
        messages: list[Any] = [ASK]
        message = complete(gateway, messages=messages).choices[0].message
        assert message.tool_calls
        messages += [
            message.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "18 degrees and sunny"},
        ]
        answer = complete(gateway, messages=messages).choices[0]
        assert answer.finish_reason == "stop"
        assert answer.message.tool_calls is None
        assert "18 degrees" in (answer.message.content or "")

    def test_usage_is_shown_to_whoever_asked(self, gateway: Gateway) -> None:
        gateway.backend.play(Reply(CALL, usage=Usage(100, 20)))
        completion = accumulate(gateway, stream_options={"include_usage": True})
        assert completion.usage.total_tokens == 120
        assert calls_of(completion) == [("get_weather", {"city": "Zürich"})]

    def test_the_first_argument_pieces_arrive_while_the_model_still_writes(self, gateway: Gateway) -> None:
        start = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "'
        gateway.backend.play(Reply(pieces=[start, *["x"] * 200, '"}}\n</tool_call>']))
        with gateway.http.stream("POST", CHAT, json=body(stream=True)) as reply:
            deltas = [line for line in reply.iter_lines() if '"arguments":"x"' in line]
        assert len(deltas) == 200

    def test_tool_choice_none_gives_text(self, gateway: Gateway) -> None:
        completion = complete(gateway, tool_choice="none")
        assert completion.choices[0].finish_reason == "stop"
        assert completion.choices[0].message.tool_calls is None

    def test_a_slash_behind_the_path_does_no_harm(self, gateway: Gateway) -> None:
        gateway.backend.play(Reply(CALL))
        reply = gateway.http.post(f"{CHAT}/?x=1", json=body())
        assert reply.json()["choices"][0]["finish_reason"] == "tool_calls"
        assert gateway.backend.requests[-1].path == f"{CHAT}?x=1"

    def test_several_choices(self, gateway: Gateway) -> None:
        gateway.backend.play(Reply(CALL), Reply("No need."))
        completion = complete(gateway, n=2)
        assert calls_of(completion, 0) == [("get_weather", {"city": "Zürich"})]
        assert completion.choices[1].message.content == "No need."

    def test_an_answer_that_was_cut_off_says_so(self, gateway: Gateway) -> None:
        gateway.backend.play(Reply(CALL[:-30], finish_reason="length"))
        completion = complete(gateway)
        assert completion.choices[0].finish_reason == "length"

    def test_many_clients_at_once_get_their_own_answers(self, gateway: Gateway) -> None:
        cities = [f"City{number}" for number in range(40)]

        def ask(city: str) -> Any:
            message = {"role": "user", "content": f"What is the weather in {city}?"}
            return calls_of(accumulate(gateway, messages=[message]))

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(ask, cities))
        assert answers == [[("get_weather", {"city": city})] for city in cities]


# What a model says to the prompt of prompt mode.
SAID = [sample for sample in SAMPLES if sample["format"] in ("hermes", "json")]


@pytest.mark.parametrize("sample", mostly_long(SAID))
def test_every_sample_streams_right_at_every_size(gateway: Gateway, sample: dict[str, Any]) -> None:
    expected = [(call["name"], call["arguments"]) for call in sample["calls"]]
    for pieces, wire_cut in ((1, None), (2, 1), (3, 7), (7, 50), (len(sample["text"]), None)):
        gateway.backend.play(Reply(sample["text"], pieces=pieces, wire_cut=wire_cut))
        completion = accumulate(gateway, tools=sample["tools"])
        assert calls_of(completion) == expected
        assert (completion.choices[0].message.content or "").strip() == (sample["content"] or "").strip()
        assert completion.choices[0].finish_reason == ("tool_calls" if expected else "stop")
    gateway.backend.play(Reply(sample["text"]))
    assert calls_of(complete(gateway, tools=sample["tools"])) == expected


class TestPassThrough:
    def test_a_chat_completion_is_one_however_its_slashes_are_spelled(self, gateway: Gateway) -> None:
        wrong = {"model": "coder", "messages": []}
        reply = gateway.http.post("/v1%2Fchat%2Fcompletions", json=wrong)
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, "messages")
        assert gateway.backend.requests == []

    def test_a_stream_without_tools_is_exactly_the_backends(self, gateway: Gateway) -> None:
        request = {"model": MODEL, "messages": [ASK], "stream": True, "chat_template_kwargs": {"kept": [1, 2.50]}}
        content = json.dumps(request, indent=1).encode()
        before = gateway.stat("ext_proc.stream_msgs_sent")
        text = "Grüezi, the weather is fine. " * 40
        gateway.backend.play(Reply(text), Reply(text))
        direct = httpx.post(f"{gateway.backend.url}{CHAT}", content=content)
        through = gateway.http.post(CHAT, content=content, headers={"content-type": "application/json"})
        assert gateway.backend.requests[-1].body == content
        assert same_but_for_ids(through.content) == same_but_for_ids(direct.content)
        assert through.headers["content-type"] == direct.headers["content-type"]
        # Request headers, request body, response headers: the processor saw no byte of the answer.
        assert gateway.stat("ext_proc.stream_msgs_sent") - before == 3

    def test_with_tools_the_processor_does_see_the_answer(self, gateway: Gateway) -> None:
        before = gateway.stat("ext_proc.stream_msgs_sent")
        gateway.backend.play(Reply("Fine."))
        complete(gateway)
        assert gateway.stat("ext_proc.stream_msgs_sent") - before == 4

    def test_another_path_goes_to_the_backend_of_the_model_that_it_names(self, gateway: Gateway) -> None:
        messages = gateway.stat("ext_proc.stream_msgs_sent")
        content = b'{"prompt": "Hello!",  "model" : "coder", "seed": 18446744073709551616, "x": 1e400}'
        gateway.backend.play(Reply("Fine."))
        through = gateway.http.post("/v1/completions", content=content, headers={"x-request-id": "named-1"})
        assert (through.status_code, through.json()["choices"][0]["text"]) == (200, "Fine.")
        (received,) = gateway.backend.requests
        assert received.body == content.replace(b'"coder"', f'"{MODEL}"'.encode())
        # Request headers and request body: the processor saw nothing of the answer, which may as well be a stream.
        assert gateway.stat("ext_proc.stream_msgs_sent") - messages == 2
        assert gateway.access_log("named-1")["extproc"] == {"model": "coder", "backend": "qwen"}
        elsewhere = gateway.http.post("/v1/embeddings", json={"model": "absent", "input": "Hello!"})
        assert (elsewhere.status_code, error_of(elsewhere)["code"]) == (503, "backend_unreachable")
        assert len(gateway.backend.requests) == 1

    def test_a_large_request_and_a_form_are_routed_by_their_model_too(self, gateway: Gateway) -> None:
        large = json.dumps({"input": ["[word \\" * 10] * 40_000, "model": "coder"}).encode()
        assert gateway.http.post("/detokenize", content=large).status_code == 404  # which the backend doesn't know
        audio = bytes(range(256)) * 2000
        fields, files = {"model": "coder", "language": "de"}, {"file": ("a.wav", audio, "audio/wav")}
        gateway.http.post("/v1/audio/transcriptions", data=fields, files=files)
        tokenized, transcribed = gateway.backend.requests
        assert tokenized.body == large.replace(b'"coder"', f'"{MODEL}"'.encode())
        assert transcribed.route == "/v1/audio/transcriptions"
        assert b'name="model"\r\n\r\n' + MODEL.encode() + b"\r\n" in transcribed.body
        assert audio in transcribed.body

    def test_a_model_that_is_not_there_is_not_found_on_any_path(self, gateway: Gateway) -> None:
        for path in ("/v1/embeddings", "/v1/rerank", "/v2/rerank", "/score", "/detokenize", "/v1/images/generations"):
            reply = gateway.http.post(path, json={"model": "gpt-4", "input": "Hello!"})
            assert (reply.status_code, error_of(reply)["code"]) == (404, "model_not_found"), path
        reply = gateway.http.post("/v1/audio/transcriptions", data={"model": "whisper-1"}, files={"file": b"x"})
        assert (reply.status_code, error_of(reply)["code"]) == (404, "model_not_found")
        reply = gateway.http.post("/v1/embeddings", json={"input": "Hello!"})
        assert (reply.status_code, error_of(reply)["code"]) == (400, "missing_required_parameter")
        assert gateway.backend.requests == []

    def test_a_base_url_without_its_version_will_do(self, gateway: Gateway) -> None:
        gateway.backend.play(Reply(CALL), Reply("Fine."))
        chat = gateway.http.post("/chat/completions", json=body())
        assert chat.json()["choices"][0]["finish_reason"] == "tool_calls"
        assert gateway.http.post("/completions?x=1", json={"model": "coder", "prompt": "Hi"}).status_code == 200
        assert [request.path for request in gateway.backend.requests] == [CHAT, "/v1/completions?x=1"]
        assert gateway.http.get("/models").json() == gateway.http.get("/v1/models").json()
        assert gateway.http.get("/models/coder").json()["id"] == "coder"

    def test_what_asks_without_a_body_is_answered(self, gateway: Gateway) -> None:
        assert gateway.http.get("/health").json() == {"status": "ok"}
        for path in ("/health", "/v1/models", "/v1/models/coder", "/models"):
            listed, head = gateway.http.get(path), gateway.http.head(path)
            assert (head.status_code, head.content) == (200, b"")
            assert head.headers["content-length"] == listed.headers["content-length"]
        for path, allowed in (
            ("/health", "GET, HEAD, OPTIONS"),
            (CHAT, "POST, OPTIONS"),
            ("/models", "GET, HEAD, OPTIONS"),
        ):
            reply = gateway.http.options(path)
            assert (reply.status_code, reply.headers["allow"], reply.content) == (204, allowed, b"")
        refused = gateway.http.post("/health", json={})
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")
        assert gateway.backend.requests == []

    @pytest.mark.parametrize("path", ["/healthz", "/v1/load_lora_adapter", "/v1/../sleep", "/v1%2F%2E%2E%2Fpause"])
    def test_an_unknown_path_reaches_nobody(self, gateway: Gateway, path: str) -> None:
        before = gateway.stat("ext_proc.streams_started")
        reply = gateway.http.post(path, json={})
        assert (reply.status_code, error_of(reply)["code"]) == (404, "unknown_path")
        assert gateway.stat("ext_proc.streams_started") == before
        assert gateway.backend.requests == []

    def test_keys_are_asked_for_where_there_is_something_to_ask(self, tmp_path: Path) -> None:
        (tmp_path / "keys").write_text(hash_line("alice", "a-key-that-is-long-enough"))
        settings = f"api_keys: {tmp_path / 'keys'}\nother_paths: [/version]"
        alice = {"authorization": "Bearer a-key-that-is-long-enough"}
        with AskedVLLM(model=MODEL).running() as backend, running_gateway(tmp_path, backend, settings) as gateway:
            for headers in ({}, {"authorization": "Bearer another"}):
                answers = [gateway.http.get(path, headers=headers).status_code for path in ("/version", "/load", CHAT)]
                assert answers == [401, 404, 405]
                assert gateway.http.get("/health", headers=headers).status_code == 200
                assert gateway.http.post("/version", json={"model": MODEL}, headers=headers).status_code == 401
            assert backend.requests == []
            answers = [gateway.http.get(path, headers=alice).status_code for path in ("/version", "/load", CHAT)]
            assert answers == [200, 404, 405]
            gateway.http.post("/version", json={"model": "coder"}, headers=alice)
            assert [request.route for request in backend.requests] == ["/version"] * 2
            assert backend.requests[-1].json == {"model": MODEL}
            assert backend.requests[-1].header("authorization") is None

    def test_a_backend_is_never_asked_for_compression_and_sees_no_internal_header(self, gateway: Gateway) -> None:
        complete(gateway, extra_headers={"accept-encoding": "gzip, br", "x-extproc-backend": "absent"})
        (received,) = gateway.backend.requests
        assert received.header("accept-encoding") is None
        assert received.header("x-extproc-backend") is None

    def test_the_access_log_tells_models_tokens_and_latency_but_nothing_that_was_said(self, gateway: Gateway) -> None:
        gateway.backend.play(Reply(CALL, usage=Usage(100, 20)))
        reply = gateway.http.post(CHAT, json=body(stream=True), headers={"x-request-id": "log-1"})
        assert reply.headers["x-request-id"] == "log-1"
        entry = gateway.access_log("log-1")
        assert entry["extproc"] == {
            "model": "coder",
            "backend": "qwen",
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "total_tokens": 120,
            "mode": "prompt",
            "format": "hermes",
            "dialect": "chat",
            "stream": True,
            "rewritten": True,
            "calls": 1,
            "finish_reason": "tool_calls",
            "ended": True,
        }
        assert entry["extproc_latency"].startswith("rh:")
        assert "Zürich" not in json.dumps(entry, ensure_ascii=False)


def same_but_for_ids(stream: bytes) -> list[Any]:
    """The stream's raw events, without the two values that differ from one answer to the next."""
    events = []
    for event in stream.split(b"\n\n"):
        if event.startswith(b"data: {"):
            chunk = orjson.loads(event[6:])
            for value in (chunk["id"], str(chunk["created"])):
                event = event.replace(value.encode(), b"-")
        events.append(event)
    return events


def error_of(reply: httpx.Response) -> dict[str, Any]:
    assert reply.headers["content-type"] == "application/json"
    value = reply.json()
    assert set(value) == {"error"}
    assert set(value["error"]) == {"message", "type", "param", "code"}
    return dict(value["error"])


class TestErrors:
    @pytest.mark.parametrize(
        ("content", "status", "code", "param"),
        [
            (b"{", 400, "invalid_json", None),
            (b"", 400, "invalid_json", None),
            (b'{"messages": []}', 400, "missing_required_parameter", "model"),
            (b'{"model": "coder"}', 400, "missing_required_parameter", "messages"),
            (b'{"model": "x", "messages": [{"role": "user", "content": ""}]}', 404, "model_not_found", "model"),
        ],
    )
    def test_a_bad_request(self, gateway: Gateway, content: bytes, status: int, code: str, param: str | None) -> None:
        reply = gateway.http.post(CHAT, content=content)
        error = error_of(reply)
        assert (reply.status_code, error["code"], error["param"]) == (status, code, param)
        assert not gateway.backend.requests

    def test_an_unknown_model_is_told_the_known_ones(self, gateway: Gateway) -> None:
        with pytest.raises(openai.NotFoundError, match=f"Available models: absent, coder, {MODEL}"):
            complete(gateway, model="gpt-4")

    def test_a_body_that_is_too_large(self, gateway: Gateway) -> None:
        reply = gateway.http.post(CHAT, content=b" " * (33 * 1024 * 1024))
        assert reply.status_code == 413
        assert "33554432 bytes" in error_of(reply)["message"]

    def test_a_backend_that_is_not_there(self, gateway: Gateway) -> None:
        reply = gateway.http.post(CHAT, json=body(model="absent"))
        assert reply.status_code == 503
        error = error_of(reply)
        assert error["type"] == "server_error"
        assert "'absent'" in error["message"]

    @pytest.mark.parametrize("kind", [ErrorBody.VLLM, ErrorBody.PLAIN, ErrorBody.HTML])
    @pytest.mark.parametrize("status", [400, 429, 500, 502])
    def test_a_backends_own_error_keeps_its_status(self, gateway: Gateway, status: int, kind: ErrorBody) -> None:
        for stream in (False, True):
            gateway.backend.play(Reply(trouble=Fail(status, body=kind, retry_after=7)))
            reply = gateway.http.post(CHAT, json=body(stream=stream))
            assert reply.status_code == status
            assert reply.headers["retry-after"] == "7"
            error = error_of(reply)
            assert "<html>" not in error["message"]
            assert isinstance(error["code"], str | None)

    @pytest.mark.parametrize("kind", list(ErrorBody))
    @pytest.mark.parametrize("status", [401, 403])
    def test_a_backend_that_refuses_our_key_is_no_fault_of_the_clients(
        self, gateway: Gateway, status: int, kind: ErrorBody
    ) -> None:
        for fields in ({}, {"stream": True}, {"tools": None}, {"tools": None, "stream": True}):
            gateway.backend.play(Reply(trouble=Fail(status, body=kind)))
            reply = gateway.http.post(CHAT, json=body(**fields), headers={"authorization": "Bearer sk-client"})
            assert reply.status_code == 502
            error = error_of(reply)
            assert (error["type"], error["code"]) == ("server_error", "backend_key_refused")
            assert f"({status} " in error["message"]
            assert "api_key in the settings of that backend" in error["message"]
            assert "sk-client" not in reply.text

    def test_nor_is_it_inside_a_stream(self, gateway: Gateway) -> None:
        words = "Incorrect API key provided: sk-gateway"
        gateway.backend.play(Reply(CALL, trouble=ErrorEvent(after=3, status=401, message=words)))
        with pytest.raises(openai.APIError, match="api_key in the settings") as error:
            accumulate(gateway)
        assert error.value.code == "backend_key_refused"
        assert "sk-gateway" not in str(error.value.body)

    def test_a_prompt_that_is_too_long_stays_recognisable(self, gateway: Gateway) -> None:
        messages = [{"role": "user", "content": "word " * 10_000}]
        with pytest.raises(openai.BadRequestError, match="maximum context length is 4096 tokens") as error:
            complete(gateway, messages=messages)
        assert error.value.code == "context_length_exceeded"
        assert error.value.param == "input_tokens"

    def test_a_connection_that_closes_without_an_answer(self, gateway: Gateway) -> None:
        gateway.backend.play(*[Reply(trouble=Refuse())] * 10)
        reply = gateway.http.post(CHAT, json=body())
        assert reply.status_code in (502, 503)
        error_of(reply)

    @pytest.mark.parametrize("what", list(Nonsense))
    def test_nonsense_is_a_502(self, gateway: Gateway, what: Nonsense) -> None:
        gateway.backend.play(Reply(CALL, trouble=Garbage(what)))
        reply = gateway.http.post(CHAT, json=body())
        assert reply.status_code == 502
        assert error_of(reply)["code"] == "bad_gateway"

    def test_nonsense_inside_a_stream_is_an_error_event(self, gateway: Gateway) -> None:
        gateway.backend.play(Reply(CALL, trouble=Garbage(Nonsense.BROKEN_JSON, after=3)))
        with pytest.raises(openai.APIError, match="can't be read"):
            accumulate(gateway)

    def test_an_error_event_of_the_backends_reaches_the_client(self, gateway: Gateway) -> None:
        gateway.backend.play(Reply(CALL, trouble=ErrorEvent(after=3, message="CUDA out of memory")))
        with pytest.raises(openai.APIError, match="answered 500 Internal Server Error"):
            accumulate(gateway)

    def test_a_stream_that_is_cut_is_never_a_truncated_success(self, gateway: Gateway) -> None:
        gateway.backend.play(Reply(CALL, trouble=Cut(after=5)))
        with pytest.raises((httpx.TransportError, openai.APIError)):
            accumulate(gateway)

    @pytest.mark.parametrize("trouble", [Gzip(), NoDone(), Comments()])
    def test_oddities_do_no_harm(self, gateway: Gateway, trouble: Any) -> None:
        gateway.backend.play(Reply(CALL, trouble=trouble))
        completion = accumulate(gateway)
        assert calls_of(completion) == [("get_weather", {"city": "Zürich"})]
        assert completion.choices[0].finish_reason == "tool_calls"
