"""The second request for a demanded call, at the socket where Envoy takes it: what is sent, and what comes of it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from extproc.backends.again import call_again
from extproc.exchange.effects import BackendResponse, CallBackend
from tests.test_fetch import HELLO, Serve, request_on, says, stays

BODY = b'{"model":"m","messages":"secret"}'


def effect(folder: Path, *, timeout: float = 30) -> CallBackend:
    headers = {"content-type": "application/json", "x-extproc-backend": "qwen"}
    return CallBackend("qwen", folder / "inner.sock", headers, BODY, "0815", timeout)


@asynccontextmanager
async def listening(folder: Path, serve: Serve) -> AsyncIterator[None]:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        finally:
            writer.transport.abort()

    async with await asyncio.start_unix_server(connected, folder / "inner.sock"):
        yield


def answered(folder: Path, serve: Serve, *, timeout: float = 30) -> BackendResponse | None:
    async def main() -> BackendResponse | None:
        async with listening(folder, serve):
            return await call_again(effect(folder, timeout=timeout))

    return asyncio.run(asyncio.wait_for(main(), 60))


def test_it_is_sent_as_the_effect_says(tmp_path: Path) -> None:
    requests = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await request_on(reader))
        writer.write(HELLO)

    assert answered(tmp_path, serve) == BackendResponse(200, b"hello")
    [(head, body)] = requests
    assert head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    for field in (b"content-type: application/json", b"x-extproc-backend: qwen", b"accept-encoding: identity"):
        assert b"\r\n" + field + b"\r\n" in head
    assert body == BODY


def test_a_good_answer_is_nothing_to_be_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert answered(tmp_path, stays(HELLO)) == BackendResponse(200, b"hello")
    assert caplog.records == []


@pytest.mark.parametrize(
    ("said", "response", "why"),
    [
        (
            b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 6\r\n\r\nsecret",
            BackendResponse(503, b"secret"),
            "its answer is a 503",
        ),
        (HELLO[:-1], None, "its answer is cut off or garbled"),
        (b"", None, "without an answer"),
        (b"secret\r\n\r\n", None, "doesn't speak HTTP"),
    ],
    ids=["an error", "cut", "nothing", "nonsense"],
)
def test_what_is_wrong_with_an_answer_is_logged_without_its_words(
    said: bytes, response: BackendResponse | None, why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert answered(tmp_path, says(said)) == response
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert why in record.getMessage()
    assert "secret" not in record.getMessage()
    assert vars(record)["exchange"] == "0815"


def test_its_time_is_limited(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    begun = time.monotonic()
    assert answered(tmp_path, stays(HELLO[:-1]), timeout=0.5) is None
    assert time.monotonic() - begun < 20
    assert caplog.messages == ["the retry failed: there was no answer within 0.5 seconds"]


@pytest.mark.parametrize(
    ("name", "why"),
    [("not-there", "No such file"), ("file", "Connection refused"), ("x" * 120, "too long")],
)
def test_where_nobody_listens_there_is_no_answer(
    name: str, why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As where Envoy is configured by somebody else."""
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / "inner.sock").touch()
    assert asyncio.run(call_again(effect(tmp_path / name))) is None
    [message] = caplog.messages
    assert message.startswith(f"the retry by {tmp_path / name / 'inner.sock'} failed: ")
    assert why in message
