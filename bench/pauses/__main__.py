"""What stops the event loop: `python -m bench.pauses [--requests 20000] [--streams 50] [--clients 8] [--json]`.

The processor under a real Envoy, with so many streams with tools at the pace of a model, and beside them so many
requests of all kinds, one after the other by some clients: small ones without tools, 17 and 41 kB with tools, now and
then 229 kB, wrong ones, whole answers. All the while the configuration changes every few seconds, the keys' file too,
and the metrics are read.

Reported are the metric (`extproc_loop_lag_seconds`): how many rounds of the loop took how long; and of those above 8 ms
what they were about (`bench/pauses/watched.py`): by whose processor time, whether the collector ran, and where the loop
stood.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import orjson

import tests.gateway
from bench.attacks.backends import HONEST
from bench.attacks.victim import child, line
from bench.request import request
from extproc.exchange.api_keys import hash_line
from tests.gateway import Gateway, configured_gateway

KEYS = [f"{number:032}" for number in range(20)]
"""Of so many clients: each has its share of the backends."""
MODELS = 40
"""Entries of the configuration, whose file is then some 6 kB."""
CHANGES = 2.0
"""Seconds between two changes of the configuration."""
BOUND = 0.010
_HALF = 0.5


def _body(tools: int, turns: int, **fields: object) -> bytes:
    made = orjson.loads(request(tools, turns))
    if not tools:
        del made["tools"]
    return orjson.dumps({**made, "model": "quick", "stream": False, **fields})


SAID = [{"role": "user", "content": "Hello!"}]
KINDS: dict[str, tuple[int, bytes]] = {
    "small": (70, orjson.dumps({"model": "quick", "messages": SAID})),
    "17 kB": (10, _body(9, 0)),
    "41 kB": (8, _body(15, 6)),
    "229 kB": (1, _body(50, 50)),
    "wrong": (6, orjson.dumps({"model": "quick", "messages": SAID, "temperature": 9})),
    "no model": (5, orjson.dumps({"model": "nobody", "messages": SAID})),
}
"""What is asked, and how often of a hundred times."""
STREAM = orjson.dumps(
    {**orjson.loads(request(10, 4)), "model": "coder", "messages": [{"role": "user", "content": HONEST}]}
)


def settings(ports: dict[str, int], change: int) -> str:
    """`change` is the number of the change."""
    models = "".join(
        f"  - {{name: model-{number}, backend: quick, upstream_model: m, tools: prompt,"
        f" defaults: {{temperature: 0.{number}, seed: {change}}}}}\n"
        for number in range(MODELS)
    )
    return f"""models:
  - {{name: coder, backend: vllm, upstream_model: honest, tools: prompt}}
  - {{name: quick, backend: quick, upstream_model: m, tools: prompt}}
{models}backends:
  - {{name: vllm, address: "127.0.0.1:{ports["vllm"]}", health_check: false}}
  - {{name: quick, address: "127.0.0.1:{ports["quick"]}", health_check: false}}
