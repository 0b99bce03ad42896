"""Which servers of a backend get requests: those that its name stands for now, and that are ready. A real Envoy, and a
name server of our own."""

from __future__ import annotations

import threading
from pathlib import Path

import httpx
import pytest

from scripted_vllm import Reply, ScriptedVLLM
from tests.gateway import MODEL, configured_gateway, free_port, wait_until
from tests.name_server import NameServer
from tests.reloadable import CHAT, request, text_of


def test_a_server_without_the_model_gets_no_requests(tmp_path: Path) -> None:
    with ScriptedVLLM(model="another").running() as other, ScriptedVLLM(model=MODEL).running() as right:
        told = f"""
models: [{{name: coder, backend: qwen, upstream_model: {MODEL}, tools: prompt}}]
backends:
  - name: qwen
    address: ["127.0.0.1:{other.port}", "127.0.0.1:{right.port}"]
    health_check: {{path: /v1/models, contains: '"id":"{MODEL}"'}}
"""
        with configured_gateway(tmp_path, told) as gateway:
            wait_until(lambda: gateway.stat("cluster.qwen.membership_healthy") == 1)
            assert [gateway.chat("coder").status_code for _ in range(10)] == [200] * 10
        assert not [each for each in other.requests if each.route == CHAT]


@pytest.mark.long
def test_servers_come_and_go_behind_a_name_without_a_restart(tmp_path: Path) -> None:
    """As pods do behind a headless Service. Envoy asks every 5 seconds, here every fifth of one."""
    port = free_port()
    hosts = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
    vllms = [ScriptedVLLM(model=MODEL, port=port, host=host) for host in hosts]
    with vllms[0].running(), vllms[1].running(), vllms[2].running(), NameServer(hosts[0]).running() as names:
        told = f"""
models: [{{name: coder, backend: qwen, upstream_model: {MODEL}, tools: prompt}}]
backends: [{{name: qwen, address: "vllm-coder.models.svc.example:{port}", affinity: true}}]
"""
        resolver = (
            "{name: envoy.network.dns_resolver.cares, typed_config: {'@type': type.googleapis.com/"
            "envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig, resolvers: [{socket_address: "
            f"{{address: 127.0.0.1, port_value: {names.port}}}}}]}}}}"
        )
        ours = "dns_lookup_family: V4_PREFERRED"
        more = f"{ours}\n    dns_refresh_rate: 0.2s\n    typed_dns_resolver_config: {resolver}"
        with configured_gateway(tmp_path, told, envoy={ours: more}) as gateway:

            def asked() -> list[bool]:
                """Which of them get requests of 30 conversations."""
                for vllm in vllms:
                    vllm.forget()
                statuses = {gateway.chat("coder", f"Conversation {count}").status_code for count in range(30)}
                assert statuses == {200}
                return [any(each.route == CHAT for each in vllm.requests) for vllm in vllms]

            def come_to(*there: int) -> None:
                names.addresses = tuple(hosts[each] for each in there)
                wait_until(lambda: asked() == [each in there for each in range(3)])

            lines: list[str] = []
            begun = threading.Event()

            def stream() -> None:
                with httpx.stream("POST", f"{gateway.url}{CHAT}", json=request("coder", stream=True)) as answer:
                    for line in answer.iter_lines():
                        lines.append(line)
                        begun.set()

            come_to(0)
            vllms[0].play(Reply("word " * 300, pace=0.05))
            streaming = threading.Thread(target=stream)
            streaming.start()
            assert begun.wait(20)
            come_to(1)
            assert "data: [DONE]" not in lines  # what a server has begun goes on when it has left
            streaming.join(60)
            assert text_of(lines) == "word " * 300
            come_to(0, 1, 2)
            come_to(2)
