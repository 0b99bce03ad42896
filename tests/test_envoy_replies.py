"""Envoy with our bootstrap: what clients read when something fails, and what they can't do.

The processor here is a script for the filter's protocol, not ours: it says and does what a test wants of it.
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
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from extproc.config import Address, parse
from extproc.envoy import bootstrap, to_yaml
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

CHAT = "/v1/chat/completions"
LIMIT = 100_000
PHASES = ["request_headers", "request_body", "response_headers", "response_body"]
OWN_ERROR = b'{"error": {"message": "the processor\'s own words"}}'


class Backend(BaseHTTPRequestHandler):
    """Answers with the headers that it got; or not at all, if x-backend says `hang up` or `be silent`."""

    protocol_version = "HTTP/1.1"
    server: BackendServer

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"] or 0))
        self.do_GET()

    def do_GET(self) -> None:
        if self.headers["x-backend"] is not None:
            if self.headers["x-backend"] == "be silent":
                self.server.silence_over.wait()
            self.close_connection = True
            return
        seen = {"path": self.path, "headers": {name.lower(): value for name, value in self.headers.items()}}
        body = json.dumps(seen).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

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
    """Does what the request's header x-processor says: `backend NAME`, `refuse PHASE` or `break PHASE`."""

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        assert details.method == f"/{SERVICE}/Process"
        return grpc.stream_stream_rpc_method_handler(
            self.process, ProcessingRequest.FromString, ProcessingResponse.SerializeToString
        )

    def process(
        self, messages: Iterator[ProcessingRequest], context: grpc.ServicerContext
    ) -> Iterator[ProcessingResponse]:
        script = ""
        for message in messages:
            phase = message.WhichOneof("request")
            assert phase is not None
            if phase == "request_headers":
                sent = {header.key: header.raw_value.decode() for header in message.request_headers.headers.headers}
                script = sent["x-processor"]
                assert "x-extproc-backend" not in sent
            if script == f"break {phase}":
                context.abort(grpc.StatusCode.INTERNAL, "broken on purpose")
            yield self.reply(phase, script)

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
        if phase == "response_headers" and script.endswith("response_body"):
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
def running_envoy(folder: Path, backend: BackendServer, *, silence: str) -> Iterator[Envoy]:
    """An Envoy that gives exchanges up after `silence`."""
    address, dead, admin = Address("127.0.0.1", free_port()), free_port(), folder / "admin.sock"
    config = parse(f"""
listen: {address}
models: [{{name: m, backend: fine, tools: prompt}}]
backends:
  - {{name: fine, address: "localhost:{backend.server_port}"}}
  - {{name: refusing, address: "127.0.0.1:{dead}"}}
  - {{name: unresolvable, address: "no-such-host.invalid:80"}}
limits: {{max_body_bytes: {LIMIT}}}
""")
    made = to_yaml(bootstrap(config, processor=str(folder / "processor.sock"), admin=str(admin)))
    file, log = folder / "envoy.yaml", folder / "envoy.log"
    file.write_text(made.replace("1800s", silence))
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


@pytest.fixture(scope="module")
def backend() -> Iterator[BackendServer]:
    with BackendServer() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.silence_over.set()
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def envoy(tmp_path_factory: pytest.TempPathFactory, backend: BackendServer) -> Iterator[Envoy]:
    folder = tmp_path_factory.mktemp("envoy")
    processor = grpc.server(ThreadPoolExecutor(8))
    processor.add_generic_rpc_handlers([Processor()])
    processor.add_insecure_port(f"unix:{folder}/processor.sock")
    processor.start()
    with running_envoy(folder, backend, silence="1800s") as running:
        yield running
    processor.stop(None).wait()


@pytest.fixture(scope="module")
def envoy_alone(tmp_path_factory: pytest.TempPathFactory, backend: BackendServer) -> Iterator[Envoy]:
    """Without a processor, and soon out of patience."""
    with running_envoy(tmp_path_factory.mktemp("alone"), backend, silence="1s") as running:
        yield running


def error(response: httpx.Response, status: int, kind: str = "server_error") -> dict[str, Any]:
    """The error object, if the response is an error as OpenAI's clients expect it."""
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    (body,) = response.json().values()
    assert body.keys() == {"message", "type", "param", "code"}
    assert (body["type"], body["param"]) == (kind, None)
    return dict(body)


# ---- when a backend fails


def test_a_backend_that_refuses_connections(envoy: Envoy) -> None:
    said = error(envoy.chat("backend refusing"), 503)
    assert said["code"] == "backend_unreachable"
    assert "the backend 'refusing' at 127.0.0.1:" in said["message"]
    assert "Connection_refused" in said["message"]


def test_a_backend_whose_name_is_unknown(envoy: Envoy) -> None:
    said = error(envoy.chat("backend unresolvable"), 503)
    assert said["code"] == "backend_unreachable"
    assert "'unresolvable'" in said["message"]


def test_a_backend_that_hangs_up(envoy: Envoy) -> None:
    said = error(envoy.chat(**{"x-backend": "hang up"}), 502)
    assert said["code"] == "backend_disconnected"
    assert "'fine'" in said["message"]


def test_a_backend_that_is_silent(envoy_alone: Envoy) -> None:
    said = error(envoy_alone.get("/version", headers={"x-backend": "be silent"}), 504)
    assert said["code"] == "backend_timeout"
    assert "'fine'" in said["message"]


def test_a_backend_that_envoy_has_never_heard_of(envoy: Envoy) -> None:
    assert error(envoy.chat("backend new"), 503)["code"] == "backend_unknown"


# ---- when the processor fails


