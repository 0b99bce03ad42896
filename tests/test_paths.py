"""Envoy with our bootstrap: which paths lead to a backend, and that nothing else does, however it is spelled."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.scripted_processor import (
    CHAT,
    LIMIT,
    Envoy,
    error,
    raw,
    running_backend,
    running_envoy,
)


@pytest.fixture(scope="module")
def envoy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Envoy]:
    """Without a processor: what is answered here was not asked of any."""
    with running_backend() as backend, running_envoy(tmp_path_factory.mktemp("alone"), backend) as running:
        yield running


def test_other_paths_do_without_the_processor(envoy: Envoy) -> None:
    assert envoy.get("/v1/score?x=1").json()["path"] == "/v1/score?x=1"
    assert envoy.post("/v1/embeddings", content=b"x" * 2 * LIMIT).status_code == 200


# ---- when there is nothing to ask


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["/", "/version", "/v1/models-of-another-kind", "/v1/score/", f"{CHAT}/x"])
def test_a_path_that_is_not_listed(envoy: Envoy, method: str, path: str) -> None:
    said = error(envoy.request(method, f"{path}?key=secret"), 404, "invalid_request_error")
    assert said["code"] == "unknown_path"
    assert said["message"].startswith(f"Unknown path: {path}. ")
    assert "other_paths" in said["message"]


@pytest.mark.parametrize("path", ['/"},{"', "/%ff%22", "/" + "x" * 50_000], ids=["quotes", "escapes", "long"])
def test_whatever_the_path_the_error_can_be_read(envoy: Envoy, path: str) -> None:
    status, headers, body = raw(envoy, "GET", path)
    assert (status, headers["content-type"]) == (404, "application/json")
    assert len(body) < 1000
    assert json.loads(body)["error"]["code"] == "unknown_path"


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
@pytest.mark.parametrize("path", [CHAT, f"{CHAT}/", f"{CHAT}?x=1"])
def test_a_chat_completion_by_another_method(envoy: Envoy, method: str, path: str) -> None:
    response = envoy.request(method, path)
    assert response.headers["allow"] == "POST"
    if method == "HEAD":
        assert (response.status_code, response.content) == (405, b"")
    else:
        said = error(response, 405, "invalid_request_error")
        assert said["code"] == "method_not_allowed"
        assert said["message"].startswith(f"{method} isn't allowed here")


REACHES_NOTHING = """
/sleep /SLEEP /sleep/ //sleep /./sleep /%2e/sleep /%73leep /v1/../sleep /v1/%2e%2e/sleep /v1/.%2E/sleep
/v1/score/../../sleep /v1/score/..%2f..%2fsleep /v1/score%2f..%2f..%2fsleep /v1/score/..%5c..%5csleep
/v1/score\\..\\..\\sleep /v1/score%252f..%252f..%252fsleep /v1/score/..;/..;/sleep
/v1/models/../../sleep /v1/models%2f..%2f..%2fsleep /v1/models/%2e%2e/load_lora_adapter
/v1/chat/completions/../../../sleep /v1/chat/completions/render /v1/chat/completions%2f..%2f..%2f..%2fsleep
/v1/score;x /v1/score%3fx /v1/score%00 /v1/score%20 /v1/score#/../sleep /V1/score /v1/score/%2e%2e/x
/v1/load_lora_adapter /v1/unload_lora_adapter /collective_rpc /reset_prefix_cache /metrics /server_info /invocations
http://localhost/sleep
""".split()


@pytest.mark.parametrize("path", REACHES_NOTHING)
def test_no_spelling_leads_past_the_list(envoy: Envoy, path: str) -> None:
    status, headers, body = raw(envoy, "POST", path)
    # The models are the processor's, which isn't there.
    assert (status, json.loads(body)["error"]["code"]) in [
        (404, "unknown_path"),
        (400, "bad_request"),
        (503, "processor_unavailable"),
    ]
    assert headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "path",
    ["/v1%2fscore", "/v1%2Fscore", "//v1//score", "/v1/./score", "/sleep/../v1/score", "/sleep%2f..%2fv1%2fscore"],
)
def test_what_is_compared_is_what_a_backend_is_asked_for(envoy: Envoy, path: str) -> None:
    status, _, body = raw(envoy, "POST", f"{path}?x=/../../sleep")
    assert (status, json.loads(body)["path"]) == (200, "/v1/score?x=/../../sleep")
