"""Envoy with our bootstrap, between a backend that tells what it got and a processor that does what a test wants of it.

The processor is a script for the filter's protocol, not ours. So what is seen is what Envoy's configuration does alone.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from email.message import Message
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import httpx

from extproc.config import Address, parse
from extproc.envoy.bootstrap import bootstrap, to_yaml
from extproc.exchange.layout import OWN
from extproc.names import REPLY_DETAILS
from extproc.wire import (
    SERVICE,
    BodyResponse,
    CommonResponse,
    HeaderMutation,
    HeadersResponse,
    HeaderValue,
    HeaderValueOption,
    ImmediateResponse,
    ProcessingMode,
    ProcessingRequest,
    ProcessingResponse,
    StatusCode,
)
from tests.gateway import ENVOY, free_port
from tests.serving_in_thread import serving_in_thread

CHAT = "/v1/chat/completions"
LIMIT = 100_000
PATIENCE = 2.0
"""How long Envoy waits for the processor where it has little time for it."""
PHASES = ["request_headers", "request_body", "response_headers", "response_body"]
OWN_ERROR = b'{"error": {"message": "the processor\'s own words"}}'


TOLD_BY_BACKENDS = {
    "www-authenticate": "Bearer",
    "set-cookie": "session=1",
    "via": "1.1 node-7",
    "location": "http://10.0.0.7:8000/",
    "x-powered-by": "secret",
    "x-envoy-upstream-service-time": "1",
    "x-envoy-immediate-health-check-fail": "true",
    "x-extproc-dropped": "nothing",
    "x-extproc-reply": "envoy",
    "x-ratelimit-remaining-tokens": "7",
    "access-control-allow-origin": "*",
    "retry-after": "7",
    "cache-control": "no-store",
}
"""Header fields of each of the backend's answers, besides `server`, `date` and those of its body."""


