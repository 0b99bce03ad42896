"""Envoy's own rate limit by what the processor tells of a request: the example of docs/envoy.md on a real Envoy."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from scripted_vllm import Reply
from tests.gateway import MODEL, AskedVLLM, Gateway, configured_gateway, wait_until

PAGE = (Path(__file__).parent.parent / "docs/envoy.md").read_text(encoding="utf-8")
FILTER = PAGE.partition("\n### Rate limits by model and key\n")[2].partition("```yaml\n")[2].partition("```")[0]
ROUTER = f"{' ' * 10}- name: envoy.filters.http.router\n"
KEYS = {name: f"{name}-has-a-key-that-is-long-enough" for name in ("alice", "bob")}
SETTINGS = """
models:
  - {{name: expensive, backend: qwen, upstream_model: {model}, tools: prompt}}
  - {{name: cheap, backend: qwen, upstream_model: {model}, tools: prompt}}
backends:
  - {{name: qwen, address: "127.0.0.1:{port}", health_check: false}}
api_keys: {keys}
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("limits")
    keys = folder / "keys"
    keys.write_text("".join(f"{name}: {hashlib.sha256(key.encode()).hexdigest()}\n" for name, key in KEYS.items()))
    with AskedVLLM().running() as backend:
        settings = SETTINGS.format(model=MODEL, port=backend.port, keys=keys)
        filters = {ROUTER: indent(FILTER, " " * 10) + ROUTER}
        with configured_gateway(folder, settings, backend, envoy=filters) as gateway:
            yield gateway


def ask(gateway: Gateway, name: str, model: str, **fields: Any) -> int:
    gateway.backend.play(Reply("It is fine."))
    answer = gateway.http.post(
        "/v1/chat/completions",
        json={"model": model, "messages": [{"role": "user", "content": "Hello!"}], **fields},
        headers={"authorization": f"Bearer {KEYS[name]}"},
    )
    if answer.status_code != 200:
        error = answer.json()["error"]
        assert error["code"] == "rate_limit_exceeded"
        assert "requests_per_minute" not in error["message"]  # another limit
    return answer.status_code


def test_each_key_has_so_many_of_each_model(gateway: Gateway) -> None:
    tools = [{"type": "function", "function": {"name": "look"}}]
    assert [ask(gateway, "alice", "expensive"), ask(gateway, "alice", "expensive", tools=tools)] == [200, 200]
    before = len(gateway.backend.requests)
    assert [ask(gateway, "alice", "expensive"), ask(gateway, "alice", "expensive", tools=tools)] == [429, 429]
    assert len(gateway.backend.requests) == before
    assert [ask(gateway, "alice", "cheap") for _ in range(3)] == [200] * 3
    assert [ask(gateway, "bob", "expensive") for _ in range(3)] == [200, 200, 429]
    assert gateway.stat("requests_per_key_and_model.http_local_rate_limit.rate_limited") == 3
    assert gateway.metric('extproc_refused_requests_total{code="rate_limit_exceeded"}') == 3
    assert gateway.metric('extproc_backend_errors_total{model="expensive",status="429"}') == 0
    wait_until(lambda: gateway.metric("extproc_running_exchanges") == 0)
