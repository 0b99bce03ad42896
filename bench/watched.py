"""What it costs to be watched: `python -m bench.watched`.

A stream of tool-call tokens goes through the processor's part of an exchange, from the bytes of Envoy's message to the
bytes of the reply: with nobody looking, with `watch: true` and no watcher, and with a watcher, which is a process that
reads. The three take turns; what is told is processor time of this process by token, and ratios within pairs of
neighbours, of which the median. HTTP/2 below it isn't in it, so of a whole token the share is smaller.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from extproc.config import Config, parse
from extproc.exchange.context import ExchangeContext
from extproc.exchange.machine import Exchange, Inputs
from extproc.observability.telemetry import Telemetry
from extproc.recording.recordings import Recordings
from extproc.wire import HeaderMap, HeaderValue, HttpBody, HttpHeaders, ProcessingRequest

CONFIGURATION = """
models: [{name: coder, backend: qwen, tools: prompt}]
backends: [{name: qwen, address: "127.0.0.1:1"}]
"""
TOOL = {"type": "function", "function": {"name": "write_file", "parameters": {"type": "object"}}}
TOKENS = 2000
ROUNDS = 25


def _headers(**fields: str) -> HttpHeaders:
    pairs = [HeaderValue(key=name.replace("_", "-"), raw_value=value.encode()) for name, value in fields.items()]
    return HttpHeaders(headers=HeaderMap(headers=pairs))


def _event(content: str, finish: str | None = None) -> bytes:
    delta = {"content": content} if content else {}
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "coder", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def _messages() -> list[bytes]:
    """The pieces of the answer, as they are on the wire."""
    text = '<tool_call>\n{"name": "write_file", "arguments": {"path": "a.py", "content": "' + "x = 1\\n" * TOKENS
    pieces = [text[at : at + 4] for at in range(0, 4 * TOKENS, 4)]
    return [ProcessingRequest(response_body=HttpBody(body=_event(piece))).SerializeToString() for piece in pieces]


def _begun(recordings: Recordings, config: Config, telemetry: Telemetry) -> Inputs:
    exchange = recordings.of(Exchange(ExchangeContext(config), telemetry))
    body = {"model": "coder", "stream": True, "messages": [{"role": "user", "content": "Hello"}], "tools": [TOOL]}
    asked = HttpBody(body=json.dumps(body).encode(), end_of_stream=True)
    head = _headers(**{":method": "POST", ":path": "/v1/chat/completions"})
    answer = _headers(**{":status": "200", "content-type": "text/event-stream"})
    exchange.receive(ProcessingRequest(request_headers=head))
    exchange.receive(ProcessingRequest(request_body=asked))
    exchange.receive(ProcessingRequest(response_headers=answer))
    return exchange


async def _stream(recordings: Recordings, config: Config, messages: list[bytes], telemetry: Telemetry) -> float:
    """Microseconds of processor time by token."""
    exchange = _begun(recordings, config, telemetry)
    began = time.process_time()
    for number, message in enumerate(messages):
        for reply in exchange.receive(ProcessingRequest.FromString(message)):
            reply.SerializeToString()  # type: ignore[union-attr]  # no effect comes of a small piece
        if number % 20 == 0:
            await asyncio.sleep(0)
    took = time.process_time() - began
    exchange.close()
    await asyncio.sleep(0.05)
    return took / len(messages) * 1e6


def _reads(path: str, ready: object) -> None:
    """The watcher's process, as far as a processor notices it."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        ready.set()  # type: ignore[attr-defined]
        connection, _ = listening.accept()
        with connection:
            while connection.recv(1 << 18):
                pass


async def _measure(folder: Path) -> None:
    off = parse(CONFIGURATION).model_copy(update={"sockets": folder})
    on = off.model_copy(update={"watch": True})
    elsewhere = on.model_copy(update={"sockets": folder / "nowhere"})
    kinds = {
        "off": (Recordings(None), off),
        "no watcher": (Recordings(None), elsewhere),
        "watched": (Recordings(None), on),
    }
    messages, telemetry = _messages(), Telemetry(off)
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(ROUNDS):
        for name, (recordings, config) in kinds.items():
            times[name].append(await _stream(recordings, config, messages, telemetry))
    for name, took in times.items():
        ratio = statistics.median(each / other for each, other in zip(took, times["off"], strict=True))
        print(f"{name:12} {statistics.median(took):6.1f} us/token (fastest {min(took):5.1f})   {ratio:.3f} of off")
    for recordings, _ in kinds.values():
        recordings.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; returns the exit status."""
    argparse.ArgumentParser(prog="python -m bench.watched", description="What it costs to be watched.").parse_args(
        arguments
    )
    spawning = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        ready = spawning.Event()
        reads = spawning.Process(target=_reads, args=(str(Path(folder, "watch.sock")), ready))
        reads.start()
        ready.wait()
        asyncio.run(_measure(Path(folder)))
        reads.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
