"""What the metrics cost: `python -m bench.metrics`.

The same exchanges, from Envoy's messages to the replies as bytes, by turns with the metrics and with ones that count
nothing. Told are medians of the ratios within pairs: of a stream's token, of a request with tools whose answer comes
whole, and of one without, with its entry of Envoy's access log.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

import orjson

from extproc.config import parse
from extproc.exchange.context import ExchangeContext
from extproc.exchange.machine import Exchange
from extproc.observability.telemetry import Telemetry
from extproc.server.access_log import passed_of
from extproc.turn.call_quality import CallQuality
from extproc.wire import (
    HeaderMap,
    HeaderValue,
    HttpBody,
    HttpHeaders,
    ProcessingMode,
    ProcessingRequest,
    ProcessingResponse,
    ProtocolConfiguration,
)
from extproc.wire.access_log_service_pb2 import StreamAccessLogsMessage

CONFIG = parse("""
models: [{name: coder, backend: gpu, tools: prompt}]
backends: [{name: gpu, address: "127.0.0.1:1"}]
""")
TOKENS = 400
_CALL = '<tool_call>\n{"name": "look", "arguments": {"place": "there"}}\n</tool_call>'


class _Nothing:
    """Takes anything, and does nothing."""

    def __getattr__(self, _: str) -> Callable[..., None]:
        return _nothing


def _nothing(*_: Any, **__: Any) -> None:
    return None


class Uncounted(Telemetry):
    """Metrics that count nothing."""

    def __init__(self) -> None:
        super().__init__(CONFIG, clock=lambda: 0.0)
        self.models = _Nothing()  # type: ignore[assignment]

    accepted = refused = backend_error = stream_error = answered = unfinished = _nothing


class _Untaught(CallQuality):
    learn = _nothing


def _headers(fields: dict[str, str]) -> HttpHeaders:
    values = [HeaderValue(key=name, raw_value=value.encode()) for name, value in fields.items()]
    return HttpHeaders(headers=HeaderMap(headers=values))


def _messages(fields: dict[str, Any], kind: str, pieces: list[bytes]) -> list[bytes]:
    modes = ProtocolConfiguration(request_body_mode=ProcessingMode.BUFFERED, response_body_mode=ProcessingMode.NONE)
    ids = {"x-request-id": "0f9c1d1e-7d2b-4f0a-9a3e-1f2e3d4c5b6a", "content-type": "application/json"}
    head = _headers({":path": "/v1/chat/completions", ":method": "POST", ":authority": "x"} | ids)
    body = HttpBody(body=orjson.dumps(fields), end_of_stream=True)
    answers = [HttpBody(body=piece, end_of_stream=piece is pieces[-1]) for piece in pieces]
    messages = [
        ProcessingRequest(request_headers=head, protocol_config=modes),
        ProcessingRequest(request_body=body),
        ProcessingRequest(response_headers=_headers({":status": "200", "content-type": kind})),
        *(ProcessingRequest(response_body=answer) for answer in answers),
    ]
    return [message.SerializeToString() for message in messages]


def _play(messages: list[bytes], telemetry: Telemetry, context: ExchangeContext, log: bytes | None) -> None:
    exchange = Exchange(context, telemetry)
    for message in messages:
        for reply in exchange.receive(ProcessingRequest.FromString(message)):
            if isinstance(reply, ProcessingResponse):
                reply.SerializeToString()
    exchange.close()
    if log is not None:
        for entry in StreamAccessLogsMessage.FromString(log).http_logs.log_entry:
            if (passed := passed_of(entry)) is not None:
                telemetry.models.logged(passed)


def _log() -> bytes:
    message = StreamAccessLogsMessage()
    entry = message.http_logs.log_entry.add()
    entry.response.response_code.value = 200
    entry.common_properties.duration.FromMilliseconds(900)
    entry.common_properties.time_to_first_upstream_rx_byte.FromMilliseconds(300)
    told: dict[str, Any] = {
        "model": "coder",
        "backend": "gpu",
        "mode": "prompt",
        "format": "hermes",
        "dialect": "chat",
        "stream": True,
    }
    entry.common_properties.metadata.filter_metadata["extproc"].update(told | {"rewritten": False})
    return bytes(message.SerializeToString())


def _chunk(delta: dict[str, str], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "coder", "choices": [choice]}
    return b"data: " + orjson.dumps(chunk) + b"\n\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200)
    pairs = parser.parse_args().pairs
    said = "It may be looked at there, or here, as you like. " * 80
    plain = {"model": "coder", "messages": [{"role": "user", "content": said}]}
    tools = {"tools": [{"type": "function", "function": {"name": f"look{number or ''}"}} for number in range(10)]}
    end = orjson.dumps({"id": "c", "choices": [], "usage": {"prompt_tokens": 900, "completion_tokens": TOKENS}})
    stream = [_chunk({"role": "assistant", "content": ""}), *[_chunk({"content": "word "})] * TOKENS]
    stream += [_chunk({"content": _CALL}), _chunk({}, "stop"), b"data: " + end + b"\n\n", b"data: [DONE]\n\n"]
    usage = {"prompt_tokens": 900, "completion_tokens": 30}
    message = {"role": "assistant", "content": _CALL}
    whole = {"id": "c", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
    kinds: list[tuple[str, list[bytes], bool, int]] = [
        (
            "a stream's token",
            _messages(plain | tools | {"stream": True}, "text/event-stream", [b"".join(stream[:1]), *stream[1:]]),
            False,
            1,
        ),
        ("a request with tools", _messages(plain | tools, "application/json", [orjson.dumps(whole)]), False, 20),
        ("a request without tools", _messages(plain, "application/json", [])[:3], True, 40),
    ]
    counted, uncounted = Telemetry(CONFIG), Uncounted()
    log = _log()
    with_quality = ExchangeContext(CONFIG)
    without = ExchangeContext(CONFIG, quality=_Untaught())
    for name, messages, logged, repeats in kinds:
        ratios, costs = [], []
        for number in range(pairs):
            took: dict[bool, float] = {}
            for counts in (True, False) if number % 2 else (False, True):
                gc.collect()
                gc.disable()
                telemetry, context = (counted, with_quality) if counts else (uncounted, without)
                began = time.process_time()
                for _ in range(repeats):
                    _play(messages, telemetry, context, log if logged and counts else None)
                took[counts] = time.process_time() - began
                gc.enable()
            ratios.append(took[True] / took[False])
            costs.append((took[True] - took[False]) / repeats)
        each = statistics.median(costs) * 1e6 / (TOKENS if "token" in name else 1)
        print(f"{name}: {(statistics.median(ratios) - 1) * 100:+.1f} %, {each:+.2f} us", flush=True)


if __name__ == "__main__":
    main()
