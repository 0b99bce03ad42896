"""An answer that begins with a call of no tool is asked for again (`retry: true`): words or a call take its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from extproc.config import parse
from extproc.exchange.effects import BackendResponse, Breathe, CallBackend
from extproc.exchange.machine import Exchange
from extproc.exchange.phases import Phase
from extproc.prompts.wording import CALL_OR_ANSWER
from scripted_vllm import Reply
from scripted_vllm.troubles import Fail
from tests.gateway import MODEL, Gateway, gateway_with_backend
from tests.test_answer import CALL, completion, stream
from tests.test_exchange import EVENTS, JSON, asked, only, response_body, response_headers, said
from tests.test_exchange_reports import Counted
from tests.test_request import MESSAGES, WEATHER

MADE_UP = '[{"name": "sqrt", "arguments": {"number": 144}}]'
WORDS = "It is 12."
SETTINGS = """
models:
  - {{name: coder, backend: qwen, upstream_model: {model}, tools: prompt, retry: true}}
  - {{name: own, backend: qwen, upstream_model: {model}, tools: native, retry: true}}
  - {{name: strict, backend: qwen, upstream_model: {model}, tools: prompt, retry: true, invalid_calls: error}}
  - {{name: once, backend: qwen, upstream_model: {model}, tools: prompt}}
backends:
  - {{name: qwen, address: "127.0.0.1:{port}", health_check: false}}
