"""Envoy with our bootstrap: what clients read when something fails, and what they can't do."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path

import pytest

from extproc.envoy.passing_headers import TO_BACKENDS
from tests.scripted_processor import (
    CHAT,
    LIMIT,
    OWN_ERROR,
    PATIENCE,
    PHASES,
    BackendServer,
    Envoy,
    access_log_line,
    error,
    running_backend,
    running_envoy,
    running_processor,
)


@pytest.fixture(scope="module")
def backend() -> Iterator[BackendServer]:
    with running_backend() as server:
        yield server


@pytest.fixture(scope="module")
def envoy(tmp_path_factory: pytest.TempPathFactory, backend: BackendServer) -> Iterator[Envoy]:
    folder = tmp_path_factory.mktemp("envoy")
    with running_processor(folder), running_envoy(folder, backend) as running:
        yield running


@pytest.fixture(scope="module")
def envoy_alone(tmp_path_factory: pytest.TempPathFactory, backend: BackendServer) -> Iterator[Envoy]:
    """Without a processor, and soon out of patience."""
    with running_envoy(tmp_path_factory.mktemp("alone"), backend, silence="1s") as running:
        yield running


# ---- when a backend fails


def test_a_backend_that_refuses_connections(envoy: Envoy) -> None:
    said = error(envoy.chat("backend refusing", **{"x-request-id": "refused"}), 503)
    assert said["code"] == "backend_unreachable"
    assert "the backend 'refusing'" in said["message"]
    assert "127.0.0.1" not in said["message"]
    line = access_log_line(envoy, "refused")
    assert line["upstream"].startswith("127.0.0.1:")
    assert "Connection_refused" in line["upstream_failure"]


def test_a_backend_whose_name_is_unknown(envoy: Envoy) -> None:
    said = error(envoy.chat("backend unresolvable"), 503)
    assert said["code"] == "backend_unreachable"
    assert "'unresolvable'" in said["message"]


def test_a_backend_that_hangs_up(envoy: Envoy) -> None:
    said = error(envoy.chat(**{"x-backend": "hang up"}), 502)
    assert said["code"] == "backend_disconnected"
    assert "'fine'" in said["message"]


def test_a_backend_that_is_silent(envoy_alone: Envoy) -> None:
    said = error(envoy_alone.get("/v1/score", headers={"x-backend": "be silent"}), 504)
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


@pytest.mark.long
def test_a_processor_gets_more_time_if_it_asks_for_it_and_not_for_too_much(
    tmp_path: Path, backend: BackendServer
) -> None:
    with running_processor(tmp_path), running_envoy(tmp_path, backend, idle_timeout=f"{PATIENCE:g}s") as envoy:
        assert envoy.chat("think 60").status_code == 200
        assert error(envoy.chat("think 0"), 503)["code"] == "processor_timeout"
        assert error(envoy.chat("think 301"), 503)["code"] == "processor_timeout", "the most is 300"


def test_a_processor_that_is_not_there(envoy_alone: Envoy) -> None:
    assert error(envoy_alone.chat(), 503)["code"] == "processor_unavailable"


def test_the_models_are_the_processors_to_tell(envoy: Envoy, envoy_alone: Envoy) -> None:
    for path in ("/v1/models", "/v1/models/m", "/v1/models/org/m?x=1", "/v1/models/"):
        assert envoy.get(path, headers={"x-processor": "refuse request_headers"}).content == OWN_ERROR
        assert error(envoy_alone.get(path), 503)["code"] == "processor_unavailable"


@pytest.mark.parametrize("script", ["backend fine", "break request_body", "break response_headers"])
def test_only_of_chat_completions_the_processor_gets_more_than_headers(envoy: Envoy, script: str) -> None:
    response = envoy.post("/v1/models", content=b"x" * 2 * LIMIT, headers={"x-processor": script})
    said = error(response, 404, "invalid_request_error")
    assert said["code"] == "unknown_path", "nor does a backend tell of models, should the processor ever let that pass"


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
    assert response.headers["x-extproc-reply"] is None
    assert response.headers["content-type"] == "application/json"
    assert body["error"]["type"] == "invalid_request_error"


# ---- what passes, and what doesn't


def test_a_client_cant_choose_the_backend(envoy: Envoy) -> None:
    seen = envoy.chat("backend fine", **{"x-extproc-backend": "refusing"}).json()
    assert "x-extproc-backend" not in seen["headers"]


WITHHELD = {
    **dict.fromkeys(("authorization", "proxy-authorization"), "Bearer secret"),
    **dict.fromkeys(("api-key", "x-api-key", "cookie"), "session=secret"),
    **dict.fromkeys(("x-forwarded-for", "x-real-ip", "x-envoy-external-address"), "203.0.113.7"),
    **dict.fromkeys(("forwarded", "via", "x-forwarded-host", "x-forwarded-proto"), "for=203.0.113.7"),
    **dict.fromkeys(("x-prefiller-host-port", "x-prefiller-url", "x-kv-cache-source-host-port"), "203.0.113.7:80"),
    **dict.fromkeys(("x-gateway-destination-endpoint", "x-worker-instance-id", "x-data-parallel-rank"), "1"),
    **dict.fromkeys(("x-envoy-retry-on", "x-envoy-internal", "x-extproc-affinity", "x", "x-", "hos", "hosts"), "1"),
}


def test_no_backend_learns_who_the_client_is_nor_takes_orders_from_it(envoy: Envoy) -> None:
    for response in (envoy.chat(**WITHHELD), envoy.get("/v1/score", headers=WITHHELD)):
        seen = response.json()["headers"]
        assert seen.keys().isdisjoint(WITHHELD)
        assert seen.keys() <= {*TO_BACKENDS, "x-processor"}
        assert not any(word in value for value in seen.values() for word in ("secret", "203.0.113.7", "127.0.0.1"))


def test_a_body_arrives_whole_however_its_length_is_told(envoy: Envoy) -> None:
    for body in (b"x" * 1000, iter([b"x" * 500, b"x" * 500]), b""):
        assert envoy.post("/v1/score", content=body).json()["length"] == (1000 if body else 0)


def test_of_a_backends_headers_clients_get_those_they_need(envoy: Envoy) -> None:
    theirs = {"content-type", "content-length", "cache-control", "retry-after"}
    for response in (envoy.chat(), envoy.get("/v1/score")):
        assert set(response.headers) == theirs | {"date", "x-request-id"}
        assert response.headers["retry-after"] == "7"
        assert response.headers["x-request-id"] == response.json()["headers"]["x-request-id"]


def test_a_trace_goes_on_as_it_came_and_is_in_the_access_log(envoy: Envoy) -> None:
    trace = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "a=1,b=x:2"}
    chat = envoy.chat(**trace, **{"x-request-id": "traced-chat"})
    score = envoy.get("/v1/score", headers={**trace, "x-request-id": "traced-score"})
    for response in (chat, score):
        seen = response.json()["headers"]
        assert {name: seen[name] for name in trace} == trace
        assert access_log_line(envoy, seen["x-request-id"])["traceparent"] == trace["traceparent"]
    envoy.chat(**{"x-request-id": "untraced"})
    assert access_log_line(envoy, "untraced")["traceparent"] is None


def test_only_the_chat_route_withholds_accept_encoding(envoy: Envoy) -> None:
    asks = {"accept-encoding": "gzip"}
    assert "accept-encoding" not in envoy.chat(**asks).json()["headers"]
    assert envoy.get("/v1/score", headers=asks).json()["headers"]["accept-encoding"] == "gzip"


def test_a_base_url_may_end_in_a_slash(envoy: Envoy) -> None:
    response = envoy.post("/v1//chat/completions", headers={"x-processor": "refuse request_headers"})
    assert response.content == OWN_ERROR


def test_a_clients_timeouts_for_envoy_are_ignored(envoy_alone: Envoy) -> None:
    claims_to_be_internal = {"x-forwarded-for": "10.0.0.1", "x-envoy-internal": "true"}
    impatient = {"x-envoy-upstream-rq-timeout-ms": "1", "x-backend": "be silent", **claims_to_be_internal}
    assert error(envoy_alone.get("/v1/score", headers=impatient), 504)["code"] == "backend_timeout"
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
