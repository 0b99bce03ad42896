"""Undoes a `content-encoding` that a backend used although it was not asked to.

Requests go to the backend without `accept-encoding`, so this is rare; but a proxy on the way may compress all the
same, and text can't be parsed through it.
"""

from __future__ import annotations

import zlib

_EITHER_ZLIB_OR_GZIP = 47  # zlib's own number for "find out from the header"


class UnreadableCodingError(Exception):
    """The body can't be decoded; the text says why."""


class Decoder:
    """Decodes a body piece by piece; without a coding it hands pieces on as they are."""

    __slots__ = ("_decompressor", "_limit")

    def __init__(self, coding: str, limit: int) -> None:
        """`coding` is the header's value, '' for none. More than `limit` bytes in one piece are refused.

        Raises UnreadableCodingError for a coding that is not gzip or deflate.
        """
        coding = coding.strip().lower()
        if coding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise UnreadableCodingError(f"it is compressed with {coding}, though no compression was asked for.")
        self._limit = limit
        compressed = coding not in ("", "identity")
        self._decompressor = zlib.decompressobj(_EITHER_ZLIB_OR_GZIP) if compressed else None

    def decode(self, piece: bytes) -> bytes:
        """Raises UnreadableCodingError when the piece is broken or explodes."""
        if self._decompressor is None:
            return piece
        try:
            decoded = self._decompressor.decompress(piece, self._limit)
        except zlib.error:
            raise UnreadableCodingError("its compression is broken.") from None
        if self._decompressor.unconsumed_tail:
            raise UnreadableCodingError(f"it holds more than {self._limit} bytes once decompressed.")
        return decoded
