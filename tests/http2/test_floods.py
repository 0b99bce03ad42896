"""What a peer can't do: have the server work, or remember, much for little. And what honest ones may do.

Time stands still unless a test moves it, so that only what is allowed at once is.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from extproc.http2 import ErrorCode, Limits
from tests.http2.peer import OPENING, TIGHT, Peer
from tests.http2.wire import (
    ACK,
    DATA,
    END_HEADERS,
    HEADERS,
    INITIAL_WINDOW,
    LARGEST,
    PREFACE,
    PRIORITY,
    REQUEST,
    SETTINGS,
    UNKNOWN,
    block,
    continuation,
    data,
    frame,
    goaway,
    headers,
    opened,
    padded,
    ping,
    priority,
    rst_stream,
    settings,
    trailers,
    window_update,
)

CALM = ErrorCode.ENHANCE_YOUR_CALM


@dataclass(frozen=True, slots=True)
class Flood:
    """The same again and again."""

    of: str
    wave: Callable[[int], bytes]
    """The nth, from 1 on."""
    allowed: int
    """That many at once."""
    error: ErrorCode = CALM
    begins: bytes = b""


def closed_stream(_: int) -> bytes:
    return rst_stream(1)


FLOODS = (
    Flood("pings", lambda _: ping(), 199),
    Flood("answers to no ping", lambda _: ping(flags=ACK), 199),
    Flood("settings", lambda _: settings((INITIAL_WINDOW, 1)), 199),
    Flood("acknowledgements", lambda _: frame(SETTINGS, ACK), 199),
    Flood("priorities", lambda n: priority(2 * n + 1), 199),
    Flood("unknown frames", lambda _: frame(UNKNOWN, 0, 0, b"?"), 199),
    Flood("goodbyes", lambda _: goaway(), 199),
    Flood("empty data", lambda _: data(1), 199, begins=opened(1)),
    Flood("data that is padding alone", lambda _: padded(DATA, 0, 1, b"", 200), 199, begins=opened(1)),
    Flood("RST_STREAM for a stream that is closed", closed_stream, 199, begins=opened(1) + rst_stream(1)),
    Flood("streams that are opened and reset", lambda n: opened(2 * n + 1) + rst_stream(2 * n + 1), 500),
    Flood("malformed requests", lambda n: headers(2 * n + 1, (":no", "1")), 199),
    Flood("windows that grow by nothing", lambda n: opened(2 * n + 1) + window_update(2 * n + 1, 0), 199),
    Flood("windows that grow too large", lambda n: opened(2 * n + 1) + window_update(2 * n + 1, LARGEST), 199),
    Flood("priorities of 4 bytes", lambda n: opened(2 * n + 1) + frame(PRIORITY, 0, 2 * n + 1, bytes(4)), 199),
    Flood(
        "bodies longer than announced",
        lambda n: opened(2 * n + 1, ("content-length", "0")) + data(2 * n + 1, b"a"),
        199,
    ),
    Flood("data behind its stream's end", lambda n: headers(2 * n + 1) + data(2 * n + 1, b"a"), 199),
    Flood("fields behind their stream's end", lambda n: headers(2 * n + 1) + trailers(2 * n + 1), 199),
    Flood("a window that grows by a byte", lambda _: window_update(0, 1), 2000),
    Flood("windows of closed streams", lambda _: window_update(1, 1), 2000, begins=opened(1) + rst_stream(1)),
)


def begun(flood: Flood) -> Peer:
    peer = Peer(TIGHT)
    peer.say(flood.begins)
    peer.heard()
    return peer


@pytest.mark.parametrize("flood", FLOODS, ids=[flood.of for flood in FLOODS])
def test_a_flood_ends_the_connection_and_less_doesnt(flood: Flood) -> None:
    peer = begun(flood)
    for n in range(1, flood.allowed + 1):
        peer.say(flood.wave(n))
    assert peer.verdict() is None
    peer.say(*(flood.wave(flood.allowed + n) for n in (1, 2)))
    assert peer.verdict() is flood.error
    assert peer.connection.streams == 0


@pytest.mark.parametrize("flood", FLOODS, ids=[flood.of for flood in FLOODS])
def test_what_comes_now_and_then_is_no_flood(flood: Flood) -> None:
    peer = begun(flood)
    for n in range(1, 500):
        peer.now += 0.1
        peer.say(flood.wave(n))
    assert peer.verdict() is None


@pytest.mark.parametrize("flood", FLOODS, ids=[flood.of for flood in FLOODS])
def test_no_flood_makes_much_of_little(flood: Flood) -> None:
    """What is to be sent, of a peer that reads nothing, and what is remembered."""
    peer = begun(flood)
    sent = b"".join(flood.wave(n) for n in range(1, flood.allowed + 1))
    before = held(peer.connection)
    peer.say(sent)
    told = len(peer.told)
    peer.told.clear()
    assert held(peer.connection) - before < 4 * len(sent) + 32 * 1024 + 1000 * peer.connection.streams
    assert sum(len(piece) for piece in iter(peer.connection.output, b"")) <= 2 * len(sent) + 100
    assert told <= 2 * flood.allowed + 1


def held(value: object) -> int:
    """Bytes of all that is reachable from there, of our own and of containers."""
    seen: set[int] = set()

    def sizes(value: object) -> Iterator[int]:
        if id(value) in seen or isinstance(value, type | Limits):
            return
        seen.add(id(value))
        yield sys.getsizeof(value)
        if isinstance(value, dict):
            for pair in value.items():
                yield from sizes(pair[0])
                yield from sizes(pair[1])
        elif isinstance(value, memoryview):
            yield from sizes(value.obj)
        elif isinstance(value, list | tuple) or type(value).__name__ == "deque":
            for one in value:  # type: ignore[attr-defined]
                yield from sizes(one)
        elif type(value).__module__.startswith(("extproc.", "hpack.")):
            for name in (*getattr(value, "__dict__", ()), *getattr(type(value), "__slots__", ())):
                yield from sizes(getattr(value, name, None))

    return sum(sizes(value))


class TestHeaderSections:
    def test_more_continuations_than_anybody_needs(self) -> None:
        peer = Peer()
        pieces = [continuation(1, b"", 0)] * 16
        peer.say(frame(HEADERS, 0, 1, block()), *pieces)
        assert peer.verdict() is None
        peer.say(continuation(1, b"", END_HEADERS))
        assert peer.verdict() is CALM

    def test_sixteen_are_taken(self) -> None:
        peer = Peer()
        peer.say(frame(HEADERS, 0, 1, block()), *[continuation(1, b"", 0)] * 15, continuation(1, b""))
        assert len(peer.told) == 1

    def test_a_header_block_that_is_too_large_is_not_kept(self) -> None:
        peer = Peer()
        piece = bytes(16_000)
        peer.say(frame(HEADERS, 0, 1, piece), continuation(1, piece, 0))
        assert peer.verdict() is None
        peer.say(continuation(1, piece, 0))
        assert peer.verdict() is CALM
        assert held(peer.connection) < 32_768

    @pytest.mark.parametrize(
        "bomb",
        [
            pytest.param(b"\x40\x01x\x7f\x81\x1e" + b"y" * 3968 + b"\xbe" * 1000, id="one large field often"),
            pytest.param(b"\x40\x00\x00" + b"\xbe" * 2000, id="one small field often"),
            pytest.param(b"\x87" * 30_000, id="a field of the static table"),
            pytest.param(b"\x00\x00\x00" * 10_000, id="fields without a letter"),
        ],
    )
    def test_a_section_that_is_small_as_bytes_and_large_as_a_list(self, bomb: bytes) -> None:
        peer = Peer()
        tracemalloc.start()
        try:
            peer.say(frame(HEADERS, 5, 1, bomb))
            assert tracemalloc.get_traced_memory()[1] < 1024 * 1024
        finally:
            tracemalloc.stop()
        assert peer.verdict() is CALM

    def test_a_section_as_large_as_the_limit_is_taken_and_no_larger(self) -> None:
        usual = sum(32 + len(name) + len(value) for name, value in REQUEST)
        fits = "v" * (Limits().header_list_size - usual - 32 - 1)
        peer = Peer()
        peer.say(headers(1, ("x", fits)))
        assert len(peer.told) == 1
        peer.say(headers(3, ("x", fits + "v")))
        assert peer.verdict() is CALM

    def test_a_table_that_changes_its_size_all_the_time(self) -> None:
        peer = Peer()
        peer.say(frame(HEADERS, 5, 1, b"\x20\x3f\xe1\x1f" * 5000 + b"\x83\x86\x84"))
        assert held(peer.connection) < 32_768


class TestSettings:
    def test_more_settings_than_there_are(self) -> None:
        peer = Peer()
        peer.say(settings(*[(INITIAL_WINDOW, 1)] * 64))
        assert peer.verdict() is None
        peer.say(settings(*[(INITIAL_WINDOW, 1)] * 65))
        assert peer.verdict() is CALM

    def test_windows_of_many_streams_that_change_all_the_time(self) -> None:
        """Each change is work for every stream."""
        peer = Peer(TIGHT)
        peer.say(*(opened(2 * at + 1) for at in range(1000)))
        peer.heard()
        changes = 0
        while peer.verdict() is None:
            peer.say(settings((INITIAL_WINDOW, changes)))
            changes += 1
        assert 10 < changes < 30

    def test_windows_that_open_and_close_are_waited_for_once(self) -> None:
        peer = Peer(opening=PREFACE + settings((INITIAL_WINDOW, 0)))
        peer.begin(1)
        peer.connection.send(1, b"waits")
        peer.say(*[settings((INITIAL_WINDOW, 1), (INITIAL_WINDOW, 0))] * 500)
        size = held(peer.connection)
        peer.say(*[settings((INITIAL_WINDOW, 1), (INITIAL_WINDOW, 0))] * 500)
        peer.heard()
        assert held(peer.connection) <= size


class TestWindows:
    def test_a_window_that_grows_by_bytes_costs_what_it_says(self) -> None:
        """A frame for each, as the peer has it; but the answer is held once."""
        peer = Peer(opening=PREFACE + settings((INITIAL_WINDOW, 0)))
        peer.begin(1)
        peer.connection.send(1, bytes(100_000))
        before = held(peer.connection)
        heard = []
        for _ in range(5000):
            peer.say(window_update(1, 1))
            heard += peer.heard()
        assert sum(len(frame.payload) for frame in heard) == 5000
        assert held(peer.connection) < before + 10_000

    def test_what_waits_for_a_peer_that_takes_nothing_goes_with_its_stream(self) -> None:
        """The connection's window stays shut, and streams come and go: by either side's word, or by a fault."""
        peer = Peer()
        peer.begin(1)
        peer.connection.send(1, bytes(65_535))
        peer.heard()
        before = held(peer.connection)
        for at in range(200):
            stream = 6 * at + 3
            peer.begin(stream, stream + 2, stream + 4)
            for waits in (stream, stream + 2, stream + 4):
                peer.connection.send(waits, bytes(1000))
            peer.say(rst_stream(stream), window_update(stream + 2, 0))
            peer.connection.reset(stream + 4, ErrorCode.CANCEL)
            peer.heard()
        assert peer.connection.streams == 1
        assert held(peer.connection) - before < 150_000

    def test_the_connections_window_is_given_back_however_it_is_used(self) -> None:
        peer = Peer(Limits(connection_window=100_000, stream_window=90_000))
        peer.begin(1, 3)
        for _ in range(50):
            peer.say(data(1, bytes(20_000)), data(3, bytes(20_000)))
            peer.connection.consumed(1, 20_000)
            peer.connection.consumed(3, 20_000)
        assert peer.verdict() is None

    def test_more_data_for_a_stream_that_we_reset_than_could_be_on_its_way(self) -> None:
        peer = Peer()
        peer.begin(1)
        peer.say(data(1, bytes(5536)))
        peer.connection.reset(1, ErrorCode.CANCEL)
        peer.say(data(1, bytes(60_000)), data(1, bytes(5536)))
        assert peer.verdict() is None
        peer.say(data(1, b"?"))
        assert peer.verdict() is ErrorCode.FLOW_CONTROL_ERROR

    def test_all_that_was_expected_may_be(self) -> None:
        peer = Peer()
        peer.begin(1)
        peer.connection.expect(1, 300_000)
        peer.connection.reset(1, ErrorCode.CANCEL)
        peer.say(*[data(1, bytes(60_000))] * 5)
        assert peer.verdict() is None
        peer.say(data(1, b"?"))
        assert peer.verdict() is ErrorCode.FLOW_CONTROL_ERROR

    def test_empty_data_and_fields_for_a_stream_that_we_reset(self) -> None:
        for late in (data(1), headers(1)):
            peer = Peer(TIGHT)
            peer.begin(1)
            peer.connection.reset(1, ErrorCode.CANCEL)
            peer.say(*[late] * 190)
            assert peer.verdict() is None
            peer.say(*[late] * 20)
            assert peer.verdict() is CALM


class TestTheEnd:
    def test_a_peer_that_doesnt_heed_it(self) -> None:
        peer = Peer(TIGHT)
        peer.connection.shut_down()
        [*_, drain] = peer.heard()
        peer.say(ping(drain.payload, ACK))
        peer.say(*(opened(2 * at + 1) for at in range(190)))
        assert peer.verdict() is None
        assert peer.told == []
        peer.say(*(opened(2 * at + 1) for at in range(190, 210)))
        assert peer.verdict() is CALM

    def test_an_error_says_which_rule_and_nothing_that_came(self) -> None:
        secret = b"Bearer-of-somebody"
        peer = Peer()
        peer.say(frame(HEADERS, 5, 1, b"\x00\x01x\x7f\xff\xff\xff\xff\xff" + secret))
        [bye] = peer.heard()[3:]
        assert peer.connection.fault is not None
        assert secret not in bye.payload
        assert secret.decode() not in str(peer.connection.fault)
        assert len(bye.payload) < 200


def test_a_trickle_costs_no_more_than_its_bytes_and_a_frame() -> None:
    """However it is cut, no more is kept than the frame that isn't whole."""
    peer = Peer(opening=b"")
    sent = OPENING + opened(1) + data(1, bytes(60_000))
    for at in range(len(sent) - 1):
        peer.say(sent[at : at + 1])
    assert 60_000 < held(peer.connection) < 80_000
    peer.say(sent[-1:])
    assert held(peer.connection) < 16_000
