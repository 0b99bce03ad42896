"""Undoes a `content-encoding` that a backend used although it was not asked to.

Requests go to the backend without `accept-encoding`, so this is rare; but a proxy on the way may compress all the
same, and text can't be parsed through it. A few bytes can become a thousand times as many, so they come out in steps.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

_EITHER_ZLIB_OR_GZIP = 47  # zlib's own number for "find out from the header"
_MOST_MEMBERS = 1000
"""A gzip file may be several in a row, as writers that flush now and then make them; an empty one has 20 bytes."""


class UnreadableCodingError(Exception):
    """The body can't be decoded; the text says why."""


class Decoder:
    """Decodes a body piece by piece; without a coding it hands pieces on as they are."""

    __slots__ = ("_decompressor", "_left", "_members", "coding")

    def __init__(self, coding: str) -> None:
        """`coding` is the header's value, '' for none. Raises UnreadableCodingError for one but gzip and deflate."""
        coding = coding.strip().lower()
        if coding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise UnreadableCodingError(f"it is compressed with {coding[:20]}, though no compression was asked for.")
        compressed = coding not in ("", "identity")
        self.coding = coding if compressed else ""
        self._decompressor = zlib.decompressobj(_EITHER_ZLIB_OR_GZIP) if compressed else None
        self._members = 1

    def steps(self, piece: bytes, most: int) -> Iterator[bytes]:
        """The piece decoded, in parts of at most `most` bytes. To be used up. Raises UnreadableCodingError."""
        if self._decompressor is None:
            if len(piece) <= most:
                yield piece
            else:
                for start in range(0, len(piece), most):
                    yield piece[start : start + most]
            return
        while piece:
            if self._decompressor.eof:
                self._next_member()
            try:
                part = self._decompressor.decompress(piece, most)
            except zlib.error:
                raise UnreadableCodingError("its compression is broken.") from None
            # What is left comes out at the next call; a full part may have more behind it, without any input left.
            piece = self._decompressor.unconsumed_tail or self._decompressor.unused_data
            yield part
            while len(part) == most and not piece and not self._decompressor.eof:
                part = self._decompressor.decompress(b"", most)
                yield part

    def _next_member(self) -> None:
        self._members += 1
        if self._members > _MOST_MEMBERS:
            raise UnreadableCodingError(f"it is compressed in more than {_MOST_MEMBERS} parts.")
        self._decompressor = zlib.decompressobj(_EITHER_ZLIB_OR_GZIP)


_STEP = 256 * 1024


def decoded(body: bytes, coding: str, limit: int) -> bytes:
    """A whole body without its coding. Raises UnreadableCodingError, also when it has more than `limit` bytes then."""
    decoder = Decoder(coding)
    if not decoder.coding:
        return body
    parts: list[bytes] = []
    size = 0
    for part in decoder.steps(body, _STEP):
        parts.append(part)
        size += len(part)
        if size > limit:
            raise UnreadableCodingError(f"it holds more than {limit} bytes once decompressed.")
    return b"".join(parts)
