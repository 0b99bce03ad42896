"""Server-sent events survive any cut of their bytes."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from extproc.contract.sse import Comment, Data, ServerEvent, SseDecoder, encode

RECORDED = (Path(__file__).parent / "recordings" / "plain" / "chat_stream_usage.body.txt").read_bytes()


def decode(pieces: list[bytes]) -> list[ServerEvent]:
    decoder = SseDecoder()
    return [event for piece in pieces for event in decoder.feed(piece)] + decoder.close()


def test_a_recorded_stream_decodes_and_encodes_to_the_same_bytes() -> None:
    events = decode([RECORDED])
    assert events[-1] == Data(b"[DONE]")
    assert b"".join(map(encode, events)) == RECORDED


def test_every_size_of_cut_gives_the_same_events() -> None:
    whole = decode([RECORDED])
    for size in (1, 2, 3, 7, 1000):
        assert decode([RECORDED[at : at + size] for at in range(0, len(RECORDED), size)]) == whole


def test_an_event_leaves_with_its_last_byte() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: {}\n") == []
    assert decoder.feed(b"\n") == [Data(b"{}")]


def test_line_ends_comments_and_unknown_fields() -> None:
    stream = b": alive\r\n\r\nevent: x\rid: 1\rdata:a\rdata: b\r\rdata:\n\n"
    assert decode([stream]) == [Comment(b" alive"), Data(b"a\nb"), Data(b"")]
    assert decode([bytes([byte]) for byte in stream]) == decode([stream])


def test_a_last_event_without_its_blank_line_counts() -> None:
    assert decode([b"data: 1\n\ndata: 2"]) == [Data(b"1"), Data(b"2")]


def test_what_waits_is_counted() -> None:
    decoder = SseDecoder()
    decoder.feed(b"data: 1\ndata: 22")
    assert decoder.held == len(b"1") + len(b"data: 22")


@given(
    st.lists(st.sampled_from([b"data: a", b"data:", b"\n", b"\r", b"\r\n", b":c", b"x", "é".encode()])),
    st.integers(1, 5),
)
def test_any_bytes_in_any_cut(parts: list[bytes], size: int) -> None:
    stream = b"".join(parts)
    assert decode([stream[at : at + size] for at in range(0, len(stream), size)]) == decode([stream])
