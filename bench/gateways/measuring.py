"""One run: every way is started once and stays, and the loads go round all of them, again and again.

A machine that does other work too changes from second to second. So no way is measured to its end before the next one
begins: what is compared with each other was measured within the same minute, in each round.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import platform
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from bench.gateways import streams, wrk
from bench.gateways.bodies import SHAPES, Shape, filled
from bench.gateways.paced import PACE
from bench.gateways.peers import Peers
from bench.gateways.plan import FIRST, MEMORY_STREAMS, WAYS, Plan, Way, Whole
from bench.gateways.processes import used
from bench.gateways.ways import PROCESSOR, PROXY, Gateway, Stage, backend, start
from bench.request import measure as measure_request

_DIRECTORIES = re.compile(r"(?<![\w:/.])/(?:[^\s/'\"]+/)+")
_WARM = 6
_SLOW = 5
_LATEST_CALL = 10.0
_REST, _LATEST_REST = 0.05, 10.0
"""Seconds."""


class Run:
    """All that is running, and what was found. Everything ends with `stack`."""

    def __init__(self, plan: Plan, peers: Peers, folder: Path, stack: ExitStack, names: list[str]) -> None:
        self._plan = plan
        self._peers = peers
        self._folder = folder
        self._stack = stack
        self._numbers = wrk.Numbers()
        self._ports: dict[str, int] = {}
        self._gateways: dict[tuple[str, str], Gateway] = {}
        self._ways = [way for way in WAYS if way.name in names]
        self.found: dict[str, Any] = {"missing": {}, "memory": [], "whole": [], "streams": [], "prepare": []}

    def start(self) -> None:
        """Start everything, and see what memory streams take while it is fresh."""
        ports = self._ports = backend(self._stack, self._peers)
        for way in list(self._ways):
            key = (way.gateway, way.settings)
            try:
                if key not in self._gateways:
                    with _telling(f"starting {way.gateway} {way.settings.strip()}"):
                        folder = Path(tempfile.mkdtemp(dir=self._folder))
                        self._gateways[key] = start(*key, Stage(self._stack, folder, ports, self._peers))
                self._check(way)
                self._memory(way)
            except RuntimeError as error:
                self.found["missing"][way.name] = _told(error)
                self._ways.remove(way)

    def measure(self) -> None:
        """All rounds."""
        for number in range(self._plan.rounds):
            with _telling(f"round {number + 1} of {self._plan.rounds}"):
                for many in self._plan.streams:
                    for way in self._ways:
                        if many in way.streams:
                            self._add("streams", {"way": way.name, "streams": many}, partial(self._listen, way, many))
                done: set[tuple[str, str]] = set()
                for load in self._plan.wholes:
                    if (load.shape, load.request) not in done:
                        done.add((load.shape, load.request))
                        self._load([one for one in self._plan.wholes if _same(one, load)])
        with _telling("preparing requests in this process"):
            for tools, turns in self._plan.bodies:
                row = measure_request(tools, turns, self._plan.runs)
                self.found["prepare"].append({"tools": tools, **{name: round(value, 3) for name, value in row.items()}})

    def _check(self, way: Way) -> None:
        """Its answers are what they have to be."""
        shape, port = SHAPES[way.shapes[0]], self._port(way)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        whole = wrk.ask(connection, self._body(shape, way, stream=False))
        connection.close()
        if way.calls:
            (choice,) = json.loads(whole)["choices"]
            if choice["message"]["tool_calls"][0]["function"]["name"] != "tool_1":
                raise RuntimeError("its answer has no call")
            beginning = asyncio.run(self._until_call(way))
            if b'"tool_calls"' not in beginning or b"<tool_call>" in beginning:
                raise RuntimeError("its stream has no call")

    async def _until_call(self, way: Way) -> bytes:
        """A stream up to its first arguments."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port(way))
        writer.write(streams.request(self._body(SHAPES[way.stream_shape], way, stream=True)))
        said = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LATEST_CALL):
                while b"arguments" not in said and (piece := await reader.read(65536)):
                    said += piece
        writer.close()
        await streams.end_all(self._ports["native"])
        return said

    def _memory(self, way: Way) -> None:
        """Of processes that have seen little yet, before and during streams."""
        gateway = self._gateways[way.gateway, way.settings]
        if not (gateway.processes and way.memory):
            return

        async def read() -> None:
            await streams.tell(self._ports["native"], f"/pace/{_SLOW}")  # memory is all that counts
            shape, end = SHAPES[way.stream_shape], self._ports["native"]
            async with streams.running(gateway.port, [self._body(shape, way, stream=True) for _ in range(_WARM)], end):
                pass
            bodies = [self._body(shape, way, stream=True) for _ in range(MEMORY_STREAMS)]

            async def during(many: int) -> dict[str, int]:
                async with streams.running(gateway.port, bodies * many, end):
                    await asyncio.sleep(1)
                    return {name: tree.kilobytes() for name, tree in gateway.processes.items()}

            idle = {name: tree.kilobytes() for name, tree in gateway.processes.items()}
            new, known, more = await during(1), await during(1), await during(3)
            for name in gateway.processes:
                row = {
                    "way": way.name,
                    "process": name,
                    "idle_mb": round(idle[name] / 1e3, 1),
                    "new_kb": round((new[name] - idle[name]) / MEMORY_STREAMS, 1),
                    "stream_kb": round((more[name] - known[name]) / (2 * MEMORY_STREAMS), 1),
                }
                self.found["memory"].append(row)
            await streams.tell(self._ports["native"], f"/pace/{PACE}")

        asyncio.run(read())

    def _listen(self, way: Way, many: int) -> dict[str, float]:
        """So many streams for a while."""
        gateway = self._gateways[way.gateway, way.settings]
        bodies = [self._body(SHAPES[way.stream_shape], way, stream=True) for _ in range(many)]
        times: list[dict[str, dict[int, float]]] = []

        async def listen() -> streams.Heard:
            async with streams.running(gateway.port, bodies, self._ports["native"]) as ear:
                await asyncio.sleep(0.3 + many / 64)  # until what beginning takes is behind them
                return await streams.listened(ear, self._plan.stream_seconds, lambda: times.append(_seconds(gateway)))

        heard = asyncio.run(listen())
        if not heard.tokens:
            raise RuntimeError("no token came")
        found: dict[str, float] = {"tokens": heard.tokens, "seconds": self._plan.stream_seconds}
        found |= {name: heard.percentile(at) for name, at in (("p50", 50), ("p99", 99), ("p99_9", 99.9))}
        return found | _costs(times[0], times[1], heard.tokens)

    def _load(self, loads: list[Whole]) -> None:
        """Loads of the same requests: each way with all of them, one way after the other."""
        shape, request = SHAPES[loads[0].shape], loads[0].request
        for way in self._ways:
            if shape.name not in way.shapes:
                continue
            template = self._folder / f"{shape.name}-{way.model}.json"
            template.write_bytes(shape.template(model=way.model))
            begun = self._numbers.take(wrk.CONVERSATIONS)
            try:
                if request != FIRST and way.ours:  # what remembers nothing needn't be asked before
                    wrk.begin_conversations(self._port(way), shape, way.model, begun)
            except (RuntimeError, OSError) as error:
                self.found["missing"][f"{way.name}, {shape.name} {request}"] = _told(error)
                continue
            for load in loads:
                key = {"way": way.name, **asdict(load)}
                first = self._numbers.take(wrk.MOST_PER_SECOND * load.seconds)
                order = wrk.Order(template, request, first, begun)
                self._add("whole", key, partial(self._one_load, way, order, load))

    def _one_load(self, way: Way, order: wrk.Order, load: Whole) -> dict[str, float]:
        gateway = self._gateways[way.gateway, way.settings]
        before = _seconds(gateway)
        found = wrk.load(self._peers.wrk, gateway.port, order, load.connections, load.seconds)
        if not found.requests:
            raise RuntimeError(f"no answer came in {load.seconds} s")
        return asdict(found) | _costs(before, _seconds(gateway), found.requests)

    def _add(self, where: str, key: dict[str, Any], measure: Callable[[], Mapping[str, float]]) -> None:
        """One more run of the row with this key."""
        rows = self.found[where]
        row = next((row for row in rows if key.items() <= row.items()), None)
        if row is None:
            rows.append(row := {**key, "runs": []})
        if "failed" in row:
            return
        try:
            row["runs"].append({name: _rounded(value) for name, value in measure().items()})
        except (RuntimeError, OSError) as error:
            row["failed"] = _told(error)
        _settle(self._gateways.values())

    def _body(self, shape: Shape, way: Way, *, stream: bool) -> bytes:
        return filled(shape.template(model=way.model, stream=stream), self._numbers.take(1))

    def _port(self, way: Way) -> int:
        return self._gateways[way.gateway, way.settings].port


