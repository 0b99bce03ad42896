"""What `extproc up` asks its processor: whether it serves."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import get_args

import pytest

from extproc.http2 import frames
from extproc.transport import Endpoint, Transport, Turns, serving
from extproc.transport.asking import is_serving
from extproc.transport.health import Health


@pytest.mark.parametrize("transport", get_args(Transport))
def test_a_server_tells_whether_it_serves(transport: Transport, tmp_path: Path) -> None:
    async def main() -> list[bool]:
        health, told = Health(), []
        async with serving(transport, Endpoint(f"unix:{tmp_path}/socket", health.services, 1024), Turns()):
            for state in (None, True, False):
                if state is not None:
                    health.set("", serving=state)
                told.append(await is_serving(f"{tmp_path}/socket"))
        return told

    assert asyncio.run(main()) == [False, True, False]


def test_where_nobody_listens_there_is_no_answer(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        asyncio.run(is_serving(f"{tmp_path}/socket"))


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        frames.settings({}) + frames.goaway(0, 0),  # type: ignore[arg-type]
        frames.settings({}) + frames.rst_stream(1, 2),  # type: ignore[arg-type]
        frames.settings({}) + frames.frame(frames.DATA, 0, 1, b"\x01\x00\x00\x00\x02\x08\x01"),
        frames.settings({}) + frames.frame(frames.DATA, 0, 1, b"\x00\x00\x00\x00\x02\xff\xff"),
        frames.settings({}) + frames.frame(frames.DATA, 0, 3, b"\x00\x00\x00\x00\x02\x08\x01"),
    ],
)
def test_whoever_else_listens_doesnt_serve(said: bytes, tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4096)  # what is closed unread is reset
        writer.write(said)
        writer.close()

    async def main() -> bool:
        server = await asyncio.start_unix_server(answer, tmp_path / "socket")
        async with server:
            return await is_serving(f"{tmp_path}/socket")

    assert asyncio.run(main()) is False


def test_what_comes_in_pieces_is_put_together(tmp_path: Path) -> None:
    data = b"\x00\x00\x00\x00\x02\x08\x01"

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frames.settings({}))
        for byte in data:
            writer.write(frames.frame(frames.DATA, 0, 1, bytes((byte,))))
        writer.close()

    async def main() -> bool:
        server = await asyncio.start_unix_server(answer, tmp_path / "socket")
        async with server:
            return await asyncio.wait_for(is_serving(f"{tmp_path}/socket"), 10)

    assert asyncio.run(main()) is True
