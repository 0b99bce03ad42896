"""What clients get when something goes wrong: a test for every row of the table in docs/behaviour.md.

Each trouble is met by four requests at once: streamed and whole, with tools and without. Whatever happens, no call is
ever shown as text, and a stream that isn't broken off ends with a finish_reason or with an error event.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from scripted_vllm import (
    Cut,
    ErrorBody,
    ErrorEvent,
    Fail,
    Garbage,
    Nonsense,
    Refuse,
    Reply,
    Stall,
    Verbatim,
)
from tests.gateway import MODEL, AskedVLLM, Gateway, configured_gateway, wait_until
from tests.promises import Got, Promise, as_it_came, broken_off, completed, error, error_event, finished, rest_of
from tests.test_up import up

DOCUMENT = Path(__file__).parents[1] / "docs" / "behaviour.md"
CHAT = "/v1/chat/completions"
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
WORDS = "Let me look."
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich"}}\n</tool_call>'
ARGUMENTS = '{"city": "Zürich"}'
INSIDE_TEXT, INSIDE_CALL = 2, 12
"""Pieces, of four characters each."""
IDLE_TIMEOUT, SILENCE_IN_STREAM = 5, 2
"""Seconds, in the place of half an hour and of five minutes."""


@dataclass(frozen=True)
class Trouble:
    """A row of the table."""

    happens: str
    """As the document puts it."""
    reply: Reply
    streamed: Promise
    whole: Promise
    plain_streamed: Promise | None = None
    """Without tools, where it differs."""
    plain_whole: Promise | None = None
    model: str = "coder"
    question: str = "?"
    logged: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the access log, for the streamed request with tools."""
    counted: Mapping[str, int] = field(default_factory=dict)
    """By how much the four requests raise samples of the metrics."""

    def promise(self, *, tools: bool, stream: bool) -> Promise:
        with_tools, plain = (self.streamed, self.plain_streamed) if stream else (self.whole, self.plain_whole)
        return with_tools if tools or plain is None else plain


def trouble(happens: str, reply: Reply, promise: Promise, **more: Any) -> Trouble:
    """One that is the same for all four requests."""
    return Trouble(happens, reply, promise, promise, **more)


def says(trouble_: Any, text: str = WORDS + CALL) -> Reply:
    return Reply(text, pieces=4, trouble=trouble_)


def backend_errors(status: int, model: str = "coder") -> str:
    return f'extproc_backend_errors_total{{model="{model}",status="{status}"}}'


def stream_errors(code: str) -> str:
    return f'extproc_stream_errors_total{{code="{code}",model="coder"}}'


UNFINISHED = WORDS + CALL[: CALL.index("rich")]
NO_ENDING = Verbatim(
    'data: {"id": "1", "choices": [{"index": 0, "delta": {"content": "Let me"}, "finish_reason": null}]}\n\n'
)
SILENT = error(504, "backend_timeout")
UNREADABLE = error(502, "bad_gateway")

