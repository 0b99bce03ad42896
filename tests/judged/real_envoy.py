"""A real Envoy with a listener for each layout, an upstream, and a client that looks closely, all of HTTP/1.1."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from extproc.conformance.host.outcome import Ending, Outcome
from extproc.conformance.host.settings import BodyMode, HttpMessage

_TYPE = "type.googleapis.com/envoy.extensions"
_PACE = 0.06
"""Between a body's pieces, in seconds, so that Envoy sends each on its own."""
_PATIENCE = 2.5
"""How long a client waits before it calls an exchange hung: longer than Envoy's message_timeout."""


@dataclass
class Seen:
    """What a real client and upstream got."""

    status: int | None
    body: bytes
    whole: bool
    """Whether the response ended as its framing says it should."""
    upstream: bytes | None


@dataclass
class Upstream:
    """Answers each request with the message it is told to, in pieces; keeps the last request's body."""

    answer: HttpMessage
    got: bytes | None = None

    def run(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as file:
            try:
                _, headers = _head(file)
                body, whole = _body(file, headers, request=True)
                self.got = body if whole else None
                _send(connection, b"HTTP/1.1 200 OK\r\nconnection: close", self.answer)
            except (OSError, ValueError):
                return


def _head(file: Any) -> tuple[str, dict[str, str]]:
    first = file.readline().decode().strip()
    if not first:
        raise ValueError("no message")
    headers = {}
    while line := file.readline().decode().strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return first, headers


def _body(file: Any, headers: dict[str, str], *, request: bool) -> tuple[bytes, bool]:
    """The body, and whether it came whole."""
    body = b""
    if "chunked" in headers.get("transfer-encoding", ""):
        while line := file.readline():
            size = int(line, 16)
            piece = file.read(size)
            body += piece
            file.readline()
            if not size:
                return body, True
            if len(piece) < size:
                break
        return body, False
    if "content-length" in headers:
        body = file.read(int(headers["content-length"]))
        return body, len(body) == int(headers["content-length"])
    return (b"", True) if request else (file.read(), True)


def _send(connection: socket.socket, head: bytes, message: HttpMessage) -> None:
    """In chunks, one for each piece, if there are several; else with its length."""
    skipped = ("content-length", "host")
    lines = [name.encode() + b": " + value for name, value in message.headers if name[0] != ":" and name not in skipped]
    chunked = len(message.pieces) > 1
    lines.append(b"transfer-encoding: chunked" if chunked else b"content-length: %d" % len(message.body))
    connection.sendall(b"\r\n".join([head, *lines]) + b"\r\n\r\n")
    for piece in message.pieces:
        time.sleep(_PACE)
        connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
    if chunked:
        time.sleep(_PACE)
        connection.sendall(b"0\r\n\r\n")


def ask(port: int, request: HttpMessage, upstream: Upstream) -> Seen:
    upstream.got = None
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as file:
        connection.settimeout(_PATIENCE)
        status: int | None = None
        body, whole = b"", False
        with contextlib.suppress(OSError):  # refused in the middle: the answer says it
            _send(connection, b"POST / HTTP/1.1\r\nhost: a.example\r\nconnection: close", request)
        try:
            first, headers = _head(file)
            status = int(first.split()[1])
            body, whole = _body(file, headers, request=False)
        except (OSError, ValueError):
            pass
        return Seen(status, body, whole, upstream.got)


def bootstrap(ports: dict[tuple[BodyMode, BodyMode], int], processor: int, upstream: int) -> str:
    """A listener for each layout."""
    http2: dict[str, Any] = {"explicit_http_config": {"http2_protocol_options": {}}}
    options = {"@type": f"{_TYPE}.upstreams.http.v3.HttpProtocolOptions", **http2}
    protocol = {"typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options}}
    clusters = [_cluster("upstream", upstream, {}), _cluster("processor", processor, protocol)]
    listeners = [_listener(*modes, port) for modes, port in ports.items()]
    return yaml.safe_dump({"static_resources": {"listeners": listeners, "clusters": clusters}})


def _cluster(name: str, port: int, more: dict[str, Any]) -> dict[str, Any]:
    endpoint = {"endpoint": {"address": _address(port)}}
    assignment = {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]}
    return {"name": name, "type": "STATIC", "load_assignment": assignment, **more}


def _address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def _listener(request: BodyMode, response: BodyMode, port: int) -> dict[str, Any]:
    filter_ = {
        "@type": f"{_TYPE}.filters.http.ext_proc.v3.ExternalProcessor",
        "grpc_service": {"envoy_grpc": {"cluster_name": "processor"}},
        "processing_mode": {
            "request_header_mode": "SEND",
            "response_header_mode": "SEND",
            "request_body_mode": request.name,
            "response_body_mode": response.name,
            "request_trailer_mode": "SEND",
            "response_trailer_mode": "SEND",
        },
        "allow_mode_override": True,
        "message_timeout": "0.5s",
        "max_message_timeout": "5s",
    }
    router = {"name": "router", "typed_config": {"@type": f"{_TYPE}.filters.http.router.v3.Router"}}
    route = {"match": {"prefix": "/"}, "route": {"cluster": "upstream"}}
    manager = {
        "@type": f"{_TYPE}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": f"{request.name}_{response.name}",
        "http_filters": [{"name": "ext_proc", "typed_config": filter_}, router],
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
    }
    filters = [{"name": "manager", "typed_config": manager}]
    return {"name": f"{port}", "address": _address(port), "filter_chains": [{"filters": filters}]}


@contextlib.contextmanager
def running_envoy(text: str, ports: list[int], binary: str) -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "envoy.yaml")
        path.write_text(text)
        command = [binary, "-c", str(path), "--use-dynamic-base-id", "--concurrency", "1", "-l", "error"]
        envoy = subprocess.Popen(command)
        try:
            for port in ports:
                _until_it_listens(port, envoy)
            yield
        finally:
            envoy.terminate()
            envoy.wait(30)


def _until_it_listens(port: int, envoy: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while True:
        assert envoy.poll() is None, "Envoy has ended"
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            assert time.monotonic() < deadline, "Envoy doesn't listen"
            time.sleep(0.05)
        else:
            return


def difference(simulated: Outcome, seen: Seen) -> str | None:
    """What Envoy did otherwise, in the words of an Outcome."""
    match simulated.ending:
        case Ending.COMPLETE | Ending.LEFT | Ending.IMMEDIATE:
            assert simulated.client is not None
            if not seen.whole:
                return f"{simulated.ending.value} expected, and the client's response isn't whole ({seen.status})"
            if (seen.status, seen.body) != (simulated.status, simulated.client.body):
                return f"the client gets {seen.status} with {len(seen.body)} bytes, not {simulated.status} with " + str(
                    len(simulated.client.body)
                )
            sent = simulated.upstream.body if simulated.upstream is not None else None
            return None if seen.upstream == sent else f"the upstream gets {seen.upstream!r}, not {sent!r}"
        case Ending.ERROR | Ending.TIMEOUT:
            wanted = 500 if simulated.ending is Ending.ERROR else 504
            return None if seen.status == wanted else f"{wanted} expected, and the client gets {seen.status}"
        case Ending.CORRUPT:
            return f"the client is told of it, by {seen.status}" if (seen.status or 0) >= 400 else None
        case Ending.CUT:
            return f"a cut expected, and the client gets a whole {seen.status}" if seen.whole else None
        case Ending.HUNG:
            return f"a hang expected, and the client gets a whole {seen.status}" if seen.whole else None
        case _:
            return f"{simulated.ending.value}: not compared"
