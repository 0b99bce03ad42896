"""How a connection ends: gracefully, at once, or with an error; and what is ignored from then on."""

from __future__ import annotations

from extproc.http2 import ErrorCode, RequestBegun, StreamReset
from tests.http2.peer import ANSWERED, ENDED, OPENING, Peer, body_of
from tests.http2.wire import (
    ACK,
    GOAWAY,
    LARGEST,
    PING,
    data,
    goaway,
    headers,
    number,
    opened,
    ping,
    rst_stream,
    trailers,
    window_update,
)


def test_a_graceful_end_serves_what_is_on_its_way() -> None:
    peer = Peer()
    peer.begin(1)
    peer.connection.shut_down()
    peer.connection.shut_down()
    first, drain = peer.heard()
    assert (first.kind, number(first.payload), first.code) == (GOAWAY, LARGEST, ErrorCode.NO_ERROR)
    assert (drain.kind, drain.flags) == (PING, 0)
    [event] = peer.say(opened(3))
    assert isinstance(event, RequestBegun)
    peer.connection.respond(3, ANSWERED)
    peer.say(ping(drain.payload, ACK))
    assert [(frame.kind, number(frame.payload)) for frame in peer.heard() if frame.kind == GOAWAY] == [(GOAWAY, 3)]
    for stream in (1, 3):
        peer.say(data(stream, b"body", 1))
        peer.connection.send(stream, b"answer")
        peer.connection.end(stream, ENDED)
    assert body_of(peer.heard(), 3) == b"answer"
    assert peer.connection.streams == 0
    assert not peer.connection.closed


def test_streams_behind_it_are_ignored_whatever_comes_of_them() -> None:
    peer = Peer()
    peer.begin(1)
    peer.connection.shut_down()
    [_, drain] = peer.heard()
    peer.say(ping(drain.payload, ACK))
    peer.heard()
    late = (opened(3), data(3, b"body"), window_update(3, 1), trailers(3), rst_stream(3))
    assert peer.say(*late) == []
    assert peer.heard() == []
    assert [type(event) for event in peer.say(data(1, b"still"), headers(5), rst_stream(1))][1:] == [StreamReset]
    assert peer.is_served()


def test_nobody_but_the_server_begins_it() -> None:
    peer = Peer()
    peer.connection.shut_down()
    [*_, drain] = peer.heard()
    other = Peer()
    other.say(ping(drain.payload, ACK), headers(1))
    assert [type(event) for event in other.told] == [RequestBegun]


def test_a_peer_that_goes_away_is_served_to_the_end() -> None:
    peer = Peer()
    peer.begin(1)
    peer.say(goaway())
    peer.connection.send(1, b"answer")
    peer.connection.end(1, ENDED)
    assert body_of(peer.heard(), 1) == b"answer"


def test_after_the_end_nothing_is_read_and_nothing_said() -> None:
    peer = Peer()
    peer.begin(1)
    peer.connection.send(1, bytes(300_000))
    peer.heard()
    peer.connection.close(ErrorCode.NO_ERROR)
    [bye] = peer.heard()
    assert (bye.kind, number(bye.payload), bye.code) == (GOAWAY, 1, ErrorCode.NO_ERROR)
    assert peer.connection.closed
    assert peer.say(window_update(0, 1000), headers(3), ping()) == []
    peer.connection.send(1, b"more")
    peer.connection.shut_down()
    peer.connection.close()
    assert peer.heard() == []


def test_what_was_told_before_an_error_stays_told() -> None:
    peer = Peer()
    assert [type(event) for event in peer.say(headers(1), data(3, b"?"), headers(5))] == [RequestBegun]
    assert peer.verdict() is ErrorCode.PROTOCOL_ERROR


def test_the_last_goaway_names_the_last_stream() -> None:
    peer = Peer()
    peer.say(headers(1), headers(7), OPENING)
    [bye] = [frame for frame in peer.heard() if frame.kind == GOAWAY]
    assert number(bye.payload) == 7
