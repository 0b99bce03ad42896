"""What a processor says to a watcher: frames, one after the other, in one direction.

    number    4 bytes    the exchange's; 0: of the whole connection
    tag       1 byte     what it is (`Tag`)
    at        8 bytes    milliseconds after the exchange's beginning, a double
    length    4 bytes    of what follows

What follows is a message as it is on the wire, or JSON; of `ASKED` and `SAID` a line of JSON and then the body.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from extproc.recording.document import Kind
from extproc.recording.kept import Kept

_HEAD = struct.Struct("!IBdI")
LARGEST = 64 * 1024 * 1024
"""Bytes of a frame: no processor sends one as large."""


class Tag(enum.IntEnum):
    """What a frame is."""

    ENVOY = 1
    PROCESSOR = 2
    ASKED = 3
    SAID = 4
    IDLE_TIMEOUT = 5
    BROKE_OFF = 6
    HELLO = 16
    """First of all: whose connection it is."""
    BEGAN = 17
    """An exchange begins."""
    TERMS = 18
    """By what it is processed, and for whom."""
    ENDED = 19
    DROPPED = 20
    """It is of no interest after all."""
    LOST = 21
    """So many exchanges weren't shown, because there was no room for them."""


_TAGS: Mapping[Kind, Tag] = {kind: Tag[kind.name] for kind in Kind}
_KINDS: Mapping[Tag, Kind] = {tag: kind for kind, tag in _TAGS.items()}
_WITH_WORDS = (Kind.ASKED, Kind.SAID, Kind.BROKE_OFF)


class FrameError(Exception):
    """These bytes are no frames."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One of them."""

    number: int
    tag: Tag
    at: float
    data: bytes

    @property
    def words(self) -> dict[str, Any]:
        """What it says, where that is JSON. Raises FrameError."""
        return _words(self.data)

    @property
    def kept(self) -> Kept | None:
        """The entry that it is, if it is one. Raises FrameError."""
        if (kind := _KINDS.get(self.tag)) is None:
            return None
        if kind not in _WITH_WORDS:
            return Kept(self.at, kind, self.data, {})
        line, _, body = self.data.partition(b"\n")
        return Kept(self.at, kind, body, _words(line))


def told(number: int, tag: Tag, words: Mapping[str, Any] | None = None) -> bytes:
    """A frame that says something of an exchange, or of the connection."""
    data = orjson.dumps(words) if words is not None else b""
    return _HEAD.pack(number, tag, 0.0, len(data)) + data


def entry(number: int, kept: Kept) -> bytes:
    """A frame with what was kept."""
    data = kept.data
    if kept.kind in _WITH_WORDS:
        data = orjson.dumps(dict(kept.beside)) + b"\n" + data
    return _HEAD.pack(number, _TAGS[kept.kind], kept.at, len(data)) + data


class Frames:
    """Takes them apart again, in any cut."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, piece: bytes) -> Iterator[Frame]:
        """Those that are complete. Raises FrameError."""
        buffer = self._buffer
        buffer += piece
        start = 0
        while len(buffer) - start >= _HEAD.size:
            number, tag, at, length = _HEAD.unpack_from(buffer, start)
            if length > LARGEST:
                raise FrameError(f"a frame of {length} bytes")
            end = start + _HEAD.size + length
            if len(buffer) < end:
                break
            try:
                frame = Frame(number, Tag(tag), at, bytes(buffer[start + _HEAD.size : end]))
            except ValueError as error:
                raise FrameError(str(error)) from error
            start = end
            yield frame
        del buffer[:start]


def _words(data: bytes) -> dict[str, Any]:
    try:
        words = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise FrameError(f"not JSON: {error}") from error
    if not isinstance(words, dict):
        raise FrameError("not an object")
    return words
