"""Hosts whose Envoy isn't configured by us: what they can't be trusted with, and what they are told."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from extproc.config.recording import Recording
from extproc.exchange.context import ExchangeContext
from extproc.exchange.host import AT_ONCE, HEADLESS_STRIKES, LONG, MOST_HOSTS, STRIKES, TRY_AGAIN, Host, Hosts
from extproc.exchange.machine import Exchange, Inputs
from extproc.exchange.phases import Phase
from extproc.exchange.protocol import ProtocolError
from extproc.exchange.replies import LARGEST_PIECE
from extproc.observability.telemetry import Telemetry
from extproc.recording.difference import first_difference
from extproc.recording.document import Document
from extproc.recording.recorder import Recorder
from extproc.recording.replay import Cut, ReplayResult, replay
from extproc.wire import HttpTrailers, ProcessingMode, ProcessingRequest, ProcessingResponse
from tests.gateway import wait_until
from tests.test_answer import CALL, completion, stream
from tests.test_exchange import (
    CHAT,
    EVENTS,
    JSON,
    WITH_TOOLS,
    carried,
    only,
    request_body,
    request_headers,
    response_body,
    response_headers,
    set_fields,
)
from tests.test_request import CONFIG, MESSAGES

MARKUP = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>'


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def asked(host: Host | None, fields: Any = WITH_TOOLS, telemetry: Telemetry | None = None) -> Exchange:
    """An exchange whose request is on its way to the backend, or was refused."""
    exchange = Exchange(ExchangeContext(CONFIG), telemetry or Telemetry(CONFIG), host)
    exchange.receive(request_headers())
    exchange.receive(request_body(fields))
    return exchange


def refused(host: Host, fields: Any = WITH_TOOLS) -> ProcessingResponse | None:
    exchange = Exchange(ExchangeContext(CONFIG), Telemetry(CONFIG), host)
    exchange.receive(request_headers())
    reply = only(exchange.receive(request_body(fields)))
    return reply if reply.HasField("immediate_response") else None


def headers_of(reply: ProcessingResponse) -> dict[str, str]:
    return set_fields(reply.response_headers.response.header_mutation)


def whole(reply: ProcessingResponse) -> tuple[dict[str, str], bytes]:
    """Status and other fields, and the body, that the client gets in the end."""
    common = reply.response_body.response
    return set_fields(common.header_mutation), common.body_mutation.body


class TestAHostOfWhichNothingIsKnown:
    def test_sends_the_head_of_a_whole_answer_out_as_an_error_until_its_body_comes(self) -> None:
        exchange = asked(host := Host(Clock()))
        head = only(exchange.receive(response_headers(JSON)))
        assert headers_of(head)[":status"] == "502"
        assert head.mode_override.response_body_mode == ProcessingMode.BUFFERED
        fields, body = whole(only(exchange.receive(response_body(completion(CALL)))))
        assert fields[":status"] == "200"
        assert orjson.loads(body)["choices"][0]["message"]["tool_calls"]
        assert host.known

    def test_gets_a_stream_in_one_piece(self) -> None:
        exchange = asked(Host(Clock()))
        head = only(exchange.receive(response_headers(EVENTS)))
        assert headers_of(head)[":status"] == "502"
        assert head.mode_override.response_body_mode == ProcessingMode.BUFFERED
        assert exchange.idle_timeout is None, "all of it may take as long as it likes"
        *_, last = carried(exchange, response_body(stream([CALL])))
        fields, body = whole(last)
        assert fields[":status"] == "200"
        assert b'"tool_calls"' in body
        assert body.endswith(b"data: [DONE]\n\n")
        assert exchange.phase is Phase.ENDED

    def test_gets_what_was_compressed_as_it_says(self) -> None:
        for kind, said in ((EVENTS, stream([CALL])), (JSON, completion(CALL))):
            exchange = asked(Host(Clock()))
            head = only(exchange.receive(response_headers({**kind, "content-encoding": "gzip"})))
            removed = head.response_headers.response.header_mutation.remove_headers
            assert "content-encoding" not in removed, "an ignored override would make it unreadable"
            *_, last = carried(exchange, response_body(gzip.compress(said)))
            assert "content-encoding" in last.response_body.response.header_mutation.remove_headers
            assert b"tool_calls" in whole(last)[1]

    def test_gets_errors_as_errors(self) -> None:
        exchange = asked(Host(Clock()))
        head = only(exchange.receive(response_headers(JSON, status=404)))
        assert ":status" not in headers_of(head)
        fields, _ = whole(only(exchange.receive(response_body(b'{"message": "no such model"}'))))
        assert fields[":status"] == "404"

    def test_gets_trailers_behind_the_body(self) -> None:
        exchange = asked(Host(Clock()))
        exchange.receive(response_headers(EVENTS))
        carried(exchange, response_body(stream([CALL]), end_of_stream=False))
        trailers = ProcessingRequest(response_trailers=HttpTrailers())
        assert only(exchange.receive(trailers)).HasField("response_trailers")

    def test_answers_without_tools_pass_as_ever(self) -> None:
        exchange = asked(Host(Clock()), MESSAGES)
        head = only(exchange.receive(response_headers(JSON)))
        assert not headers_of(head)
        assert exchange.phase is Phase.PASSED_BY


class TestAHostThatFollows:
    def test_gets_streams_as_streams(self) -> None:
        host = Host(Clock())
        host.followed()
        exchange = asked(host)
        head = only(exchange.receive(response_headers(EVENTS)))
        assert ":status" not in headers_of(head)
        assert head.mode_override.response_body_mode == ProcessingMode.FULL_DUPLEX_STREAMED

    def test_is_guarded_again_when_clients_leave_and_not_condemned_for_it(self) -> None:
        clock = Clock()
        host = Host(clock)
        for _ in range(10):
            host.followed()
            host.ended_before_body(0.0)
            assert host.known
        for _ in range(20):
            host.ended_before_body(0.0)
        assert not host.known, "it may have been configured otherwise"
        assert not host.ignores, "or somebody may only want that to be believed"
        clock.now += LONG
        host.ended_before_body(0.0)
        assert host.ignores
        host.followed()
        assert not host.ignores

    def test_gets_the_heads_of_whole_answers_as_before(self) -> None:
        host = Host(Clock())
        host.followed()
        exchange = asked(host)
        assert headers_of(only(exchange.receive(response_headers(JSON))))[":status"] == "502"
        assert whole(only(exchange.receive(response_body(completion(CALL)))))[0][":status"] == "200"


@pytest.mark.parametrize("kind", [JSON, EVENTS])
def test_a_host_that_ignores_overrides_is_found_out(kind: dict[str, str]) -> None:
    clock = Clock()
    host = Host(clock)
    for strike in range(STRIKES):
        assert refused(host) is None
        exchange = asked(host)
        exchange.receive(response_headers(kind))
        assert host.ignores is False
        exchange.close(since_reply=0.01)
        assert exchange.ignored_override, strike
    assert host.ignores
    reply = refused(host)
    assert reply is not None
    assert reply.immediate_response.status.code == 503
    assert orjson.loads(reply.immediate_response.body)["error"]["code"] == "host_ignores_overrides"
    assert refused(host, MESSAGES) is None, "without tools nothing is to be rewritten"
    clock.now += TRY_AGAIN
    assert refused(host) is None, "it may have been fixed"
    assert refused(host) is not None
    host.followed()
    assert refused(host) is None


def test_a_host_that_shows_no_heads_is_found_out_however_long_models_take() -> None:
    clock = Clock()
    host = Host(clock)
    for _ in range(HEADLESS_STRIKES):
        exchange = asked(host)
        exchange.close(since_reply=30.0)
        assert exchange.ignored_override
    assert refused(host) is not None
    clock.now += 10 * TRY_AGAIN
    assert refused(host) is not None, "nothing would guard the answer"
    asked(host, MESSAGES).receive(response_headers(JSON))
    assert refused(host) is None, "a head was shown"


def test_a_host_that_shows_heads_may_end_calls_before_them() -> None:
    host = Host(Clock())
    asked(host, MESSAGES).receive(response_headers(JSON))
    for _ in range(10):
        exchange = asked(host)
        exchange.close(since_reply=0.0)
        assert not exchange.ignored_override
    assert not host.ignores


def test_each_host_is_judged_by_what_it_does_itself() -> None:
    hosts = Hosts(Clock())
    bad, good = hosts.of("ipv4:10.0.0.1:40001"), hosts.of("ipv4:10.0.0.2:40001")
    for _ in range(STRIKES):
        bad.ended_before_body(0.0)
        good.followed()
    assert hosts.of("ipv4:10.0.0.1:50001").ignores
    assert hosts.of("ipv4:10.0.0.2:50001").known
    assert hosts.any_ignores
    for number in range(MOST_HOSTS):
        hosts.of(f"ipv6:[::{number:x}]:1")
    assert not hosts.any_ignores, "it was heard of longest ago"
    assert hosts.of("unix:") is hosts.of("unix:")


@pytest.mark.parametrize("kind", [JSON, EVENTS])
def test_trailers_in_the_place_of_an_answers_body_are_an_empty_answer(kind: dict[str, str]) -> None:
    exchange = asked(Host(Clock()))
    exchange.receive(response_headers(kind))
    reply = only(exchange.receive(ProcessingRequest(response_trailers=HttpTrailers())))
    assert reply.immediate_response.status.code == 502
    assert b"it is empty" in reply.immediate_response.body


def test_what_ends_later_is_no_sign() -> None:
    host = Host(Clock())
    for _ in range(10):
        exchange = asked(host)
        exchange.receive(response_headers(JSON))
        exchange.close(since_reply=AT_ONCE + 0.1)
        assert not exchange.ignored_override
    for _ in range(10):
        asked(host, MESSAGES).close(since_reply=0.0)
    assert not host.ignores, "to those nothing is to be done"


def test_what_ends_amid_its_body_is_no_sign() -> None:
    host = Host(Clock())
    host.followed()
    for _ in range(10):
        exchange = asked(host)
        exchange.receive(response_headers(EVENTS))
        exchange.receive(response_body(stream([CALL])[:100], end_of_stream=False))
        exchange.close(since_reply=0.0)
        assert not exchange.ignored_override


@pytest.mark.parametrize("missing", [":path", ":method"])
def test_hidden_pseudo_headers_are_named(missing: str) -> None:
    exchange = Exchange(ExchangeContext(CONFIG), Telemetry(CONFIG))
    fields = {name: value for name, value in CHAT.items() if name != missing}
    with pytest.raises(ProtocolError, match="forward_rules"):
        exchange.receive(request_headers(fields))


def test_what_protocol_config_tells_is_refused_at_once() -> None:
    message = request_headers()
    message.protocol_config.send_body_without_waiting_for_header_response = True
    with pytest.raises(ProtocolError, match="send_body_without_waiting"):
        Exchange(ExchangeContext(CONFIG), Telemetry(CONFIG)).receive(message)
    message = request_headers()
    message.protocol_config.request_body_mode = 77  # type: ignore[assignment]
    with pytest.raises(ProtocolError, match="unknown mode 77"):
        Exchange(ExchangeContext(CONFIG), Telemetry(CONFIG)).receive(message)


def test_an_older_hosts_body_has_to_come_whole() -> None:
    def begun() -> Exchange:
        exchange = Exchange(ExchangeContext(CONFIG), Telemetry(CONFIG))
        message = request_headers()
        message.ClearField("protocol_config")
        exchange.receive(message)
        return exchange

    assert only(begun().receive(request_body(WITH_TOOLS))).HasField("request_body")
    piece = request_body(b'{"model"')
    piece.request_body.end_of_stream = False
    with pytest.raises(ProtocolError, match="request_body_mode BUFFERED"):
        begun().receive(piece)


def test_an_observer_is_left_alone() -> None:
    telemetry = Telemetry(CONFIG)
    exchange = Exchange(ExchangeContext(CONFIG), telemetry)
    message = request_headers()
    message.observability_mode = True
    assert exchange.receive(message) == []
    assert exchange.phase is Phase.PASSED_BY
    assert exchange.observed
    assert b'extproc_aborted_exchanges_total{reason="observability_mode"} 1.0' in telemetry.page()


def test_trailers_in_the_place_of_a_body_are_no_body() -> None:
    exchange = Exchange(ExchangeContext(CONFIG), Telemetry(CONFIG))
    exchange.receive(request_headers())
    reply = only(exchange.receive(ProcessingRequest(request_trailers=HttpTrailers())))
    assert reply.immediate_response.status.code == 400
    assert b"has no body" in reply.immediate_response.body


@pytest.mark.parametrize(("status", "code"), [(413, "request_too_large"), (408, "request_timeout"), (503, None)])
def test_a_hosts_own_answers_are_errors_of_openais_kind(status: int, code: str | None) -> None:
    exchange = Exchange(ExchangeContext(CONFIG), Telemetry(CONFIG), Host(Clock()))
    exchange.receive(request_headers())
    exchange.receive(response_headers({"content-type": "text/plain"}, status=status))
    fields, body = whole(only(exchange.receive(response_body(b"Payload Too Large"))))
    assert fields[":status"] == str(status)
    assert fields["content-type"] == "application/json"
    error = orjson.loads(body)["error"]
    assert "backend answered" not in error["message"]
    assert code is None or error["code"] == code


@pytest.mark.parametrize("status", ["", "abc", "20", "2000", "٢٠٠"])
def test_a_status_that_is_none_is_the_backends_fault(status: str) -> None:
    exchange = asked(None)
    message = response_headers({**JSON, ":status": status})
    reply = only(exchange.receive(message))
    assert reply.immediate_response.status.code == 502
    assert b"valid HTTP status" in reply.immediate_response.body


@pytest.mark.parametrize("length", ["abc", "-1", "9" * 5000, "1e3", ""])
def test_an_odd_content_length_is_none(length: str) -> None:
    exchange = asked(None)
    head = only(exchange.receive(response_headers({**JSON, "content-length": length})))
    assert "content-length" in head.response_headers.response.header_mutation.remove_headers
    fields, _ = whole(only(exchange.receive(response_body(completion(CALL)))))
    assert fields["content-length"].isdecimal()
    exchange = Exchange(ExchangeContext(CONFIG), Telemetry(CONFIG))
    exchange.receive(request_headers({**CHAT, "content-length": length}))
    assert exchange.phase is Phase.REQUEST_BODY


def test_a_media_type_is_compared_as_a_whole() -> None:
    reply = only(asked(None).receive(response_headers({"content-type": "text/event-streamx"})))
    assert reply.immediate_response.status.code == 502
    exchange = asked(None)
    exchange.receive(response_headers({"content-type": "Text/Event-Stream ; charset=utf-8"}))
    assert exchange.phase is Phase.RESPONSE_STREAM


def test_pieces_of_a_stream_are_as_small_as_the_protocol_wants_them() -> None:
    exchange = asked(None)
    exchange.receive(response_headers(EVENTS))
    events = ["word " * 10_000] * 6
    replies = carried(exchange, response_body(stream(events)))
    pieces = [reply.response_body.response.body_mutation.streamed_response for reply in replies]
    assert max(len(piece.body) for piece in pieces) <= LARGEST_PIECE
    assert sum(len(piece.body) for piece in pieces) > sum(map(len, events))
    assert [piece.end_of_stream for piece in pieces] == [False] * (len(pieces) - 1) + [True]


def test_the_wait_for_the_first_event_has_its_own_end() -> None:
    exchange = asked(None)
    exchange.receive(response_headers(EVENTS))
    assert exchange.idle_timeout == CONFIG.limits.first_event_seconds
    piece = only(exchange.time_out()).response_body.response.body_mutation.streamed_response
    assert b"for 900 seconds" in piece.body
    assert piece.end_of_stream
    exchange = asked(None)
    exchange.receive(response_headers(EVENTS))
    exchange.receive(response_body(stream(["Hello"])[:-20], end_of_stream=False))
    assert exchange.idle_timeout == CONFIG.limits.silence_seconds


def recorded(host: Host, folder: Path, answer: Callable[[Inputs], object]) -> Document:
    exchange = Exchange(ExchangeContext(CONFIG), Telemetry(CONFIG), host)
    inputs = Recorder(Recording(directory=folder)).record(exchange)
    inputs.receive(request_headers())
    inputs.receive(request_body(WITH_TOOLS))
    answer(inputs)
    inputs.close()
    wait_until(lambda: list(folder.glob("*.json")))
    (path,) = folder.glob("*.json")
    return Document.read(path.read_bytes())


def streamed_whole(exchange: Inputs) -> None:
    exchange.receive(response_headers(EVENTS))
    carried(exchange, response_body(stream([CALL])))


def failed(exchange: Inputs) -> None:
    exchange.receive(response_headers(JSON, status=400))
    exchange.receive(response_body(b'{"message": "too long"}'))


@pytest.mark.parametrize("answer", [streamed_whole, failed])
@pytest.mark.parametrize("cut", ["recorded", "whole", 20])
def test_what_was_guarded_is_guarded_when_it_is_replayed(
    tmp_path: Path, answer: Callable[[Inputs], object], cut: Cut
) -> None:
    document = recorded(Host(Clock()), tmp_path, answer)
    assert first_difference(ReplayResult.recorded(document), replay(document, cut)) is None


def test_what_was_refused_for_its_host_is_refused_when_it_is_replayed(tmp_path: Path) -> None:
    host = Host(Clock())
    for _ in range(STRIKES):
        host.ended_before_body(0.0)
    document = recorded(host, tmp_path, lambda _: None)
    assert first_difference(ReplayResult.recorded(document), replay(document)) is None


def test_what_a_host_has_besides_us_is_read_past_us_and_not_sent_to_our_backends() -> None:
    exchange = Exchange(ExchangeContext(CONFIG), Telemetry(CONFIG), Host(Clock()))
    reply = only(exchange.receive(request_headers({":method": "GET", ":path": "/metrics"}, end_of_stream=True)))
    assert not reply.request_headers.response.HasField("header_mutation")
    assert exchange.phase is Phase.PASSED_BY


def test_a_path_that_was_rewritten_before_us_does_not_pass_unread() -> None:
    exchange = Exchange(ExchangeContext(CONFIG), Telemetry(CONFIG), Host(Clock()))
    reply = only(exchange.receive(request_headers({**CHAT, ":path": "/openai/v1/chat/completions"})))
    assert reply.immediate_response.status.code == 404
