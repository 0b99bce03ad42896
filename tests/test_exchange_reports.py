"""What an exchange tells besides its answer: a header with what was dropped, metrics, and fields of the access log."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from extproc.config import Config, parse
from extproc.exchange.phases import Phase
from extproc.names import DROPPED_HEADER, REPLY_HEADER
from extproc.observability.telemetry import Telemetry
from tests.test_answer import CALL, completion, recorded, stream
from tests.test_exchange import (
    EVENTS,
    JSON,
    WITH_TOOLS,
    asked,
    metadata,
    only,
    request_body,
    request_headers,
    response_body,
    response_headers,
    said,
    set_fields,
    started,
)
from tests.test_request import CONFIG, MESSAGES

INVALID = '<tool_call>\n{"name": "get_whether", "arguments": {}}\n</tool_call>'
"""A call of a tool that nobody offered."""
DROPPED = {"zoo": 1, "store": True}
NAMED = {DROPPED_HEADER: "store, zoo"}


class TestDropped:
    """What the backend doesn't get is named on every answer that comes of the request."""

    def test_on_an_answer_that_passes_by(self) -> None:
        exchange = asked({**MESSAGES, **DROPPED})
        reply = only(exchange.receive(response_headers(EVENTS)))
        assert set_fields(reply.response_headers.response.header_mutation) == NAMED
        assert not reply.HasField("mode_override")
        assert exchange.phase is Phase.PASSED_BY

    @pytest.mark.parametrize("kind", [EVENTS, JSON], ids=["stream", "whole"])
    def test_on_an_answer_that_is_rewritten(self, kind: dict[str, str]) -> None:
        reply = only(asked({**WITH_TOOLS, **DROPPED}).receive(response_headers(kind)))
        mutation = reply.response_headers.response.header_mutation
        assert set_fields(mutation) == NAMED
        assert list(mutation.remove_headers) == ["content-length", "content-encoding"]

    def test_on_a_backends_error(self) -> None:
        reply = only(asked({**MESSAGES, **DROPPED}).receive(response_headers(JSON, status=429)))
        assert set_fields(reply.response_headers.response.header_mutation) == NAMED

    def test_on_an_error_that_takes_the_answers_place(self) -> None:
        exchange = asked({**WITH_TOOLS, **DROPPED})
        exchange.receive(response_headers(JSON))
        immediate = only(exchange.receive(response_body(b"nonsense"))).immediate_response
        assert immediate.status.code == 502
        assert set_fields(immediate.headers) == {"content-type": "application/json", **NAMED}

    def test_never_on_a_refusal(self) -> None:
        exchange = started()
        exchange.receive(request_headers())
        immediate = only(exchange.receive(request_body({"model": "coder", **DROPPED}))).immediate_response
        assert immediate.status.code == 400
        assert set_fields(immediate.headers) == {"content-type": "application/json"}

    @pytest.mark.parametrize(
        ("names", "shown"),
        [
            (["b", "a"], "a, b"),
            (["x.y", "x_Y-1", "n" * 64], f"{'n' * 64}, x.y, x_Y-1"),
            (["a\r\nset-cookie: x=y", "a, b", "é", "", "+7 more", "n" * 65], "+6 more"),
            (["plain", "not plain"], "plain, +1 more"),
            (
                [f"n{number:03}" for number in range(120)],
                ", ".join(f"n{number:03}" for number in range(20)) + ", +100 more",
            ),
        ],
    )
    def test_only_plain_names_and_only_some(self, names: list[str], shown: str) -> None:
        reply = only(asked(MESSAGES | dict.fromkeys(names, 1)).receive(response_headers(JSON)))
        assert set_fields(reply.response_headers.response.header_mutation) == {DROPPED_HEADER: shown}

    def test_the_access_log_gets_their_number(self) -> None:
        exchange = started()
        exchange.receive(request_headers())
        reply = only(exchange.receive(request_body({**MESSAGES, **DROPPED})))
        assert metadata(reply)["dropped"] == 2


OF_MODELS = ("extproc_calls_", "extproc_tool_answers_", "extproc_finish_reasons_", "extproc_forced_")
"""What tests/test_model_metrics.py looks at."""


class Counted:
    """What an exchange has added to the metrics, by name and labels."""

    def __init__(self, config: Config = CONFIG) -> None:
        self.telemetry = Telemetry(config)

    def all(self) -> dict[str, float]:
        lines = self.telemetry.page().decode().splitlines()
        of_the_processor = ("#", "extproc_build_info", "extproc_config_", "extproc_api_keys_", "extproc_host_")
        of_all = (*of_the_processor, "process_", "python_", "gen_ai_", *OF_MODELS)
        samples = (line.rpartition(" ") for line in lines if not line.startswith(of_all))
        return {name.removeprefix("extproc_"): float(value) for name, _, value in samples if float(value)}


