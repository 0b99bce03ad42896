"""How many values a JSON text holds, found without building any of them.

A decoder makes an object of some 100 bytes for every `[]`, three bytes of text: a body of 16 MB becomes half a gigabyte
and seconds of work. So they are counted first, in time that is linear in the bytes. Only what a decoder would come to
matters: in a text that is no JSON the count may be anything from the place where it stops being JSON.
"""

from __future__ import annotations

PIECE = 256 * 1024
"""Bytes looked at by one call of C code, which nothing can interrupt."""
_STRUCTURE = bytes(set(range(256)) - set(b'"[{,'))
_ESCAPED_BACKSLASH, _ESCAPED_QUOTE = b"\\\\", b'\\"'


def count_nodes(text: bytes, most: int) -> int:
    """How many values: every item of an array, every member of an object, and these themselves.

    Stops where there are more than `most`. Commas and opening brackets are counted, so an empty array or object counts
    as one more than it is when it isn't the first of its parent: at most twice as many as there are.
    """
    nodes = 1
    in_string = False
    start = 0
    while start < len(text) and nodes <= most:
        end = min(start + PIECE, len(text))
        while end < len(text) and text[end - 1] == _BACKSLASH:
            end += 1  # an escape isn't cut
        piece = text[start:end]
        start = end
        if _BACKSLASH in piece:
            piece = piece.replace(_ESCAPED_BACKSLASH, b"").replace(_ESCAPED_QUOTE, b"")
        parts = piece.translate(None, _STRUCTURE).split(b'"')
        outside = b"".join(parts[in_string::2])
        nodes += len(outside)
        in_string ^= len(parts) % 2 == 0
    return nodes


_BACKSLASH = 0x5C
