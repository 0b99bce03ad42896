"""Any bytes, in any cut: the same events and the same output, no exception, and work as long as what came."""

from __future__ import annotations

import time
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from extproc.http2 import Connection, Event
from tests.http2.peer import OPENING, TIGHT
from tests.http2.wire import PREFACE, block, data, frame, headers, opened, settings, window_update

BITS = st.sampled_from((0, 1, 4, 5, 8, 0x2D, 0xFF)) | st.integers(0, 255)
STREAMS = st.sampled_from((0, 1, 1, 3, 5, 2)) | st.integers(0, 2**32 - 1)
PAYLOADS = st.binary(max_size=40) | st.sampled_from((bytes(4), bytes(5), bytes(8), block(), block() + b"\x20"))
FRAMES = st.builds(frame, st.integers(0, 10), BITS, STREAMS, PAYLOADS)
USUAL = st.sampled_from((opened(1), headers(1), opened(3), data(1, b"abc"), data(1, b"d", 1), settings((4, 0))))
SENT = st.lists(FRAMES | USUAL | st.binary(max_size=12), max_size=12).map(b"".join)
BEGUN = st.sampled_from((OPENING, OPENING + opened(1), PREFACE, b""))


def made_of(pieces: list[bytes]) -> tuple[list[Event], bytes, object]:
    connection = Connection(TIGHT)
    told = [event for piece in pieces for event in connection.receive(piece, 0.0)]
    said = b"".join(iter(connection.output, b""))
    return told, said, connection.fault and (connection.fault.code, str(connection.fault))


@given(BEGUN, SENT, st.lists(st.integers(0, 400), max_size=8))
def test_every_cut_is_the_same(begun: bytes, sent: bytes, places: list[int]) -> None:
    whole = begun + sent
    at = [0, *sorted(place for place in places if place < len(whole)), len(whole)]
    first = made_of([whole])
    assert made_of([whole[start:end] for start, end in pairwise(at)]) == first
    assert made_of([whole[place : place + 1] for place in range(len(whole))]) == first
    assert len(first[1]) <= 3 * len(whole) + 300


@given(st.binary(max_size=60))
def test_any_header_block_is_read_or_refused(payload: bytes) -> None:
    told, _, fault = made_of([OPENING, frame(1, 5, 1, payload), window_update(0, 1)])
    assert fault is None or not told


def test_twice_as_much_takes_twice_as_long() -> None:
    """Four times as much would take sixteen times as long, if it were the square."""

    def seconds(pieces: list[bytes]) -> float:
        best = 1e9
        for _ in range(3):
            connection = Connection()
            connection.receive(OPENING + opened(1), 0.0)
            connection.expect(1, 10**7)
            begin = time.process_time()
            for piece in pieces:
                for event in connection.receive(piece, 0.0):
                    connection.consumed(event.stream_id, 100)
            best = min(best, time.process_time() - begin)
            assert connection.fault is None
        return best

    small = data(1, bytes(100))
    assert seconds([small * 16_000]) < 12 * seconds([small * 4_000])
    assert seconds([small] * 8_000) < 12 * seconds([small] * 2_000)
