"""Models with `tools: auto` in exchanges: how they are asked, which answers count for which step, and what shows it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import orjson
import pytest
from hypothesis import given, settings

from extproc.config import Config, parse
from extproc.contract.errors import ApiError
from extproc.exchange.context import ExchangeContext
from extproc.exchange.effects import CallBackend, Prepare
from extproc.exchange.machine import Exchange
from extproc.observability.telemetry import Telemetry
from extproc.recording.private import settings_of
from extproc.surfaces import prepare
from extproc.turn.memory import Memory
from extproc.turn.upstream import UpstreamRequest
from tests.request_strategies import Json, encoded, legal_requests
from tests.test_answer import CALL, completion, stream
from tests.test_exchange import (
    CHAT,
    EVENTS,
    JSON,
    metadata,
    request_body,
    request_headers,
    response_body,
    response_headers,
    said,
)
from tests.test_request import MESSAGES, WEATHER

WRONG = '<tool_call>\n{"name": "get_whether", "arguments": {}}\n</tool_call>'
ASK: Json = {**MESSAGES, "tools": [WEATHER]}
DEMAND: Json = {**ASK, "tool_choice": "required"}
CALLS, BACK = 10, 20

Writes: TypeAlias = Callable[[Json], str | int]
"""What a model writes, by what its backend is asked; or the status of an error."""


def config(model: str = "", backend: str = "") -> Config:
    steering = f"steering: {{calls: {CALLS}, back: {BACK}}}"
    return parse(f"""
