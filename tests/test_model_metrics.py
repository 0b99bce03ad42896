"""What is counted of models' answers: their times, tokens and calls, and that no client's word becomes a label."""

from __future__ import annotations

import pickle
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from extproc.config import Config, parse
from extproc.exchange.context import ExchangeContext
from extproc.exchange.machine import Exchange
from extproc.observability.exposition import pieces_of
from extproc.observability.model_metrics import Passed
from extproc.observability.telemetry import Telemetry
from extproc.toolcalls.repairs import REPAIRS
from extproc.turn.asked import Asked
from extproc.turn.call_quality import CallQuality, CallRate
from extproc.turn.tally import Tally, Violations
from tests.test_answer import CALL, completion, stream
from tests.test_exchange import (
    CHAT,
    EVENTS,
    JSON,
    WITH_TOOLS,
    asked,
    request_body,
    request_headers,
    response_body,
    response_headers,
)
from tests.test_exchange_reports import INVALID
from tests.test_request import CONFIG, MESSAGES

OURS = {"extproc_mode": "prompt", "extproc_format": "hermes", "extproc_dialect": "chat"}
OF_MODEL = {"gen_ai_operation_name": "chat", "gen_ai_provider_name": "vllm", "gen_ai_request_model": "coder"} | OURS
COUNTED = {"model": "coder", "mode": "prompt", "format": "hermes"}
UUID = "0f9c1d1e-7d2b-4f0a-9a3e-1f2e3d4c5b6a"
TRACE = "0af7651916cd43dd8448eb211c80319c"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Watched:
    """An exchange, whose time is ours."""

    def __init__(self, fields: Any, config: Config = CONFIG) -> None:
        self.clock = Clock()
        self.telemetry = Telemetry(config, clock=self.clock)
        self.exchange = asked(fields, self.telemetry, config)

    def after(self, seconds: float, message: Any) -> None:
        self.clock.now += seconds
        self.exchange.receive(message)

    def value(self, name: str, **labels: str) -> float | None:
        return self.telemetry.registry.get_sample_value(name, labels)


class TestTimes:
    def test_of_a_stream(self) -> None:
        watched = Watched({**WITH_TOOLS, "stream": True})
        watched.after(0.5, response_headers(EVENTS))
        data = stream([CALL])
        cut = data.index(b"\n\n") + 2
        watched.after(1.0, response_body(data[:cut], end_of_stream=False))
        watched.after(1.0, response_body(data[cut:-20], end_of_stream=False))
        watched.after(2.5, response_body(data[-20:]))
        watched.exchange.close()
        assert watched.value("gen_ai_server_time_to_first_token_seconds_sum", **OF_MODEL) == 1.5
        assert watched.value("gen_ai_server_time_per_output_token_seconds_sum", **OF_MODEL) == 3.5 / 7  # of 8 tokens
        done = watched.value("gen_ai_client_operation_duration_seconds_sum", **OF_MODEL, error_type="")
        assert done == 5.0

    def test_of_a_whole_answer_which_has_no_first_token(self) -> None:
        watched = Watched(WITH_TOOLS)
        watched.after(1.0, response_headers(JSON))
        watched.after(1.0, response_body(completion(CALL)))
        assert watched.value("gen_ai_client_operation_duration_seconds_sum", **OF_MODEL, error_type="") == 2.0
        assert watched.value("gen_ai_server_time_to_first_token_seconds_sum", **OF_MODEL) is None

    def test_of_one_that_nobody_waited_for(self) -> None:
        watched = Watched({**WITH_TOOLS, "stream": True})
        watched.after(1.0, response_headers(EVENTS))
        watched.exchange.close()
        watched.exchange.close()
        name = "gen_ai_client_operation_duration_seconds_count"
        assert watched.value(name, **OF_MODEL, error_type="unfinished") == 1

    def test_of_an_error(self) -> None:
        watched = Watched(WITH_TOOLS)
        watched.after(1.0, response_headers(JSON, status=429))
        watched.after(1.0, response_body(b"{}"))
        watched.exchange.close()
        found = watched.value(
            "gen_ai_client_operation_duration_seconds_sum", **OF_MODEL, error_type="rate_limit_exceeded"
        )
        assert found == 2.0

    def test_what_passes_by_is_left_to_envoys_log(self) -> None:
        watched = Watched(MESSAGES)
        watched.after(1.0, response_headers(JSON))
        watched.exchange.close()
        assert b"gen_ai_client_operation_duration_seconds_count" not in watched.telemetry.page()


