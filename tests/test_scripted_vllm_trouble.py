"""The scripted vLLM misbehaves as told, notices clients that leave, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

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
    ScriptedVLLM,
    Stall,
    Trouble,
)
from tests.scripted_wire import CHAT, HELLO, STREAM, TEXT, events, exchange, http_chunks, pieces, post


@pytest.fixture
def vllm() -> Iterator[ScriptedVLLM]:
    with ScriptedVLLM().running() as server:
        yield server


@pytest.fixture
def client(vllm: ScriptedVLLM) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=vllm.url, timeout=20) as client:
        yield client


# Trouble.


@pytest.mark.parametrize("request_body", [HELLO, STREAM])
def test_refuse_closes_without_a_byte(vllm: ScriptedVLLM, request_body: dict[str, Any]) -> None:
    vllm.play(Reply(trouble=Refuse()))
    assert exchange(vllm, post(request_body)) == b""


@pytest.mark.parametrize("request_body", [HELLO, STREAM])
@pytest.mark.parametrize("body", ErrorBody)
def test_fail_answers_with_an_error_status(
    client: httpx.Client, vllm: ScriptedVLLM, request_body: dict[str, Any], body: ErrorBody
) -> None:
    vllm.play(Reply(trouble=Fail(503, body)))
    answer = client.post(CHAT, json=request_body)
    assert answer.status_code == 503
    kind = {ErrorBody.VLLM: "application/json", ErrorBody.PLAIN: "text/plain", ErrorBody.HTML: "text/html"}[body]
    assert answer.headers["content-type"] == kind
    if body is ErrorBody.VLLM:
        error = answer.json()["error"]
        assert (error["type"], error["param"], error["code"]) == ("ServiceUnavailable", None, 503)


def test_fail_can_say_when_to_come_back(client: httpx.Client, vllm: ScriptedVLLM) -> None:
    vllm.play(Reply(trouble=Fail(429, retry_after=7)))
    answer = client.post(CHAT, json=HELLO)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")


def test_stall_is_silent_until_the_client_goes(vllm: ScriptedVLLM) -> None:
    vllm.play(Reply(pieces=["a", "b", "c"], trouble=Stall(after=2, seconds=60)))
    with (
        httpx.Client(timeout=20) as client,
        client.stream("POST", vllm.url + CHAT, json=STREAM) as answer,
    ):
        lines = answer.iter_lines()
        got = [next(lines) for _ in range(6)]
    assert '"content":"b"' in got[4]
    assert vllm.wait_for(lambda: len(vllm.abandoned) == 1)
    assert vllm.abandoned == vllm.requests


@pytest.mark.parametrize("request_body", [HELLO, STREAM])
def test_stall_ends_by_itself(client: httpx.Client, vllm: ScriptedVLLM, request_body: dict[str, Any]) -> None:
    vllm.play(Reply("late", trouble=Stall(after=None, seconds=0.05)))
    answer = client.post(CHAT, json=request_body)
    assert answer.elapsed.total_seconds() >= 0.05
    assert b'"content":"late"' in answer.content


def test_pace_spreads_a_stream_over_time(client: httpx.Client, vllm: ScriptedVLLM) -> None:
    vllm.play(Reply(pieces=["a", "b"], pace=0.02))
    answer = client.post(CHAT, json=STREAM)
    assert answer.elapsed.total_seconds() >= 4 * 0.02
    assert pieces(answer.content) == ["a", "b"]


def test_cut_breaks_off_a_stream_after_a_piece(vllm: ScriptedVLLM) -> None:
    vllm.play(Reply(pieces=["a", "b", "c"], trouble=Cut(after=2)))
    answer = exchange(vllm, post(STREAM))
    assert b'"content":"b"' in answer
    assert b'"content":"c"' not in answer
    assert not answer.endswith(b"0\r\n\r\n")


def test_cut_breaks_off_a_stream_after_a_byte(vllm: ScriptedVLLM) -> None:
    vllm.play(Reply(TEXT, trouble=Cut(after_bytes=300)))
    chunks = http_chunks(exchange(vllm, post(STREAM)), whole=False)
    assert sum(map(len, chunks)) == 300


def test_cut_breaks_off_a_whole_answer(vllm: ScriptedVLLM) -> None:
    vllm.play(Reply(TEXT, trouble=Cut(after_bytes=10)))
    head, _, body = exchange(vllm, post(HELLO)).partition(b"\r\n\r\n")
    assert int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]) > 10
    assert len(body) == 10


@pytest.mark.parametrize("what", [Nonsense.NOT_JSON, Nonsense.BROKEN_JSON])
def test_garbage_is_not_json(client: httpx.Client, vllm: ScriptedVLLM, what: Nonsense) -> None:
    vllm.play(Reply("ab", trouble=Garbage(what)), Reply(pieces=["a", "b"], trouble=Garbage(what, after=1)))
    whole = client.post(CHAT, json=HELLO)
    assert (whole.status_code, whole.headers["content-type"]) == (200, "application/json")
    with pytest.raises(ValueError, match=r"JSON|Expecting|Unterminated"):
        whole.json()
    data = client.post(CHAT, json=STREAM).content.split(b"\n\n")
    assert b'"content":"a"' in data[1]
    with pytest.raises(ValueError, match=r"JSON|Expecting|Unterminated"):
        json.loads(data[2].removeprefix(b"data: "))
    assert data[-2] == b"data: [DONE]"


@pytest.mark.parametrize("request_body", [HELLO, STREAM])
def test_garbage_can_be_a_web_page(client: httpx.Client, vllm: ScriptedVLLM, request_body: dict[str, Any]) -> None:
    vllm.play(Reply(trouble=Garbage(Nonsense.WRONG_TYPE)))
    answer = client.post(CHAT, json=request_body)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html")


def test_gzip_compresses_unasked(client: httpx.Client, vllm: ScriptedVLLM) -> None:
    vllm.play(Reply(TEXT, trouble=Gzip()), Reply(TEXT, trouble=Gzip(), wire_cut=3))
    for request_body in (HELLO, STREAM):
        with client.stream("POST", CHAT, json=request_body, headers={"accept-encoding": "identity"}) as answer:
            raw = b"".join(answer.iter_raw())
        assert answer.headers["content-encoding"] == "gzip"
        body = gzip.decompress(raw)
        text = (
            "".join(pieces(body)) if "stream" in request_body else json.loads(body)["choices"][0]["message"]["content"]
        )
        assert text == TEXT


def test_no_done_ends_a_stream_without_its_mark(vllm: ScriptedVLLM) -> None:
    vllm.play(Reply("a", trouble=NoDone()))
    body = b"".join(http_chunks(exchange(vllm, post(STREAM, "Connection: close"))))
    assert b'"finish_reason":"stop"' in body
    assert b"[DONE]" not in body


def test_an_error_can_strike_in_the_middle_of_a_stream(client: httpx.Client, vllm: ScriptedVLLM) -> None:
    vllm.play(*[Reply(pieces=["a", "b"], trouble=ErrorEvent(after=1, message="engine died"))] * 2)
    *_, piece, error = events(client.post(CHAT, json=STREAM).content)
    assert piece["choices"][0]["delta"] == {"content": "a"}
    expected = {"message": "engine died", "type": "InternalServerError", "param": None, "code": 500}
    assert error == {"error": expected}
    whole = client.post(CHAT, json=HELLO)
    assert (whole.status_code, whole.json()) == (500, {"error": expected})


def test_comments_stand_between_the_events(client: httpx.Client, vllm: ScriptedVLLM) -> None:
    vllm.play(Reply("a", trouble=Comments("ping")))
    body = client.post(CHAT, json=STREAM).content
    assert body.count(b": ping\n\ndata: ") == 4
    assert pieces(body.replace(b": ping\n\n", b"")) == ["a"]


@pytest.mark.parametrize("trouble", [Cut(after=1), Gzip(), Stall(after=1, seconds=0.01), NoDone()])
def test_trouble_holds_for_the_completions_route_too(vllm: ScriptedVLLM, trouble: Trouble) -> None:
    vllm.play(Reply(pieces=["a", "b"], trouble=trouble))
    body = post({"prompt": "x", "stream": True}, "Connection: close").replace(CHAT.encode(), b"/v1/completions")
    answer = exchange(vllm, body)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b'"finish_reason":"stop"' not in answer or not isinstance(trouble, Cut | Gzip)


# The connection.


def test_a_connection_serves_one_request_after_the_other(vllm: ScriptedVLLM) -> None:
    vllm.play(Reply("one"), Reply("two", pieces=1), Reply("three"))
    answers = exchange(vllm, post(HELLO) + post(STREAM) + post(HELLO, "Connection: close"))
    assert answers.count(b"HTTP/1.1 200 OK") == 3
    assert answers.index(b'"content":"one"') < answers.index(b"[DONE]") < answers.index(b'"content":"three"')


def test_a_client_may_wait_for_permission_to_send_its_body(vllm: ScriptedVLLM) -> None:
    head, _, body = post(HELLO, "Expect: 100-continue", "Connection: close").partition(b"\r\n\r\n")
    with socket.create_connection(("127.0.0.1", vllm.port), timeout=20) as connection:
        connection.sendall(head + b"\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
        connection.sendall(body)
        assert connection.recv(15) == b"HTTP/1.1 200 OK"


def test_what_is_no_http_gets_uvicorns_answer(vllm: ScriptedVLLM) -> None:
    answer = exchange(vllm, b"\x16\x03\x01 hello\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert answer.endswith(b"\r\n\r\nInvalid HTTP request received.")


def test_head_has_no_body(vllm: ScriptedVLLM) -> None:
    answer = exchange(vllm, b"HEAD /health HTTP/1.1\r\nHost: vllm\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 405 ")
    assert answer.endswith(b"\r\n\r\n")


def test_a_client_that_leaves_in_the_middle_is_noticed(vllm: ScriptedVLLM) -> None:
    vllm.play(Reply("x" * 100, pieces=1, pace=0.05))
    with socket.create_connection(("127.0.0.1", vllm.port), timeout=20) as connection:
        connection.sendall(post(STREAM))
        assert connection.recv(1) == b"H"
        assert vllm.abandoned == []
    assert vllm.wait_for(lambda: len(vllm.abandoned) == 1)


def test_hundreds_of_streams_at_once() -> None:
    async def stream(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(post(STREAM, "Connection: close"))
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer

    async def main() -> list[bytes]:
        async with ScriptedVLLM() as server:
            server.play(*[Reply(pieces=["a", "b", "c"], pace=0.01)] * 300)
            return await asyncio.gather(*(stream(server.port) for _ in range(300)))

    answers = asyncio.run(main())
    assert all(pieces(b"".join(http_chunks(answer))) == ["a", "b", "c"] for answer in answers)


def test_stopping_leaves_no_connection_and_no_task() -> None:
    async def main() -> tuple[bytes, int]:
        async with ScriptedVLLM() as server:
            server.play(Reply(pieces=["a"], trouble=Stall(after=1, seconds=60)))
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(post(STREAM))
            await reader.readuntil(b'"content":"a"')
        await reader.read()
        writer.close()
        await writer.wait_closed()
        return await reader.read(), len(asyncio.all_tasks())

    assert asyncio.run(main()) == (b"", 1)


def test_a_taken_port_is_an_error_where_the_server_is_started(vllm: ScriptedVLLM) -> None:
    with pytest.raises(OSError, match="in use"), ScriptedVLLM(port=vllm.port).running():
        pytest.fail("two servers on one port")