models: [{{name: coder, backend: qwen, tools: auto, {steering}{model}}}]
backends: [{{name: qwen, address: "127.0.0.1:8000"{backend}}}]
""")


def is_told(body: Json) -> bool:
    """Whether the model is told in words how to call."""
    return "tools" not in body


def is_forced(body: Json) -> bool:
    return "structural_tag" in body.get("structured_outputs", {})


class Gateway:
    """Exchanges one after the other, with a model behind them."""

    def __init__(self, settings: Config, writes: Writes) -> None:
        self.writes = writes
        self.telemetry = Telemetry(settings)
        self.context = ExchangeContext(settings, memory=Memory())
        self.telemetry.shows(Memory(), self.context.quality, self.context.steering)

    def begun(self, fields: Json = ASK) -> tuple[Exchange, Json, Json]:
        """An exchange whose request is with its backend, what that is asked, and what Envoy is told."""
        exchange = Exchange(self.context, self.telemetry)
        exchange.receive(request_headers())
        reply = said(exchange.receive(request_body(fields))[-1])
        return exchange, orjson.loads(reply.request_body.response.body_mutation.body), metadata(reply)

    def answer(self, exchange: Exchange, text: str, *, streams: bool = False) -> list[Any]:
        exchange.receive(response_headers(EVENTS if streams else JSON))
        return exchange.receive(response_body(stream([text]) if streams else completion(text)))

    def ask(self, fields: Json = ASK, times: int = 1) -> list[str]:
        """At which steps so many requests are asked, one after the other."""
        steps = []
        for _ in range(times):
            exchange, body, told = self.begun(fields)
            steps.append(told["step"])
            written = self.writes(body)
            if isinstance(written, str):
                self.answer(exchange, written, streams=fields.get("stream") is True)
            else:
                exchange.receive(response_headers({":status": str(written), "content-type": "application/json"}))
                exchange.receive(response_body(b'{"error": {"message": "No."}}'))
            exchange.close()
        return steps

    def value(self, name: str, **labels: str) -> float | None:
        return self.telemetry.registry.get_sample_value(f"extproc_{name}", {"model": "coder", **labels})


class TestSteps:
    @pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
    def test_a_model_that_needs_words_gets_them_and_keeps_them(self, *, streams: bool) -> None:
        gateway = Gateway(config(), lambda body: CALL if is_told(body) else WRONG)
        fields = {**ASK, "stream": streams}
        assert gateway.ask(fields, CALLS) == ["template"] * CALLS
        assert gateway.ask(fields, BACK) == ["prompt"] * BACK
        # A trial, and then it is left alone for twice as long.
        assert gateway.ask(fields, CALLS) == ["template"] * CALLS
        assert gateway.ask(fields, 2 * BACK) == ["prompt"] * 2 * BACK
        assert gateway.ask(fields) == ["template"]

    def test_one_that_has_learned_to_call_comes_back_and_stays(self) -> None:
        gateway = Gateway(config(), lambda _: WRONG)
        gateway.ask(times=3 * CALLS)
        assert gateway.ask() == ["retry"]
        gateway.writes = lambda _: CALL
        assert gateway.ask(times=3 * BACK - 1)[-1] == "prompt"
        assert gateway.ask(times=2 * BACK) == ["template"] * 2 * BACK

    def test_how_it_is_asked_at_each_step(self) -> None:
        gateway = Gateway(config(), lambda _: WRONG)
        asked = {}
        for _ in range(3 * CALLS + 1):
            _, body, told = gateway.begun()
            asked[told["step"]] = told["mode"], is_told(body), is_forced(body)
            gateway.ask()
        assert asked == {
            "template": ("template", False, False),
            "prompt": ("prompt", True, False),
            "forced": ("prompt", True, True),
            "retry": ("prompt", True, True),
        }

    def test_at_the_last_a_demanded_call_is_asked_for_once_more(self) -> None:
        gateway = Gateway(config(backend=", structured_outputs: false"), lambda _: "I would rather not.")
        assert gateway.ask(DEMAND, 2 * CALLS) == ["template"] * CALLS + ["prompt"] * CALLS
        exchange, _, told = gateway.begun(DEMAND)
        assert told["step"] == "retry"
        assert isinstance(gateway.answer(exchange, "I would rather not.")[-1], CallBackend)

    def test_what_is_forced_at_any_step_counts_at_none(self) -> None:
        gateway = Gateway(config(), lambda _: WRONG)
        assert gateway.ask(DEMAND, 3 * CALLS) == ["template"] * 3 * CALLS
        assert gateway.ask({**ASK, "tool_choice": "none"}, 3 * CALLS) == ["template"] * 3 * CALLS

    def test_a_backend_that_knows_no_grammars_gets_none_any_more(self) -> None:
        gateway = Gateway(config(), lambda body: 400 if is_forced(body) else WRONG)
        gateway.ask(times=2 * CALLS)
        assert gateway.ask(times=3) == ["forced"] * 3
        assert gateway.ask(times=BACK - 1) == ["prompt"] * (BACK - 1)
        assert gateway.value("steering_changes_total", direction="barred") == 1

    def test_a_prompt_that_is_counted_says_nothing_of_grammars(self) -> None:
        gateway = Gateway(config(), lambda _: WRONG)
        gateway.ask(times=2 * CALLS)
        tool = {"name": "get_weather", "input_schema": {"type": "object"}}
        fields = {"model": "coder", "messages": MESSAGES["messages"], "tools": [tool]}
        for _ in range(9):
            exchange = Exchange(gateway.context, gateway.telemetry)
            exchange.receive(request_headers({**CHAT, ":path": "/v1/messages/count_tokens"}))
            exchange.receive(request_body(fields))
            exchange.receive(response_headers(JSON, status=400))
            exchange.receive(response_body(b'{"error": {"message": "No."}}'))
        assert gateway.ask() == ["forced"]

    @pytest.mark.parametrize("status", [429, 500, 503])
    def test_other_errors_say_nothing_of_grammars(self, status: int) -> None:
        gateway = Gateway(config(), lambda body: status if is_forced(body) else WRONG)
        gateway.ask(times=2 * CALLS)
        assert gateway.ask(times=9) == ["forced"] * 9


class TestExchanges:
    def test_a_request_keeps_its_step_to_the_end(self) -> None:
        gateway = Gateway(config(), lambda _: WRONG)
        exchange, body, _ = gateway.begun()
        assert not is_told(body)
        gateway.ask(times=CALLS)
        assert gateway.ask() == ["prompt"]
        assert exchange.context.config.models[0].tools == "template"
        reply = said(gateway.answer(exchange, CALL)[-1])
        assert b'"tool_calls"' in reply.response_body.response.body_mutation.body

    def test_a_late_answer_counts_for_the_step_it_was_asked_at(self) -> None:
        gateway = Gateway(config(), lambda _: WRONG)
        late = [gateway.begun()[0] for _ in range(CALLS)]
        assert gateway.ask(times=CALLS + 1)[-1] == "prompt"
        for exchange in late:
            gateway.answer(exchange, WRONG)
        assert gateway.ask(times=CALLS - 1) == ["prompt"] * (CALLS - 1)
        assert gateway.ask() == ["forced"]

    def test_what_is_known_of_a_conversation_is_what_it_is_shown_as_now(self) -> None:
        gateway = Gateway(config(), lambda _: WRONG)
        turns = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello!"}]
        for _ in range(CALLS + 2):
            turns += [{"role": "user", "content": "And now?"}]
            fields = {**ASK, "messages": turns}
            (step,) = gateway.ask(fields)
            _, body, _ = gateway.begun(fields)
            at = gateway.context.steered().config
            assert body == orjson.loads(prepare(orjson.dumps(fields), at).body or b"")
            turns += [{"role": "assistant", "content": "No."}]
        assert step == "prompt"
        assert gateway.context.memory is not None
        assert gateway.context.memory.known > 0

    def test_what_is_read_elsewhere_is_read_for_the_same_step(self) -> None:
        gateway = Gateway(config(), lambda _: WRONG)
        gateway.ask(times=CALLS)
        at = gateway.context.steered().config
        read = Prepare(orjson.dumps(ASK), at).perform()
        assert isinstance(read, UpstreamRequest)
        assert read.asked is not None
        assert read.asked.step == "prompt"

    def test_a_recording_has_the_settings_of_the_step(self) -> None:
        gateway = Gateway(config(), lambda _: WRONG)
        gateway.ask(times=2 * CALLS)
        exchange, body, _ = gateway.begun()
        replayed = Config.model_validate(settings_of(exchange.context.config, "coder"))
        assert body == orjson.loads(prepare(orjson.dumps(ASK), replayed).body or b"")
        assert replayed.ladders == {}

    def test_a_reload_leaves_the_step_and_knows_who_still_goes_by_what(self) -> None:
        gateway = Gateway(config(), lambda _: WRONG)
        gateway.ask(times=CALLS)
        before = gateway.context.config
        exchange, _, _ = gateway.begun()
        gateway.context = replace(gateway.context, config=config())
        assert gateway.ask() == ["prompt"]
        assert exchange.configured is before
        gateway.context = replace(gateway.context, config=config(", defaults: {temperature: 0}"))
        assert gateway.ask() == ["template"]

    @settings(max_examples=20)
    @given(legal_requests())
    def test_no_request_fails_at_one_step_and_not_at_another(self, fields: Json) -> None:
        body = encoded({**fields, "model": "coder"})
        first, *others = [outcome(body, at) for at in AT_EACH_STEP]
        assert others == [first] * 3


AT_EACH_STEP = [config().at({"coder": place}) for place in range(4)]


def outcome(body: bytes, at: Config) -> Any:
    """What a client sees of how its request was read."""
    try:
        asked = prepare(body, at)
    except ApiError as error:
        return str(error)
    return asked.dropped, asked.repaired, asked.answer is not None


class TestShown:
    def test_the_metrics_tell_where_it_is_and_how_it_came_there(self) -> None:
        gateway = Gateway(config(), lambda body: CALL if is_told(body) else WRONG)
        assert gateway.value("steering_changes_total", direction="up") == 0
        gateway.ask(times=CALLS + BACK + CALLS + 1)
        steps = ("template", "prompt", "forced", "retry")
        assert [gateway.value("steering_step", step=step) for step in steps] == [0, 1, 0, 0]
        changes = [gateway.value("steering_changes_total", direction=way) for way in ("up", "back", "barred")]
        assert changes == [2, 1, 0]
        # By the mode that it really is.
        assert gateway.value("recent_calls", mode="prompt", result="valid") == BACK + 1
        assert gateway.value("recent_calls", mode="template", result="invalid") == 2 * CALLS

    def test_the_log_has_a_line_with_the_numbers_for_each_change(self, caplog: pytest.LogCaptureFixture) -> None:
        gateway = Gateway(config(), lambda body: CALL if is_told(body) else WRONG)
        with caplog.at_level(logging.INFO):
            gateway.ask(times=CALLS + BACK)
        assert [(record.levelname, record.message) for record in caplog.records] == [
            (
                "WARNING",
                "the model 'coder' goes from step template to prompt: of its last calls there 0 of 10 were valid",
            ),
            (
                "INFO",
                "the model 'coder' goes from step prompt to template, to see whether it calls well there by now: of "
                "its last calls there 20 of 20 were valid",
            ),
        ]

    def test_who_is_not_steered_has_no_step(self) -> None:
        plain = parse("""
models: [{name: coder, backend: qwen, tools: prompt}]
backends: [{name: qwen, address: "127.0.0.1:8000"}]
""")
        gateway = Gateway(plain, lambda _: WRONG)
        assert "step" not in gateway.begun()[2]
        assert gateway.value("steering_changes_total", direction="up") is None
        assert gateway.context.steered() is gateway.context