class TestCalls:
    def test_by_what_was_wrong_with_them(self) -> None:
        watched = Watched(WITH_TOOLS)
        watched.exchange.receive(response_headers(JSON))
        watched.exchange.receive(response_body(completion(CALL + INVALID + INVALID)))
        found = {
            result: watched.value("extproc_calls_total", **COUNTED, result=result)
            for result in ("valid", "unknown_tool_call", "cut_off", "invalid_tool_arguments")
        }
        assert found == {"valid": 1, "unknown_tool_call": 2, "cut_off": 0, "invalid_tool_arguments": 0}
        assert watched.value("extproc_tool_answers_total", **COUNTED, called="yes") == 1
        assert watched.value("extproc_finish_reasons_total", **COUNTED, reason="tool_calls") == 1
        tokens = "gen_ai_client_token_usage_sum"
        assert watched.value(tokens, **OF_MODEL, gen_ai_token_type="input") == 42
        assert watched.value(tokens, **OF_MODEL, gen_ai_token_type="output") == 8

    def test_valid_ones_by_what_had_to_be_repaired(self) -> None:
        watched = Watched(WITH_TOOLS)
        watched.exchange.receive(response_headers(JSON))
        broken = (CALL.replace('"Zürich"', "'Zürich'"), CALL.replace('"city":', "city:"), INVALID.replace('"', "'"))
        assert CALL not in broken
        watched.exchange.receive(response_body(completion(CALL + "".join(broken))))
        found = {repair: watched.value("extproc_repaired_calls_total", **COUNTED, repair=repair) for repair in REPAIRS}
        assert found == {**dict.fromkeys(REPAIRS, 0), "quotes": 1, "words": 1}
        assert watched.value("extproc_calls_total", **COUNTED, result="valid") == 3

    def test_an_answer_in_words_to_a_request_that_offered_tools(self) -> None:
        watched = Watched(WITH_TOOLS)
        watched.exchange.receive(response_headers(JSON))
        watched.exchange.receive(response_body(completion("It is fine.")))
        assert watched.value("extproc_tool_answers_total", **COUNTED, called="no") == 1
        assert watched.value("extproc_tool_answers_total", **COUNTED, called="yes") == 0

    def test_a_tally_comes_back_from_another_process_as_it_was(self) -> None:
        tally = Tally(Violations(unknown_tool_call=2), 1, 0, ["stop"])
        tally.violations.first = "No."
        back = pickle.loads(pickle.dumps(tally))
        assert (back, back.violations.first, back.made) == (tally, "No.", 3)


class TestQuality:
    def test_it_is_the_rate_of_the_last_calls(self) -> None:
        quality = CallQuality(window=4)
        assert quality.rate("coder", "prompt").ratio is None
        quality.learn("coder", "prompt", Tally(Violations(unknown_tool_call=1), valid=3))
        assert quality.rate("coder", "prompt") == CallRate(3, 4)
        quality.learn("coder", "prompt", Tally(valid=1))
        assert quality.rate("coder", "prompt").ratio == 0.75
        quality.learn("coder", "prompt", Tally(Violations(missing_tool_call=1)))
        assert quality.rate("coder", "prompt").valid == 2
        assert quality.rate("coder", "native").calls == 0

    def test_what_calls_nothing_teaches_nothing(self) -> None:
        quality = CallQuality()
        quality.learn("coder", "prompt", Tally(Violations(invalid_response_text=1), cut_off=1))
        assert quality.rates() == {}

    @given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9))), st.integers(1, 20))
    def test_it_never_remembers_more_than_its_window(self, answers: list[tuple[int, int]], window: int) -> None:
        quality = CallQuality(window)
        calls: list[bool] = []
        for valid, invalid in answers:
            quality.learn("coder", "prompt", Tally(Violations({"unknown_tool_call": invalid}), valid=valid))
            calls += [True] * valid + [False] * invalid
        last = calls[-window:]
        assert quality.rate("coder", "prompt") == CallRate(sum(last), len(last))

    def test_an_exchange_teaches_it(self) -> None:
        watched = Watched(WITH_TOOLS)
        watched.exchange.receive(response_headers(JSON))
        watched.exchange.receive(response_body(completion(CALL + INVALID)))
        assert watched.exchange.context.quality.rate("coder", "prompt") == CallRate(1, 2)


