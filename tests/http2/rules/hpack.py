"""RFC 7541: what is a header block."""

from __future__ import annotations

from extproc.http2 import RequestBegun
from tests.http2.rules.case import (
    COMPRESSION,
    Case,
    raw,
)

_STATIC = b"\x83\x86\x84"
""":method POST, :scheme http, :path / as indices of the static table."""


def _read(section: str, says: str, payload: bytes) -> Case:
    return Case(f"7541/{section}", says, (raw(_STATIC + payload),), None, (RequestBegun,))


def _unreadable(section: str, says: str, payload: bytes) -> Case:
    return Case(f"7541/{section}", says, (raw(payload),), COMPRESSION, ())


HPACK = (
    _read("6.1", "indexed", b""),
    _read("6.2.1", "literal, to be indexed, with a known name", b"\x7a\x05agent"),
    _read("6.2.1", "literal, to be indexed, with a new name", b"\x40\x01x\x01y"),
    _read("6.2.1", "what was indexed is found again", b"\x40\x01x\x01y\xbe\x7e\x01z"),
    _read("6.2.2", "literal, with a known name", b"\x0f\x2b\x05agent"),
    _read("6.2.2", "literal, with a new name", b"\x00\x01x\x01y"),
    _read("6.2.3", "literal, never to be indexed", b"\x10\x01x\x01y"),
    _read("5.2", "names and values in Huffman's code", b"\x00\x81\xf3\x81\xf5"),
    _read("5.2", "names in Huffman's code alone", b"\x40\x81\xf3\x01y"),
    Case(
        "7541/6.3",
        "the table's size may change in front of the fields",
        (raw(b"\x20\x3f\xe1\x1f" + _STATIC),),
        None,
        (RequestBegun,),
    ),
    Case(
        "7541/4.3",
        "a table that becomes smaller forgets",
        (raw(_STATIC + b"\x40\x01x\x01y"), raw(b"\x20\x3f\xe1\x1f" + _STATIC + b"\xbe", 3)),
        COMPRESSION,
    ),
    Case(
        "7541/4.4",
        "a field larger than the table empties it",
        (
            raw(_STATIC + b"\x40\x01x\x01y"),
            raw(_STATIC + b"\x40\x01z\x7f\x81\x20" + b"z" * 4224, 3),
            raw(_STATIC + b"\xbe", 5),
        ),
        COMPRESSION,
    ),
    _unreadable("2.3.3", "no index is beyond the tables", b"\xc6"),
    _unreadable("2.3.3", "nor that of a name", b"\x7f\x07\x01y"),
    _unreadable("4.2", "the table's size doesn't change behind a field", _STATIC + b"\x20"),
    _unreadable("5.1", "a number ends", b"\xff"),
    _unreadable("5.1", "a number has an end", b"\xff" + b"\x80" * 40),
    _unreadable("5.1", "a number is no larger than one can be", b"\xff" + b"\xff" * 8 + b"\x7f"),
    _unreadable("5.2", "a string is whole", b"\x00\x01x\x05y"),
    _unreadable("5.2", "so is a name", b"\x00\x05x"),
    _unreadable("5.2", "and a field", b"\x00"),
    _unreadable("5.2", "Huffman's code isn't padded by 8 bits", b"\x00\x01x\x82\xf5\xff"),
    _unreadable("5.2", "Huffman's code isn't padded by zeros", b"\x00\x01x\x81\xf4"),
    _unreadable("5.2", "Huffman's code has no EOS", b"\x00\x01x\x84\xff\xff\xff\xff"),
    _unreadable("5.2", "nor in its middle", b"\x00\x01x\x85\xff\xff\xff\xfd\x4f"),
    _unreadable("6.1", "there is no index 0", b"\x80"),
    _unreadable("6.3", "the table grows no larger than we allow", b"\x3f\xe2\x1f"),
)
