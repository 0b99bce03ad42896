"""Limits in tokens by Envoy's global rate limit: the example of docs/envoy.md on two real Envoys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from textwrap import indent
from typing import Any

import grpc
from envoy_data_plane.envoy.service.ratelimit import v3 as ratelimit

from extproc.exchange.api_keys import hash_line
from scripted_vllm import Reply
from tests.gateway import MODEL, AskedVLLM, Gateway, configured_gateway, wait_until

PAGE = (Path(__file__).parent.parent / "docs/envoy.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("\n### Limits in tokens, for all Envoys together\n")[2]
FILTER = SECTION.partition("```yaml\n")[2].partition("```")[0].replace("timeout: 0.5s", "timeout: 30s")
ROUTER = f"{' ' * 10}- name: envoy.filters.http.router\n"
CLUSTER = """\
  clusters:
  - name: token_limits
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        '@type': type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{http2_protocol_options: {{}}}}
    load_assignment:
      cluster_name: token_limits
      endpoints:
      - lb_endpoints:
        - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}
"""
SETTINGS = """
models: [{{name: small, backend: qwen, upstream_model: {model}, tools: prompt}}]
backends: [{{name: qwen, address: "127.0.0.1:{port}", health_check: false}}]
api_keys: {keys}
"""
KEYS = {name: f"{name}-has-a-key-that-is-long-enough" for name in ("search/alice", "search/bob", "shop/carol")}


class Budgets:
    """A rate limit service: a team that has used as much as that gets nothing more."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = Counter[str]()

    @contextmanager
    def served(self) -> Iterator[int]:
        """Its port."""
        server = grpc.server(ThreadPoolExecutor(2))
        method: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(self._should_rate_limit)
        service = "envoy.service.ratelimit.v3.RateLimitService"
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"ShouldRateLimit": method}),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield port
        finally:
            server.stop(None).wait()

    def _should_rate_limit(self, message: bytes, _: object) -> bytes:
        request = ratelimit.RateLimitRequest.parse(message)
        over = False
        for descriptor in request.descriptors:
            (entry,) = descriptor.entries
            self.used[entry.value] += descriptor.hits_addend or 0
            over = over or (not descriptor.hits_addend and self.used[entry.value] >= self.most)
        code = ratelimit.RateLimitResponseCode.OVER_LIMIT if over else ratelimit.RateLimitResponseCode.OK
        return bytes(ratelimit.RateLimitResponse(overall_code=code))


def ask(gateway: Gateway, name: str, **fields: Any) -> Any:
    tools = [{"type": "function", "function": {"name": "look"}}]
    body = {"model": "small", "messages": [{"role": "user", "content": "Hello!"}], "tools": tools, **fields}
    return gateway.http.post("/v1/chat/completions", json=body, headers={"authorization": f"Bearer {KEYS[name]}"})


def test_a_teams_tokens_are_counted_by_both_envoys_and_then_refused(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("".join(f"{hash_line(name, key)}\n" for name, key in KEYS.items()))
    budgets = Budgets(most=10**9)
    with budgets.served() as port, AskedVLLM(model=MODEL, speak=lambda _: Reply("It is fine.")).running() as backend:
        added = {ROUTER: indent(FILTER, " " * 10) + ROUTER, "  clusters:\n": CLUSTER.format(port=port)}
        settings = SETTINGS.format(model=MODEL, port=backend.port, keys=tmp_path / "keys")
        folders = [tmp_path / "one", tmp_path / "two"]
        for folder in folders:
            folder.mkdir()
        with (
            configured_gateway(folders[0], settings, backend, envoy=added) as one,
            configured_gateway(folders[1], settings, backend, envoy=added) as two,
        ):
            assert "timeout: 30s" in FILTER
            told = [ask(gateway, "search/alice").json()["usage"]["total_tokens"] for gateway in (one, two)]
            assert ask(one, "search/bob", stream=True).status_code == 200
            wait_until(lambda: budgets.used["search"] == sum(told) + told[0])
            assert ask(two, "search/bob", tools=None).status_code == 200  # which tells no tokens
            budgets.most = budgets.used["search"]
            asked = len(backend.requests)
            for gateway in (one, two):
                refused = ask(gateway, "search/bob")
                assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
                assert refused.json()["error"]["type"] == "requests"
            assert len(backend.requests) == asked
            assert ask(two, "shop/carol").status_code == 200
            assert budgets.used["search"] == budgets.most
