"""A demanded call that doesn't come, or has a fault, is asked for once more (`retry: true`), and once only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from extproc.config import parse
from extproc.exchange.asking import RETRY_TIMEOUT
from extproc.exchange.effects import BackendResponse, CallBackend, ReadCompletion
from extproc.exchange.machine import Exchange
from extproc.exchange.phases import Phase
from extproc.exchange.protocol import ProtocolError
from extproc.exchange.reading import LARGE_ANSWER
from extproc.exchange.request import PREPARING
from extproc.wire import ProcessingRequest
from scripted_vllm import Reply
from scripted_vllm.troubles import Cut, Fail, Refuse, Stall
from tests.gateway import MODEL, Gateway, gateway_with_backend
from tests.test_answer import CALL, completion, stream
from tests.test_exchange import (
    EVENTS,
    JSON,
    asked,
    metadata,
    only,
    request_body,
    request_headers,
    response_body,
    response_headers,
    said,
    started,
)
from tests.test_exchange_reports import Counted
from tests.test_request import MESSAGES, WEATHER

WORDS = "I would rather not."
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
WRONG = '<tool_call>\n{"name": "get_whether", "arguments": {}}\n</tool_call>'
SETTINGS = """
models:
  - {{name: coder, backend: qwen, upstream_model: {model}, tools: prompt, retry: true}}
  - {{name: strict, backend: qwen, upstream_model: {model}, tools: template, retry: true, invalid_calls: error}}
  - {{name: once, backend: qwen, upstream_model: {model}, tools: prompt}}
backends:
  - {{name: qwen, address: "127.0.0.1:{port}", health_check: false, structured_outputs: false}}
