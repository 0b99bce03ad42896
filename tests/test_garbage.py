"""Nothing of an exchange is left when it is over, without the garbage collector: that one looks seldom (`serve`)."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator, Mapping

import orjson
import pytest

from extproc.config import parse
from extproc.effects import BackendSaid, Prepare
from extproc.exchange import LARGE, Exchange, Phase
from extproc.telemetry import Telemetry
from extproc.terms import Terms
from tests.gateway import MODEL
from tests.test_answer import CALL, completion, stream
from tests.test_exchange import EVENTS, JSON, WITH_TOOLS, request_body, request_headers, response_body, response_headers
from tests.test_second_try import DEMAND, SETTINGS, WORDS

CONFIG = parse(SETTINGS.format(model=MODEL, port=1), source="test")


@pytest.fixture(autouse=True)
def without_collector() -> Iterator[None]:
    gc.collect()
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


def asked_again(exchange: Exchange, kind: dict[str, str], second: bytes) -> None:
    first = stream([WORDS]) if kind is EVENTS else completion(WORDS)
    answered(exchange, {**DEMAND, "model": "strict", "stream": kind is EVENTS}, kind, first)
    assert exchange.phase is Phase.ASKING_AGAIN
    exchange.resume(BackendSaid(200, second))


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
    "a good second answer": lambda exchange: asked_again(exchange, JSON, completion(CALL)),
    "a bad second answer": lambda exchange: asked_again(exchange, JSON, completion(WORDS)),
    "no second answer": lambda exchange: asked_again(exchange, JSON, b"nonsense"),
    "a good second stream": lambda exchange: asked_again(exchange, EVENTS, stream([CALL])),
    "a bad second stream": lambda exchange: asked_again(exchange, EVENTS, stream([WORDS])),
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_an_exchange_that_is_over_is_gone(ending: Callable[[Exchange], None]) -> None:
    exchange = Exchange(Terms(CONFIG), Telemetry(CONFIG))
    ending(exchange)
    exchange.close()
    seen = weakref.ref(exchange)
    del exchange
    assert seen() is None


def test_nor_is_a_request_that_is_refused_kept() -> None:
    effect = Prepare(orjson.dumps({**WITH_TOOLS, "temperature": 9}), CONFIG)
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(100):
        effect.perform()
    assert len(gc.get_objects()) - before < 100
