"""Damaged frames and honest exchanges: a few of those that `python -m tests.http2.fuzz` has more of."""

from __future__ import annotations

import pytest

from extproc.http2 import Connection
from tests.http2 import damaged, exchanges
from tests.http2.exchanges import WrongError


def test_whatever_comes_is_dealt_with_the_same_in_every_cut() -> None:
    ends = damaged.many(range(40))
    assert ends.total() == 40
    assert len(ends) >= 5
    assert ends["goes on"] > 4


def test_all_that_an_honest_client_and_the_server_say_arrives() -> None:
    ends = exchanges.many(range(50))
    assert ends["whole"] > 150
    assert ends["reset"] > 10
    assert ends["reset 0"] > 5


class Loses(Connection):
    def send(self, stream_id: int, data: bytes) -> None:
        super().send(stream_id, data[:-1] if len(data) > 999 else data)


class Forgets(Connection):
    def consumed(self, stream_id: int, size: int) -> None:
        super().consumed(stream_id, size // 2)


class Overflows(Connection):
    def send(self, stream_id: int, data: bytes) -> None:
        if (stream := self._streams.get(stream_id)) is not None:
            stream.send_window += 1
        super().send(stream_id, data)


@pytest.mark.parametrize("broken", [Loses, Forgets, Overflows])
def test_a_server_that_is_wrong_is_found_out(broken: type[Connection], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "Connection", broken)
    with pytest.raises(Exception, match=r".") as caught:
        exchanges.many(range(200))
    assert "python -m tests.http2.fuzz --exchange" in caught.value.__notes__[0]


class Forgetful(Connection):
    """It makes something else of what comes byte by byte."""

    def receive(self, data: bytes, now: float) -> list[object]:  # type: ignore[override]
        return [] if len(data) == 1 and not self._streams else list(super().receive(data, now))


def test_so_is_one_that_depends_on_the_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damaged, "Connection", Forgetful)
    with pytest.raises(WrongError, match="in pieces of"):
        damaged.many(range(40))
