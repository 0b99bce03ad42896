"""What limits that a service counts cost a request: `python -m bench.limits [--runs 400] [--service-ms 0] [--json]`.

Three gateways, each a real Envoy with a processor, take the same requests in turn, one at a time: one that checks keys
and has no limits, one that has the service count each key's requests, and one that has it count requests and tokens, of
keys and of their teams. The service says yes to everything, `--service-ms` after it was asked. Reported are
milliseconds until the whole answer has come, how much later that is than without limits in the same turn, and how often
Envoy asked the service for each request.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import grpc
import orjson

from bench.request import tool
from extproc.envoy.clusters import COUNTING
from extproc.exchange.api_keys import hash_line
from scripted_vllm import Reply
from tests.gateway import MODEL, AskedVLLM, Gateway, configured_gateway, wait_until
from tests.limit_load import COUNTING_NOW
from tests.rate_limit_service import rate_limits_by

NAME, KEY = "team/key", "a-key-that-is-long-enough"
MANY = 1_000_000
NONE = "no limits"
WAYS = {
    NONE: "limits: {requests_per_minute: null}\nteams: [{name: team}]",
    "requests of keys": f"limits: {{requests_per_minute: {MANY}}}\nteams: [{{name: team}}]",
    "requests and tokens, keys and teams": f"""
limits: {{requests_per_minute: {MANY}, tokens_per_minute: {MANY}}}
teams: [{{name: team, requests_per_minute: {MANY}, tokens_per_minute: {MANY}}}]""",
}
_WARM = 20
_YES = b"\x08\x01"
"""`RateLimitResponse.overall_code` is OK."""


async def serve(seconds: float) -> None:
    """Say yes, until the standard input ends. Writes the port."""

    async def should_rate_limit(_: bytes, __: object) -> bytes:
        if seconds:
            await asyncio.sleep(seconds)
        return _YES

    server = grpc.aio.server()
    server.add_generic_rpc_handlers((rate_limits_by(should_rate_limit),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(None)


@contextmanager
def service(milliseconds: float) -> Iterator[int]:
    """In a process of its own; its port."""
    command = [sys.executable, "-m", "bench.limits", "--serve", str(milliseconds / 1000)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        assert process.stdin is not None
        process.stdin.close()


def _settings(folder: Path, backend: int, counting: int, way: str) -> str:
    (folder / "keys").write_text(f"{hash_line(NAME, KEY)}\n")
    asked = f'rate_limit_service: {{address: "127.0.0.1:{counting}"}}\n' if way != NONE else ""
    return f"""
models: [{{name: coder, backend: qwen, upstream_model: {MODEL}, tools: prompt}}]
backends: [{{name: qwen, address: "127.0.0.1:{backend}", health_check: false}}]
api_keys: {folder / "keys"}
{asked}{WAYS[way]}
"""


class _Client:
    """One connection."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._connection = http.client.HTTPConnection(urlsplit(gateway.url).netloc, timeout=60)
        messages = [{"role": "user", "content": "Write it."}]
        self._body = orjson.dumps(
            {"model": "coder", "messages": messages, "tools": [tool(number) for number in range(10)]}
        )

    def ask(self) -> float:
        """Milliseconds."""
        headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
        begin = time.perf_counter_ns()
        self._connection.request("POST", "/v1/chat/completions", self._body, headers)
        answer = self._connection.getresponse()
        said = answer.read()
        took = (time.perf_counter_ns() - begin) / 1e6
        assert answer.status == 200, said
        return took

    def questions(self) -> int:
        """How often the service was asked, or told, until now."""
        wait_until(lambda: not any(map(self._gateway.stat, COUNTING_NOW)))
        return self._gateway.stat(f"cluster.{COUNTING}.upstream_rq_completed")

    def close(self) -> None:
        self._connection.close()


def measure(runs: int, milliseconds: float) -> dict[str, dict[str, float]]:
    """By way: milliseconds at the median and the 99th percentile, milliseconds later, questions for each request."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        backend = stack.enter_context(AskedVLLM(model=MODEL, speak=lambda _: Reply("It is done.")).running())
        counting = stack.enter_context(service(milliseconds))
        clients: dict[str, _Client] = {}
        for number, way in enumerate(WAYS):
            own = folder / str(number)
            own.mkdir()
            gateway = stack.enter_context(configured_gateway(own, _settings(own, backend.port, counting, way)))
            clients[way] = _Client(gateway)
            stack.callback(clients[way].close)
        times: dict[str, list[float]] = {way: [] for way in WAYS}
        for run in range(-_WARM, runs):
            for way in random.sample(list(WAYS), len(WAYS)):
                took = clients[way].ask()
                if run >= 0:
                    times[way].append(took)
        base, found = times[NONE], {}
        for way, of in times.items():
            found[way] = {
                "p50": statistics.median(of),
                "p99": statistics.quantiles(of, n=100)[-1],
                "later": statistics.median(one - without for one, without in zip(of, base, strict=True)),
                "asked": clients[way].questions() / (runs + _WARM),
            }
        return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.limits", description="What counted limits cost a request.")
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--service-ms", type=float, default=0.0, help="how long the service takes for its answer")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", type=float, metavar="SECONDS", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve is not None:
        asyncio.run(serve(options.serve))
        return 0
    measured = measure(options.runs, options.service_ms)
    if options.json:
        print(json.dumps(measured))
        return 0
    print(f"{'':<38} {'p50 ms':>8} {'p99 ms':>8} {'later':>8} {'asked':>8}")
    for way, of in measured.items():
        print(f"{way:<38} " + " ".join(f"{of[name]:8.2f}" for name in ("p50", "p99", "later", "asked")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
