"""What a backend's servers are asked directly, and the retry: which replicas get it, and which answer counts."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import orjson
import pytest
import trustme

from extproc.backends.client import REPLICAS, RETRIES, ask, call_again
from extproc.config import Address, Backend
from extproc.exchange.effects import BackendResponse, CallBackend
from tests.gateway import free_port
from tests.test_fetch import HELLO, Serve, request_on, resets, says, served, stays

GOOD = BackendResponse(200, b"hello")
BUSY = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\n\r\nbusy"


def retry(addresses: list[str], *, request_id: str = "0815", timeout: float = 30, **fields: Any) -> CallBackend:
    backend = Backend(name="b", address=tuple(addresses), **fields)
    return CallBackend(backend, orjson.dumps({"model": "m"}), request_id, timeout)


class Replica(NamedTuple):
    address: str
    requests: list[tuple[bytes, bytes]]


@asynccontextmanager
async def replica(answer: bytes = HELLO, tls: ssl.SSLContext | None = None) -> AsyncIterator[Replica]:
    """Notes what it is asked, answers, and leaves the connection open."""
    requests: list[tuple[bytes, bytes]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await request_on(reader))
        writer.write(answer)
        await reader.read()

    async with served(serve, tls) as port:
        yield Replica(f"127.0.0.1:{port}", requests)


@contextmanager
def black_hole() -> Iterator[str]:
    """An address that answers no attempt to connect: as many as it has room for are waiting already."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(16):
            waiting = stack.enter_context(socket.socket())
            waiting.settimeout(0.2)
            try:
                waiting.connect(listening.getsockname())
            except TimeoutError:
                yield "{}:{}".format(*listening.getsockname())
                return
        pytest.skip("this system has room for any number of connections that nobody accepts")


