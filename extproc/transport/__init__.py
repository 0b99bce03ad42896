"""gRPC from the server's side: what services are written against, and the two transports that carry them.

    lean      HTTP/2 and gRPC of our own (`extproc.http2`), on the event loop: a quarter of the cost of each message
    grpcio    gRPC's own library, the reference: every test of the one holds for the other

A service is a `Receiver` for each call, which is told what comes and says what it likes by its `Call`. Everything
happens on the event loop's thread.
"""

from extproc.transport.call import Call, Metadata, Method, Receiver, Services, Status
from extproc.transport.serving import Endpoint, Transport, serving
from extproc.transport.turns import Turns

__all__ = [
    "Call",
    "Endpoint",
    "Metadata",
    "Method",
    "Receiver",
    "Services",
    "Status",
    "Transport",
    "Turns",
    "serving",
]
