"""What a service sees of calls, and a client of it, whatever transport is between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, get_args

import grpc
import pytest

from extproc.transport import Call, Endpoint, Receiver, Status, Transport, Turns, serving

LARGEST = 300_000
Service = Callable[["Probe", bytes], None]


class Probe:
    """A service that does with each message what the test says, and takes down what happens."""

    def __init__(self, said: Service) -> None:
        self._said = said
        self.call: Call
        self.events: list[bytes | str] = []
        self.closing = asyncio.Event()

    def begun(self, call: Call) -> Receiver:
        self.call = call
        return self

    def received(self, message: bytes) -> None:
        self.events.append(bytes(message))
        self._said(self, bytes(message))

    def half_closed(self) -> None:
        self.events.append("half-closed")
        self.call.finish()

    def closed(self) -> None:
        self.events.append("closed")
        self.closing.set()


def echo(probe: Probe, message: bytes) -> None:
    probe.call.send(message)


Client = Callable[..., Any]
Conversation = Callable[[Probe, Client], Awaitable[None]]


@asynccontextmanager
async def served(transport: Transport, folder: Path, probe: Probe) -> AsyncIterator[Client]:
    address = f"unix:{folder}/socket"
    services = {"/a.Service/Method": probe.begun, "/a.Service/Another": Probe(echo).begun}
    endpoint = Endpoint(address, services, LARGEST)
    async with serving(transport, endpoint, Turns()), grpc.aio.insecure_channel(address) as channel:
        yield lambda method="Method", **options: channel.stream_stream(f"/a.Service/{method}")(**options)


def heard(probe: Probe) -> list[bytes | str]:
    """What happens to a call that is broken off.

    grpcio may find first that nothing more comes: it tells that as it tells the end of what a client says.
    """
    return [event for event in probe.events if event != "half-closed"]


@pytest.fixture(params=get_args(Transport))
def talk(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Service, Conversation], Probe]:
    def run(said: Service, conversation: Conversation) -> Probe:
        async def main() -> Probe:
            probe = Probe(said)
            async with served(request.param, tmp_path, probe) as client:
                await asyncio.wait_for(conversation(probe, client), 30)
                await asyncio.wait_for(probe.closing.wait(), 30)
            return probe

        return asyncio.run(main())

    return run


def test_messages_come_in_order_and_so_do_their_answers(talk: Callable[..., Probe]) -> None:
    sent = [b"", b"a", b"b" * 70_000, b"c" * LARGEST, b"d"]

    async def conversation(_: Probe, client: Client) -> None:
        call = client()
        for message in sent:
            await call.write(message)
        assert [await call.read() for _ in sent] == sent
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK

    assert talk(echo, conversation).events == [*sent, "half-closed", "closed"]


def test_what_the_client_says_beside_its_messages(talk: Callable[..., Probe]) -> None:
    async def conversation(probe: Probe, client: Client) -> None:
        call = client(metadata=(("x-one", "1"), ("x-two-bin", b"\x00\xff"), ("x-one", "2"), ("tenant", "a")))
        await call.write(b"a")
        await call.read()
        assert probe.call.peer.startswith("unix:")
        given = [pair for pair in probe.call.metadata if pair[0] != "user-agent"]  # gRPC's client groups them by name
        assert given == [("x-one", "1"), ("x-one", "2"), ("x-two-bin", b"\x00\xff"), ("tenant", "a")]
        call.cancel()

    assert talk(echo, conversation).events[-1] == "closed"


@pytest.mark.parametrize("answered", [0, 1])
def test_how_a_service_ends_a_call(answered: int, talk: Callable[..., Probe]) -> None:
    def refuse(probe: Probe, _: bytes) -> None:
        for word in [b"but"] * answered:
            probe.call.send(word)
        probe.call.finish(Status.FAILED_PRECONDITION, "nein: 100 % größer\n")
        probe.call.send(b"never")
        probe.call.finish(Status.OK)

    async def conversation(_: Probe, client: Client) -> None:
        call = client()
        await call.write(b"a")
        assert [await call.read() for _ in range(answered)] == [b"but"] * answered
        with pytest.raises(grpc.aio.AioRpcError):
            await call.read()
        assert await call.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert await call.details() == "nein: 100 % größer\n"

    assert talk(refuse, conversation).events == [b"a", "closed"]


def test_a_bug_ends_one_call_and_is_told_without_what_was_said(
    talk: Callable[..., Probe], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Probe, message: bytes) -> None:
        raise ValueError(message)

    async def conversation(_: Probe, client: Client) -> None:
        call = client()
        await call.write(b"a secret")
        assert await call.code() is grpc.StatusCode.INTERNAL

    assert talk(fail, conversation).events == [b"a secret", "closed"]
    assert "ValueError" in caplog.text
    assert "secret" not in caplog.text


def test_a_client_that_leaves_is_heard_of(talk: Callable[..., Probe]) -> None:
    async def conversation(_: Probe, client: Client) -> None:
        call = client()
        await call.write(b"a")
        await call.read()
        call.cancel()

    assert heard(talk(echo, conversation)) == [b"a", "closed"]


def test_a_deadline_ends_a_call(talk: Callable[..., Probe]) -> None:
    async def conversation(_: Probe, client: Client) -> None:
        other = client("Another")  # connects: the deadline is short
        await other.write(b"another")
        await other.read()
        call = client(timeout=1)
        await call.write(b"a")
        await call.read()
        assert await call.code() is grpc.StatusCode.DEADLINE_EXCEEDED

    events = talk(echo, conversation).events
    assert (events[0], events[-1]) == (b"a", "closed")  # grpcio tells of the client's end besides


def test_a_call_that_is_held_gets_nothing_until_it_is_released(talk: Callable[..., Probe]) -> None:
    def hold(probe: Probe, message: bytes) -> None:
        probe.call.send(message)
        if message == b"hold":
            probe.call.hold()

    async def conversation(probe: Probe, client: Client) -> None:
        call, other = client(), client("Another")
        for message in (b"hold", b"next"):
            await call.write(message)
        await call.done_writing()
        assert await call.read() == b"hold"
        await other.write(b"another")  # by then what was sent before has come too
        assert await other.read() == b"another"
        assert b"next" not in probe.events
        probe.call.release()
        assert await call.read() == b"next"
        assert await call.read() is grpc.aio.EOF
        other.cancel()

    talk(hold, conversation)


def test_what_was_said_later_comes_too(talk: Callable[..., Probe]) -> None:
    def later(probe: Probe, message: bytes) -> None:
        probe.call.hold()
        asyncio.get_running_loop().call_soon(finish, probe, message)

    def finish(probe: Probe, message: bytes) -> None:
        for _ in range(3):
            probe.call.send(message)
        probe.call.finish(Status.ABORTED, "enough")

    async def conversation(_: Probe, client: Client) -> None:
        call = client()
        await call.write(b"a")
        assert [await call.read() for _ in range(3)] == [b"a"] * 3
        assert await call.code() is grpc.StatusCode.ABORTED

    assert heard(talk(later, conversation)) == [b"a", "closed"]


def test_a_message_can_be_too_large(talk: Callable[..., Probe]) -> None:
    async def conversation(_: Probe, client: Client) -> None:
        call = client()
        await call.write(b"a" * (LARGEST + 1))
        assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert f"({LARGEST + 1} vs. {LARGEST})" in await call.details()

    assert talk(echo, conversation).events == ["closed"]


def test_a_client_that_takes_nothing_is_listened_to_no_more(talk: Callable[..., Probe]) -> None:
    """And of what it says, no more is kept than its windows have room for."""
    answer = b"x" * 50_000

    def much(probe: Probe, _: bytes) -> None:
        probe.call.send(answer)

    async def conversation(probe: Probe, client: Client) -> None:
        call = client()
        writing = asyncio.create_task(write(call))
        # gRPC's own client reads ahead as far as its window has room.
        await asyncio.wait((writing,), timeout=0.5)
        assert len(probe.events) < MESSAGES
        assert [len(await call.read()) for _ in range(MESSAGES)] == [len(answer)] * MESSAGES
        await writing
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF

    async def write(call: Any) -> None:
        for _ in range(MESSAGES):
            await call.write(b"more")

    assert len(talk(much, conversation).events) == MESSAGES + 2


MESSAGES = 400


def test_who_serves_no_such_method_says_so(tmp_path: Path) -> None:
    async def main(transport: Transport) -> None:
        address = f"unix:{tmp_path}/{transport}"
        endpoint = Endpoint(address, {}, LARGEST)
        async with serving(transport, endpoint, Turns()), grpc.aio.insecure_channel(address) as channel:
            call: Any = channel.stream_stream("/a.Service/Other")()
            assert await call.code() is grpc.StatusCode.UNIMPLEMENTED

    for transport in get_args(Transport):
        asyncio.run(main(transport))


@pytest.mark.parametrize("transport", get_args(Transport))
def test_a_call_on_its_way_when_the_server_stops_isnt_lost_unsaid(transport: Transport, tmp_path: Path) -> None:
    async def main() -> Probe:
        probe = Probe(echo)
        address = f"unix:{tmp_path}/socket"
        async with grpc.aio.insecure_channel(address) as channel:
            async with serving(transport, Endpoint(address, {"/a.Service/Method": probe.begun}, LARGEST), Turns()):
                call: Any = channel.stream_stream("/a.Service/Method")()
                await call.write(b"a")
                assert await call.read() == b"a"
            assert await call.code() is not grpc.StatusCode.OK
        return probe

    assert heard(asyncio.run(main())) == [b"a", "closed"]
