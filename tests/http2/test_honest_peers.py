"""What is no flood, however much it is."""

from __future__ import annotations

from extproc.http2 import ErrorCode
from tests.http2.peer import ENDED, TIGHT, Peer, kinds, resets
from tests.http2.wire import (
    END_STREAM,
    HEADERS,
    RST_STREAM,
    data,
    opened,
    ping,
    rst_stream,
    window_update,
)


def test_many_clients_leave_at_a_time() -> None:
    peer = Peer(TIGHT)
    for at in range(450):
        peer.say(opened(2 * at + 1), data(2 * at + 1, b"prompt"))
    peer.say(*(rst_stream(2 * at + 1) for at in range(450)))
    assert peer.verdict() is None
    assert peer.connection.streams == 0


def test_clients_that_leave_while_they_are_answered_may_be_any_number() -> None:
    peer = Peer(TIGHT)
    for at in range(1200):
        peer.begin(2 * at + 1)
        peer.say(rst_stream(2 * at + 1))
    assert peer.verdict() is None


def test_a_peer_may_reset_every_stream_that_we_end_early() -> None:
    """Its RST_STREAM and ours meet on the way."""
    peer = Peer(TIGHT)
    for at in range(1200):
        stream = 2 * at + 1
        peer.begin(stream)
        peer.connection.end(stream, ENDED)
        assert kinds(peer.heard()) == [HEADERS, RST_STREAM]
        peer.say(rst_stream(stream))
    assert peer.verdict() is None


def test_a_large_request_that_we_reset_goes_on_coming_for_a_while() -> None:
    peer = Peer()
    peer.begin(1)
    peer.connection.expect(1, 40_000_000)
    peer.connection.reset(1, ErrorCode.CANCEL)
    for _ in range(2500):
        peer.say(data(1, bytes(16_000)))
    assert peer.verdict() is None


def test_messages_may_be_as_small_and_as_many_as_they_are() -> None:
    peer = Peer()
    peer.begin(1)
    for _ in range(20):
        peer.say(*[data(1, b"a")] * 1000)
        peer.connection.consumed(1, 1000)
    assert peer.verdict() is None


def test_a_window_update_for_every_piece_of_an_answer() -> None:
    peer = Peer(TIGHT)
    peer.begin(1)
    for _ in range(5000):
        peer.now += 0.002
        peer.connection.send(1, b"token")
        assert peer.connection.output()
        peer.say(window_update(0, 5), window_update(1, 5))
    assert peer.verdict() is None


def test_a_ping_each_second_for_a_day() -> None:
    peer = Peer()
    for _ in range(86_400 // 100):
        peer.now += 100
        peer.say(*[ping()] * 100)
        assert len(peer.connection.output()) >= 1700
    assert peer.verdict() is None


def test_a_thousand_streams_under_way_that_are_answered_at_once() -> None:
    peer = Peer()
    streams = range(1, 2001, 2)
    peer.begin(*streams)
    for stream in streams:
        peer.connection.send(stream, b"answer")
        peer.connection.end(stream, ENDED)
    assert len(resets(peer.heard())) == 1000
    peer.say(*(data(stream, b"late") + rst_stream(stream) for stream in streams))
    assert peer.verdict() is None


def test_ends_of_requests_that_meet_the_ends_of_their_answers_are_no_flood() -> None:
    """As of calls that the server ends first; the same end a second time is one."""
    peer = Peer()
    for at in range(5000):
        stream = 2 * at + 1
        peer.say(opened(stream))
        peer.connection.respond(stream, ENDED, end=True)
        peer.say(data(stream, b"", END_STREAM))
        peer.heard()
    assert peer.is_served()
    peer.say(data(stream, b"", END_STREAM) * 3000)
    assert peer.verdict() is ErrorCode.ENHANCE_YOUR_CALM
