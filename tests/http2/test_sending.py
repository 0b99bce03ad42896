"""What the server says: within the peer's windows and frame size, in order, each stream in its turn."""

from __future__ import annotations

import pytest
from hpack import Decoder

from extproc.http2 import ErrorCode, Limits, RequestBegun, written
from tests.http2.peer import ANSWERED, ENDED, Peer, body_of, kinds, resets, room
from tests.http2.wire import (
    ACK,
    CONCURRENT_STREAMS,
    CONTINUATION,
    DATA,
    END_HEADERS,
    FRAME_SIZE,
    HEADERS,
    INITIAL_WINDOW,
    LARGEST,
    LIST_SIZE,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    TABLE_SIZE,
    WHOLE,
    WINDOW_UPDATE,
    Frame,
    data,
    headers,
    number,
    opened,
    ping,
    rst_stream,
    settings,
    trailers,
    window_update,
)

DEFAULT = 65_535
TEXT = bytes(range(256)) * 1024


def peer_with(*values: tuple[int, int], room: int = 0) -> Peer:
    """With such settings, and a wider window for the connection."""
    return Peer(opening=PREFACE + settings(*values) + (window_update(0, room) if room else b""))


def counted(frames: list[Frame]) -> list[tuple[int, int]]:
    """Streams and sizes of DATA frames."""
    return [(frame.stream, len(frame.payload)) for frame in frames if frame.kind == DATA]


def fields_of(decoder: Decoder, frame: Frame) -> list[tuple[str, str]]:
    return [(str(name), str(value)) for name, value in decoder.decode(frame.payload)]


class TestBeginning:
    def test_settings_come_first_and_the_peers_are_acknowledged(self) -> None:
        first, window, ack = Peer().heard()
        assert (first.kind, first.flags, first.stream) == (SETTINGS, 0, 0)
        said = {first.payload[at + 1]: number(first.payload, at + 2) for at in range(0, len(first.payload), 6)}
        assert said == {CONCURRENT_STREAMS: 10_000, INITIAL_WINDOW: 65_536, FRAME_SIZE: 65_536, LIST_SIZE: 32_768}
        assert (window.kind, number(window.payload)) == (WINDOW_UPDATE, 16 * 1024 * 1024 - DEFAULT)
        assert ack == Frame(SETTINGS, ACK, 0, b"")

    def test_a_ping_is_answered_with_what_it_carries_and_an_answer_is_not(self) -> None:
        peer = Peer()
        peer.heard()
        peer.say(ping(b"12345678"), ping(b"87654321", ACK))
        assert peer.heard() == [Frame(PING, ACK, 0, b"12345678")]