"""


class Load:
    """The clients, and those who change files."""

    def __init__(self, gateway: Gateway, folder: Path, ports: dict[str, int], options: argparse.Namespace) -> None:
        self._gateway = gateway
        self._folder = folder
        self._ports = ports
        self._left = options.requests
        self._streams = options.streams
        self._clients = options.clients
        self.answers = Counter[str]()

    async def run(self) -> float:
        """Returns how long it took."""
        limits = httpx.Limits(max_connections=None)
        url = self._gateway.url
        async with httpx.AsyncClient(base_url=url, limits=limits, timeout=60) as http:
            beside = [asyncio.create_task(self._stream(http, number)) for number in range(self._streams)]
            beside += [asyncio.create_task(work()) for work in (self._change, self._read_metrics)]
            began = time.monotonic()
            await asyncio.gather(*(self._ask(http, number) for number in range(self._clients)))
            took = time.monotonic() - began
            for task in beside:
                task.cancel()
            await asyncio.wait(beside)
        return took

    async def _ask(self, http: httpx.AsyncClient, number: int) -> None:
        chance, headers = random.Random(number), _headers(number)
        kinds, weights = list(KINDS), [weight for weight, _ in KINDS.values()]
        while self._left > 0:
            self._left -= 1
            (kind,) = chance.choices(kinds, weights)
            answer = await http.post("/v1/chat/completions", content=KINDS[kind][1], headers=headers)
            self.answers[f"{kind}: {answer.status_code}"] += 1

    async def _stream(self, http: httpx.AsyncClient, number: int) -> None:
        headers = _headers(number)
        while True:
            async with http.stream("POST", "/v1/chat/completions", content=STREAM, headers=headers) as answer:
                ended = False
                async for piece in answer.aiter_bytes():
                    ended = piece.endswith(b"[DONE]\n\n")
                self.answers[f"stream: {answer.status_code}{'' if ended else ' cut'}"] += 1

    async def _change(self) -> None:
        config, keys = self._folder / "extproc.yaml", self._folder / "api-keys"
        first, _, _ = config.read_text().partition("models:")
        *_, last = config.read_text().rpartition("api_keys:")
        for change in range(1, 1_000_000):
            await asyncio.sleep(CHANGES * _HALF)
            _move(config, f"{first}{settings(self._ports, change)}api_keys:{last}")
            await asyncio.sleep(CHANGES * _HALF)
            _move(keys, _keys(change))

    async def _read_metrics(self) -> None:
        async with httpx.AsyncClient() as http:
            while True:
                await asyncio.sleep(1)
                with suppress(httpx.HTTPError):
                    await http.get(self._gateway.metrics)


def _headers(number: int) -> dict[str, str]:
    return {"content-type": "application/json", "authorization": f"Bearer {KEYS[number % len(KEYS)]}"}


def _keys(change: int) -> str:
    lines = [hash_line(f"bench-{n}", key) for n, key in enumerate(KEYS)]
    lines += [hash_line(f"client-{n}", f"{n:08}-{change:08}") for n in range(200)]
    return "\n".join(lines)


def _move(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def rounds(page: str) -> dict[str, int]:
    """How many rounds took up to how long, as the metric has it."""
    found = re.findall(r'^extproc_loop_lag_seconds_bucket\{le="([^"]*)"\} (\S+)$', page, re.MULTILINE)
    return {bound: int(float(count)) for bound, count in found}


def cause(one: dict[str, Any]) -> str:
    """In a word or two, what a long round was about."""
    if one["garbage"] > one["seconds"] * _HALF:
        return f"the collector, generation {one['generation']}"
    if one["ours"] >= one["seconds"] * _HALF:
        return "our own work"
    return "another thread of ours" if one["others"] >= one["seconds"] * _HALF else "the machine"


def told(long: list[dict[str, Any]]) -> None:
    beyond = [one for one in long if one["seconds"] > BOUND]
    print(f"\nrounds above {BOUND * 1e3:.0f} ms: {len(beyond)}")
    for why, count in Counter(map(cause, beyond)).most_common():
        of_these = [one for one in beyond if cause(one) == why]
        worst = max(of_these, key=lambda one: one["ours"])
        print(f"  {count:5}  {why}: most {max(one['seconds'] for one in of_these) * 1e3:.1f} ms, "
              f"of our own processor time {worst['ours'] * 1e3:.1f} ms")  # fmt: skip
    ours = [one for one in beyond if one["ours"] > BOUND]
    print(f"\nrounds with more than {BOUND * 1e3:.0f} ms of our own processor time: {len(ours)}")
    places = Counter(next((f for f in one["stack"] if "extproc" in f or "server/" in f), "?") for one in ours)
    for place, count in places.most_common(12):
        print(f"  {count:5}  {place}")
    for one in sorted(ours, key=lambda one: -one["ours"])[:5]:
        print(json.dumps(one))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.pauses", description=__doc__.partition(":")[0])
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--streams", type=int, default=50)
    parser.add_argument("--clients", type=int, default=8, help="that ask one after the other")
    parser.add_argument("--json", action="store_true", help="the long rounds, one JSON object per line")
    options = parser.parse_args(arguments)
    backends = [sys.executable, "-m", "bench.attacks.backends"]
    with (
        tempfile.TemporaryDirectory(prefix="bench") as name,
        child([*backends, "vllm"], stdout=subprocess.PIPE) as vllm,
        child([*backends, "raw"], stdout=subprocess.PIPE) as raw,
    ):
        folder, report = Path(name), Path(name, "long.jsonl")
        ports = {**json.loads(line(vllm, "vllm")), **json.loads(line(raw, "quick"))}
        (folder / "api-keys").write_text(_keys(0))
        watched = [sys.executable, "-m", "bench.pauses.watched", str(report)]
        with (
            mock.patch.object(tests.gateway, "EXTPROC", watched),
            configured_gateway(folder, f"{settings(ports, 0)}api_keys: {folder}/api-keys\n", live=True) as gateway,
        ):
            load = Load(gateway, folder, ports, options)
            took = asyncio.run(load.run())
            counted = rounds(httpx.get(gateway.metrics).text)
        long = [json.loads(one) for one in report.read_text().splitlines()]
    if options.json:
        for one in long:
            print(json.dumps(one))
        return 0
    print(f"{took:.0f} s; answers:", dict(sorted(load.answers.items())))
    print("rounds of the loop up to so many seconds:", counted)
    told(long)
    return 0


if __name__ == "__main__":
    sys.exit(main())
