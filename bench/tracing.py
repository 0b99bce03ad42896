"""What traces cost an exchange: `python -m bench.tracing [--tokens 400] [--runs 41] [--json]`.

A streamed call of so many tokens, in one process and without sockets, by three configurations in turn: without
`tracing`, with it for an exchange that isn't sampled, and for one that is. Reported are microseconds of processor time
for the request (until the backend is asked, and the end) and for each token, and how many times what is spent without.
Spans go to an exporter that drops them; the thread that makes batches of them is counted.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Sequence

import orjson
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from bench.request import tool
from extproc.config import parse
from extproc.exchange.context import ExchangeContext
from extproc.exchange.machine import Exchange, Inputs
from extproc.observability.telemetry import Telemetry
from extproc.tracing.context import Parent
from extproc.tracing.spans import Spans
from extproc.tracing.tracers import Tracers
from extproc.wire import HeaderMap, HeaderValue, HttpBody, HttpHeaders, ProcessingRequest

CONFIG = parse("""
models: [{name: coder, backend: qwen, tools: prompt}]
backends: [{name: qwen, address: 127.0.0.1:8000}]
tracing: {collector: 127.0.0.1:4318}
""")
WAYS = ("without", "not sampled", "sampled")


class _Dropping(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        del spans
        return SpanExportResult.SUCCESS


def _headers(fields: dict[str, str]) -> HttpHeaders:
    return HttpHeaders(headers=HeaderMap(headers=[HeaderValue(key=k, raw_value=v.encode()) for k, v in fields.items()]))


def _messages(tokens: int) -> tuple[list[bytes], list[bytes]]:
    """Envoy's, of the request and of the answer."""
    asked = {"model": "coder", "stream": True, "messages": [{"role": "user", "content": "Write it."}]}
    body = orjson.dumps({**asked, "tools": [tool(number) for number in range(10)]})
    fields = {":method": "POST", ":path": "/v1/chat/completions", "content-type": "application/json"}
    request = [
        ProcessingRequest(request_headers=_headers(fields)),
        ProcessingRequest(request_body=HttpBody(body=body, end_of_stream=True)),
    ]
    text = (
        '<tool_call>\n{"name": "tool_1", "arguments": {"text_0": "'
        + "word " * tokens
        + '", "mode": "read"}}\n</tool_call>'
    )
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    deltas = [{"content": text[at : at + 5]} for at in range(0, len(text), 5)]
    choices: list[dict[str, object]] = [
        {"index": 0, "delta": delta, "finish_reason": None} for delta in [{"role": "assistant"}, *deltas]
    ]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    chunks = [b"data: " + orjson.dumps({**head, "choices": [choice]}) + b"\n\n" for choice in choices]
    answer = [ProcessingRequest(response_headers=_headers({":status": "200", "content-type": "text/event-stream"}))]
    answer += [ProcessingRequest(response_body=HttpBody(body=chunk)) for chunk in chunks]
    answer.append(ProcessingRequest(response_body=HttpBody(body=b"data: [DONE]\n\n", end_of_stream=True)))
    return [one.SerializeToString() for one in request], [one.SerializeToString() for one in answer]


def _play(inputs: Inputs, messages: list[bytes]) -> float:
    """Microseconds of processor time."""
    begin = time.process_time_ns()
    for message in messages:
        for reply in inputs.receive(ProcessingRequest.FromString(message)):
            reply.SerializeToString()  # type: ignore[union-attr]  # there are no effects here
    return (time.process_time_ns() - begin) / 1000


def measure(tokens: int, runs: int) -> dict[str, dict[str, float]]:
    """By way: microseconds of a request and of a token, the medians."""
    request, answer = _messages(tokens)
    assert CONFIG.tracing is not None
    spans = Spans(CONFIG.tracing, "bench", _Dropping())
    tracers = {way: Tracers("bench", spans if way != "without" else None) for way in WAYS}
    context, telemetry = ExchangeContext(CONFIG), Telemetry(CONFIG)
    untraced = ExchangeContext(CONFIG.model_copy(update={"tracing": None}))
    times: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for _ in range(runs):
        for way in random.sample(WAYS, len(WAYS)):
            exchange = Exchange(context if way != "without" else untraced, telemetry)
            metadata = (("traceparent", Parent(1, 2, sampled=way == "sampled").written()),)
            begin = time.process_time_ns()
            inputs = tracers[way].over(exchange, exchange, metadata)
            asked = (time.process_time_ns() - begin) / 1000 + _play(inputs, request)
            answered = _play(inputs, answer)
            begin = time.process_time_ns()
            inputs.close()
            times[way].append((asked + (time.process_time_ns() - begin) / 1000, answered / len(answer)))
    spans.close()
    return {
        way: {"request": statistics.median(one for one, _ in of), "token": statistics.median(one for _, one in of)}
        for way, of in times.items()
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tracing", description="What traces cost an exchange.")
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--runs", type=int, default=41)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    measured = measure(options.tokens, options.runs)
    if options.json:
        print(json.dumps(measured))
        return 0
    base = measured["without"]
    print(f"{'':<12} {'request':>18} {'token':>18}")
    for way, of in measured.items():
        cells = (f"{of[name]:8.1f} us {of[name] / base[name]:5.2f}x" for name in ("request", "token"))
        print(f"{way:<12} " + " ".join(f"{cell:>18}" for cell in cells))
    return 0


if __name__ == "__main__":
    sys.exit(main())
