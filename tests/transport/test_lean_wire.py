"""The lean transport, spoken to by frames: what gRPC's own client never says."""

from __future__ import annotations

import asyncio
import struct
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest
from hpack import Decoder

from extproc.transport import Call, Endpoint, Receiver, Turns, serving
from extproc.transport.lean.messages import MessageReader
from tests.http2.wire import (
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PREFACE,
    WHOLE,
    Frame,
    data,
    headers,
    ping,
    rst_stream,
    settings,
    window_update,
)

LARGEST = 1_000_000
GRPC = (("content-type", "application/grpc"), ("te", "trailers"))
PATH = "/a.Service/Method"


class Echo:
    def __init__(self, call: Call) -> None:
        self._call = call

    def received(self, message: bytes) -> None:
        self._call.send(bytes(message))

    def half_closed(self) -> None:
        self._call.finish()

    def closed(self) -> None:
        pass


def begun(call: Call) -> Receiver:
    return Echo(call)


def head(
    *more: tuple[str, str], method: str = "POST", path: str = PATH, fields: Sequence[tuple[str, str]] = GRPC
) -> bytes:
    pseudo = ((":method", method), (":scheme", "http"), (":path", path), (":authority", "a"))
    return headers(1, fields=(*pseudo, *fields, *more), flags=END_HEADERS)


def message(payload: bytes, flag: int = 0, size: int | None = None) -> bytes:
    return struct.pack(">BI", flag, len(payload) if size is None else size) + payload


class Answer:
    """What came of one stream."""

    def __init__(self, frames: Sequence[Frame]) -> None:
        decoder = Decoder()
        blocks = [decoder.decode(frame.payload, raw=True) for frame in frames if frame.kind == HEADERS]
        self.sections = [{bytes(name).decode(): bytes(value).decode() for name, value in block} for block in blocks]
        self.body = b"".join(frame.payload for frame in frames if frame.kind == DATA)


def ask(folder: Path, *said: bytes) -> Answer:
    """On a connection of its own, until the stream ends."""

    async def main() -> Answer:
        address = f"unix:{folder}/socket"
        async with serving("lean", Endpoint(address, {PATH: begun}, LARGEST), Turns()):
            reader, writer = await asyncio.open_unix_connection(f"{folder}/socket")
            writer.write(PREFACE + settings() + window_update(0, 10_000_000) + b"".join(said))
            frames = list[Frame]()
            while not (
                frames and frames[-1].stream == 1 and frames[-1].kind == HEADERS and frames[-1].flags & END_STREAM
            ):
                frames.append(await frame_from(reader))
            writer.close()
        return Answer(frames)

    return asyncio.run(asyncio.wait_for(main(), 20))


async def frame_from(reader: asyncio.StreamReader) -> Frame:
    start = await reader.readexactly(9)
    size = int.from_bytes(start[:3], "big")
    kind, flags, stream = struct.unpack(">BBL", start[3:])
    return Frame(kind, flags, stream, await reader.readexactly(size))


@pytest.mark.parametrize(
    ("said", "status", "words"),
    [
        ([head(), data(1, message(b"a", flag=1))], "12", "compressed"),
        ([head(), data(1, message(b"", size=LARGEST + 1))], "8", "1000001 vs. 1000000"),
        ([head(), data(1, message(b"abc")[:-1], END_STREAM)], "13", "isn't whole"),
        ([head(), data(1, b"\0\0", END_STREAM)], "13", "isn't whole"),
        ([head(("grpc-timeout", "soon"))], "13", "grpc-timeout"),
        ([head(("grpc-timeout", "1n"))], "4", "time is up"),
        ([head(("x-a-bin", "*"))], "13", "Base64"),
        ([head(path="/a.Service/None")], "12", "no such method"),
    ],
)
def test_how_calls_end_that_go_wrong(said: list[bytes], status: str, words: str, tmp_path: Path) -> None:
    answer = ask(tmp_path, *said)
    ended = answer.sections[-1]
    assert ended["grpc-status"] == status
    assert words in ended["grpc-message"]
    assert answer.sections[0][":status"] == "200"
    assert answer.sections[0]["content-type"] == "application/grpc"


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (head(method="GET"), "405"),
        (head(fields=()), "415"),
        (head(fields=(("content-type", "application/json"),)), "415"),
        (head(fields=(("content-type", "application/grpc-web"),)), "415"),
    ],
)
def test_who_speaks_no_grpc_is_told_in_http(said: bytes, status: str, tmp_path: Path) -> None:
    assert ask(tmp_path, said).sections == [{":status": status, **({"allow": "POST"} if status == "405" else {})}]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_messages_are_found_in_any_cut(size: int, tmp_path: Path) -> None:
    sent = message(b"one") + message(b"") + message(b"three" * 100)
    cut = [data(1, sent[at : at + size]) for at in range(0, len(sent), size)]
    answer = ask(tmp_path, head(), *cut, data(1, b"", END_STREAM))
    assert answer.body == sent
    assert answer.sections[-1] == {"grpc-status": "0"}


