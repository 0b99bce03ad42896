"""Histories of the gateway's core go right in every order of events, and what is wrong in it is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from extproc.exchange.context import ExchangeContext
from extproc.server.processor import Processor
from extproc.transport.lean.connection import LeanCall
from extproc.transport.lean.messages import MessageReader
from tests.simulation.__main__ import main
from tests.simulation.history import EXCHANGES
from tests.simulation.plans import Fate
from tests.simulation.searching import Found, played, search, smallest, wrong

FOUND: list[tuple[int, tuple[int, ...]]] = []
"""Seeds that have shown something wrong once, and the exchanges of it that did."""


def test_histories_go_right() -> None:
    fates, found = search(range(40), seconds=60)
    assert found is None, str(found)
    assert fates.total() == 800
    assert fates.keys() == {fate.value for fate in Fate}


@pytest.mark.parametrize(("seed", "keep"), FOUND)
def test_what_was_found_goes_right(seed: int, keep: tuple[int, ...]) -> None:
    assert wrong(seed, keep) is None
    assert wrong(seed) is None


def test_a_seed_is_the_same_history_each_time() -> None:
    assert played(7) == played(7)
    assert played(7).fates != played(8).fates


def first_found() -> Found:
    for seed in range(200):
        if wrong(seed) is not None:
            return smallest(seed)
    raise AssertionError("it isn't found")


# Planted


def test_a_reload_that_reaches_exchanges_which_have_begun_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go_by(self: Processor, context: ExchangeContext) -> None:
        self.context = context
        for call in self._running:
            call.exchange.request.context = context

    monkeypatch.setattr(Processor, "go_by", go_by)
    found = first_found()
    assert "it goes by another configuration" in found.why
    assert len(found.keep) < EXCHANGES


def test_a_prefix_that_is_lost_where_it_is_cut_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = MessageReader.feed

    def lossy(self: MessageReader, data: bytes) -> list[bytes | bytearray]:
        return [] if 0 < len(data) < 5 and not self.amid else feed(self, data)

    monkeypatch.setattr(MessageReader, "feed", lossy)
    assert len(first_found().keep) < EXCHANGES


def test_pieces_that_change_places_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    send, held = LeanCall.send, dict[LeanCall, bytes]()

    def swapping(self: LeanCall, message: bytes) -> None:
        if len(message) > 300 and self not in held:
            held[self] = message
            self._connection._loop.call_soon(late, self)
        else:
            send(self, message)

    def late(call: LeanCall) -> None:
        send(call, held.pop(call))

    monkeypatch.setattr(LeanCall, "send", swapping)
    assert len(first_found().keep) < EXCHANGES


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level("CRITICAL"):
        yield


def test_the_command_tells_how_many_went_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seconds", "0", "--processes", "1", "--first", "0"]) == 0
    assert "20 exchanges in" in capsys.readouterr().out
    assert main(["--seed", "3", "--keep", "1,2"]) == 0
    assert "exchanges=2" in capsys.readouterr().out
