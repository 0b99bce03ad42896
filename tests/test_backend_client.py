"""What one of a backend's servers is asked directly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from extproc.backends.client import ask
from extproc.config import Address, Backend
from tests.test_fetch import HELLO, request_on, served


class Server(NamedTuple):
    address: str
    requests: list[tuple[bytes, bytes]]

    async def asked(self, timeout: float = 30, **fields: Any) -> tuple[int, bytes]:  # noqa: ASYNC109
        backend = Backend(name="b", address=(self.address,), **fields)
        return await ask(backend, Address.parse(self.address), "GET", "/x", timeout=timeout)


@asynccontextmanager
async def server(answer: bytes = HELLO) -> AsyncIterator[Server]:
    """Notes what it is asked, answers, and leaves the connection open."""
    requests: list[tuple[bytes, bytes]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await request_on(reader))
        writer.write(answer)
        await reader.read()

    async with served(serve) as port:
        yield Server(f"127.0.0.1:{port}", requests)


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 60))


def test_an_answer_is_complete_though_the_server_keeps_the_connection() -> None:
    async def main() -> None:
        async with server() as good:
            assert await good.asked() == (200, b"hello")

    run(main())


@pytest.mark.parametrize("answer", [b"", HELLO[:-1]], ids=["silent", "slow"])
def test_its_time_is_limited(answer: bytes) -> None:
    async def main() -> None:
        async with server(answer) as slow:
            with pytest.raises(TimeoutError):
                await slow.asked(timeout=0.5)

    run(main())


def test_it_gets_its_key(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"sk-1\n")

    async def main() -> None:
        async with server() as good:
            await good.asked(api_key=tmp_path / "key")
            [(head, _)] = good.requests
            assert b"authorization: Bearer sk-1\r\n" in head

    run(main())


@pytest.mark.parametrize("key", [None, b"\xff\xfe", b"a\nb"], ids=["missing", "no text", "two lines"])
def test_without_its_key_it_is_not_asked(key: bytes | None, tmp_path: Path) -> None:
    if key is not None:
        (tmp_path / "key").write_bytes(key)

    async def main() -> None:
        async with server() as good:
            with pytest.raises((OSError, ValueError)):
                await good.asked(api_key=tmp_path / "key")
            assert good.requests == []

    run(main())