def test_a_request_without_messages_is_answered(tmp_path: Path) -> None:
    pseudo = ((":method", "POST"), (":scheme", "http"), (":path", PATH))
    assert ask(tmp_path, headers(1, fields=(*pseudo, *GRPC), flags=WHOLE)).sections[-1]["grpc-status"] == "0"


def test_a_server_that_stops_says_goodbye_and_leaves_no_socket(tmp_path: Path) -> None:
    async def main() -> list[Frame]:
        async with serving("lean", Endpoint(f"unix:{tmp_path}/socket", {PATH: begun}, LARGEST), Turns()):
            reader, writer = await asyncio.open_unix_connection(f"{tmp_path}/socket")
            writer.write(PREFACE + settings() + ping())
            frames = [await frame_from(reader) for _ in range(4)]
        while not reader.at_eof():
            try:
                frames.append(await frame_from(reader))
            except asyncio.IncompleteReadError:
                break
        writer.close()
        return frames

    frames = asyncio.run(asyncio.wait_for(main(), 20))
    assert [frame.code for frame in frames if frame.kind == GOAWAY] == [0, 0]  # what is on its way, and then the end
    assert not (tmp_path / "socket").exists()


def test_who_says_nothing_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extproc.transport.lean.connection._SILENT", 0.05)

    async def main() -> bytes:
        async with serving("lean", Endpoint(f"unix:{tmp_path}/socket", {PATH: begun}, LARGEST), Turns()):
            reader, writer = await asyncio.open_unix_connection(f"{tmp_path}/socket")
            said = await reader.read()
            writer.close()
        return said

    assert asyncio.run(asyncio.wait_for(main(), 20))  # its settings, and then the end


def test_whoever_speaks_something_else_is_told_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with serving("lean", Endpoint(f"unix:{tmp_path}/socket", {PATH: begun}, LARGEST), Turns()):
            reader, writer = await asyncio.open_unix_connection(f"{tmp_path}/socket")
            writer.write(b"GET /secret HTTP/1.1\r\n\r\n")
            await reader.read()
            writer.close()

    asyncio.run(asyncio.wait_for(main(), 20))
    assert "this isn't HTTP/2" in caplog.text
    assert "secret" not in caplog.text


def test_a_message_takes_what_has_come_of_it_whatever_it_says_of_its_size() -> None:
    reader = MessageReader(30_000_000)
    tracemalloc.start()
    try:
        assert reader.feed(message(b"a", size=30_000_000)) == []
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()
    assert reader.missing == 30_000_000 - 1


def test_a_service_that_fails_at_the_end_of_a_call_fails_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    words = "a secret"

    class Failing(Echo):
        def closed(self) -> None:
            raise ValueError(words)

    async def main() -> bytes:
        services = {PATH: begun, "/a.Service/Failing": Failing}
        async with serving("lean", Endpoint(f"unix:{tmp_path}/socket", services, LARGEST), Turns()):
            reader, writer = await asyncio.open_unix_connection(f"{tmp_path}/socket")
            pseudo = ((":method", "POST"), (":scheme", "http"), (":path", "/a.Service/Failing"))
            failing = headers(3, fields=(*pseudo, *GRPC), flags=END_HEADERS)
            writer.write(PREFACE + settings() + head() + failing + rst_stream(3) + data(1, message(b"there?")))
            while True:
                frame = await frame_from(reader)
                if frame.kind == DATA:
                    writer.close()
                    return frame.payload

    assert asyncio.run(asyncio.wait_for(main(), 20)) == message(b"there?")
    assert "ValueError" in caplog.text
    assert "secret" not in caplog.text