TROUBLES = [
    trouble(
        "the backend answers 429",
        says(Fail(429, retry_after=7)),
        error(429, "rate_limit_exceeded", retry_after="7"),
        logged={"status": 429, "details": "via_upstream", "extproc.error": "rate_limit_exceeded"},
        counted={backend_errors(429): 4},
    ),
    trouble(
        "the backend answers 503",
        says(Fail(503, ErrorBody.HTML, retry_after=7)),
        error(503, "service_unavailable", retry_after="7"),
        logged={"status": 503, "details": "via_upstream", "extproc.error": "service_unavailable"},
        counted={backend_errors(503): 4},
    ),
    trouble(
        "the backend answers 500",
        says(Fail(500, ErrorBody.PLAIN)),
        error(500, None),
        logged={"status": 500, "details": "via_upstream", "extproc.error": "server_error"},
        counted={backend_errors(500): 4},
    ),
    trouble(
        "the backend refuses the gateway's key",
        says(Fail(401)),
        error(502, "backend_key_refused"),
        logged={"status": 502, "details": "via_upstream", "extproc.error": "backend_key_refused"},
        counted={backend_errors(502): 4},
    ),
    trouble(
        "the prompt is too long",
        Reply(),
        error(400, "context_length_exceeded"),
        question="word " * 5000,
        logged={"status": 400, "details": "via_upstream", "extproc.error": "context_length_exceeded"},
        counted={backend_errors(400): 4},
    ),
    trouble(
        "nobody listens at the backend's address",
        Reply(),
        error(503, "backend_unreachable"),
        model="absent",
        logged={"status": 503, "flags": "URX,UF", "extproc.error": "backend_unreachable"},
        counted={backend_errors(503, "absent"): 4},
    ),
    trouble(
        "the connection closes without an answer",
        says(Refuse()),
        error(502, "backend_disconnected"),
        logged={"status": 502, "flags": "UC", "extproc.error": "backend_disconnected"},
        counted={backend_errors(502): 4},
    ),
    trouble(
        "silence before the answer",
        says(Stall(after=None, seconds=60)),
        SILENT,
        logged={"status": 504, "flags": "SI", "extproc.error": "backend_timeout"},
        counted={backend_errors(504): 4},
    ),
    trouble("the connection is cut before the text", says(Cut(after=0)), broken_off),
    trouble("the connection is cut inside the text", says(Cut(after=INSIDE_TEXT)), broken_off),
    trouble("the connection is cut inside a call", says(Cut(after=INSIDE_CALL)), broken_off),
    Trouble(
        "silence inside a stream",
        says(Stall(after=INSIDE_CALL, seconds=60)),
        error_event(504),
        SILENT,
        plain_streamed=broken_off,
        logged={"status": 200, "details": "via_upstream", "extproc.error": "backend_timeout"},
        counted={stream_errors("504"): 1, backend_errors(504): 2},
    ),
    Trouble(
        "an error event in the stream",
        says(ErrorEvent(after=INSIDE_CALL)),
        error_event(500),
        error(500, None),
        logged={"status": 200, "details": "via_upstream", "extproc.error": "server_error"},
        counted={stream_errors("500"): 1, backend_errors(500): 2},
    ),
    Trouble(
        "the stream ends too early",
        says(NO_ENDING, text=""),  # events, whatever was asked for
        error_event(502),
        error_event(502),
        plain_streamed=as_it_came,
        plain_whole=as_it_came,
        logged={"status": 200, "extproc.error": "bad_gateway"},
        counted={stream_errors("bad_gateway"): 2},
    ),
    Trouble(
        "an event or an answer that is not JSON",
        says(Garbage(Nonsense.BROKEN_JSON, after=INSIDE_CALL)),
        error_event(502),
        UNREADABLE,
        plain_streamed=as_it_came,
        plain_whole=as_it_came,
        logged={"status": 200, "extproc.error": "bad_gateway"},
        counted={stream_errors("bad_gateway"): 1, backend_errors(502): 1},
    ),
    Trouble(
        "an answer without a choice",
        says(Verbatim('{"id": "1", "object": "chat.completion", "choices": []}'), text=""),
        UNREADABLE,
        UNREADABLE,
        plain_streamed=as_it_came,
        plain_whole=as_it_came,
        logged={"status": 502, "details": "extproc.bad_gateway", "extproc.error": "bad_gateway"},
        counted={backend_errors(502): 2},
    ),
    trouble(
        "a web page with status 200",
        says(Garbage(Nonsense.WRONG_TYPE)),
        UNREADABLE,
        logged={"status": 502, "details": "extproc.bad_gateway", "extproc.error": "bad_gateway"},
        counted={backend_errors(502): 4},
    ),
    Trouble(
        "the answer reaches its limit inside a call",
        Reply(UNFINISHED, pieces=4, finish_reason="length"),
        finished("length", WORDS, ARGUMENTS[: ARGUMENTS.index("rich")]),
        completed("length", WORDS, ARGUMENTS[: ARGUMENTS.index("rich")]),
        plain_streamed=finished("length", UNFINISHED),
        plain_whole=completed("length", UNFINISHED),
        logged={"status": 200, "extproc.error": None, "extproc.invalid_calls": None},
    ),
    Trouble(
        "the model stops inside a call",
        Reply(UNFINISHED, pieces=4),
        finished("tool_calls", WORDS, ARGUMENTS[: ARGUMENTS.index("rich")]),
        completed("tool_calls", WORDS, ARGUMENTS[: ARGUMENTS.index("rich")]),
        plain_streamed=finished("stop", UNFINISHED),
        plain_whole=completed("stop", UNFINISHED),
        logged={"status": 200, "extproc.invalid_calls": 1},
        counted={'extproc_invalid_calls_total{fault="malformed_tool_arguments",model="coder"}': 2},
    ),
    Trouble(
        "the answer is empty",
        Reply(),
        finished("stop", ""),
        completed("stop", ""),
        logged={"status": 200, "extproc.error": None},
    ),
]
OTHERS = [
    "batch requests have all that they may have of the backend",
    "the client leaves",
    "the processor is killed",
]
"""Rows that have a test of their own: the first in tests/test_priorities.py, the others below."""


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that loses patience soon."""
    backend = AskedVLLM(model=MODEL)
    with backend.running():
        configuration = f"""
