"""What a peer may have and do, so that none can make the server work for nothing.

The floods that are known make the receiver do much for little: streams that are opened and reset (CVE-2023-44487),
CONTINUATION frames without end (CVE-2024-27316), pings, settings and empty frames that all want an answer or a look
(CVE-2019-9511 to 9518), streams that we are made to reset (CVE-2025-8671), headers that are small as bytes and large as
a list. Each has a bound here; beyond it the connection is ended with ENHANCE_YOUR_CALM.
"""

from __future__ import annotations

from dataclasses import dataclass

from extproc.http2.frames import DEFAULT_WINDOW, SMALLEST_FRAME_SIZE


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one connection; sizes in bytes. Raises ValueError for a window or frame size below the protocol's default, by
    which a peer goes until it has our SETTINGS."""

    concurrent_streams: int = 10_000
    """Streams beyond are refused; a peer that heeds SETTINGS opens another connection."""
    stream_window: int = 65_536
    """What may come of a stream before it is consumed."""
    connection_window: int = 16 * 1024 * 1024
    """What may come of all streams between two rounds of the event loop: it is given back at once."""
    frame_size: int = 65_536
    """The largest frame that is taken."""
    header_list_size: int = 32_768
    """Of a header section as RFC 9113 counts it: 32 for each field, its name and its value."""
    header_block_size: int = 32_768
    """Of the same as it comes."""
    continuations: int = 16
    """Frames that one header section may be spread over."""
    fruitless: int = 2_000
    """Frames that come to nothing (pings, settings, priorities, empty data, unknown ones), or break a rule and so end a
    stream, at once,"""
    fruitless_per_second: float = 200.0
    """and in the long run."""
    settings: int = 64
    """In one frame: each may change the windows of all streams."""
    window_updates: int = 20_000
    """WINDOW_UPDATE frames at once: each may let only a byte go,"""
    window_updates_per_second: float = 10_000.0
    """and in the long run."""
    unanswered_resets: int = 5_000
    """Streams that the peer resets before it got a word, at once: clients that leave are many at a time,"""
    unanswered_resets_per_second: float = 1_000.0
    """and in the long run."""

    def __post_init__(self) -> None:
        if min(self.stream_window, self.connection_window) < DEFAULT_WINDOW or self.frame_size < SMALLEST_FRAME_SIZE:
            raise ValueError("a window or the frame size is below the protocol's default")


class Budget:
    """How often something may happen: `burst` times at once, and `rate` times a second in the long run."""

    __slots__ = ("_burst", "_left", "_rate", "_since")

    def __init__(self, burst: int, rate: float) -> None:
        self._burst = float(burst)
        self._rate = rate
        self._left = float(burst)
        self._since = 0.0

    def spend(self, now: float, cost: float = 1) -> bool:
        """Whether it may happen once more (`cost` times); `now` is the time in seconds, from any beginning."""
        self._left = min(self._burst, self._left + (now - self._since) * self._rate)
        self._since = now
        if self._left < cost:
            return False
        self._left -= cost
        return True
