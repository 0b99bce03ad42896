"""What spans say of an exchange, and what they don't, without any I/O."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from extproc.config import parse
from extproc.config.tracing import Tracing
from extproc.exchange.context import ExchangeContext
from extproc.exchange.machine import Exchange
from extproc.observability.telemetry import Telemetry
from extproc.tracing.attributes import CONTENT, NAMES, attributes
from extproc.tracing.content import Said
from extproc.tracing.context import Parent
from extproc.tracing.exchange import TracedExchange
from extproc.tracing.spans import Spans
from extproc.tracing.tracers import Tracers
from tests.test_answer import CALL, completion, stream
from tests.test_exchange import CHAT, EVENTS, JSON, request_body, request_headers, response_body, response_headers
from tests.test_request import MESSAGES, WEATHER

SETTINGS = """
models: [{name: m, backend: b, tools: prompt}]
backends: [{name: b, address: "127.0.0.1:1"}]
tracing: {collector: "127.0.0.1:1", %s}
"""
SAMPLED = Parent(1, 2, sampled=True)
ASKED: dict[str, Any] = {**MESSAGES, "model": "m", "tools": [WEATHER]}


class Traced:
    """An exchange that is traced, and its spans."""

    def __init__(self, settings: str = "sampling: 1", parent: Parent | None = SAMPLED) -> None:
        config = parse(SETTINGS % settings, source="test")
        assert config.tracing is not None
        self.exporter = InMemorySpanExporter()
        self.spans = Spans(config.tracing, "extproc", self.exporter)
        self.exchange = Exchange(ExchangeContext(config), Telemetry(config))
        self.inputs = TracedExchange(self.exchange, self.exchange, self.spans, parent)

    def ask(self, body: dict[str, Any], **fields: str) -> Traced:
        self.inputs.receive(request_headers({**CHAT, **fields}))
        self.inputs.receive(request_body(body))
        return self

    def answer(self, kind: dict[str, str], *pieces: bytes) -> Traced:
        self.inputs.receive(response_headers(kind))
        for number, piece in enumerate(pieces, 1):
            self.inputs.receive(response_body(piece, end_of_stream=number == len(pieces)))
        return self

    def ended(self) -> dict[str, ReadableSpan]:
        self.inputs.close()
        self.spans.close()
        return {span.name: span for span in self.exporter.get_finished_spans()}


def said(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


class TestContext:
    def test_what_is_read_is_written(self) -> None:
        field = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        parent = Parent.read(field)
        assert parent is not None
        assert (parent.written(), parent.sampled) == (field, True)

    @pytest.mark.parametrize(
        "field",
        [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        ],
    )
    def test_what_w3c_calls_invalid_is_no_parent(self, field: str) -> None:
        assert Parent.read(field) is None

    def test_a_later_version_may_have_more_behind_it(self) -> None:
        assert Parent.read("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03-more") is not None


class TestWhoDecides:
    @pytest.mark.parametrize(
        ("settings", "parent", "decided", "wanted"),
        [
            ("sampling: 0", SAMPLED, False, True),
            ("sampling: 0, follow_clients: false", SAMPLED, False, False),
            ("sampling: 0, follow_clients: false", SAMPLED, True, True),
            ("sampling: 1", Parent(1, 2, sampled=False), False, False),
            ("sampling: 1, follow_clients: false", Parent(1, 2, sampled=False), False, False),
            ("sampling: 1, follow_clients: false", SAMPLED, False, True),
            ("sampling: 1", None, False, True),
            ("sampling: 0", None, False, False),
        ],
    )
    def test_it_is(self, settings: str, parent: Parent | None, *, decided: bool, wanted: bool) -> None:
        spans = Traced(settings).spans
        assert spans.wants(parent, decided=decided) is wanted
        spans.close()

    def test_an_exchange_that_isnt_traced_is_left_alone(self) -> None:
        config = parse(SETTINGS % "sampling: 0", source="test")
        exchange = Exchange(ExchangeContext(config), Telemetry(config))
        tracers = Tracers("extproc")
        metadata = [("traceparent", Parent(1, 2, sampled=False).written())]
        assert tracers.over(exchange, exchange, tuple(metadata)) is exchange

    def test_without_the_setting_nothing_stands_in_between(self) -> None:
        config = parse((SETTINGS % "").partition("tracing")[0], source="test")
        exchange = Exchange(ExchangeContext(config), Telemetry(config))
        assert Tracers("extproc").over(exchange, exchange, (("traceparent", SAMPLED.written()),)) is exchange

    def test_without_envoys_word_the_clients_counts(self) -> None:
        field = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        spans = Traced("sampling: 0", parent=None).ask(ASKED, traceparent=field).answer(JSON, completion("Hi")).ended()
        context = spans["chat m"].context
        assert context is not None
        assert f"{context.trace_id:032x}" in field


class TestExchange:
    @pytest.mark.parametrize(
        ("kind", "pieces"), [(JSON, [completion(CALL)]), (EVENTS, [stream([CALL])])], ids=["whole", "stream"]
    )
    def test_an_answer(self, kind: dict[str, str], pieces: list[bytes]) -> None:
        spans = Traced().ask(ASKED).answer(kind, *pieces).ended()
        assert set(spans) == {"chat m", "read the request", "wait for the backend", "write the answer"}
        told = said(spans["chat m"])
        assert {"gen_ai.request.model": "m", "extproc.backend": "b"}.items() <= told.items()
        assert {"extproc.mode": "prompt", "extproc.dialect": "chat", "extproc.calls": 1}.items() <= told.items()
        assert told["gen_ai.response.finish_reasons"] == ("tool_calls",)
        assert told["gen_ai.usage.input_tokens"] > 0
        assert told["extproc.work_seconds"] > 0
        assert not spans["chat m"].status.description

    def test_an_error_is_a_word(self) -> None:
        chat = Traced().ask({**ASKED, "messages": "sEcReT"}).ended()["chat"]
        assert said(chat)["error.type"] == chat.status.description == "invalid_type"

    def test_where_it_ended_before_its_answer(self) -> None:
        chat = Traced().ask(ASKED).ended()["chat m"]
        assert said(chat)["extproc.unfinished"] == "response_headers"

    def test_a_client_that_leaves_at_the_last_event_has_its_answer(self) -> None:
        traced = Traced().ask({**ASKED, "stream": True})
        traced.inputs.receive(response_headers(EVENTS))
        traced.inputs.receive(response_body(stream([CALL]), end_of_stream=False))
        told = said(traced.ended()["chat m"])
        assert told["gen_ai.response.finish_reasons"] == ("tool_calls",)
        assert "extproc.unfinished" not in told

    def test_an_answer_that_passes_by(self) -> None:
        spans = Traced().ask({**MESSAGES, "model": "m"}).answer(JSON).ended()
        assert set(spans) == {"chat m", "read the request", "wait for the backend"}
        assert "extproc.unfinished" not in said(spans["chat m"])

    def test_openinference_has_other_names(self) -> None:
        told = said(Traced("attributes: openinference").ask(ASKED).answer(JSON, completion(CALL)).ended()["chat m"])
        assert {"openinference.span.kind": "LLM", "llm.model_name": "m", "llm.system": "vllm"}.items() <= told.items()
        assert told["llm.token_count.prompt"] > 0
        assert not [name for name in told if name.startswith("gen_ai")]


class TestContent:
    @pytest.mark.parametrize("naming", ["gen_ai", "openinference"])
    def test_unless_it_is_asked_for_none_is_said(self, naming: Any) -> None:
        facts = dict.fromkeys(NAMES[naming], "x")
        names = {NAMES[naming][name] for name in CONTENT if name in NAMES[naming]}
        assert not names & attributes(facts, naming, content=False).keys()
        assert names <= attributes(facts, naming, content=True).keys()

    def test_what_has_no_name_is_never_said(self) -> None:
        assert not attributes({"prompt": "x", "headers": "y"}, "gen_ai", content=True)

    def test_messages_in_opentelemetrys_form(self) -> None:
        spans = Traced("content: true").ask(ASKED).answer(EVENTS, stream(["Well.\n", CALL])).ended()
        told = said(spans["chat m"])
        given, got = (orjson.loads(told[f"gen_ai.{side}.messages"]) for side in ("input", "output"))
        assert [message["role"] for message in given] == [message["role"] for message in ASKED["messages"]]
        [answer] = got
        text, call = answer["parts"]
        assert (text["type"], text["content"].strip()) == ("text", "Well.")
        assert (call["type"], call["name"]) == ("tool_call", "get_weather")
        assert orjson.loads(told["gen_ai.tool.definitions"]) == [WEATHER]

    @pytest.mark.parametrize(
        ("dialect", "asked", "answered", "given", "got"),
        [
            (
                "messages",
                {
                    "system": "Be short.",
                    "messages": [
                        {"role": "user", "content": "Hi"},
                        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
                        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "3"}]},
                    ],
                },
                [
                    {"type": "message_start", "message": {}},
                    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
                    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "It "}},
                    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "is 3"}},
                    {
                        "type": "content_block_start",
                        "index": 1,
                        "content_block": {"type": "tool_use", "id": "d", "name": "g", "input": {}},
                    },
                    {
                        "type": "content_block_delta",
                        "index": 1,
                        "delta": {"type": "input_json_delta", "partial_json": '{"a":1}'},
                    },
                ],
                ["system", "user", "assistant", "user"],
                [
                    {"type": "text", "content": "It is 3"},
                    {"type": "tool_call", "id": "d", "name": "g", "arguments": '{"a":1}'},
                ],
            ),
            (
                "responses",
                {
                    "instructions": "Be short.",
                    "input": [
                        {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
                        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                        {"type": "function_call_output", "call_id": "c", "output": "3"},
                    ],
                },
                [
                    {"type": "response.created", "response": {"output": []}},
                    {
                        "type": "response.completed",
                        "response": {
                            "output": [
                                {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]},
                                {"role": "assistant", "content": [{"type": "output_text", "text": "3"}]},
                            ]
                        },
                    },
                ],
                ["system", "user", "assistant", "tool"],
                [{"type": "reasoning", "content": "hm"}, {"type": "text", "content": "3"}],
            ),
        ],
    )
    def test_of_other_dialects(
        self, dialect: str, asked: Any, answered: list[Any], given: list[str], got: list[Any]
    ) -> None:
        side = Said()
        side.asked += orjson.dumps(asked)
        side.answered += b"".join(b"data: %b\n\n" % orjson.dumps(event) for event in answered)
        facts = side.facts(dialect, "gen_ai")
        assert [message["role"] for message in orjson.loads(facts["input"])] == given
        assert orjson.loads(facts["output"]) == [{"role": "assistant", "parts": got}]

    def test_what_is_no_answer_is_shown_as_it_is(self) -> None:
        side = Said()
        side.asked += b"{"
        side.answered += b"<html>"
        facts = side.facts("chat", "gen_ai")
        assert orjson.loads(facts["output"])[0]["parts"] == [{"type": "text", "content": "<html>"}]


class Failing(SpanExporter):
    """A collector that is away, and comes back."""

    def __init__(self) -> None:
        self.away = True

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        del spans
        if self.away:
            raise ConnectionError("sEcReT")
        return SpanExportResult.SUCCESS


def test_a_collector_that_is_away_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    exporter = Failing()
    spans = Spans(Tracing(collector="127.0.0.1:1"), "extproc", exporter)
    with caplog.at_level(logging.INFO):
        for away in (True, True, False):
            exporter.away = away
            spans.begin("one", None, at=1).end(at=2)
            spans._provider.force_flush()
        spans.close()
    assert [record.getMessage() for record in caplog.records] == [
        "spans can't be sent to 127.0.0.1:1, and are lost until they can",
        "spans are taken by 127.0.0.1:1 again",
    ]