models:
  - {{name: coder, backend: qwen, upstream_model: {MODEL}, tools: prompt}}
  - {{name: absent, backend: absent, tools: prompt}}
limits: {{silence_seconds: {SILENCE_IN_STREAM}}}
backends:
  - {{name: qwen, address: "127.0.0.1:{backend.port}", health_check: false}}
  - {{name: absent, address: "127.0.0.1:1", health_check: false}}
"""
        folder = tmp_path_factory.mktemp("troubled")
        with configured_gateway(folder, configuration, backend, envoy={"1800s": f"{IDLE_TIMEOUT}s"}) as gateway:
            yield gateway


def request_body(model: str, question: str, *, tools: bool, stream: bool) -> dict[str, Any]:
    body = {"model": model, "messages": [{"role": "user", "content": question}], "stream": stream}
    return {**body, "tools": [TOOL]} if tools else body


def ask(gateway: Gateway, body: Mapping[str, Any]) -> Got:
    """Read an answer to its end, good or bad."""
    with gateway.http.stream("POST", CHAT, json=body) as answer:
        received, cut = rest_of(answer.iter_raw())
    return Got(answer.headers["x-request-id"], answer.status_code, answer.headers, received, cut)


def _shows_no_call(got: Got) -> bool:
    return got.headers["content-type"] == "application/json" or not re.search("get_weather|tool_call", got.content)


@pytest.mark.parametrize("row", TROUBLES, ids=lambda row: row.happens)
def test_the_client_gets_what_the_document_says(troubled: Gateway, row: Trouble) -> None:
    troubled.backend.forget()
    troubled.backend.play(*[row.reply] * 4)
    before = {sample: troubled.metric(sample) for sample in row.counted}
    kinds = [(tools, stream) for tools in (True, False) for stream in (True, False)]
    bodies = [request_body(row.model, row.question, tools=tools, stream=stream) for tools, stream in kinds]
    with ThreadPoolExecutor(len(kinds)) as clients:
        answers = list(clients.map(lambda body: ask(troubled, body), bodies))
    for (tools, stream), got in zip(kinds, answers, strict=True):
        row.promise(tools=tools, stream=stream)(got)
        assert not tools or _shows_no_call(got)
    entry = troubled.access_log(answers[0].request_id)
    seen = {name: _field(entry, name) for name in row.logged}
    assert seen == row.logged
    assert {sample: troubled.metric(sample) - before[sample] for sample in before} == row.counted


def _field(entry: Mapping[str, Any], name: str) -> Any:
    value: Any = entry
    for part in name.split("."):
        value = value.get(part)
    return value


@pytest.mark.parametrize("kind", [ErrorEvent, Garbage])
def test_wherever_a_stream_breaks_no_part_of_a_call_is_shown_as_text(
    troubled: Gateway, kind: type[ErrorEvent] | type[Garbage]
) -> None:
    text = WORDS + CALL
    for at in range(0, len(text), 3):
        troubled.backend.forget()
        troubled.backend.play(Reply(text, pieces=3, trouble=kind(after=at // 3)))
        got = ask(troubled, request_body("coder", "?", tools=True, stream=True))
        assert WORDS.startswith(got.content)
        assert got.reasons == []
        assert "error" in got.events[-2]


def test_wherever_the_limit_comes_the_stream_says_so_and_no_part_of_a_call_is_shown_as_text(troubled: Gateway) -> None:
    text = WORDS + CALL
    marker, named, arguments = (text.index(part) for part in ("_call>", ', "arguments"', ARGUMENTS))
    for end in range(1, len(text), 3):
        troubled.backend.forget()
        troubled.backend.play(Reply(text[:end], pieces=3, finish_reason="length"))
        got = ask(troubled, request_body("coder", "?", tools=True, stream=True))
        # As far as `<tool`, what came might be the beginning of any word.
        said = text[:end] if end <= marker else WORDS
        called = text[arguments : min(end, arguments + len(ARGUMENTS))]
        if len(called) <= 1:
            called = '{"'  # what Cline can't take for `{}`
        finished("length", said, called if end >= named else None)(got)


def test_when_the_client_leaves_the_backend_stops(troubled: Gateway) -> None:
    troubled.backend.forget()
    troubled.backend.play(says(Stall(after=INSIDE_TEXT, seconds=60)))
    left = 'extproc_unfinished_exchanges_total{phase="response_stream"}'
    before = troubled.metric(left)
    with troubled.http.stream("POST", CHAT, json=request_body("coder", "?", tools=True, stream=True)) as answer:
        next(answer.iter_raw())
    assert troubled.backend.wait_for(lambda: len(troubled.backend.abandoned) == 1)
    assert troubled.access_log(answer.headers["x-request-id"])["flags"] == "DC"
    wait_until(lambda: troubled.metric(left) == before + 1)


def test_when_the_processor_is_killed_the_stream_is_broken_off_and_the_next_request_served(tmp_path: Path) -> None:
    config = tmp_path / "extproc.yaml"
    with AskedVLLM(model=MODEL).running() as backend:
        config.write_text(
            f"models: [{{name: coder, backend: b, upstream_model: {MODEL}, tools: prompt}}]\n"
            f"backends: [{{name: b, address: '127.0.0.1:{backend.port}', health_check: false}}]\n"
        )
        # Quietly: nobody reads its access log, and Envoy waits when a pipe is full of 503s.
        with (
            up("--config", str(config), "--quiet") as running,
            httpx.Client(base_url=running.url, timeout=30) as client,
        ):
            processor = running.children()["processor"]
            backend.play(says(Stall(after=INSIDE_CALL, seconds=60)))
            body = request_body("coder", "?", tools=True, stream=True)
            with client.stream("POST", CHAT, json=body) as answer:
                pieces = answer.iter_raw()
                first = next(pieces)
                assert (answer.status_code, len(backend.requests)) == (200, 1)
                os.kill(processor, signal.SIGKILL)
                rest, cut = rest_of(pieces)
            broken_off(Got("", answer.status_code, answer.headers, first + rest, cut))
            wait_until(lambda: client.post(CHAT, json=body).status_code == 200)
            assert running.stop()[0] == 0


def test_the_document_and_the_tests_have_the_same_rows() -> None:
    section = DOCUMENT.read_text(encoding="utf-8").partition("\n## The table\n")[2].partition("\n## ")[0]
    _, _, *rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")]
    seen_by_operators = {happens: seen for happens, *_, seen in rows}
    assert list(seen_by_operators) == [*(row.happens for row in TROUBLES), *OTHERS]
    for row in TROUBLES:
        for sample in row.counted:
            name = sample.partition("{")[0].removeprefix("extproc_").removesuffix("_total")
            assert f"`{name}" in seen_by_operators[row.happens]