@pytest.fixture(autouse=True)
def in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replicas are asked as they are listed, so that the bad one is the first."""
    monkeypatch.setattr("random.shuffle", lambda _: None)


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 60))


Bad: TypeAlias = Callable[[AsyncExitStack], Coroutine[Any, Any, str]]


async def refused(_: AsyncExitStack) -> str:
    return f"127.0.0.1:{free_port()}"


async def unknown(_: AsyncExitStack) -> str:
    return "no-such-host.invalid:80"


async def no_name(_: AsyncExitStack) -> str:
    return f"{'x' * 64}.invalid:80"


async def silent(stack: AsyncExitStack) -> str:
    return stack.enter_context(black_hole())


def that(serve: Serve) -> Bad:
    async def bad(stack: AsyncExitStack) -> str:
        return f"127.0.0.1:{await stack.enter_async_context(served(serve))}"

    return bad


class TestReplicas:
    @pytest.mark.parametrize(
        "bad",
        [refused, unknown, no_name, silent, that(resets(b"")), that(says(b"")), that(stays(BUSY))],
        ids=["refused", "unknown", "no name", "black hole", "reset", "closed", "busy"],
    )
    def test_the_next_one_answers_for_one_that_has_not_begun(self, bad: Bad) -> None:
        async def main() -> None:
            async with AsyncExitStack() as stack, replica() as good:
                effect = retry([await bad(stack), good.address])
                assert await call_again(effect) == GOOD
                assert [body for _, body in good.requests] == [effect.body]

        run(main())

    def test_so_it_does_for_those_that_fail_in_tls(self, tmp_path: Path) -> None:
        async def no_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(HELLO)
            await reader.read()

        async def main() -> None:
            known, other = trustme.CA(), trustme.CA()
            known.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
            async with (
                served(no_tls) as port,
                replica(tls=server_end(other)) as stranger,
                replica(tls=server_end(known)) as good,
            ):
                addresses = [f"127.0.0.1:{port}", stranger.address, good.address]
                assert await call_again(retry(addresses, tls={"ca": tmp_path / "ca.pem"})) == GOOD
                assert (len(stranger.requests), len(good.requests)) == (0, 1)

        run(main())

    @pytest.mark.parametrize(
        ("answer", "result"),
        [
            (b"HTTP/1.1 500 X\r\ncontent-length: 1\r\n\r\n!", BackendResponse(500, b"!")),
            (b"HTTP/1.1 429 X\r\ncontent-length: 1\r\n\r\n!", BackendResponse(429, b"!")),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello", None),
            (b"220 mail.example\r\n\r\n", None),
        ],
        ids=["500", "429", "cut", "nonsense"],
    )
    def test_one_that_has_begun_to_answer_is_the_only_one(self, answer: bytes, result: BackendResponse | None) -> None:
        async def main() -> None:
            async with served(says(answer)) as port, replica() as other:
                assert await call_again(retry([f"127.0.0.1:{port}", other.address])) == result
                assert other.requests == []

        run(main())

    def test_a_backend_that_is_full_is_not_asked_all_over(self) -> None:
        async def main() -> None:
            async with AsyncExitStack() as stack:
                replicas = [await stack.enter_async_context(replica(BUSY)) for _ in range(REPLICAS + 1)]
                effect = retry([each.address for each in replicas])
                assert await call_again(effect) == BackendResponse(503, b"busy")
                assert [len(each.requests) for each in replicas] == [1] * REPLICAS + [0]

        run(main())

    def test_a_name_stands_for_all_its_addresses(self) -> None:
        async def main() -> None:
            async with replica() as good:
                address = good.address.replace("127.0.0.1", "localhost")
                assert await call_again(retry([address])) == GOOD
                [(head, _)] = good.requests
                assert f"host: {address}" in head.decode().lower()

        run(main())

    def test_without_any_there_is_no_answer(self) -> None:
        async def main() -> None:
            assert await call_again(retry([f"127.0.0.1:{free_port()}"] * 2)) is None

        run(main())


class TestSecondTry:
    def test_its_time_is_limited(self) -> None:
        async def main() -> None:
            async with replica(b"HTTP/1.1 200 OK\r\n") as slow, replica() as other:
                assert await call_again(retry([slow.address, other.address], timeout=0.5)) is None
                assert other.requests == []

        run(main())

    @pytest.mark.parametrize("request_id", ["0815", "a b~", "\xe9", "a\nb: c", " a", "", "\u2028"], ids=ascii)
    def test_it_carries_the_request_id_if_http_can(self, request_id: str) -> None:
        async def main() -> None:
            async with replica() as good:
                assert await call_again(retry([good.address], request_id=request_id)) == GOOD
                [(head, _)] = good.requests
                line = f"\r\nx-request-id: {request_id}\r\n"
                assert (line in head.decode()) == (request_id in ("0815", "a b~"))
                assert (b"x-request-id" in head) == (line in head.decode())

        run(main())

    @pytest.mark.parametrize(
        ("key", "sent"),
        [(b"sk-1\n", True), (None, False), (b"\xff\xfe", False), (b"a\nb", False)],
        ids=["good", "missing", "no text", "two lines"],
    )
    def test_it_carries_the_key_or_is_not_sent(self, key: bytes | None, sent: bool, tmp_path: Path) -> None:
        if key is not None:
            (tmp_path / "key").write_bytes(key)

        async def main() -> None:
            async with replica() as good:
                said = await call_again(retry([good.address], api_key=tmp_path / "key"))
                assert said == (GOOD if sent else None)
                assert [b"authorization: Bearer sk-1\r\n" in head for head, _ in good.requests] == [True] * sent

        run(main())

    def test_there_are_only_so_many_at_once(self) -> None:
        async def main() -> None:
            asked, all_there, go_on = 0, asyncio.Event(), asyncio.Event()

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                nonlocal asked
                await request_on(reader)
                asked += 1
                if asked == RETRIES:
                    all_there.set()
                await go_on.wait()
                writer.write(HELLO)
                await reader.read()

            async with served(serve) as port:
                effect = retry([f"127.0.0.1:{port}"])
                tries = [asyncio.create_task(call_again(effect)) for _ in range(RETRIES)]
                await all_there.wait()
                assert await call_again(effect) is None
                assert asked == RETRIES
                go_on.set()
                assert await asyncio.gather(*tries) == [GOOD] * RETRIES
                assert await call_again(effect) == GOOD

        run(main())

    def test_given_up_it_makes_room_for_another(self) -> None:
        async def main() -> None:
            async with replica(b"") as slow, replica() as good:
                tries = [asyncio.create_task(call_again(retry([slow.address]))) for _ in range(RETRIES)]
                await asyncio.sleep(0)  # all of them have begun
                assert await call_again(retry([good.address])) is None
                for each in tries:
                    each.cancel()
                await asyncio.gather(*tries, return_exceptions=True)
                assert await call_again(retry([good.address])) == GOOD

        run(main())


class TestAsk:
    def test_an_answer_is_complete_though_the_server_keeps_the_connection(self) -> None:
        async def main() -> None:
            async with replica() as server:
                backend = Backend(name="b", address=(server.address,))
                assert await ask(backend, Address.parse(server.address), "GET", "/x", timeout=30) == (200, b"hello")

        run(main())

    @pytest.mark.parametrize("answer", [b"", HELLO[:-1]], ids=["silent", "slow"])
    def test_its_time_is_limited(self, answer: bytes) -> None:
        async def main() -> None:
            async with replica(answer) as server:
                backend = Backend(name="b", address=(server.address,))
                with pytest.raises(TimeoutError):
                    await ask(backend, Address.parse(server.address), "GET", "/x", timeout=0.5)

        run(main())


def server_end(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context