def run(plan: Plan, peers: Peers, names: list[str]) -> dict[str, Any]:
    """Measure everything; some minutes. What comes back is what bench/results holds."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bench") as name, ExitStack() as stack:
        running = Run(plan, peers, Path(name), stack, names)
        facts = machine(peers)
        running.start()
        running.measure()
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "minutes": round((time.monotonic() - begun) / 60, 1),
        "rounds": plan.rounds,
        "machine": facts,
        **running.found,
    }


def machine(peers: Peers) -> dict[str, Any]:
    """What the numbers depend on."""
    model = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return {
        "cores": os.cpu_count(),
        "processor": model[1].strip() if model else platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "load": round(os.getloadavg()[0], 1),
        "versions": peers.versions(),
    }


def _same(one: Whole, other: Whole) -> bool:
    return (one.shape, one.request) == (other.shape, other.request)


def _seconds(gateway: Gateway) -> dict[str, dict[int, float]]:
    return {name: tree.seconds() for name, tree in gateway.processes.items()}


def _settle(gateways: Iterable[Gateway]) -> None:
    """Wait until what was begun is done: some go on for a while after their clients have left."""
    trees = [tree for gateway in gateways for tree in gateway.processes.values()]
    deadline = time.monotonic() + _LATEST_REST
    before, now = -1.0, 0.0
    while now - before > _REST / 10 and time.monotonic() < deadline:
        before = sum(sum(tree.seconds().values()) for tree in trees)
        time.sleep(_REST)
        now = sum(sum(tree.seconds().values()) for tree in trees)


def _costs(before: dict[str, dict[int, float]], after: dict[str, dict[int, float]], pieces: int) -> dict[str, float]:
    """Microseconds of processor time for each piece: of each process, and of the busiest one apart from Envoy."""
    took = {name: used(before[name], seconds) for name, seconds in after.items()}
    costs = {f"{name} us": sum(one.values()) * 1e6 / pieces for name, one in took.items()}
    for name in (PROCESSOR, PROXY):
        if name in took:
            costs["busiest us"] = max(took[name].values()) * 1e6 / pieces
    return costs


def _told(error: Exception) -> str:
    """What went wrong, without where things lie on this machine."""
    return _DIRECTORIES.sub("", str(error))[:300]


def _rounded(value: float) -> float:
    return value if isinstance(value, int) else float(f"{value:.4g}")


@contextlib.contextmanager
def _telling(what: str) -> Iterator[None]:
    began = time.monotonic()
    print(f"{what} ... ", end="", flush=True)
    try:
        yield
    finally:
        print(f"{time.monotonic() - began:.0f} s", flush=True)