class Backend(BaseHTTPRequestHandler):
    """Answers with the headers that it got; or not at all, if x-backend says `hang up` or `be silent`."""

    protocol_version = "HTTP/1.1"
    server: BackendServer

    def do_POST(self) -> None:
        self.do_GET(len(self.sent()))

    def sent(self) -> bytes:
        """The request's body."""
        if self.headers["transfer-encoding"] is None:
            return self.rfile.read(int(self.headers["content-length"] or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def do_GET(self, length: int = 0) -> None:
        if self.headers["x-backend"] is not None:
            if self.headers["x-backend"] == "be silent":
                self.server.silence_over.wait()
            self.close_connection = True
            return
        seen: dict[str, Any] = {"path": self.path, "length": length}
        seen["headers"] = {name.lower(): value for name, value in self.headers.items()}
        body = json.dumps(seen).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        for name, value in TOLD_BY_BACKENDS.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_OPTIONS(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name is the base class's
        pass


class BackendServer(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Backend)
        self.silence_over = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Envoy resets connections when it ends: nothing to report."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Processor(grpc.GenericRpcHandler):
    """Does what the request's header x-processor says: `backend NAME`, `refuse PHASE`, `break PHASE`, `think SECONDS`.

    That last one asks for so many seconds for the response's body, unless they are 0, and takes longer than PATIENCE.
    """

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        assert details.method == f"/{SERVICE}/Process"
        return grpc.stream_stream_rpc_method_handler(
            self.process, ProcessingRequest.FromString, ProcessingResponse.SerializeToString
        )

    def process(
        self, messages: Iterator[ProcessingRequest], context: grpc.ServicerContext
    ) -> Iterator[ProcessingResponse]:
        script, given_up = "", threading.Event()
        context.add_callback(given_up.set)
        for message in messages:
            phase = message.WhichOneof("request")
            assert phase is not None
            if phase == "request_headers":
                sent = {header.key: header.raw_value.decode() for header in message.request_headers.headers.headers}
                script = sent["x-processor"]
                assert "x-extproc-backend" not in sent
            if script == f"break {phase}":
                context.abort(grpc.StatusCode.INTERNAL, "broken on purpose")
            if phase == "response_body" and script.startswith("think "):
                if seconds := float(script.split()[1]):
                    yield ProcessingResponse(override_message_timeout=timedelta(seconds=seconds))
                given_up.wait(2.5 * PATIENCE)
            reply = self.reply(phase, script)
            if reply.HasField("request_headers") and sent[":path"] == CHAT:
                assert OWN.to_the_end is not None
                reply.mode_override.CopyFrom(OWN.to_the_end)
            yield reply

    def reply(self, phase: str, script: str) -> ProcessingResponse:
        if script == f"refuse {phase}":
            return ProcessingResponse(
                immediate_response=ImmediateResponse(
                    status={"code": StatusCode.UnprocessableEntity},
                    headers=HeaderMutation(set_headers=[header("content-type", "application/json")]),
                    body=OWN_ERROR,
                    details=f"{REPLY_DETAILS}on_purpose",
                )
            )
        if phase == "request_body":
            verb, _, argument = script.partition(" ")
            chosen = header("x-extproc-backend", argument if verb == "backend" else "fine")
            common = CommonResponse(header_mutation=HeaderMutation(set_headers=[chosen]), clear_route_cache=True)
            reply = ProcessingResponse(request_body=BodyResponse(response=common))
            reply.dynamic_metadata.update({"extproc": {"model": "m"}})
            return reply
        if phase.endswith("body"):
            return ProcessingResponse(response_body=BodyResponse())
        reply = ProcessingResponse()
        getattr(reply, phase).CopyFrom(HeadersResponse())
        if phase == "response_headers" and (script.endswith("response_body") or script.startswith("think ")):
            reply.mode_override.response_body_mode = ProcessingMode.BUFFERED
        return reply


def header(name: str, value: str) -> HeaderValueOption:
    return HeaderValueOption(
        header=HeaderValue(key=name, raw_value=value.encode()),
        append_action=HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD,
    )


class Envoy(httpx.Client):
    """A client of a running Envoy."""

    def __init__(self, address: Address, admin: Path, log: Path) -> None:
        super().__init__(base_url=f"http://{address}", timeout=30)
        self.address = address
        self.admin = httpx.Client(transport=httpx.HTTPTransport(uds=str(admin)), base_url="http://envoy")
        self.log = log

    def chat(self, script: str = "backend fine", **headers: str) -> httpx.Response:
        return self.post(CHAT, json={"model": "m"}, headers={"x-processor": script, **headers})

    def listens(self) -> bool:
        try:
            socket.create_connection(self.address).close()
        except ConnectionRefusedError:
            return False
        return True


@contextmanager
def running_envoy(
    folder: Path, backend: BackendServer, *, silence: str = "1800s", idle_timeout: str = "5s", settings: str = ""
) -> Iterator[Envoy]:
    """An Envoy that gives exchanges up after `silence` of a backend, or when the processor tries its `patience`.

    `settings` is more YAML.
    """
    address, dead, admin = Address("127.0.0.1", free_port()), free_port(), folder / "admin.sock"
    config = parse(f"""
listen: {address}
models: [{{name: m, backend: fine, tools: prompt}}]
backends:
  - {{name: fine, address: "localhost:{backend.server_port}", headers: [x-backend, x-processor]}}
  - {{name: refusing, address: "127.0.0.1:{dead}"}}
  - {{name: unresolvable, address: "no-such-host.invalid:80"}}
limits: {{max_body_bytes: {LIMIT}}}
{settings}
""")
    made = to_yaml(bootstrap(config, processor=str(folder / "processor.sock"), admin=str(admin)))
    file, log = folder / "envoy.yaml", folder / "envoy.log"
    assert made.count(" message_timeout: 5s") == 1
    file.write_text(made.replace("1800s", silence).replace(" message_timeout: 5s", f" message_timeout: {idle_timeout}"))
    with log.open("wb") as output:
        command = (ENVOY, "-c", file, "--disable-hot-restart", "--concurrency", "1", "-l", "error")
        process = subprocess.Popen(command, stdout=output, stderr=output)
    envoy = Envoy(address, admin, log)
    try:
        deadline = time.monotonic() + 30
        while not envoy.listens():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        yield envoy
    finally:
        envoy.admin.close()
        envoy.close()
        process.terminate()
        process.wait(30)


@contextmanager
def running_backend() -> Iterator[BackendServer]:
    with serving_in_thread(BackendServer()) as server:
        try:
            yield server
        finally:
            server.silence_over.set()


@contextmanager
def running_processor(folder: Path) -> Iterator[None]:
    processor = grpc.server(ThreadPoolExecutor(8))
    processor.add_generic_rpc_handlers([Processor()])
    processor.add_insecure_port(f"unix:{folder}/processor.sock")
    processor.start()
    try:
        yield
    finally:
        processor.stop(None).wait()


def error(response: httpx.Response, status: int, kind: str = "server_error") -> dict[str, Any]:
    """The error object, if the response is an error as OpenAI's clients expect it."""
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    assert "x-extproc-reply" not in response.headers
    (body,) = response.json().values()
    assert body.keys() == {"message", "type", "param", "code"}
    assert (body["type"], body["param"]) == (kind, None)
    return dict(body)


def raw(envoy: Envoy, method: str, path: str) -> tuple[int, Message, bytes]:
    """The answer to a path exactly as it is spelled here."""
    with socket.create_connection(envoy.address, timeout=30) as connection:
        head = f"{method} {path} HTTP/1.1\r\nhost: gateway\r\ncontent-length: 0\r\n\r\n"
        connection.sendall(head.encode("latin-1"))
        with HTTPResponse(connection, method=method) as response:
            response.begin()
            return response.status, response.headers, response.read()


def access_log_line(envoy: Envoy, request_id: str) -> dict[str, Any]:
    """Envoy writes the line when the exchange is over, which may be after the client has read the answer."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        envoy.admin.post("/reopen_logs")  # writes out what is buffered
        written, _, _ = envoy.log.read_text().rpartition("\n")  # Envoy may be in the middle of the last line
        for text in written.splitlines():
            if text.startswith("{") and (line := json.loads(text))["request_id"] == request_id:
                return dict(line)
    raise AssertionError(f"no line for {request_id}")