def with_setting(setting: str) -> Config:
    """A configuration whose model has one more setting."""
    return parse(f"""
models: [{{name: coder, backend: qwen, tools: prompt, {setting}}}]
backends: [{{name: qwen, address: "127.0.0.1:8000"}}]
""")


class TestTelemetry:
    def test_a_request_without_tools_is_counted_and_what_it_lost(self) -> None:
        counted = Counted()
        exchange = asked({**MESSAGES, "store": True, "zoo": 1}, counted.telemetry)
        exchange.receive(response_headers(EVENTS))
        exchange.close()
        assert counted.all() == {
            'requests_total{model="coder"}': 1,
            'dropped_parameters_total{parameter="store"}': 1,
            'dropped_parameters_total{parameter="other"}': 1,
        }

    @pytest.mark.parametrize("size", [10, 100_000])
    def test_the_tokens_and_the_faults_of_a_stream(self, size: int) -> None:
        counted = Counted()
        exchange = asked({**WITH_TOOLS, "stream": True}, counted.telemetry)
        exchange.receive(response_headers(EVENTS))
        data = stream([CALL, INVALID])
        replies = [
            reply
            for at in range(0, len(data), size)
            for reply in exchange.receive(response_body(data[at : at + size], end_of_stream=False))
        ]
        replies += exchange.receive(response_body(b""))
        exchange.close()
        assert counted.all() == {
            'requests_total{model="coder"}': 1,
            'requests_with_tools_total{model="coder"}': 1,
            'invalid_calls_total{fault="unknown_tool_call",model="coder"}': 1,
            'tokens_total{kind="prompt",model="coder"}': 42,
            'tokens_total{kind="completion",model="coder"}': 8,
        }
        (told,) = filter(None, map(metadata, map(said, replies)))
        assert told["invalid_calls"] == 1

    def test_the_tokens_and_the_faults_of_a_whole_answer(self) -> None:
        counted = Counted()
        exchange = asked(WITH_TOOLS, counted.telemetry)
        exchange.receive(response_headers(JSON))
        reply = only(exchange.receive(response_body(completion(CALL + INVALID + INVALID))))
        exchange.close()
        assert counted.all() == {
            'requests_total{model="coder"}': 1,
            'requests_with_tools_total{model="coder"}': 1,
            'invalid_calls_total{fault="unknown_tool_call",model="coder"}': 2,
            'tokens_total{kind="prompt",model="coder"}': 42,
            'tokens_total{kind="completion",model="coder"}': 8,
        }
        assert metadata(reply)["invalid_calls"] == 2

    def test_a_call_that_makes_the_whole_answer_an_error(self) -> None:
        config = with_setting("invalid_calls: error")
        counted = Counted(config)
        exchange = asked(WITH_TOOLS, counted.telemetry, config)
        exchange.receive(response_headers(JSON))
        reply = only(exchange.receive(response_body(completion(INVALID))))
        assert reply.immediate_response.status.code == 502
        assert metadata(reply) == {"error": "unknown_tool_call", "calls": 1, "invalid_calls": 1}
        assert counted.all() == {
            'requests_total{model="coder"}': 1,
            'requests_with_tools_total{model="coder"}': 1,
            'invalid_calls_total{fault="unknown_tool_call",model="coder"}': 1,
            'backend_errors_total{model="coder",status="502"}': 1,
        }

    def test_arguments_that_were_repaired(self) -> None:
        counted = Counted()
        function = {"name": "get_weather", "arguments": '{"city": "Par'}
        call = {"id": "call_1", "type": "function", "function": function}
        history = [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": ""},
        ]
        asked({**WITH_TOOLS, "messages": [*MESSAGES["messages"], *history]}, counted.telemetry)
        assert counted.all() == {
            'requests_total{model="coder"}': 1,
            'requests_with_tools_total{model="coder"}': 1,
            'repaired_arguments_total{model="coder"}': 1,
        }

    @pytest.mark.parametrize(
        ("body", "code"),
        [
            (b"{", "invalid_json"),
            ({**MESSAGES, "model": "gpt-4"}, "model_not_found"),
            ({"model": "coder"}, "missing_required_parameter"),
        ],
    )
    def test_a_refused_request(self, body: Any, code: str) -> None:
        counted = Counted()
        exchange = started(counted.telemetry)
        exchange.receive(request_headers())
        exchange.receive(request_body(body))
        exchange.close()
        assert counted.all() == {f'refused_requests_total{{code="{code}"}}': 1}

    @pytest.mark.parametrize("fields", [MESSAGES, WITH_TOOLS], ids=["without tools", "with tools"])
    def test_a_backends_error(self, fields: Any) -> None:
        counted = Counted()
        exchange = asked(fields, counted.telemetry)
        exchange.receive(response_headers(JSON, status=400))
        exchange.receive(response_body(recorded("err_too_long")))
        exchange.close()
        with_tools = {'requests_with_tools_total{model="coder"}': 1} if "tools" in fields else {}
        assert counted.all() == with_tools | {
            'requests_total{model="coder"}': 1,
            'backend_errors_total{model="coder",status="400"}': 1,
        }

    def test_envoys_own_refusal_of_a_request_that_is_still_arriving(self) -> None:
        counted = Counted()
        exchange = started(counted.telemetry)
        exchange.receive(request_headers())
        exchange.receive(response_headers(JSON, status=413))
        exchange.receive(response_body(b'{"error": {"message": "Too large.", "code": "request_too_large"}}'))
        exchange.close()
        assert counted.all() == {'refused_requests_total{code="request_too_large"}': 1}

    @pytest.mark.parametrize(
        ("status", "code"), [(429, "rate_limit_exceeded"), (503, "rate_limits_unavailable")], ids=["used up", "away"]
    )
    def test_envoys_own_refusal_by_a_limit_behind_the_processor(self, status: int, code: str) -> None:
        counted = Counted()
        exchange = asked(MESSAGES, counted.telemetry)
        exchange.receive(response_headers({**JSON, REPLY_HEADER: code}, status=status))
        error = {"message": "A limit is reached.", "type": "tokens", "param": None, "code": code}
        exchange.receive(response_body(orjson.dumps({"error": error})))
        exchange.close()
        assert counted.all() == {
            'requests_total{model="coder"}': 1,
            f'refused_requests_total{{code="{code}"}}': 1,
        }

    def test_a_broken_stream(self) -> None:
        counted = Counted()
        exchange = asked(WITH_TOOLS, counted.telemetry)
        exchange.receive(response_headers(EVENTS))
        exchange.receive(response_body(stream(["Hi"], None, usage=False)))
        exchange.close()
        assert counted.all() == {
            'requests_total{model="coder"}': 1,
            'requests_with_tools_total{model="coder"}': 1,
            'stream_errors_total{code="bad_gateway",model="coder"}': 1,
        }

    def test_a_stream_that_is_abandoned_counts_as_far_as_it_came(self) -> None:
        """A client that got an error event is gone before the backend's stream has ended."""
        counted = Counted()
        exchange = asked(WITH_TOOLS, counted.telemetry)
        exchange.receive(response_headers(EVENTS))
        event = b'data: {"error": {"message": "No memory.", "type": "InternalServerError", "code": 500}}\n\n'
        exchange.receive(response_body(event, end_of_stream=False))
        exchange.close()
        exchange.close()
        assert counted.all() == {
            'requests_total{model="coder"}': 1,
            'requests_with_tools_total{model="coder"}': 1,
            'stream_errors_total{code="500",model="coder"}': 1,
            'withheld_error_texts_total{model="coder"}': 1,
        }

    def test_what_came_of_a_stream_is_told_with_its_last_event_and_counted_once(self) -> None:
        """Many clients leave then, and Envoy ends the exchange without the end of the body."""
        counted = Counted()
        exchange = asked({**WITH_TOOLS, "stream": True}, counted.telemetry)
        exchange.receive(response_headers(EVENTS))
        begin, _, end = stream([CALL]).partition(b"data: [DONE]")
        early = exchange.receive(response_body(begin, end_of_stream=False))
        assert not any(map(metadata, map(said, early)))
        (last,) = map(said, exchange.receive(response_body(b"data: [DONE]" + end, end_of_stream=False)))
        assert metadata(last)["finish_reason"] == "tool_calls"
        assert metadata(last)["completion_tokens"] == 8
        exchange.close()
        assert counted.all() == {
            'requests_total{model="coder"}': 1,
            'requests_with_tools_total{model="coder"}': 1,
            'tokens_total{kind="prompt",model="coder"}': 42,
            'tokens_total{kind="completion",model="coder"}': 8,
        }

    def test_a_client_that_leaves_is_counted_by_what_it_waited_for(self) -> None:
        counted = Counted()
        asked(WITH_TOOLS, counted.telemetry).close()
        unread = started(counted.telemetry)
        unread.receive(request_headers())
        unread.close()
        assert counted.all() == {
            'requests_total{model="coder"}': 1,
            'requests_with_tools_total{model="coder"}': 1,
            'unfinished_exchanges_total{phase="response_headers"}': 1,
            'unfinished_exchanges_total{phase="request_body"}': 1,
        }

    def test_other_paths_count_nothing(self) -> None:
        counted = Counted()
        exchange = started(counted.telemetry)
        exchange.receive(request_headers({":method": "GET", ":path": "/v1/models"}))
        exchange.close()
        assert counted.all() == {}
