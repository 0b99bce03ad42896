"""A backend that falls silent in the middle of a stream: the stream ends with an error, and the backend's work too."""

from __future__ import annotations

import os
import signal
import socketserver
from collections.abc import Iterator
from pathlib import Path

import httpx
import orjson
import pytest

from scripted_vllm import Reply
from scripted_vllm.troubles import Stall
from tests.gateway import MODEL, AskedVLLM, Gateway, configured_gateway, running_gateway, wait_until
from tests.serving_in_thread import serving_in_thread
from tests.test_answer import CALL, stream
from tests.test_exchange import EVENTS, WITH_TOOLS, asked, only, response_body, response_headers
from tests.test_request import CONFIG

TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
ASKED = {"model": "coder", "stream": True, "messages": [{"role": "user", "content": "Hello!"}]}


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    backend = AskedVLLM(model=MODEL)
    folder = tmp_path_factory.mktemp("gateway")
    with backend.running(), running_gateway(folder, backend, "limits: {silence_seconds: 1.2}") as gateway:
        yield gateway


def test_the_stream_ends_with_an_error_and_the_backend_is_let_go(impatient: Gateway) -> None:
    backend = impatient.backend
    backend.play(Reply(CALL, trouble=Stall(after=5, seconds=60)))
    with impatient.http.stream("POST", "/v1/chat/completions", json={**ASKED, "tools": [TOOL]}) as response:
        events = [line.removeprefix("data: ") for line in response.iter_lines() if line]
    *_, error, done = events
    assert orjson.loads(error)["error"] == {
        "message": "Nothing came from the model's backend for 1.2 seconds.",
        "type": "server_error",
        "param": None,
        "code": 504,
    }
    assert done == "[DONE]"
    wait_until(lambda: backend.abandoned)
    entry = impatient.access_log(response.headers["x-request-id"])
    assert entry["extproc"]["error"] == "backend_timeout"
    assert impatient.metric('extproc_stream_errors_total{code="504",model="coder"}') == 1


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Heads(socketserver.BaseRequestHandler):
    """A backend that answers with the head of a stream, and then says nothing, or that this was all."""

    def handle(self) -> None:
        request = b""
        while b'"messages"' not in request:
            if not (data := self.request.recv(65536)):
                return
            request += data
            if request.startswith(b"GET "):  # what its models are
                self.request.sendall(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                request = b""
        self.request.sendall(HEAD if b"that was all" not in request else HEAD + b"0\r\n\r\n")
        while self.request.recv(65536):  # until it is let go
            pass


@pytest.mark.long
def test_a_stream_that_never_begins_ends_too(tmp_path: Path) -> None:
    with serving_in_thread(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Heads)) as server:
        configuration = f"""
models: [{{name: coder, backend: qwen, tools: prompt}}]
backends: [{{name: qwen, address: "127.0.0.1:{server.server_address[1]}", health_check: false}}]
limits: {{first_event_seconds: 1.5}}
"""
        with configured_gateway(tmp_path, configuration) as gateway:
            with pytest.raises(httpx.RemoteProtocolError):  # a cut connection: the head was on its way
                gateway.http.post("/v1/chat/completions", json={**ASKED, "tools": [TOOL]}, timeout=10)
            assert gateway.metric('extproc_stream_errors_total{code="504",model="coder"}') == 1
            said = {**ASKED, "tools": [TOOL], "messages": [{"role": "user", "content": "that was all"}]}
            answer = gateway.http.post("/v1/chat/completions", json=said, timeout=10)
            assert b'"error"' in answer.content, "an empty stream is no answer"


def test_a_stream_that_goes_on_in_time_is_left_alone(impatient: Gateway) -> None:
    impatient.backend.play(Reply(CALL, pace=0.08))
    with impatient.http.stream("POST", "/v1/chat/completions", json={**ASKED, "tools": [TOOL]}) as response:
        text = response.read()
    assert response.elapsed.total_seconds() > 1.2  # longer than the patience, as a whole
    assert b'"finish_reason":"tool_calls"' in text
    assert b"error" not in text


def test_while_the_processor_itself_stands_still_nobody_is_silent(impatient: Gateway) -> None:
    """The backend goes on, and what it says waits to be read: for longer than the patience."""
    impatient.backend.play(Reply(CALL, pace=0.1))
    with impatient.http.stream("POST", "/v1/chat/completions", json={**ASKED, "tools": [TOOL]}) as response:
        lines = response.iter_lines()
        received = [next(lines)]
        os.kill(impatient.processor, signal.SIGSTOP)
        try:
            wait_until(lambda: impatient.stat("cluster.qwen.upstream_rq_active") == 0)
        finally:
            os.kill(impatient.processor, signal.SIGCONT)
        received += lines
    assert response.elapsed.total_seconds() > 1.5
    assert '"finish_reason":"tool_calls"' in received[-4] + received[-6], received
    assert [line for line in received if "error" in line] == []


class TestExchange:
    def test_the_time_is_told(self) -> None:
        limits = CONFIG.limits.model_copy(update={"silence_seconds": 1.0})
        exchange = asked(WITH_TOOLS, config=CONFIG.model_copy(update={"limits": limits}))
        exchange.receive(response_headers(EVENTS))
        exchange.receive(response_body(stream(["Hi"])[:400], end_of_stream=False))
        assert b"Nothing came from the model's backend for 1 second." in only(exchange.time_out()).SerializeToString()

    def test_before_the_head_there_is_no_limit_and_before_the_first_words_another(self) -> None:
        exchange = asked(WITH_TOOLS)
        assert exchange.idle_timeout is None
        assert exchange.time_out() == []
        exchange.receive(response_headers(EVENTS))
        assert exchange.idle_timeout == 900

    def test_afterwards_there_is_one_until_the_end(self) -> None:
        exchange = asked(WITH_TOOLS)
        exchange.receive(response_headers(EVENTS))
        data = stream(["Hi"])
        exchange.receive(response_body(data[:400], end_of_stream=False))
        assert exchange.idle_timeout == 300
        exchange.receive(response_body(data[400:]))
        assert exchange.idle_timeout is None

    def test_what_comes_too_late_is_taken_no_notice_of(self) -> None:
        exchange = asked(WITH_TOOLS)
        exchange.receive(response_headers(EVENTS))
        data = stream(["Hi"])
        exchange.receive(response_body(data[:400], end_of_stream=False))
        reply = only(exchange.time_out())
        assert reply.response_body.response.body_mutation.streamed_response.end_of_stream
        assert exchange.receive(response_body(data[400:])) == []
        assert exchange.time_out() == []
