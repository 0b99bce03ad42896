"""One request over a connection of its own, against servers that behave well, badly or not at all."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

import pytest

from extproc.backends.fetch import LARGEST, Answer, fetch

Serve: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

HELLO = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\ntrailer: t\r\n\r\n"
TO_THE_END = b"HTTP/1.1 200 OK\r\n\r\nhello"
SSH = b"SSH-2.0-OpenSSH_9.6\r\n"


@asynccontextmanager
async def served(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server on loopback; yields its port. What it is in the middle of ends with the block."""
    under_way = set[asyncio.Task[Any]]()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        under_way.add(task)
        try:
            with suppress(ConnectionError, asyncio.CancelledError):
                await serve(reader, writer)
        finally:
            writer.transport.abort()
            under_way.discard(task)

    async with await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls) as server:
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)


async def request_on(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Its head and its body."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return head, await reader.readexactly(length)


def says(answer: bytes, *, piece: int = 65536) -> Serve:
    """Reads the request, answers in such pieces and closes the connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_on(reader)
        for start in range(0, len(answer), piece):
            writer.write(answer[start : start + piece])
            await writer.drain()
        writer.close()
        await writer.wait_closed()

    return serve


def stays(answer: bytes) -> Serve:
    """Answers and then waits for the client to close the connection, whatever was asked of it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_on(reader)
        writer.write(answer)
        await reader.read()

    return serve


def resets(answer: bytes) -> Serve:
    """Reads the request, answers and breaks the connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_on(reader)
        writer.write(answer)
        await writer.drain()
        # A close without any lingering is a reset.
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    return serve


def endless(head: bytes, more: bytes) -> Serve:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(more)
            await writer.drain()

    return serve


def asked(serve: Serve, method: str = "GET", path: str = "/", **options: Any) -> Answer:
    async def main() -> Answer:
        async with served(serve) as port, asyncio.timeout(30):
            streams = await asyncio.open_connection("127.0.0.1", port)
            return await fetch(streams, method, path, host="server", **options)

    return asyncio.run(main())


class TestRequest:
    def test_it_is_sent_as_it_was_given(self) -> None:
        requests = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            requests.append(await request_on(reader))
            writer.write(HELLO)
            await writer.drain()

        asked(serve, "POST", "/v1/chat?x=1", headers={"x-request-id": "0815", "empty": ""}, body=b'{"a": 1}')
        [(head, body)] = requests
        first, *fields = head.decode().split("\r\n")
        assert first == "POST /v1/chat?x=1 HTTP/1.1"
        assert {"host: server", "connection: close", "x-request-id: 0815", "empty: "} <= {*map(str.lower, fields)}
        assert body == b'{"a": 1}'

    @pytest.mark.parametrize("key", ["secret\nx: y", "secr\xe9t", "secret\0", "secret "], ids=ascii)
    def test_what_cannot_be_sent_is_refused_without_being_quoted(self, key: str) -> None:
        received = []

        async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
            received.append(await reader.read())

        with pytest.raises(ValueError, match="can't be sent") as refusal:
            asked(serve, headers={"authorization": key})
        assert "secr" not in str(refusal.getrepr(style="native"))
        assert b"".join(received) == b""

    @pytest.mark.parametrize("path", ["/a b", "/\xe9", "/\r\nx: y"], ids=ascii)
    def test_so_is_a_path(self, path: str) -> None:
        with pytest.raises(ValueError, match="can't be sent"):
            asked(stays(HELLO), path=path)


class TestAnswer:
    @pytest.mark.parametrize("answer", [HELLO, CHUNKED], ids=["length", "chunked"])
    def test_it_is_complete_where_it_says_so_though_the_connection_stays(self, answer: bytes) -> None:
        assert asked(stays(answer)) == (200, b"hello")
        assert asked(stays(answer + HELLO)) == (200, b"hello")

    @pytest.mark.parametrize(
        "answer",
        [HELLO, CHUNKED, TO_THE_END, TO_THE_END.replace(b"1.1", b"1.0"), b"HTTP/1.1 103 Early Hints\r\n\r\n" + HELLO],
        ids=["length", "chunked", "end", "1.0", "informed"],
    )
    @pytest.mark.parametrize("piece", [1, 7, 65536])
    def test_pieces_of_any_size_make_the_same_answer(self, answer: bytes, piece: int) -> None:
        assert asked(says(answer, piece=piece)) == (200, b"hello")

    @pytest.mark.parametrize(
        ("method", "status"), [("GET", 204), ("GET", 304), ("HEAD", 200)], ids=["204", "304", "head"]
    )
    def test_some_have_no_body_whatever_they_say(self, method: str, status: int) -> None:
        head = b"HTTP/1.1 %d X\r\ncontent-length: 5\r\n\r\n" % status
        assert asked(stays(head), method) == (status, b"")

    def test_it_may_come_before_the_request_was_read(self) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(HELLO.replace(b"200 OK", b"413 Too Large"))
            await asyncio.Event().wait()

        assert asked(serve, "POST", body=bytes(32 * 1024 * 1024)) == (413, b"hello")

    def test_the_largest_there_may_be(self) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n"
        size = LARGEST - len(head % LARGEST)
        assert len(asked(stays(head % size + bytes(size))).body) == size
        with pytest.raises(OSError, match="larger than 16777216 bytes"):
            asked(stays(head % (size + 1) + bytes(size + 1)))


class TestTrouble:
    @pytest.mark.parametrize(
        ("head", "more"),
        [
            (b"HTTP/1.1 200 OK\r\n\r\n", bytes(65536)),
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"ffff\r\n" + bytes(65535) + b"\r\n"),
            (b"HTTP/1.1 200 OK\r\n", b"x: y\r\n" * 1000),
            (b"HTTP/1.1 200 OK\r\nx: ", b"y" * 65536),
            (b"", bytes(65536)),
        ],
        ids=["body", "chunks", "headers", "header", "zeros"],
    )
    def test_what_never_ends_is_given_up(self, head: bytes, more: bytes) -> None:
        with pytest.raises(OSError, match=r"larger than|doesn't speak HTTP"):
            asked(endless(head, more))

    def test_so_are_responses_that_are_no_answer(self) -> None:
        interim = b"HTTP/1.1 100 Continue\r\n\r\n"
        assert asked(says(interim * 32 + HELLO)) == (200, b"hello")
        with pytest.raises(OSError, match="interim responses"):
            asked(says(interim * 33 + HELLO))

    @pytest.mark.parametrize(
        "nonsense",
        [
            SSH,
            b"\0\0\0\x12\x04\0\0\0\0\0",
            b"hello\r\n\r\n",
            b"HTTP/1.1 fine\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: " + b"9" * 5000 + b"\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nhe",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nhello\r\n",
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        ],
        ids=range(11),
    )
    def test_what_is_no_http_is_an_error_of_the_servers(self, nonsense: bytes) -> None:
        with pytest.raises(OSError, match=r"doesn't speak HTTP|cut off or garbled") as trouble:
            asked(says(nonsense))
        assert not isinstance(trouble.value, ConnectionError)

    @pytest.mark.parametrize("end", [says, resets], ids=["closed", "reset"])
    @pytest.mark.parametrize("part", [HELLO[:-1], CHUNKED[:-1], HELLO[:20], HELLO[:1]], ids=range(4))
    def test_so_is_what_was_cut_off(self, end: Callable[[bytes], Serve], part: bytes) -> None:
        with pytest.raises(OSError, match=r"cut off|doesn't speak HTTP") as trouble:
            asked(end(part))
        assert not isinstance(trouble.value, ConnectionError)

    @pytest.mark.parametrize("end", [says, resets], ids=["closed", "reset"])
    def test_no_answer_at_all_is_told_as_such(self, end: Callable[[bytes], Serve]) -> None:
        with pytest.raises(OSError, match="without an answer"):
            asked(end(b""))

    @pytest.mark.parametrize("beginning", [b"", HELLO[:-1]], ids=["silent", "slow"])
    def test_whoever_waits_no_longer_ends_the_connection(self, beginning: bytes) -> None:
        async def main() -> None:
            begun, ended = asyncio.Event(), asyncio.Event()

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await request_on(reader)
                writer.write(beginning)
                begun.set()
                await reader.read()
                ended.set()

            async with served(serve) as port, asyncio.timeout(30):
                streams = await asyncio.open_connection("127.0.0.1", port)
                fetching = asyncio.create_task(fetch(streams, "GET", "/", host="server"))
                await begun.wait()
                fetching.cancel()
                await ended.wait()
                assert fetching.cancelled()

        asyncio.run(main())