"""
FREE: dict[str, Any] = {**MESSAGES, "tools": [WEATHER]}
KINDS = pytest.mark.parametrize("kind", [EVENTS, JSON], ids=["stream", "whole"])


def exchange_of(kind: dict[str, str], counted: Counted | None = None, **changes: Any) -> Exchange:
    config = parse(SETTINGS.format(model=MODEL, port=1), source="test")
    fields = {**FREE, "stream": kind is EVENTS, **changes}
    exchange = asked(fields, counted.telemetry if counted is not None else None, config)
    exchange.receive(response_headers(kind))
    return exchange


def answer_of(kind: dict[str, str], text: str, finish_reason: str = "stop") -> bytes:
    return stream([text], finish_reason) if kind is EVENTS else completion(text, finish_reason)


def retried(kind: dict[str, str], counted: Counted | None = None, **changes: Any) -> tuple[Exchange, CallBackend]:
    exchange = exchange_of(kind, counted, **changes)
    *_, effect = exchange.receive(response_body(answer_of(kind, MADE_UP)))
    assert isinstance(effect, CallBackend)
    return exchange, effect


def body_of(reply: Any, kind: dict[str, str]) -> bytes:
    mutation = said(reply).response_body.response.body_mutation
    body: bytes = mutation.streamed_response.body if kind is EVENTS else mutation.body
    return body


@KINDS
@pytest.mark.parametrize("model", ["coder", "own", "strict"])
class TestExchange:
    def test_the_model_is_told_that_there_is_no_such_tool(self, kind: dict[str, str], model: str) -> None:
        _, effect = retried(kind, model=model)
        last = orjson.loads(effect.body)["messages"][-1]
        assert last["role"] == "user"
        assert (
            "Your last answer was rejected: There is no tool named 'sqrt' that you can call now. Answer"
            in last["content"]
        )

    @pytest.mark.parametrize(
        "second",
        [
            *(WORDS, CALL, "Not quite: " + MADE_UP),
            *(f"{CALL_OR_ANSWER}\n{WORDS}", f"{WORDS} {CALL_OR_ANSWER}", f"{CALL_OR_ANSWER} {CALL}"),
            *("There is no tool named 'sqrt'.", "There is no tool named 'sqrt' that you can call now.", "A sentence."),
        ],
    )
    def test_the_client_gets_the_second_answer(self, kind: dict[str, str], model: str, second: str) -> None:
        counted = Counted()
        exchange, _ = retried(kind, counted, model=model)
        if model == "own" and CALL in second:
            return  # its calls come in a field of their own
        body = body_of(only(exchange.resume(BackendResponse(200, answer_of(kind, second)))), kind)
        assert (b"get_weather" in body) == (CALL in second)
        assert (b"144" in body) == (MADE_UP in second)
        assert exchange.phase is Phase.ENDED
        results = {name: count for name, count in counted.all().items() if name.startswith("retries_total")}
        assert list(results.values()) == [1]
        assert 'result="helped"' in next(iter(results))

    @pytest.mark.parametrize(
        "second",
        [
            None,
            (503, b"no"),
            (200, b"nonsense"),
            '{"tool": "root", "args": {}}',
            ('{"tool": "root", "args": {}', "length"),
            CALL.replace("get_weather", "get_whether"),
            "",
            " \n",
            f"There is no tool named 'sqrt' that you can call now. {CALL_OR_ANSWER}",
            ("Answer in a normal sent", "length"),
            "Your last answer was rejected: There is no tool named 'sqrt' that you can call now.",
            " ".join([CALL_OR_ANSWER] * 3),
        ],
        ids=[
            *("nothing", "an error", "nonsense", "another", "another, cut off", "a wrong call", "empty", "blank"),
            *("what it was told", "that, cut off", "why it was told", "that, again and again"),
        ],
    )
    def test_no_better_answer_leaves_the_first(self, kind: dict[str, str], model: str, second: Any) -> None:
        exchange, _ = retried(kind, model=model)
        if model == "own" and isinstance(second, str) and "tool_call" in second:
            return  # its calls come in a field of their own
        if isinstance(second, str):
            second = (200, answer_of(kind, second))
        elif isinstance(second, tuple) and isinstance(second[0], str):
            second = (200, answer_of(kind, *second))
        reply = only(exchange.resume(BackendResponse(*second) if second is not None else None))
        assert b"sqrt" in body_of(reply, kind)
        assert exchange.phase is Phase.ENDED


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("thought", ["", "Hm. "])
def test_what_it_was_told_is_found_in_any_cut(size: int, thought: str) -> None:
    exchange, _ = retried(EVENTS)
    words = f"There is no tool named 'sqrt' that you can call now. {CALL_OR_ANSWER}"
    text = f"<think>{thought}</think>{words}" if thought else words
    replies = exchange.resume(BackendResponse(200, stream([text[at : at + size] for at in range(0, len(text), size)])))
    while isinstance(replies[0], Breathe):
        replies = exchange.resume(None)
    assert b"144" in body_of(only(replies), EVENTS)


@KINDS
@pytest.mark.parametrize(
    ("changes", "text", "finish_reason"),
    [
        ({}, WORDS, "stop"),
        ({}, CALL, "stop"),
        ({}, f"I would call {MADE_UP}", "stop"),
        ({}, '[{"name": "Ada", "age": 36}]', "stop"),
        ({}, f"{MADE_UP}\n{CALL}", "stop"),
        ({}, '{"name": "', "stop"),
        ({}, MADE_UP, "length"),
        ({"model": "once"}, MADE_UP, "stop"),
        ({"n": 2}, MADE_UP, "stop"),
        ({"tool_choice": "none"}, MADE_UP, "stop"),
        ({"response_format": {"type": "json_object"}}, MADE_UP, "stop"),
        ({"structured_outputs": {"json": {"type": "array"}}}, MADE_UP, "stop"),
    ],
    ids="words,a call,later,other JSON,with a call,begun,cut off,off,several,no calls,JSON wanted,JSON forced".split(
        ","
    ),
)
def test_otherwise_it_is_asked_once(
    kind: dict[str, str], changes: dict[str, Any], text: str, finish_reason: str
) -> None:
    exchange = exchange_of(kind, **changes)
    only(exchange.receive(response_body(answer_of(kind, text, finish_reason))))
    assert exchange.phase is Phase.ENDED


@pytest.mark.parametrize(
    ("texts", "left"),
    [
        (["It", " is", " 12."], [True, True, True]),
        (["[", '{"na', 'me": "Ada"', ', "age', '": 36}]'], [False, False, False, False, True]),
        (["```", "json\n", "[1", ", 2]"], [False, False, True, True]),
        (['{"name": "sqrt", "arguments"', ": {", '"number": 144}}'], [False, False, False]),
        ([MADE_UP, "\n", CALL, "\n"], [False, False, True, False]),
        (["<think>", "\nHm", "mm", "</think>", '{"name"'], [False, True, True, False, False]),
    ],
    ids=["words", "other JSON", "fenced JSON", "made up", "with a call", "thoughts"],
)
def test_a_stream_is_held_no_longer_than_it_is_in_doubt(texts: list[str], left: list[bool]) -> None:
    exchange = exchange_of(EVENTS)
    *events, _usage, _done, _ = stream(texts).split(b"\n\n")
    found = []
    for event in events[: len(texts) + 1]:
        replies = exchange.receive(response_body(event + b"\n\n", end_of_stream=False))
        found.append(any(body_of(reply, EVENTS) for reply in replies))
    assert found == [False, *left]


@pytest.mark.parametrize("model", ["coder", "own"])
def test_thinking_that_the_backend_found_is_not_held(model: str) -> None:
    exchange = exchange_of(EVENTS, model=model)
    first, said, *_ = stream([MADE_UP]).split(b"\n\n")
    thought = said.replace(b'"content":', b'"reasoning":')
    assert thought != said
    for event, leaves in ((first, False), (thought, True), (said, True)):
        replies = exchange.receive(response_body(event + b"\n\n", end_of_stream=False))
        assert any(body_of(reply, EVENTS) for reply in replies) == leaves


@pytest.fixture(scope="module")
def module_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway_with_backend(tmp_path_factory.mktemp("gateway"), SETTINGS) as gateway:
        yield gateway


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
class TestGateway:
    def test_the_client_sees_words(self, module_gateway: Gateway, *, stream: bool) -> None:
        module_gateway.backend.forget()
        module_gateway.backend.play(Reply(MADE_UP), Reply(WORDS))
        assert content(module_gateway, stream=stream) == WORDS
        first, second = (request.json for request in module_gateway.backend.requests)
        assert second["messages"][-1]["content"].startswith(first["messages"][-1]["content"])

    def test_without_a_second_answer_the_first_counts(self, module_gateway: Gateway, *, stream: bool) -> None:
        module_gateway.backend.forget()
        module_gateway.backend.play(Reply(MADE_UP), Reply(WORDS, trouble=Fail(500)))
        assert content(module_gateway, stream=stream) == MADE_UP


def content(gateway: Gateway, *, stream: bool) -> str | None:
    """What the official client reads."""
    request: dict[str, Any] = {**FREE, "model": "coder"}
    if not stream:
        text: str | None = gateway.openai.chat.completions.create(**request).choices[0].message.content
        return text
    chunks = gateway.openai.chat.completions.create(**request, stream=True)
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