"""
DEMAND: dict[str, Any] = {**MESSAGES, "tools": [WEATHER], "tool_choice": "required"}


class TestExchange:
    """Without any I/O: the effect, and what comes of its result."""

    def retried(self, kind: dict[str, str], first: str, counted: Counted) -> tuple[Exchange, CallBackend]:
        config = parse(SETTINGS.format(model=MODEL, port=1), source="test")
        exchange = asked({**DEMAND, "stream": kind is EVENTS}, counted.telemetry, config)
        exchange.receive(response_headers(kind))
        *before, effect = exchange.receive(response_body(stream([first]) if kind is EVENTS else completion(first)))
        assert isinstance(effect, CallBackend)
        # A whole answer's message has a time limit, a stream's has none.
        limits = [said(reply).override_message_timeout.ToSeconds() for reply in before]
        assert limits == ([] if kind is EVENTS else [125])
        assert exchange.phase is Phase.RETRYING
        return exchange, effect

    @pytest.mark.parametrize("kind", [EVENTS, JSON], ids=["stream", "whole"])
    @pytest.mark.parametrize(
        ("first", "violation"), [(WORDS, "made none"), (WRONG, "get_whether")], ids=["none", "wrong"]
    )
    def test_the_second_request_says_what_was_wrong(self, kind: dict[str, str], first: str, violation: str) -> None:
        _, effect = self.retried(kind, first, Counted())
        request = orjson.loads(effect.body)
        last = request["messages"][-1]
        assert (effect.backend, request["model"], last["role"]) == ("qwen", MODEL, "user")
        rejected = last["content"].rpartition("Your last answer was rejected: ")[2]
        assert violation in rejected
        assert rejected.endswith("You must call the tool get_weather now: answer with a <tool_call> block only.")

    @pytest.mark.parametrize("kind", [EVENTS, JSON], ids=["stream", "whole"])
    def test_it_goes_to_the_same_backend_by_envoy(self, kind: dict[str, str]) -> None:
        exchange, effect = self.retried(kind, WORDS, Counted())
        assert effect.socket == Path("/run/extproc/inner.sock")
        assert effect.request_id == exchange.id
        assert effect.headers == {
            "content-type": "application/json",
            "x-request-id": exchange.id,
            "x-extproc-backend": "qwen",
            "x-extproc-again": "1",
        }

    @pytest.mark.parametrize(
        ("given", "sent"),
        [
            ([("x-request-id", "a b~")], {"x-request-id": "a b~"}),
            ([("x-request-id", "\xe9")], {"x-request-id": None}),
            ([("x-request-id", " a")], {"x-request-id": None}),
            ([("traceparent", TRACE), ("tracestate", "a=1")], {"traceparent": TRACE, "tracestate": "a=1"}),
            ([("tracestate", "a=1"), ("tracestate", "b=2")], {"tracestate": "a=1,b=2"}),
            ([("tracestate", "x" * 512)], {"tracestate": "x" * 512}),
            ([("traceparent", TRACE), ("tracestate", "x" * 513)], {"traceparent": TRACE, "tracestate": None}),
            ([("tracestate", "a=1\r\nb: 2")], {"tracestate": None}),
            ([("tracestate", "")], {"tracestate": None}),
            ([("authorization", "Bearer sk"), ("cookie", "a=b")], {"authorization": None, "cookie": None}),
        ],
        ids=["id", "latin-1", "space", "trace", "in two", "long", "too long", "two lines", "empty", "key"],
    )
    def test_it_belongs_to_the_trace_of_the_first(
        self, given: list[tuple[str, str]], sent: dict[str, str | None]
    ) -> None:
        headers = request_headers()
        for name, value in given:
            headers.request_headers.headers.headers.add(key=name, raw_value=value.encode())
        headers_sent = self.effect_of(headers).headers
        assert {name: headers_sent.get(name) for name in sent} == sent

    def test_a_conversation_that_has_a_replica_stays_there(self) -> None:
        settings = SETTINGS.replace("health_check: false", "health_check: false, affinity: true")
        assert self.effect_of(request_headers(), settings).headers["x-extproc-affinity"]

    def effect_of(self, headers: ProcessingRequest, settings: str = SETTINGS) -> CallBackend:
        exchange = started(None, parse(settings.format(model=MODEL, port=1), source="test"))
        exchange.receive(headers)
        exchange.receive(request_body(DEMAND))
        exchange.receive(response_headers(JSON))
        *_, effect = exchange.receive(response_body(completion(WORDS)))
        assert isinstance(effect, CallBackend)
        return effect

    def test_envoy_gives_a_message_more_time_once_which_does_for_reading_and_for_asking_again(self) -> None:
        config = parse(SETTINGS.format(model=MODEL, port=1), source="test")
        exchange = asked(DEMAND, None, config)
        exchange.receive(response_headers(JSON))
        more_time, reading = exchange.receive(response_body(completion(WORDS + " " * LARGE_ANSWER)))
        assert isinstance(reading, ReadCompletion)
        assert said(more_time).override_message_timeout.ToSeconds() == PREPARING + RETRY_TIMEOUT
        [effect] = exchange.resume(reading.perform())
        assert isinstance(effect, CallBackend)

    def test_of_several_tools_it_tells_the_names(self) -> None:
        others = [WEATHER, {"type": "function", "function": {"name": "get_time"}}]
        config = parse(SETTINGS.format(model=MODEL, port=1), source="test")
        exchange = asked({**DEMAND, "tools": others}, None, config)
        exchange.receive(response_headers(JSON))
        *_, effect = exchange.receive(response_body(completion(WORDS)))
        assert isinstance(effect, CallBackend)
        said_last = orjson.loads(effect.body)["messages"][-1]["content"]
        assert said_last.endswith("only. Their names are: get_weather, get_time.")

    @pytest.mark.parametrize("kind", [EVENTS, JSON], ids=["stream", "whole"])
    def test_the_client_gets_the_second_answer_and_nothing_of_the_first(self, kind: dict[str, str]) -> None:
        counted = Counted()
        exchange, _ = self.retried(kind, WORDS, counted)
        second = BackendResponse(200, stream([CALL]) if kind is EVENTS else completion(CALL))
        reply = only(exchange.resume(second))
        mutation = reply.response_body.response.body_mutation
        body = mutation.streamed_response.body if kind is EVENTS else mutation.body
        assert b"get_weather" in body
        assert WORDS.encode() not in body
        assert exchange.phase is Phase.ENDED
        numbers = counted.all()
        assert numbers['retries_total{format="hermes",mode="prompt",model="coder",result="helped"}'] == 1
        assert numbers['invalid_calls_total{fault="missing_tool_call",model="coder"}'] == 1
        # Both were the backend's work.
        spent = sum(count for name, count in numbers.items() if name.startswith("tokens_total"))
        assert metadata(reply)["total_tokens"] == spent

    @pytest.mark.parametrize("kind", [EVENTS, JSON], ids=["stream", "whole"])
    @pytest.mark.parametrize(
        "second",
        [
            None,
            BackendResponse(503, b"no"),
            BackendResponse(200, b"nonsense"),
            BackendResponse(200, b'{"choices": []}'),
            "wrong again",
        ],
        ids=["nothing", "an error", "nonsense", "no choice", "wrong again"],
    )
    def test_no_better_answer_leaves_the_first(
        self, kind: dict[str, str], second: BackendResponse | str | None
    ) -> None:
        counted = Counted()
        exchange, _ = self.retried(kind, WORDS, counted)
        if isinstance(second, str):
            second = BackendResponse(200, stream([WRONG]) if kind is EVENTS else completion(WRONG))
        mutation = only(exchange.resume(second)).response_body.response.body_mutation
        body = mutation.streamed_response.body if kind is EVENTS else mutation.body
        assert WORDS.encode() in body
        assert exchange.phase is Phase.ENDED
        assert counted.all()['retries_total{format="hermes",mode="prompt",model="coder",result="in_vain"}'] == 1
        with pytest.raises(ProtocolError):
            exchange.resume(None)

    @pytest.mark.parametrize("kind", [EVENTS, JSON], ids=["stream", "whole"])
    @pytest.mark.parametrize(
        ("changes", "text", "finish_reason"),
        [
            ({}, CALL, "stop"),  # as it should be
            ({"tool_choice": "auto"}, WORDS, "stop"),  # nothing was demanded
            ({"model": "once"}, WORDS, "stop"),  # not asked for
            ({"n": 2}, WORDS, "stop"),  # which of them?
            ({}, WORDS, "length"),  # cut off: a retry would be as well
            ({"parallel_tool_calls": False}, f"{CALL}\n{WRONG}", "stop"),  # the client gets the first call alone
        ],
        ids=["good", "auto", "off", "several", "cut off", "dropped"],
    )
    def test_otherwise_there_is_no_retry(
        self, kind: dict[str, str], changes: dict[str, Any], text: str, finish_reason: str
    ) -> None:
        config = parse(SETTINGS.format(model=MODEL, port=1), source="test")
        exchange = asked({**DEMAND, "stream": kind is EVENTS, **changes}, None, config)
        exchange.receive(response_headers(kind))
        body = stream([text], finish_reason) if kind is EVENTS else completion(text, finish_reason)
        only(exchange.receive(response_body(body)))
        assert exchange.phase is Phase.ENDED


@pytest.fixture(scope="module")
def module_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    # A time limit that the second answer of the slowest test is beyond.
    shorter = {"message_timeout: 5s": "message_timeout: 3s"}
    with gateway_with_backend(tmp_path_factory.mktemp("gateway"), SETTINGS, envoy=shorter) as gateway:
        yield gateway


@pytest.fixture
def retrying(module_gateway: Gateway) -> Gateway:
    module_gateway.backend.forget()
    return module_gateway


def ask(gateway: Gateway, model: str, *, stream: bool) -> Any:
    """The tool calls and the content that the official client reads."""
    request = {**DEMAND, "model": model}
    if not stream:
        message = gateway.openai.chat.completions.create(**request).choices[0].message
        return [call.function.name for call in message.tool_calls or ()], message.content
    names, content = [], ""
    for chunk in gateway.openai.chat.completions.create(**request, stream=True):
        for choice in chunk.choices:
            content += choice.delta.content or ""
            names += [call.function.name for call in choice.delta.tool_calls or () if call.function and call.id]
    return names, content or None


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
class TestGateway:
    @pytest.mark.parametrize("model", ["coder", "strict"])
    def test_the_second_answer_takes_the_place_of_the_first(
        self, retrying: Gateway, model: str, *, stream: bool
    ) -> None:
        retrying.backend.play(Reply(WORDS), Reply(CALL))
        assert ask(retrying, model, stream=stream) == (["get_weather"], None)
        first, second = (request.json for request in retrying.backend.requests)
        assert second["messages"][:-1] == first["messages"][:-1]
        assert second["messages"][-1]["content"].startswith(first["messages"][-1]["content"])
        assert second.keys() == first.keys()

    def test_a_slow_second_answer_is_waited_for(self, retrying: Gateway, *, stream: bool) -> None:
        retrying.backend.play(Reply(WORDS), Reply(CALL, trouble=Stall(after=None, seconds=5)))
        assert ask(retrying, "coder", stream=stream) == (["get_weather"], None)

    @pytest.mark.parametrize("trouble", [Refuse(), Fail(500), Cut(1)], ids=repr)
    def test_without_a_second_answer_the_first_counts(self, retrying: Gateway, trouble: Any, *, stream: bool) -> None:
        retrying.backend.play(Reply(WORDS), Reply(CALL, trouble=trouble))
        assert ask(retrying, "coder", stream=stream) == ([], WORDS)

    def test_then_the_policy_decides(self, retrying: Gateway, *, stream: bool) -> None:
        retrying.backend.play(Reply(WORDS), Reply(WORDS))
        with pytest.raises(Exception, match="the model made none"):
            ask(retrying, "strict", stream=stream)
        assert len(retrying.backend.requests) == 2
