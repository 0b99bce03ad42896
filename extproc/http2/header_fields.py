"""Header sections: read from what HPACK makes of them, and written in HPACK's simplest form.

Requests are checked as section 8 of RFC 9113 demands. What is written uses no table and no Huffman code: a server of
gRPC has a handful of fields to say, which are constants.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from hpack import Decoder
from hpack.exceptions import HPACKError, OversizedHeaderListError

from extproc.http2.errors import ConnectionFault, ErrorCode
from extproc.http2.events import Fields
from extproc.http2.limits import Limits

_TABLE_SIZE = 4096
"""Bytes of HPACK's dynamic table; the protocol's default, which no SETTINGS changes."""

NO_TABLE = b"\x20"
"""What the first header block written begins with: no table is used. A peer whose SETTINGS allow a smaller table than
the default waits for that (RFC 7541, section 4.2)."""

_PSEUDO = frozenset((b":method", b":scheme", b":path", b":authority"))
_DEMANDED = (b":method", b":scheme", b":path")
_OF_CONNECTIONS = frozenset((b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"))
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+\Z")
_VALUE = re.compile(rb"(?:[^\x00\r\n\t ](?:[^\x00\r\n]*[^\x00\r\n\t ])?)?\Z")


class HeaderBlock:
    """One that isn't whole yet."""

    __slots__ = ("_limits", "ended", "pieces", "size", "stream_id")

    def __init__(self, stream_id: int, limits: Limits, *, ended: bool) -> None:
        self._limits = limits
        self.stream_id = stream_id
        self.ended = ended
        self.pieces: list[bytes] = []
        self.size = 0

    def add(self, piece: bytes) -> None:
        """Raises ConnectionFault for one that is too large, or in too many pieces."""
        self.pieces.append(piece)
        self.size += len(piece)
        if self.size > self._limits.header_block_size or len(self.pieces) > self._limits.continuations + 1:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "a header block is too large")


class HeaderReader:
    """Of one connection: what comes depends on what came before."""

    def __init__(self, limits: Limits) -> None:
        self._decoder = Decoder(max_header_list_size=limits.header_list_size)
        self._decoder.max_allowed_table_size = _TABLE_SIZE

    def read(self, block: bytes) -> Fields:
        """What a whole header block says. Raises ConnectionFault: nothing that follows could be read."""
        try:
            return [(bytes(name), bytes(value)) for name, value in self._decoder.decode(block, raw=True)]
        except OversizedHeaderListError:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "a header section is too large") from None
        except HPACKError:  # its text may have what the peer sent
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, "a header block can't be read") from None


def request_fault(fields: Fields) -> str | None:
    """Which rule a request's header section breaks; None if it is well-formed."""
    pseudo: dict[bytes, bytes] = {}
    regular = False
    for name, value in fields:
        if name[:1] == b":":
            if regular:
                return "a pseudo-header field stands behind others"
            if name not in _PSEUDO:
                return "there is no such pseudo-header field"
            if name in pseudo:
                return "a pseudo-header field is given twice"
            pseudo[name] = value
        else:
            regular = True
            if _NAME.match(name) is None:
                return "a field's name has characters that none may have"
        if rule := _field_fault(name, value):
            return rule
    for name in _DEMANDED:
        if not pseudo.get(name):
            return f"{name.decode()} is missing"
    return None


def trailers_fault(fields: Fields) -> str | None:
    """The same for trailers."""
    for name, value in fields:
        if name[:1] == b":":
            return "trailers have a pseudo-header field"
        if _NAME.match(name) is None:
            return "a field's name has characters that none may have"
        if rule := _field_fault(name, value):
            return rule
    return None


def _field_fault(name: bytes, value: bytes) -> str | None:
    if _VALUE.match(value) is None:
        return "a field's value has characters that none may have"
    if name in _OF_CONNECTIONS:
        return "a field belongs to HTTP/1.1's connections"
    if name == b"te" and value != b"trailers":
        return "te is something else than trailers"
    return None


def content_length(fields: Fields) -> int | None:
    """What a request announces. Raises ValueError for what is no length, or two of them."""
    lengths = {value for name, value in fields if name == b"content-length"}
    if not lengths:
        return None
    (length,) = lengths
    if not length.isdigit() or len(length) > 18:
        raise ValueError
    return int(length)


def written(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A header block: each field a literal without indexing (RFC 7541, section 6.2.2)."""
    return b"".join(b"\x00" + _string(name) + _string(value) for name, value in fields)


def _string(text: bytes) -> bytes:
    length = len(text)
    if length < 127:
        return bytes((length,)) + text
    size, left = bytearray((127,)), length - 127
    while left >= 128:
        size.append(left & 127 | 128)
        left >>= 7
    size.append(left)
    return bytes(size) + text