class TestExemplars:
    @pytest.mark.parametrize(
        ("headers", "exemplar"),
        [
            ({"x-request-id": UUID}, {"request_id": UUID}),
            ({"x-request-id": UUID, "traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}, {"trace_id": TRACE}),
            ({"x-request-id": UUID, "traceparent": f"00-{TRACE}-b7ad6b7169203331-00"}, {"request_id": UUID}),
            ({"x-request-id": "please tell nobody"}, None),
            ({"x-request-id": "x", "traceparent": "00-secret-words-01"}, None),
        ],
    )
    def test_one_is_shown_to_who_asks_for_openmetrics(
        self, headers: dict[str, str], exemplar: dict[str, str] | None
    ) -> None:
        telemetry = Telemetry(CONFIG)
        exchange = Exchange(ExchangeContext(CONFIG), telemetry)
        exchange.receive(request_headers(CHAT | headers))
        exchange.receive(request_body(WITH_TOOLS))
        exchange.receive(response_headers(JSON))
        exchange.receive(response_body(completion(CALL)))
        page = b"".join(pieces_of(telemetry.metrics, openmetrics=True)).decode()
        shown = {
            tuple(sample.exemplar.labels.items())
            for family in text_string_to_metric_families(page)  # type: ignore[no-untyped-call]
            for sample in family.samples
            if sample.exemplar is not None
        }
        assert shown == ({tuple(exemplar.items())} if exemplar else set())
        assert "tell nobody" not in page
        assert "secret" not in page


class TestLabels:
    """Whoever says what, the words on the page are known beforehand."""

    @given(st.data())
    def test_no_clients_or_backends_word_becomes_a_label(self, data: st.DataObject) -> None:
        word = "w0rd" + data.draw(st.text(max_size=10))
        telemetry = Telemetry(CONFIG)
        exchange = Exchange(ExchangeContext(CONFIG), telemetry)
        exchange.receive(request_headers(CHAT | {"x-request-id": "w0rd", "traceparent": "w0rd", "user-agent": "w0rd"}))
        fields: dict[str, Any] = dict(WITH_TOOLS) | {"user": word, word: 1, "stream": data.draw(st.booleans())}
        if data.draw(st.booleans()):
            fields["model"] = word
        exchange.receive(request_body(fields))
        answer = orjson.loads(completion(CALL.replace("get_weather", "w0rd")))
        answer["choices"][0]["finish_reason"] = data.draw(st.sampled_from(["stop", word]))
        answer["usage"] = {word: 3, "prompt_tokens": data.draw(st.sampled_from([3, word]))}
        status = data.draw(st.sampled_from([200, 418]))
        body = orjson.dumps(answer if status == 200 else {"error": {"message": word, "code": word, "type": word}})
        if exchange.phase.name == "RESPONSE_HEADERS":
            exchange.receive(response_headers(JSON, status=status))
            exchange.receive(response_body(body))
        exchange.close()
        assert b"w0rd" not in b"".join(pieces_of(telemetry.metrics, openmetrics=True))

    @given(st.data())
    def test_what_envoys_log_tells_of_nobodys_model_counts_for_nothing(self, data: st.DataObject) -> None:
        good = ["coder", "prompt", "hermes", "chat", "chat"]
        place = data.draw(st.integers(0, len(good) - 1))
        told = [*good[:place], "w0rd" + data.draw(st.text(max_size=10)), *good[place + 1 :]]
        telemetry = Telemetry(CONFIG)
        before = telemetry.models._ended.collect()
        model, mode, format_, dialect, operation = told
        telemetry.models.logged(
            Passed(model, mode, format_, dialect, operation, True, False, "complete", 200, 1.0, 0.1, 5, 5)
        )
        assert telemetry.models._ended.collect() == before
        assert b"w0rd" not in telemetry.page()

    def test_a_format_that_isnt_read_is_no_label(self) -> None:
        config = parse('models: [{name: n, backend: q, tools: native}]\nbackends: [{name: q, address: "127.0.0.1:1"}]')
        telemetry = Telemetry(config)
        labels = {"model": "n", "mode": "native", "format": "", "result": "valid"}
        assert telemetry.registry.get_sample_value("extproc_calls_total", labels) == 0
        telemetry.models.ended("n", Asked("native", "", "chat"), 1.0, "", None)
