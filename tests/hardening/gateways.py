"""Gateways to be attacked, with a model that always says the same at a steady pace."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from extproc.exchange.api_keys import hash_line
from scripted_vllm import Reply
from tests.gateway import MODEL as UPSTREAM_MODEL
from tests.gateway import AskedVLLM, Gateway, configured_gateway
from tests.pods.clients import MODEL, TEXT

PACE = 0.05
"""Seconds between two tokens."""
ALICE, BOB = "alice-has-a-long-key", "bob-has-a-long-key-too"


@contextmanager
def attacked_gateway(
    folder: Path,
    settings: str = "",
    *,
    keys: bool = False,
    backend: str = "",
    envoy: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Gateway]:
    """`settings` is more YAML, `backend` more of its entry; with `keys`, ALICE and BOB may come in.

    `envoy`: what to replace in Envoy's bootstrap.
    """
    configuration = f"models: [{{name: {MODEL}, backend: qwen, upstream_model: {UPSTREAM_MODEL}, tools: prompt}}]\n"
    if keys:
        (folder / "keys").write_text(f"{hash_line('alice', ALICE)}\n{hash_line('bob', BOB)}\n")
        configuration += f"api_keys: {folder / 'keys'}\n"
    with AskedVLLM(model=UPSTREAM_MODEL, speak=lambda _: Reply(TEXT, pace=PACE)).running() as vllm:
        configuration += f"backends: [{{name: qwen, address: '127.0.0.1:{vllm.port}', health_check: false{backend}}}]\n"
        with configured_gateway(folder, configuration + settings, vllm, live=True, envoy=envoy) as running:
            yield running


def port_of(gateway: Gateway) -> int:
    return int(gateway.url.rpartition(":")[2])


def memory_of(process: int) -> int:
    """Bytes that the process holds in memory."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")
