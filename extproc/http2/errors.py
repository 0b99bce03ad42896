"""What HTTP/2 calls errors (RFC 9113, sections 5.4 and 7)."""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """Of RST_STREAM and GOAWAY frames."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    SETTINGS_TIMEOUT = 0x4
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    CONNECT_ERROR = 0xA
    ENHANCE_YOUR_CALM = 0xB
    INADEQUATE_SECURITY = 0xC
    HTTP_1_1_REQUIRED = 0xD


class ConnectionFault(Exception):  # noqa: N818  # RFC 9113's word is "connection error"
    """The peer broke a rule, and the connection can't go on. The text says which, and nothing that the peer sent."""

    def __init__(self, code: ErrorCode, rule: str) -> None:
        super().__init__(rule)
        self.code = code


class StreamFault(Exception):  # noqa: N818
    """The peer broke a rule that ends one stream only."""

    def __init__(self, stream_id: int, code: ErrorCode, rule: str) -> None:
        super().__init__(rule)
        self.stream_id = stream_id
        self.code = code