class TestAnswers:
    def test_an_answer_is_a_header_section_data_and_trailers(self) -> None:
        peer = Peer()
        peer.say(headers(1))
        peer.heard()
        peer.connection.respond(1, ANSWERED)
        peer.connection.send(1, b"Hel")
        peer.connection.send(1, b"lo")
        peer.connection.end(1, ENDED)
        heard, decoder = peer.heard(), Decoder()
        assert kinds(heard) == [HEADERS, DATA, DATA, HEADERS]
        assert [frame.ends for frame in heard] == [False, False, False, True]
        assert body_of(heard, 1) == b"Hello"
        assert fields_of(decoder, heard[0]) == [(":status", "200"), ("content-type", "application/grpc")]
        assert fields_of(decoder, heard[3]) == [("grpc-status", "0")]
        assert peer.connection.streams == 0

    def test_an_answer_before_the_requests_end_asks_for_no_more_of_it(self) -> None:
        peer = Peer()
        peer.begin(1)
        peer.connection.end(1, ENDED)
        heard = peer.heard()
        assert kinds(heard) == [HEADERS, RST_STREAM]
        assert heard[0].ends
        assert resets(heard) == [(1, ErrorCode.NO_ERROR)]
        assert peer.say(data(1, b"late"), trailers(1)) == []
        assert peer.is_served()

    def test_what_is_said_for_a_stream_that_is_over_is_dropped(self) -> None:
        peer = Peer()
        peer.begin(1)
        peer.say(rst_stream(1))
        connection = peer.connection
        connection.respond(1, ANSWERED)
        connection.send(1, b"late")
        connection.end(1, ENDED)
        connection.reset(1, ErrorCode.CANCEL)
        connection.consumed(1, 100_000)
        connection.expect(1, 100_000)
        assert peer.heard() == []
        assert connection.unsent(1) == 0

    def test_a_reset_drops_what_waits(self) -> None:
        peer = peer_with((INITIAL_WINDOW, 0))
        peer.begin(1)
        peer.connection.send(1, b"waiting")
        peer.connection.end(1, ENDED)
        peer.connection.reset(1, ErrorCode.INTERNAL_ERROR)
        peer.say(settings((INITIAL_WINDOW, 100)))
        heard = peer.heard()
        assert kinds(heard) == [RST_STREAM]
        assert resets(heard) == [(1, ErrorCode.INTERNAL_ERROR)]

    @pytest.mark.parametrize("table", [0, 4095])
    def test_a_peer_with_a_smaller_table_learns_that_none_is_used(self, table: int) -> None:
        """Its decoder refuses header blocks that don't say so (RFC 7541, section 4.2)."""
        peer = peer_with((TABLE_SIZE, table))
        peer.say(headers(1), headers(3))
        peer.heard()
        decoder = Decoder()
        decoder.max_allowed_table_size = table
        for stream in (1, 3):
            peer.connection.respond(stream, ENDED, end=True)
            [heard] = peer.heard()
            assert fields_of(decoder, heard) == [("grpc-status", "0")]

    @pytest.mark.parametrize("last", [False, True])
    def test_a_large_header_section_is_cut_into_frames(self, last: bool) -> None:
        fields = [(b":status", b"200"), (b"grpc-message", b"x" * 40_000)]
        peer = Peer()
        peer.say(headers(1))
        peer.heard()
        peer.connection.respond(1, written(fields), end=last)
        heard = peer.heard()
        assert [frame.kind for frame in heard] == [HEADERS, CONTINUATION, CONTINUATION]
        assert [frame.flags for frame in heard] == [int(last), 0, END_HEADERS]
        assert all(len(frame.payload) <= 16_384 for frame in heard)
        assert list(Decoder().decode(b"".join(frame.payload for frame in heard), raw=True)) == fields


