"""What a stream costs while it runs: `python -m bench.streams [--streams 40] [--tokens 45] [--seconds 10] [--json]`.

So many clients at once, each with a request as a coding agent sends it and an answer that comes at the pace of a model,
through the real Envoy with the arguments of the Kubernetes manifests. Four ways, one after the other, each with fresh
processes:

    plain      Envoy alone: no processor at all
    echo       a processor that gives each piece back as it came (bench/echo.py)
    no tools   the real one, requests without tools: it sees their heads
    tools      the real one, requests with tools: it reads every piece

Reported for Envoy and for the processor: the processor time of taking one request, the share of a core that one stream
takes, the memory of the idle process, and the memory that one more stream takes. Only Linux tells all this (/proc).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from bench.request import request
from extproc.config import parse
from extproc.envoy.bootstrap import bootstrap
from extproc.envoy.plain import plain
from tests.gateway import ENVOY, EXTPROC, free_port, wait_until

WAYS = ("plain", "echo", "no tools", "tools")
CLUSTER = "vllm"
TURNS, TOOLS = 18, 50
"""142 kB: what a coding agent sends in the middle of its work."""
WARM, REQUESTS = 4, 10
HEAD = "way       process    ms/request  us/token  % of a core/stream  MB idle  kB/stream"
ROW = "{way:10}{process:11}{request_ms:10.1f}{token_us:10.0f}{core_percent:20.2f}{idle_mb:9.0f}{stream_kb:11.0f}"
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one process."""

    request_ms: float
    """Processor time for one request, until the first byte of its answer."""
    token_us: float
    """Processor time for one piece of one stream."""
    core_percent: float
    """Of one core, what one stream takes at the pace that was asked for."""
    idle_mb: float
    stream_kb: float
    """What one stream's memory comes to, its request's included."""


