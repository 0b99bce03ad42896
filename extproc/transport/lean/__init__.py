"""gRPC over HTTP/2 on the event loop, with nothing in between."""