class TestWindows:
    def test_a_stream_says_no_more_than_its_window_has_room_for(self) -> None:
        peer = peer_with((INITIAL_WINDOW, 10))
        peer.begin(1)
        peer.connection.send(1, TEXT[:25])
        assert counted(peer.heard()) == [(1, 10)]
        assert peer.connection.unsent(1) == 15
        assert not peer.connection.has_output
        peer.say(window_update(1, 1))
        assert peer.connection.has_output
        assert counted(peer.heard()) == [(1, 1)]
        peer.say(window_update(1, 100))
        assert counted(peer.heard()) == [(1, 14)]
        peer.connection.send(1, b"x" * 86)
        assert counted(peer.heard()) == [(1, 86)]

    def test_a_window_of_one_byte_lets_one_byte_go(self) -> None:
        peer = peer_with((INITIAL_WINDOW, 1))
        peer.begin(1)
        peer.connection.send(1, b"ab")
        assert body_of(peer.heard(), 1) == b"a"

    def test_all_streams_together_say_no_more_than_the_connection_has_room_for(self) -> None:
        peer = peer_with((INITIAL_WINDOW, LARGEST))
        peer.begin(1, 3)
        peer.connection.send(1, TEXT[:50_000])
        peer.connection.send(3, TEXT[:50_000])
        heard = peer.heard()
        assert len(body_of(heard, 1)) + len(body_of(heard, 3)) == DEFAULT
        assert not peer.connection.has_output
        peer.say(window_update(0, 100_000))
        heard += peer.heard()
        assert body_of(heard, 1) == body_of(heard, 3) == TEXT[:50_000]

    def test_windows_become_smaller_and_negative_by_settings(self) -> None:
        peer = peer_with((INITIAL_WINDOW, 100))
        peer.begin(1)
        peer.connection.send(1, TEXT[:150])
        assert counted(peer.heard()) == [(1, 100)]
        peer.say(settings((INITIAL_WINDOW, 30)), window_update(1, 70))  # -70, and 0
        assert counted(peer.heard()) == []
        peer.say(window_update(1, 1))
        assert counted(peer.heard()) == [(1, 1)]
        peer.say(settings((INITIAL_WINDOW, 40)))
        assert counted(peer.heard()) == [(1, 10)]

    def test_a_window_that_shrinks_takes_back_what_could_have_gone(self) -> None:
        peer = peer_with((INITIAL_WINDOW, 20_000))
        peer.begin(1)
        peer.connection.send(1, TEXT[:20_000])  # larger than a frame, so that it waits for `output`
        peer.say(settings((INITIAL_WINDOW, 0)))
        assert counted(peer.heard()) == []
        peer.connection.send(1, b"more")
        peer.say(settings((INITIAL_WINDOW, 20_004)))
        assert body_of(peer.heard(), 1) == TEXT[:20_000] + b"more"

    def test_an_empty_piece_waits_for_no_room(self) -> None:
        peer = peer_with((INITIAL_WINDOW, 0))
        peer.begin(1)
        peer.connection.send(1, b"a")
        peer.connection.send(1, b"")
        peer.connection.end(1, ENDED)
        assert counted(peer.heard()) == []
        peer.say(window_update(1, 1))
        assert kinds(peer.heard()) == [DATA, HEADERS, RST_STREAM]

    def test_streams_that_are_opened_later_have_the_new_window(self) -> None:
        peer = Peer()
        peer.say(settings((INITIAL_WINDOW, 5)))
        peer.begin(1)
        peer.connection.send(1, b"123456")
        assert counted(peer.heard()) == [(1, 5)]

    def test_header_sections_need_no_window(self) -> None:
        peer = peer_with((INITIAL_WINDOW, 0))
        peer.begin(1)
        peer.connection.end(1, ENDED)
        assert HEADERS in kinds(peer.heard())

    def test_trailers_come_behind_all_data(self) -> None:
        peer = peer_with((INITIAL_WINDOW, 10))
        peer.begin(1)
        peer.connection.send(1, TEXT[:25])
        peer.connection.end(1, ENDED)
        heard = peer.heard()
        for _ in range(2):
            assert not any(frame.ends for frame in heard)
            assert peer.connection.streams == 1
            peer.say(window_update(1, 10))
            heard += peer.heard()
        assert kinds(heard) == [DATA, DATA, DATA, HEADERS, RST_STREAM]
        assert heard[-2].ends
        assert peer.connection.streams == 0


class TestFrameSize:
    def test_no_frame_is_larger_than_the_peer_takes(self) -> None:
        peer = peer_with((INITIAL_WINDOW, LARGEST), room=10**6)
        peer.begin(1)
        peer.connection.send(1, TEXT[:40_000])
        assert counted(peer.heard()) == [(1, 16_384), (1, 16_384), (1, 7232)]

    def test_one_that_takes_larger_ones_gets_them_up_to_a_bound(self) -> None:
        peer = peer_with((INITIAL_WINDOW, LARGEST), (FRAME_SIZE, 2**24 - 1), room=10**6)
        peer.begin(1)
        peer.connection.send(1, TEXT[:65_536])
        peer.connection.send(1, TEXT[:65_537])
        assert counted(peer.heard()) == [(1, 65_536), (1, 65_536), (1, 1)]

    def test_one_call_of_output_gives_what_a_socket_takes(self) -> None:
        peer = peer_with((INITIAL_WINDOW, LARGEST), room=10**7)
        peer.begin(1)
        for _ in range(20):
            peer.connection.send(1, TEXT)
        pieces = []
        while piece := peer.connection.output():
            pieces.append(len(piece))
        assert sum(pieces) == 20 * len(TEXT) + 9 * 20 * len(TEXT) // 16_384
        assert max(pieces) < len(TEXT) + 3 * 16_384


