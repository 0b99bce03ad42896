"""The HTTP/2 connection as its peer sees it: bytes in, bytes and events out. Nothing here uses a socket."""
