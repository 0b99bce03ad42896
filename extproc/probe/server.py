"""The server that is asked: one HTTP request at a time, and answers that may be anything.

It knows no question. A server that can't be reached, doesn't speak HTTP or takes too long is a `NoAnswerError`; every
answer, however odd, is a value.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias
from urllib.parse import urlsplit

import orjson

from extproc.config import Address

Json: TypeAlias = Any

_CONNECT_SECONDS = 10.0
_LONGEST_BODY = 8 * 1024 * 1024
_PIECE = 65536


class NoAnswerError(Exception):
    """There was no HTTP answer; the text says why, to be put behind the server's address."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a server is, as a URL says it."""

    address: Address
    tls: bool = False

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read `http://host:port`, with or without `/v1` behind it. Raises ValueError with a sentence for the user."""
        parts = urlsplit(url if "//" in url else f"//{url}")
        try:
            port = parts.port
        except ValueError as error:
            raise ValueError(f"no such port in {url!r}") from error
        if parts.scheme not in ("", "http", "https") or not parts.hostname or port == 0:
            raise ValueError(f"expected a URL such as http://127.0.0.1:8000, got {url!r}")
        if parts.path.rstrip("/") not in ("", "/v1") or parts.query or parts.fragment:
            raise ValueError(f"a backend's API is at /v1 and nowhere else, got {url!r}")
        if parts.username is not None:
            raise ValueError("a key is given in a file, not in the URL")
        tls = parts.scheme == "https"
        return cls(Address(parts.hostname, port or (443 if tls else 80)), tls)

    def __str__(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.address}"


def one_line(text: str, limit: int = 200) -> str:
    """Somebody else's text, made fit to be printed in a line of ours."""
    flat = "".join(character if character.isprintable() else "?" for character in " ".join(text.split()))
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. `json` is None when the body is no JSON."""

    status: int
    json: Json

    def at(self, *path: str | int) -> Json:
        """The value at a place in the body; None when there is no such place."""
        value = self.json
        for step in path:
            if isinstance(step, str) and isinstance(value, dict):
                value = value.get(step)
            elif isinstance(step, int) and isinstance(value, list) and step < len(value):
                value = value[step]
            else:
                return None
        return value

    def number(self, *path: str | int) -> int | None:
        value = self.at(*path)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def text(self, *path: str | int) -> str:
        """The string there, or an empty one."""
        value = self.at(*path)
        return value if isinstance(value, str) else ""

    @property
    def complaint(self) -> str:
        """The status, with what an error says of itself."""
        if self.json is None:
            return f"status {self.status} without JSON"
        said = self.text("error", "message") or self.text("error") or self.text("message") or self.text("detail")
        return one_line(f"status {self.status}" + (f": {said}" if said else ""))


class Server:
    """Asks one server, with a new connection for each request: nothing is left behind by an odd answer."""

    def __init__(self, origin: Origin, *, key: str | None = None, ca: Path | None = None, timeout: float) -> None:
        """`timeout` is for a whole answer, in seconds; connecting has less. Raises OSError when `ca` is unusable."""
        self.origin = origin
        self._timeout = timeout
        self._headers = {"accept": "application/json", "accept-encoding": "identity", "connection": "close"}
        self.has_key = key is not None
        if key is not None:
            self._headers["authorization"] = f"Bearer {key}"
        self._context = ssl.create_default_context(cafile=ca) if origin.tls else None

    def get(self, path: str) -> Answer:
        """Raises NoAnswerError."""
        return self._ask("GET", path, None)

    def post(self, path: str, body: Mapping[str, Json]) -> Answer:
        """Raises NoAnswerError."""
        return self._ask("POST", path, orjson.dumps(body))

    def _ask(self, method: str, path: str, body: bytes | None) -> Answer:
        deadline = time.monotonic() + self._timeout
        headers = self._headers if body is None else {**self._headers, "content-type": "application/json"}
        with closing(self._connection()) as connection:
            try:
                connection.connect()
                connection.sock.settimeout(self._timeout)
                connection.request(method, path, body, headers)
                return self._read(connection, deadline)
            except (OSError, http.client.HTTPException, UnicodeError) as error:
                raise NoAnswerError(self._reason(error)) from error

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self.origin.address
        patience = min(self._timeout, _CONNECT_SECONDS)
        if self._context is None:
            return http.client.HTTPConnection(host, port, timeout=patience)
        return http.client.HTTPSConnection(host, port, timeout=patience, context=self._context)

    def _read(self, connection: http.client.HTTPConnection, deadline: float) -> Answer:
        response = connection.getresponse()
        received = bytearray()
        while piece := response.read1(_PIECE):
            received += piece
            if time.monotonic() > deadline:
                raise TimeoutError
            if len(received) > _LONGEST_BODY:
                raise http.client.HTTPException
        try:
            return Answer(response.status, orjson.loads(received))
        except orjson.JSONDecodeError:
            return Answer(response.status, None)

    def _reason(self, error: Exception) -> str:
        match error:
            case ssl.SSLCertVerificationError():
                return f"its certificate isn't trusted: {error.verify_message}"
            case ssl.SSLError():
                return "it doesn't speak TLS as we do; is it http:// rather than https://?"
            case TimeoutError():
                return f"no answer within {self._timeout:g} seconds"
            case ConnectionRefusedError():
                return "connection refused"
            case socket.gaierror() | UnicodeError():  # the latter for what can't be a name at all
                return "its name can't be resolved"
            case http.client.RemoteDisconnected():
                return "it closes the connection without an answer"
            case http.client.IncompleteRead():
                return "it closes the connection in the middle of an answer"
            case http.client.HTTPException():
                return "what it answers isn't sound HTTP"
            case _:
                return str(getattr(error, "strerror", None) or error)