class TestTurns:
    def test_streams_are_served_in_turn(self) -> None:
        peer = peer_with((INITIAL_WINDOW, LARGEST), room=10**7)
        peer.begin(1, 3, 5)
        peer.connection.send(1, TEXT)
        peer.connection.send(3, TEXT[:40_000])
        peer.connection.send(5, TEXT[:20_000])
        assert [stream for stream, _ in counted(peer.heard())][:8] == [1, 3, 5, 1, 3, 5, 1, 3]

    def test_one_that_has_little_to_say_doesnt_overtake_one_that_waits(self) -> None:
        """Otherwise it could take each bit of room, and the other wait for ever."""
        peer = peer_with((INITIAL_WINDOW, LARGEST))
        peer.begin(1, 3)
        peer.connection.send(1, TEXT)
        peer.heard()
        heard = []
        for _ in range(100):
            peer.say(window_update(0, 10))
            peer.connection.send(3, bytes(10))
            heard += peer.heard()
        assert len(body_of(heard, 1)) == len(body_of(heard, 3)) == 500

    def test_one_whose_window_is_full_holds_up_nobody(self) -> None:
        peer = peer_with((INITIAL_WINDOW, 10), room=10**6)
        peer.begin(1, 3)
        peer.connection.send(1, bytes(20))
        peer.heard()
        peer.connection.send(3, bytes(10))
        assert counted(peer.heard()) == [(3, 10)]


class TestWhatComes:
    """The windows that the server gives."""

    def test_the_connections_window_is_given_back_as_it_is_used(self) -> None:
        peer = Peer()
        peer.begin(1)
        given, used = 0, 0
        for _ in range(200):
            peer.say(data(1, bytes(60_000)))
            peer.connection.consumed(1, 60_000)
            used += 60_000
            given += room(peer.heard(), 0)
            assert 0 <= used - given <= 16 * 1024 * 1024 // 4

    def test_a_streams_window_is_given_back_once_its_data_is_consumed(self) -> None:
        peer = Peer()
        peer.begin(1)
        peer.say(data(1, bytes(65_536)))
        assert room(peer.heard(), 1) == 0
        peer.connection.consumed(1, 32_767)
        assert room(peer.heard(), 1) == 0
        peer.connection.consumed(1, 1)
        assert room(peer.heard(), 1) == 32_768
        peer.connection.consumed(1, 32_768)
        assert room(peer.heard(), 1) == 32_768

    def test_what_has_to_come_as_a_whole_gets_room_for_the_whole_and_for_no_more(self) -> None:
        peer = Peer()
        peer.begin(1)
        given = 65_536
        for _ in range(3):
            peer.connection.expect(1, 300_000)
            given += room(peer.heard(), 1)
            assert given == 300_000
            for at in range(0, 300_000, 60_000):
                assert len(peer.say(data(1, bytes(min(60_000, 300_000 - at))))) == 1
            peer.connection.consumed(1, 300_000)
            given += room(peer.heard(), 1) - 300_000
            assert given <= 65_536

    def test_a_request_that_has_ended_gets_no_room(self) -> None:
        peer = Peer()
        peer.begin(1)
        peer.say(data(1, bytes(65_536), 1))
        peer.connection.consumed(1, 65_536)
        peer.connection.expect(1, 10**6)
        assert room(peer.heard(), 1) == 0


def test_streams_beyond_the_limit_are_refused_and_others_go_on() -> None:
    limit = 100
    peer = Peer(Limits(concurrent_streams=limit))
    peer.say(*(opened(2 * at + 1) for at in range(limit)))
    assert len(peer.told) == limit
    peer.heard()
    late = 2 * limit + 1
    assert peer.say(opened(late), data(late, b"body"), trailers(late)) == []
    assert resets(peer.heard()) == [(late, ErrorCode.REFUSED_STREAM)]
    peer.say(rst_stream(1))
    assert [type(event) for event in peer.say(headers(late + 2, flags=WHOLE))] == [RequestBegun]
