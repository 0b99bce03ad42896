"""What the log and a metric say of why models don't call, while answers come; and what it keeps to itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from extproc.config import parse
from extproc.diagnosis.live import AGAIN, LOOK, Done, LiveDiagnosis, Work, at_once, in_a_thread
from extproc.exchange.context import ExchangeContext
from extproc.exchange.machine import Exchange
from extproc.observability.telemetry import Telemetry
from tests.test_diagnosis import ASKED, CALL, EVENTS, JSON, with_history
from tests.test_exchange import request_body, request_headers, response_body, response_headers

CONFIG = """
models:
  - {name: m, backend: b, tools: prompt}
  - {name: thinker, backend: b, tools: template, format: qwen3_coder, thinking: open}
  - {name: native, backend: b, tools: native}
backends: [{name: b, address: "127.0.0.1:1"}]
"""
ABOUT_A_RESULT = "According to get_weather, it has 18 degrees."
PYTHON = "Sure.\n[get_weather(city='Paris')]"


class Scene:
    """A processor whose clock is ours."""

    def __init__(self, look: Callable[[Work, Done], None] = at_once) -> None:
        self.now = 0.0
        config = parse(CONFIG)
        self.telemetry = Telemetry(config)
        self.context = ExchangeContext(config, advice=LiveDiagnosis(self.telemetry, lambda: self.now, look))

    def answer(self, text: str, *, model: str = "m", reason: str = "stop", stream: bool = True, **fields: Any) -> None:
        """One whole answer; `fields` are the request's."""
        usage = {"prompt_tokens": fields.pop("prompt_tokens", 200), "completion_tokens": 9, "total_tokens": 209}
        exchange = Exchange(self.context, self.telemetry)
        exchange.receive(request_headers())
        exchange.receive(request_body(orjson.dumps({**ASKED, "model": model, "stream": stream, **fields})))
        exchange.receive(response_headers(EVENTS if stream else JSON))
        if stream:
            for at in range(0, len(text), 5):
                exchange.receive(response_body(_chunk({"content": text[at : at + 5]}, None), end_of_stream=False))
            last = _chunk({}, reason) + b"data: %b\n\ndata: [DONE]\n\n" % orjson.dumps({"choices": [], "usage": usage})
            exchange.receive(response_body(last))
        else:
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
            whole = {"id": "c", "object": "chat.completion", "choices": [choice], "usage": usage, "model": model}
            exchange.receive(response_body(orjson.dumps(whole)))
        exchange.close()

    @property
    def found(self) -> dict[str, int]:
        """How often which cause was."""
        rows = [
            line for line in self.telemetry.page().decode().splitlines() if line.startswith("extproc_diagnosed_total{")
        ]
        return {row.partition('cause="')[2].partition('"')[0]: round(float(row.rpartition(" ")[2])) for row in rows}


def _chunk(delta: dict[str, Any], reason: str | None) -> bytes:
    chunk = {"id": "c", "object": "chat.completion.chunk", "model": "m", "created": 1}
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return b"data: %b\n\n" % orjson.dumps({**chunk, "choices": [choice]})


@pytest.mark.parametrize(
    ("cause", "text", "fields"),
    [
        ("other_format", PYTHON, {}),
        ("other_format", PYTHON, {"stream": False}),
        ("call_as_prose", "I would call get_weather for Paris now.", {}),
        ("call_in_code", "Like so:\n```python\nget_weather('Paris'\n```", {}),
        ("unclosed_thinking", "The user wants the weather.", {"model": "thinker"}),
        ("tools_not_shown", "It is sunny.", {"model": "native", "prompt_tokens": 3}),
        ("missing_call", "It is sunny.", {"tool_choice": "required"}),
        ("length_in_call", CALL[:40], {"reason": "length"}),
        ("length", "It is", {"reason": "length"}),
    ],
)
def test_what_is_seen_of_an_answer_names_the_cause(
    cause: str, text: str, fields: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene()
    with caplog.at_level(logging.WARNING, "extproc.diagnosis"):
        scene.answer(text, **fields)
    assert scene.found == {cause: 1}
    [line] = caplog.records
    assert line.__dict__["fields"]["cause"] == cause
    for said in (text, "Paris", "get_weather"):
        assert said not in line.getMessage(), "nothing of what was said is in the log"


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (CALL, {"reason": "stop"}),
        ("It is sunny.", {}),
        ("I would call get_weather.", {"tool_choice": "none"}),
        (ABOUT_A_RESULT, {"messages": with_history('{"city": "Paris"}')["messages"]}),
        ("Thought.</think>It is sunny.", {"model": "thinker"}),
        ("Thought. " * 60 + "</think>It is sunny. " + "Very. " * 80, {"model": "thinker"}),
    ],
)
def test_of_an_answer_as_it_should_be_nothing_is_said(
    text: str, fields: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene()
    scene.answer(text, **fields)
    assert scene.found == {}
    assert not caplog.records


def test_what_is_said_of_a_result_is_known_for_that_in_a_conversation_that_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its beginning is known then, and isn't read again."""
    scene = Scene()
    for number in range(1, 4):
        scene.answer(ABOUT_A_RESULT, messages=with_history(*['{"city": "Paris"}'] * number)["messages"])
        scene.now += LOOK
    assert scene.found == {}
    assert not caplog.records
    messages = [*with_history('{"city": "Paris"}')["messages"], {"role": "user", "content": "And now?"}]
    scene.answer(ABOUT_A_RESULT, messages=messages)
    assert scene.found == {"call_as_prose": 1}


def test_the_log_says_it_once_an_hour_and_texts_are_looked_at_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    for _ in range(5):
        scene.answer(PYTHON)
    assert (scene.found, len(caplog.records)) == ({"other_format": 1}, 1)
    scene.now += LOOK
    scene.answer(PYTHON)
    assert (scene.found, len(caplog.records)) == ({"other_format": 2}, 1)
    scene.now += AGAIN
    scene.answer(PYTHON)
    scene.answer("It is", reason="length")
    assert scene.found == {"other_format": 3, "length": 1}
    assert len(caplog.records) == 3


def test_beside_a_loop_it_is_told_when_it_was_found(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        running = Scene(in_a_thread)
        running.answer(PYTHON)
        async with asyncio.timeout(20):
            while not running.found:  # noqa: ASYNC110 - it has no other sign
                await asyncio.sleep(0.005)
        assert running.found == {"other_format": 1}

    asyncio.run(scene())
    assert len(caplog.records) == 1
