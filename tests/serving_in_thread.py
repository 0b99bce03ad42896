"""A server of the standard library that serves while a test does other things."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

S = TypeVar("S", bound=socketserver.BaseServer)


@contextmanager
def serving_in_thread(server: S) -> Iterator[S]:
    """Until the block ends; then its socket is closed too."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, name="server")
    with server:
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
