"""Nothing of an exchange is left when it is over, without the garbage collector: that one stops everybody to look."""

from __future__ import annotations

import asyncio
import gc
import socket
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import grpc
import orjson
import pytest

from extproc.config import parse
from extproc.exchange.context import ExchangeContext
from extproc.exchange.effects import BackendResponse, Prepare
from extproc.exchange.machine import Exchange
from extproc.exchange.phases import Phase
from extproc.exchange.request import LARGE
from extproc.observability.telemetry import Telemetry
from extproc.transport import Transport
from tests.gateway import MODEL
from tests.test_answer import CALL, completion, stream
from tests.test_exchange import EVENTS, JSON, WITH_TOOLS, request_body, request_headers, response_body, response_headers
from tests.test_retry import DEMAND, SETTINGS, WORDS
from tests.test_server import Envoy, connected

CONFIG = parse(SETTINGS.format(model=MODEL, port=1), source="test")


@pytest.fixture(autouse=True)
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.freeze()  # what other tests have left in their caches is hundreds of thousands of objects, and none of ours
    gc.disable()
    yield
    gc.enable()


def answered(exchange: Exchange, request: Mapping[str, object], kind: dict[str, str], *bodies: bytes) -> None:
    exchange.receive(request_headers())
    exchange.receive(request_body(request))
    exchange.receive(response_headers(kind))
    for place, body in enumerate(bodies, start=1):
        exchange.receive(response_body(body, end_of_stream=place == len(bodies)))


def refused(exchange: Exchange) -> None:
    exchange.receive(request_headers())
    exchange.receive(request_body({**WITH_TOOLS, "temperature": 9}))


def large_and_refused(exchange: Exchange) -> None:
    exchange.receive(request_headers())
    text = [{"role": "user", "content": "x" * LARGE}]
    *_, effect = exchange.receive(request_body({**WITH_TOOLS, "messages": text, "temperature": 9}))
    assert isinstance(effect, Prepare)
    exchange.resume(effect.perform())


def retried(exchange: Exchange, kind: dict[str, str], second: bytes) -> None:
    first = stream([WORDS]) if kind is EVENTS else completion(WORDS)
    answered(exchange, {**DEMAND, "model": "strict", "stream": kind is EVENTS}, kind, first)
    assert exchange.phase is Phase.RETRYING
    exchange.resume(BackendResponse(200, second))