@pytest.mark.parametrize("phase", PHASES)
def test_a_processor_that_breaks(envoy: Envoy, phase: str) -> None:
    response = envoy.chat(f"break {phase}", **{"x-request-id": f"broken-{phase}"})
    said = error(response, 500)
    assert said["code"] == "processor_failed"
    assert f"broken-{phase}" in said["message"]
    assert "on purpose" not in response.text


def test_a_processor_that_is_not_there(envoy_alone: Envoy) -> None:
    assert error(envoy_alone.chat(), 503)["code"] == "processor_unavailable"


def test_the_models_are_the_processors_to_tell(envoy: Envoy, envoy_alone: Envoy) -> None:
    for path in ("/v1/models", "/v1/models/m", "/v1/models/org/m?x=1", "/v1/models/"):
        assert envoy.get(path, headers={"x-processor": "refuse request_headers"}).content == OWN_ERROR
        assert error(envoy_alone.get(path), 503)["code"] == "processor_unavailable"


@pytest.mark.parametrize("script", ["backend fine", "break request_body", "break response_headers"])
def test_only_of_chat_completions_the_processor_gets_more_than_headers(envoy: Envoy, script: str) -> None:
    response = envoy.post("/v1/models", content=b"x" * 2 * LIMIT, headers={"x-processor": script})
    assert response.json()["path"] == "/v1/models"


def test_other_paths_do_without_the_processor(envoy_alone: Envoy) -> None:
    assert envoy_alone.get("/version?x=1").json()["path"] == "/version?x=1"
    assert envoy_alone.post("/v1/embeddings", content=b"x" * 2 * LIMIT).status_code == 200
    assert envoy_alone.get(CHAT).status_code == 200
    assert envoy_alone.get("/v1/models-of-another-kind").status_code == 200


@pytest.mark.parametrize("phase", PHASES)
def test_the_processors_own_errors_stay_as_they_are(envoy: Envoy, phase: str) -> None:
    response = envoy.chat(f"refuse {phase}")
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/json"
    assert response.content == OWN_ERROR


# ---- when the client is at fault


def test_a_body_that_is_too_large(envoy: Envoy) -> None:
    response = envoy.post(CHAT, content=b"x" * 2 * LIMIT, headers={"x-processor": "backend fine"})
    said = error(response, 413, "invalid_request_error")
    assert said["code"] == "request_too_large"
    assert str(LIMIT) in said["message"]


@pytest.mark.parametrize(
    ("request_", "status"),
    [(b"SSH-2.0-OpenSSH\r\n\r\n", 400), (b"GET / HTTP/1.0\r\n\r\n", 426), (b"GET / HTTP/1.1\r\n\r\n", 400)],
    ids=["no HTTP", "HTTP/1.0", "no host"],
)
def test_a_request_that_is_none(envoy: Envoy, request_: bytes, status: int) -> None:
    with socket.create_connection(envoy.address, timeout=30) as connection:
        connection.sendall(request_)
        with HTTPResponse(connection) as response:
            response.begin()
            body = json.loads(response.read())
    assert response.status == status
    assert response.headers["content-type"] == "application/json"
    assert body["error"]["type"] == "invalid_request_error"


# ---- what passes, and what doesn't


def test_a_client_cant_choose_the_backend(envoy: Envoy) -> None:
    seen = envoy.chat("backend fine", **{"x-extproc-backend": "refusing"}).json()
    assert "x-extproc-backend" not in seen["headers"]


def test_only_the_chat_route_withholds_accept_encoding(envoy: Envoy) -> None:
    asks = {"accept-encoding": "gzip"}
    assert "accept-encoding" not in envoy.chat(**asks).json()["headers"]
    assert envoy.get("/version", headers=asks).json()["headers"]["accept-encoding"] == "gzip"


def test_a_base_url_may_end_in_a_slash(envoy: Envoy) -> None:
    response = envoy.post("/v1//chat/completions", headers={"x-processor": "refuse request_headers"})
    assert response.content == OWN_ERROR


def test_a_clients_timeouts_for_envoy_are_ignored(envoy_alone: Envoy) -> None:
    claims_to_be_internal = {"x-forwarded-for": "10.0.0.1", "x-envoy-internal": "true"}
    impatient = {"x-envoy-upstream-rq-timeout-ms": "1", "x-backend": "be silent", **claims_to_be_internal}
    assert error(envoy_alone.get("/version", headers=impatient), 504)["code"] == "backend_timeout"
    assert envoy_alone.admin.get("/stats?filter=upstream_rq_timeout&usedonly").text == ""


def test_every_answer_carries_a_request_id(envoy: Envoy) -> None:
    assert envoy.chat(**{"x-request-id": "mine"}).headers["x-request-id"] == "mine"
    assert len(envoy.chat("backend refusing").headers["x-request-id"]) == 36
    assert envoy.chat().json()["headers"]["x-request-id"]


def test_the_access_log_tells_of_the_exchange(envoy: Envoy) -> None:
    envoy.chat(**{"x-request-id": "logged"})
    line = access_log_line(envoy, "logged")
    assert (line["method"], line["path"], line["status"], line["backend"]) == ("POST", CHAT, 200, "fine")
    assert line["extproc"] == {"model": "m"}
    assert line["extproc_latency"].startswith("rh:")


def access_log_line(envoy: Envoy, request_id: str) -> dict[str, Any]:
    """Envoy writes the line when the exchange is over, which may be after the client has read the answer."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        envoy.admin.post("/reopen_logs")  # writes out what is buffered
        for text in envoy.log.read_text().splitlines():
            if text.startswith("{") and (line := json.loads(text))["request_id"] == request_id:
                return dict(line)
    raise AssertionError(f"no line for {request_id}")