class Process:
    """A child whose time and memory are read from outside."""

    def __init__(self, pid: int) -> None:
        self._stat = Path(f"/proc/{pid}")

    def seconds(self) -> float:
        fields = (self._stat / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def kilobytes(self) -> int:
        lines = (self._stat / "status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def body(*, tools: bool, **fields: int) -> bytes:
    made = orjson.loads(request(TOOLS, TURNS))
    if not tools:
        said = [{"role": "user", "content": orjson.dumps(made).decode()}]
        made = {"model": made["model"], "stream": True, "messages": said}
    return orjson.dumps(made | fields)


def script(tokens: int, pace: float) -> str:
    """An answer of so many tokens, half of them inside of a call, as a line of the scripted vLLM's file."""
    code = "    line = line.strip()\n" * (tokens // 14)
    call = json.dumps({"name": "tool_1", "arguments": {"text_0": code, "mode": "write"}})
    said = "The file has to be written first. " * (tokens // 14)
    return json.dumps({"text": f"{said}\n<tool_call>\n{call}\n</tool_call>", "pace": pace})


def without_processor(made: dict[str, Any]) -> dict[str, Any]:
    """Envoy's bootstrap with routes straight to the cluster."""
    (chain,) = made["static_resources"]["listeners"][0]["filter_chains"]
    manager = chain["filters"][0]["typed_config"]
    manager["http_filters"] = manager["http_filters"][-1:]
    (host,) = manager["route_config"]["virtual_hosts"]
    host["routes"] = [{"match": {"prefix": "/"}, "route": {"cluster": CLUSTER, "timeout": "0s"}}]
    return made


@contextmanager
def child(command: Sequence[object], stdout: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen[bytes]]:
    """Run it inside the block."""
    with subprocess.Popen(list(map(str, command)), stdout=stdout, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.terminate()


@contextmanager
def gateway(way: str, folder: Path, backend: int) -> Iterator[tuple[int, dict[str, Process]]]:
    """Yields the port, and the processes to be measured."""
    port, listen = free_port(), folder / "processor.sock"
    settings = f"""
listen: 127.0.0.1:{port}
models: [{{name: coder, backend: {CLUSTER}, tools: prompt}}]
backends: [{{name: {CLUSTER}, address: "127.0.0.1:{backend}", health_check: false}}]
"""
    (folder / "extproc.yaml").write_text(settings)
    made = plain(bootstrap(parse(settings), processor=str(listen)))
    (folder / "envoy.json").write_text(json.dumps(without_processor(made) if way == "plain" else made))
    processors: dict[str, list[object]] = {"plain": [], "echo": [sys.executable, "-m", "bench.echo", listen, CLUSTER]}
    ours = [*EXTPROC, "serve", "--config", folder / "extproc.yaml", "--listen", f"unix:{listen}"]
    envoy = [ENVOY, "-c", folder / "envoy.json", "--concurrency", "2", "--use-dynamic-base-id", "-l", "error"]
    measured: dict[str, Process] = {}
    with ExitStack() as running:
        if command := processors.get(way, ours):
            measured["processor"] = Process(running.enter_context(child(command)).pid)
            wait_until(lambda: _listens(socket.AF_UNIX, str(listen)))
        measured["envoy"] = Process(running.enter_context(child(envoy)).pid)
        wait_until(lambda: _listens(socket.AF_INET, ("127.0.0.1", port)))
        yield port, measured


def _listens(family: socket.AddressFamily, address: str | tuple[str, int]) -> bool:
    with socket.socket(family) as attempt:
        return attempt.connect_ex(address) == 0


class Client:
    """Asks, reads, and counts the events that come."""

    def __init__(self, port: int, payload: bytes) -> None:
        self._port = port
        self._payload = payload
        self.events = 0

    async def ask(self, begun: asyncio.Event | None = None) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        length = f"content-length: {len(self._payload)}"
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n{length}\r\n"
        writer.write(head.encode() + b"content-type: application/json\r\n\r\n" + self._payload)
        piece = last = await reader.read(65536)
        assert piece.startswith(b"HTTP/1.1 200"), piece[:500]
        if begun is not None:
            begun.set()
        while piece:
            self.events += piece.count(b"data: ")
            last = piece
            piece = await reader.read(65536)
        assert last.endswith(b"0\r\n\r\n"), "the answer was cut"
        writer.close()

    async def begin(self) -> asyncio.Task[None]:
        """Ask, and wait for the first byte of the answer, no longer."""
        begun = asyncio.Event()
        asked = asyncio.create_task(self.ask(begun))
        begun_waiting = asyncio.create_task(begun.wait())
        await asyncio.wait((asked, begun_waiting), return_when=asyncio.FIRST_COMPLETED)
        return asked


async def load(
    port: int, measured: Mapping[str, Process], options: argparse.Namespace, *, tools: bool
) -> dict[str, Cost]:
    short, long = Client(port, body(tools=tools, max_tokens=1)), Client(port, body(tools=tools))
    for _ in range(WARM):  # what is made once, at the first requests, belongs to the idle process
        await short.ask()
    idle, before = _kilobytes(measured), _seconds(measured)
    for _ in range(REQUESTS):
        await short.ask()
    asked = _seconds(measured)
    # One after the other: the memory of many requests at once is none of the streams'.
    streams = [await long.begin() for _ in range(options.streams)]
    begun, events = _seconds(measured), long.events
    await asyncio.sleep(options.seconds)
    after, events = _seconds(measured), long.events - events
    busy = _kilobytes(measured)
    assert not any(stream.done() for stream in streams), "the answers were too short, for the machine is too slow"
    await asyncio.gather(*streams)
    return {
        name: Cost(
            request_ms=(asked[name] - before[name]) * 1e3 / REQUESTS,
            token_us=(after[name] - begun[name]) * 1e6 / events,
            core_percent=(after[name] - begun[name]) * 1e2 / events * options.tokens,
            idle_mb=idle[name] / 1e3,
            stream_kb=(busy[name] - idle[name]) / options.streams,
        )
        for name in measured
    }


def _seconds(measured: Mapping[str, Process]) -> dict[str, float]:
    return {name: process.seconds() for name, process in measured.items()}


def _kilobytes(measured: Mapping[str, Process]) -> dict[str, int]:
    return {name: process.kilobytes() for name, process in measured.items()}


def measure(way: str, backend: int, options: argparse.Namespace) -> dict[str, Cost]:
    with tempfile.TemporaryDirectory(prefix="bench") as name, gateway(way, Path(name), backend) as (port, measured):
        return asyncio.run(load(port, measured, options, tools=way == "tools"))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.streams", description=__doc__.partition(":")[0])
    parser.add_argument("--streams", type=int, default=40)
    parser.add_argument("--tokens", type=float, default=45, help="that a stream has in a second")
    parser.add_argument("--seconds", type=float, default=10, help="how long the streams are measured")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        # Long enough for all to begin, one after the other, and then to be measured.
        played = Path(folder, "replies.jsonl")
        count = options.streams + WARM + REQUESTS
        line = script(int(options.tokens * (options.seconds + 0.25 * options.streams + 2)), 1 / options.tokens)
        played.write_text(f"{line}\n" * count * len(WAYS))
        vllm: list[object] = [sys.executable, "-m", "scripted_vllm", "--port", "0", "--model", "coder"]
        with child([*vllm, "--max-model-len", "1000000", "--play", played], subprocess.PIPE) as process:
            assert process.stdout is not None
            backend = int(re.findall(rb"http://[^/]*:(\d+)", process.stdout.readline())[0])
            if not options.json:
                print(HEAD)
            for way in options.ways.split(","):
                for name, cost in measure(way, backend, options).items():
                    told = {"way": way, "process": name, **asdict(cost)}
                    print(json.dumps(told) if options.json else ROW.format(**told), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
