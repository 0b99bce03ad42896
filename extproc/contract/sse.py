"""Server-sent events as a stream of bytes: a decoder that takes any cut, and the encoding of one event.

The decoder works on bytes, because a network cuts inside characters, and follows the standard: lines end in LF,
CRLF or CR, a blank line ends an event, several `data` lines make one, lines that begin with a colon are comments.
Source: the HTML standard, "Server-sent events".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

DONE = b"[DONE]"
"""The data of the event that ends every OpenAI stream."""

_line_end = re.compile(rb"\r\n|\n|\r(?=.)", re.DOTALL)  # a CR at the very end may be half of a CRLF


@dataclass(frozen=True, slots=True)
class Data:
    """The data of one event."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment line without its colon: servers send them to keep a connection alive."""

    text: bytes


ServerEvent: TypeAlias = Data | Comment


class SseDecoder:
    """`feed` bytes in any pieces, then `close`; both return the events that became complete."""

    __slots__ = ("_buffer", "_data", "_data_bytes", "_searched")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0  # up to here the buffer holds no line end
        self._data: list[bytes] = []
        self._data_bytes = 0

    @property
    def held(self) -> int:
        """How many bytes wait for the rest of their line or event."""
        return len(self._buffer) + self._data_bytes

    def feed(self, piece: bytes) -> list[ServerEvent]:
        buffer = self._buffer
        buffer += piece
        events: list[ServerEvent] = []
        start = 0
        search_from = self._searched
        while match := _line_end.search(buffer, search_from):
            self._line(bytes(buffer[start : match.start()]), events)
            start = search_from = match.end()
        del buffer[:start]
        # The last byte is looked at again: it may be the CR of a CRLF.
        self._searched = max(len(buffer) - 1, 0)
        return events

    def close(self) -> list[ServerEvent]:
        """The stream has ended. A last event without its blank line still counts: some servers forget it."""
        events: list[ServerEvent] = []
        if self._buffer:
            self._line(bytes(self._buffer.rstrip(b"\r")), events)
            self._buffer.clear()
        self._line(b"", events)
        return events

    def _line(self, line: bytes, events: list[ServerEvent]) -> None:
        if line.startswith(b"data:"):
            data = line[6:] if line[5:6] == b" " else line[5:]
            self._data.append(data)
            self._data_bytes += len(data)
        elif not line:
            if self._data:
                events.append(Data(b"\n".join(self._data)))
                self._data.clear()
                self._data_bytes = 0
        elif line.startswith(b":"):
            events.append(Comment(line[1:]))
        # `event`, `id` and `retry` carry nothing in OpenAI's streams.


def encode(event: ServerEvent) -> bytes:
    """One event as it goes over the wire."""
    match event:
        case Data(data):
            return data_event(data)
        case Comment(text):
            return b":" + text + b"\n\n"


def data_event(data: bytes) -> bytes:
    """The event that has this data; line breaks in it make several lines."""
    if b"\n" in data:
        return b"".join(b"data: " + line + b"\n" for line in data.split(b"\n")) + b"\n"
    return b"data: " + data + b"\n\n"
