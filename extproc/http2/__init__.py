"""HTTP/2 from the server's side, without any I/O: what one connection is told, and what it says."""

from extproc.http2.connection import Connection
from extproc.http2.errors import ConnectionFault, ErrorCode
from extproc.http2.events import DataCame, Event, Fields, RequestBegun, StreamReset, TrailersCame
from extproc.http2.header_fields import written
from extproc.http2.limits import Limits

__all__ = [
    "Connection",
    "ConnectionFault",
    "DataCame",
    "ErrorCode",
    "Event",
    "Fields",
    "Limits",
    "RequestBegun",
    "StreamReset",
    "TrailersCame",
    "written",
]