STREAMED = {**WITH_TOOLS, "stream": True}
ENDINGS: dict[str, Callable[[Exchange], None]] = {
    "refused": refused,
    "large and refused": large_and_refused,
    "a completion": lambda exchange: answered(exchange, WITH_TOOLS, JSON, completion(CALL)),
    "nonsense": lambda exchange: answered(exchange, WITH_TOOLS, JSON, b"nonsense"),
    "no completion": lambda exchange: answered(exchange, WITH_TOOLS, JSON, b"{}"),
    "an error with status 200": lambda exchange: answered(exchange, WITH_TOOLS, JSON, b'{"error": {"code": 500}}'),
    "a call that is none": lambda exchange: answered(exchange, {**DEMAND, "model": "strict"}, JSON, completion("")),
    "a stream": lambda exchange: answered(exchange, STREAMED, EVENTS, stream([CALL]), b""),
    "a stream of nonsense": lambda exchange: answered(exchange, STREAMED, EVENTS, b"data: nonsense\n\n", b""),
    "a stream that is cut": lambda exchange: answered(exchange, STREAMED, EVENTS, stream([CALL])[:300], b""),
    "a good second answer": lambda exchange: retried(exchange, JSON, completion(CALL)),
    "a bad second answer": lambda exchange: retried(exchange, JSON, completion(WORDS)),
    "no second answer": lambda exchange: retried(exchange, JSON, b"nonsense"),
    "a good second stream": lambda exchange: retried(exchange, EVENTS, stream([CALL])),
    "a bad second stream": lambda exchange: retried(exchange, EVENTS, stream([WORDS])),
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_an_exchange_that_is_over_is_gone(ending: Callable[[Exchange], None]) -> None:
    exchange = Exchange(ExchangeContext(CONFIG), Telemetry(CONFIG))
    ending(exchange)
    exchange.close()
    seen = weakref.ref(exchange)
    del exchange
    assert seen() is None


def without_connections(left: list[object]) -> list[object]:
    """What is left, but for the connections of other tests' backends, which run in threads, and all that is in them."""
    there = {id(one) for one in left}
    waiting = [one for one in left if isinstance(one, socket.socket | asyncio.BaseTransport)]
    theirs = set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in there and id(one) not in theirs:
            theirs.add(id(one))
            waiting += gc.get_referents(one)
    return [one for one in left if id(one) not in theirs]


@contextmanager
def cycles() -> Iterator[list[object]]:
    """All that is left in cycles by what is done in the block."""
    found: list[object] = []
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        found += without_connections(gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_nothing_of_it_is_in_cycles(ending: Callable[[Exchange], None]) -> None:
    context, telemetry = ExchangeContext(CONFIG), Telemetry(CONFIG)
    ending(Exchange(context, telemetry))  # what is made once and kept
    # An exchange leaves the same each time; backends of other tests, which run in threads, leave theirs now and then.
    for _ in range(5):
        with cycles() as left:
            exchange = Exchange(context, telemetry)
            ending(exchange)
            exchange.close()
            del exchange
        if not left:
            break
    assert left == []


async def served(envoy: Envoy, kind: dict[str, str], answer: bytes) -> None:
    """A whole exchange as Envoy has it; what has no answer is left by the client."""
    call = envoy.exchange()
    request = {**WITH_TOOLS, "stream": kind is EVENTS}
    for message in (request_headers(), request_body(request), response_headers(kind)):
        await call.write(message)
        await call.read()
    if not answer:
        call.cancel()
        return
    await call.write(response_body(answer))
    await call.read()
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF


OF_TRANSPORT: Mapping[Transport, int] = {"lean": 0, "grpcio": 6}
"""Objects of each call in one cycle. Those of grpcio it makes when it looks for the call's method: a function that
knows itself, what it knows, and the call's three or so header fields."""


@pytest.mark.parametrize("transport", OF_TRANSPORT)
@pytest.mark.parametrize(
    ("kind", "answer"),
    [(EVENTS, stream([CALL])), (EVENTS, b"data: nonsense\n\n"), (EVENTS, b""), (JSON, completion(CALL)), (JSON, b"{}")],
    ids=["a stream", "a broken stream", "a stream that is left", "a completion", "no completion"],
)
def test_nor_is_anything_of_an_exchange_as_it_is_served_but_what_grpc_leaves(
    kind: dict[str, str], answer: bytes, transport: Transport, tmp_path: Path
) -> None:
    async def main() -> list[object]:
        async with connected(CONFIG, tmp_path, transport=transport) as (processor, envoy):
            await served(envoy, kind, answer)
            with cycles() as left:
                for _ in range(10):
                    await served(envoy, kind, answer)
                assert await processor.drain(30)  # one that is left ends when the processor has heard of it
            return left

    for _ in range(5):  # as above
        left = asyncio.run(main())
        if len(left) <= 10 * OF_TRANSPORT[transport]:
            break
    kinds = Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in left)
    assert not [kind for kind in kinds if kind.startswith("extproc")], kinds
    assert len(left) <= 10 * OF_TRANSPORT[transport], kinds


def test_nor_is_a_request_that_is_refused_kept() -> None:
    effect = Prepare(orjson.dumps({**WITH_TOOLS, "temperature": 9}), CONFIG)
    kept = list[int]()
    for _ in range(5):  # other threads make objects too
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(100):
            effect.perform()
        kept.append(len(gc.get_objects()) - before)
    assert min(kept) < 100
