"""The state machine of one exchange: Envoy's messages in, replies out, in every legal order."""

from __future__ import annotations

import gzip
from typing import Any

import orjson
import pytest
from google.protobuf.json_format import MessageToDict

from extproc.config import Config, Limits
from extproc.exchange.context import ExchangeContext
from extproc.exchange.effects import Breathe, Prepare, ReadCompletion
from extproc.exchange.machine import Exchange, Inputs
from extproc.exchange.phases import TRANSITIONS, Input, Phase
from extproc.exchange.protocol import ProtocolError
from extproc.exchange.replies import Replies
from extproc.names import BACKEND_HEADER
from extproc.observability.telemetry import Telemetry
from extproc.wire import (
    HeaderMap,
    HeaderValue,
    HttpBody,
    HttpHeaders,
    HttpTrailers,
    ProcessingMode,
    ProcessingRequest,
    ProcessingResponse,
    ProtocolConfiguration,
)
from tests.test_answer import CALL, completion, recorded, stream
from tests.test_request import CONFIG, MESSAGES, WEATHER

CHAT = {":method": "POST", ":path": "/v1/chat/completions", "x-request-id": "request-1"}
WITH_TOOLS = {**MESSAGES, "tools": [WEATHER]}
JSON = {"content-type": "application/json"}
EVENTS = {"content-type": "text/event-stream; charset=utf-8"}


def headers(fields: dict[str, str], *, end_of_stream: bool = False) -> HttpHeaders:
    values = [HeaderValue(key=key, raw_value=value.encode()) for key, value in fields.items()]
    return HttpHeaders(headers=HeaderMap(headers=values), end_of_stream=end_of_stream)


def request_headers(fields: dict[str, str] | None = None, **options: Any) -> ProcessingRequest:
    protocol = ProtocolConfiguration(request_body_mode=ProcessingMode.BUFFERED, response_body_mode=ProcessingMode.NONE)
    return ProcessingRequest(request_headers=headers(fields or CHAT, **options), protocol_config=protocol)


def request_body(body: Any) -> ProcessingRequest:
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    return ProcessingRequest(request_body=HttpBody(body=data, end_of_stream=True))


def response_headers(fields: dict[str, str], status: int = 200, **options: Any) -> ProcessingRequest:
    return ProcessingRequest(response_headers=headers({":status": str(status), **fields}, **options))


def response_body(body: bytes, *, end_of_stream: bool = True) -> ProcessingRequest:
    return ProcessingRequest(response_body=HttpBody(body=body, end_of_stream=end_of_stream))


def said(reply: object) -> ProcessingResponse:
    """What goes to Envoy: no effect."""
    assert isinstance(reply, ProcessingResponse)
    return reply


def only(replies: Replies) -> ProcessingResponse:
    assert len(replies) == 1
    return said(replies[0])


def carried(exchange: Inputs, message: ProcessingRequest) -> list[ProcessingResponse]:
    """All replies to a message whose effects are pure: to a large answer, or one that may become large."""
    replies, responses = exchange.receive(message), []
    while replies:
        reply = replies.pop(0)
        if isinstance(reply, ProcessingResponse):
            responses.append(reply)
        else:
            assert isinstance(reply, Prepare | ReadCompletion | Breathe)
            replies = exchange.resume(None if isinstance(reply, Breathe) else reply.perform())
    return responses


def started(telemetry: Telemetry | None = None, config: Config = CONFIG) -> Exchange:
    """An exchange of which nothing is known yet."""
    return Exchange(ExchangeContext(config), telemetry or Telemetry(config))


def asked(fields: Any, telemetry: Telemetry | None = None, config: Config = CONFIG) -> Exchange:
    """An exchange whose request is on its way to the backend."""
    exchange = started(telemetry, config)
    exchange.receive(request_headers())
    exchange.receive(request_body(fields))
    assert exchange.phase is Phase.RESPONSE_HEADERS
    return exchange


def set_fields(mutation: Any) -> dict[str, str]:
    return {option.header.key: option.header.raw_value.decode() for option in mutation.set_headers}


def metadata(reply: ProcessingResponse) -> Any:
    return MessageToDict(reply.dynamic_metadata).get("extproc")


class TestRequest:
    def test_a_chat_completion_is_rewritten_and_routed(self) -> None:
        exchange = started()
        reply = only(exchange.receive(request_headers()))
        assert reply.WhichOneof("response") == "request_headers"
        assert reply.mode_override.request_body_mode == ProcessingMode.BUFFERED
        assert reply.mode_override.response_header_mode == ProcessingMode.SEND
        reply = only(exchange.receive(request_body(WITH_TOOLS)))
        common = reply.request_body.response
        assert b"You can use these tools" in common.body_mutation.body
        assert common.clear_route_cache
        assert set_fields(common.header_mutation) == {
            "x-extproc-backend": "qwen",
            "content-length": str(len(common.body_mutation.body)),
        }
        assert metadata(reply) == {
            "model": "coder",
            "backend": "qwen",
            "mode": "prompt",
            "format": "hermes",
            "dialect": "chat",
            "stream": False,
            "rewritten": True,
        }
        assert exchange.id == "request-1"

    def test_without_tools_the_body_stays_and_only_the_route_is_set(self) -> None:
        exchange = started()
        exchange.receive(request_headers())
        common = only(exchange.receive(request_body(MESSAGES))).request_body.response
        assert not common.HasField("body_mutation")
        assert set_fields(common.header_mutation) == {"x-extproc-backend": "qwen"}

    @pytest.mark.parametrize(
        "fields",
        [
            {":method": "GET", ":path": "/v1/embeddings"},
            {":method": "GET", ":path": "/embeddings"},
            {":method": "HEAD", ":path": "/tokenize?x"},
        ],
    )
    def test_what_has_no_body_goes_past(self, fields: dict[str, str]) -> None:
        exchange = started()
        reply = only(exchange.receive(request_headers(fields)))
        assert reply.mode_override.request_body_mode == ProcessingMode.NONE
        assert reply.mode_override.response_header_mode == ProcessingMode.SKIP
        # Should Envoy go by other settings at the moment, and route it by this.
        told = set_fields(reply.request_headers.response.header_mutation)
        assert told == {BACKEND_HEADER: CONFIG.default_backend.name}
        assert reply.request_headers.response.clear_route_cache
        assert exchange.phase is Phase.PASSED_BY

    @pytest.mark.parametrize(
        ("method", "path", "status"),
        [
            ("GET", "/version", 404),
            ("POST", "/v1/modelsandmore", 404),
            ("POST", "/v1/load_lora_adapter", 404),
            ("GET", "/v1/chat/completions", 405),
            ("DELETE", "/health", 405),
        ],
    )
    def test_what_no_route_should_have_led_here_is_refused(self, method: str, path: str, status: int) -> None:
        """Whatever a route may have been made for."""
        exchange = started()
        reply = only(exchange.receive(request_headers({":method": method, ":path": path})))
        assert reply.immediate_response.status.code == status
        assert exchange.phase is Phase.ENDED

    def test_a_request_that_only_names_a_model_is_read_and_its_answer_is_not(self) -> None:
        exchange = started()
        fields = {":method": "POST", ":path": "/v1/embeddings", "content-type": "application/json"}
        reply = only(exchange.receive(request_headers(fields)))
        assert reply.mode_override.request_body_mode == ProcessingMode.BUFFERED
        assert reply.mode_override.response_header_mode == ProcessingMode.SKIP
        model = CONFIG.models[0]
        reply = only(exchange.receive(request_body({"input": "x", "model": model.name})))
        assert reply.request_body.response.clear_route_cache
        assert set_fields(reply.request_body.response.header_mutation)[BACKEND_HEADER] == model.backend
        assert exchange.phase is Phase.PASSED_BY

    def test_health_is_told_whoever_asks(self) -> None:
        exchange = started()
        reply = only(exchange.receive(request_headers({":method": "GET", ":path": "/health"})))
        assert (reply.immediate_response.status.code, reply.immediate_response.body) == (200, b'{"status":"ok"}')

    def test_where_replicas_are_chosen_by_conversation_its_requests_say_the_same(self) -> None:
        backends = [backend.model_copy(update={"affinity": backend.name == "qwen"}) for backend in CONFIG.backends]
        config = Config(models=CONFIG.models, backends=tuple(backends))

        def affinity(model: str, *turns: str) -> str | None:
            exchange = started(config=config)
            exchange.receive(request_headers())
            roles = ("user", "assistant") * len(turns)
            messages = [{"role": role, "content": text} for role, text in zip(roles, turns, strict=False)]
            reply = only(exchange.receive(request_body({"model": model, "messages": messages})))
            return set_fields(reply.request_body.response.header_mutation).get("x-extproc-affinity")

        first = affinity("coder", "Hello")
        assert first
        assert affinity("coder", "Hello", "Hello!", "Tell me more.") == first
        assert affinity("coder", "Good evening") != first
        assert affinity("alias", "Hello") is None

    def test_a_body_beyond_the_limit_in_force_is_refused_though_envoy_let_it_pass(self) -> None:
        exchange = started(config=CONFIG.model_copy(update={"limits": Limits(max_body_bytes=1024)}))
        exchange.receive(request_headers())
        reply = only(exchange.receive(request_body(b" " * 1025)))
        assert reply.immediate_response.status.code == 413
        assert orjson.loads(reply.immediate_response.body)["error"]["code"] == "request_too_large"

    def test_a_query_does_not_change_the_path(self) -> None:
        exchange = started()
        exchange.receive(request_headers({**CHAT, ":path": "/v1/chat/completions?api-version=1"}))
        assert exchange.phase is Phase.REQUEST_BODY

    def test_a_bad_request_is_answered_at_once(self) -> None:
        exchange = started()
        exchange.receive(request_headers())
        reply = only(exchange.receive(request_body(b"{")))
        immediate = reply.immediate_response
        assert immediate.status.code == 400
        assert set_fields(immediate.headers) == {"content-type": "application/json"}
        assert orjson.loads(immediate.body)["error"]["code"] == "invalid_json"
        assert immediate.details == "extproc.invalid_json"
        assert metadata(reply) == {"error": "invalid_json"}

    def test_a_request_without_a_body_is_answered_at_its_headers(self) -> None:
        reply = only(started().receive(request_headers(end_of_stream=True)))
        assert reply.immediate_response.status.code == 400

    def test_an_id_is_made_up_when_envoy_sends_none(self) -> None:
        exchange = started()
        exchange.receive(request_headers({":method": "POST", ":path": "/v1/chat/completions"}))
        assert len(exchange.id) == 36


class TestResponse:
    def test_nothing_to_rewrite_costs_no_body_message(self) -> None:
        exchange = asked(MESSAGES)
        reply = only(exchange.receive(response_headers(EVENTS)))
        assert reply == ProcessingResponse(response_headers=reply.response_headers)
        assert not reply.response_headers.HasField("response")
        assert exchange.phase is Phase.PASSED_BY

    def test_a_stream_is_taken_full_duplex_and_loses_its_content_length(self) -> None:
        reply = only(asked(WITH_TOOLS).receive(response_headers(EVENTS)))
        assert reply.mode_override.response_body_mode == ProcessingMode.FULL_DUPLEX_STREAMED
        assert "content-length" in reply.response_headers.response.header_mutation.remove_headers

    @pytest.mark.parametrize("size", [1, 7, 1000, 100_000])
    def test_a_stream_comes_out_rewritten_and_ends_once(self, size: int) -> None:
        exchange = asked({**WITH_TOOLS, "stream": True})
        exchange.receive(response_headers(EVENTS))
        data = stream(["I look.", CALL])
        replies: list[ProcessingResponse] = []
        for at in range(0, len(data), size):
            replies += map(said, exchange.receive(response_body(data[at : at + size], end_of_stream=False)))
        replies += map(said, exchange.receive(response_body(b"")))
        pieces = [reply.response_body.response.body_mutation.streamed_response for reply in replies]
        assert [piece.end_of_stream for piece in pieces] == [False] * (len(pieces) - 1) + [True]
        out = b"".join(piece.body for piece in pieces)
        assert b'"tool_calls"' in out
        assert out.endswith(b"data: [DONE]\n\n")
        (told,) = filter(None, map(metadata, replies))
        assert told["total_tokens"] > 0
        assert exchange.phase is Phase.ENDED

    def test_after_the_end_of_a_stream_a_repeated_end_is_ignored(self) -> None:
        exchange = asked(WITH_TOOLS)
        exchange.receive(response_headers(EVENTS))
        exchange.receive(response_body(stream(["Hi"])))
        assert exchange.receive(response_body(b"")) == []

    def test_trailers_end_a_stream_too(self) -> None:
        exchange = asked(WITH_TOOLS)
        exchange.receive(response_headers(EVENTS))
        exchange.receive(response_body(stream(["Hi"]).removesuffix(b"data: [DONE]\n\n"), end_of_stream=False))
        last, trailers = map(said, exchange.receive(ProcessingRequest(response_trailers=HttpTrailers())))
        streamed = last.response_body.response.body_mutation.streamed_response
        assert (streamed.body, streamed.end_of_stream) == (b"data: [DONE]\n\n", False)
        assert trailers.WhichOneof("response") == "response_trailers"

    def test_a_completion_is_taken_whole(self) -> None:
        exchange = asked(WITH_TOOLS)
        reply = only(exchange.receive(response_headers({**JSON, "content-length": "9"})))
        assert reply.mode_override.response_body_mode == ProcessingMode.BUFFERED
        assert "content-length" in reply.response_headers.response.header_mutation.remove_headers
        reply = only(exchange.receive(response_body(completion(CALL))))
        common = reply.response_body.response
        assert orjson.loads(common.body_mutation.body)["choices"][0]["finish_reason"] == "tool_calls"
        assert set_fields(common.header_mutation) == {"content-length": str(len(common.body_mutation.body))}
        assert metadata(reply) == {
            "prompt_tokens": 42,
            "completion_tokens": 8,
            "total_tokens": 50,
            "calls": 1,
            "finish_reason": "tool_calls",
        }

    @pytest.mark.parametrize("fields", [WITH_TOOLS, MESSAGES], ids=["with tools", "without"])
    def test_an_error_becomes_openais_and_keeps_its_status(self, fields: Any) -> None:
        exchange = asked(fields)
        reply = only(exchange.receive(response_headers(JSON, status=400)))
        assert reply.mode_override.response_body_mode == ProcessingMode.BUFFERED
        common = only(exchange.receive(response_body(recorded("err_too_long")))).response_body.response
        error = orjson.loads(common.body_mutation.body)["error"]
        original = orjson.loads(recorded("err_too_long"))["error"]
        assert (error["message"], error["param"]) == (original["message"], original["param"])
        assert error["code"] == "context_length_exceeded"
        assert set_fields(common.header_mutation)["content-type"] == "application/json"

    def test_an_error_without_a_body_gets_one_and_keeps_retry_after(self) -> None:
        exchange = asked(MESSAGES)
        reply = only(exchange.receive(response_headers({"retry-after": "7"}, status=429, end_of_stream=True)))
        assert reply.immediate_response.status.code == 429
        assert set_fields(reply.immediate_response.headers)["retry-after"] == "7"
        assert orjson.loads(reply.immediate_response.body)["error"]["code"] == "rate_limit_exceeded"

    @pytest.mark.parametrize("body", [b"", b"<html>"])
    def test_a_completion_that_is_none_is_a_502(self, body: bytes) -> None:
        exchange = asked(WITH_TOOLS)
        exchange.receive(response_headers(JSON))
        reply = only(exchange.receive(response_body(body)))
        assert reply.immediate_response.status.code == 502

    @pytest.mark.parametrize("fields", [MESSAGES, WITH_TOOLS], ids=["plain", "tools"])
    def test_a_web_page_is_a_502_at_once(self, fields: dict[str, Any]) -> None:
        reply = only(asked(fields).receive(response_headers({"content-type": "text/html; charset=utf-8"})))
        assert reply.immediate_response.status.code == 502

    @pytest.mark.parametrize("kind", [{}, {"content-type": "application/json; charset=utf-8"}, EVENTS], ids=repr)
    def test_without_tools_anything_else_passes(self, kind: dict[str, str]) -> None:
        exchange = asked(MESSAGES)
        only(exchange.receive(response_headers(kind)))
        assert exchange.phase is Phase.PASSED_BY

    def test_a_response_without_a_body_is_a_502(self) -> None:
        reply = only(asked(WITH_TOOLS).receive(response_headers(JSON, end_of_stream=True)))
        assert reply.immediate_response.status.code == 502

    def test_a_response_beyond_the_limit_is_refused_before_envoy_buffers_it(self) -> None:
        size = CONFIG.limits.max_body_bytes + 1
        reply = only(asked(WITH_TOOLS).receive(response_headers({**JSON, "content-length": str(size)})))
        assert reply.immediate_response.status.code == 502

    def test_compression_that_nobody_asked_for_is_undone(self) -> None:
        for fields, data in ((EVENTS, stream([CALL])), (JSON, completion(CALL))):
            exchange = asked(WITH_TOOLS)
            reply = only(exchange.receive(response_headers({**fields, "content-encoding": "gzip"})))
            assert "content-encoding" in reply.response_headers.response.header_mutation.remove_headers
            *_, reply = carried(exchange, response_body(gzip.compress(data)))
            mutation = reply.response_body.response.body_mutation
            assert b"tool_calls" in (mutation.body or mutation.streamed_response.body)

    def test_compression_that_can_not_be_undone_is_a_502(self) -> None:
        reply = only(asked(WITH_TOOLS).receive(response_headers({**JSON, "content-encoding": "br"})))
        assert reply.immediate_response.status.code == 502
        exchange = asked(WITH_TOOLS)
        exchange.receive(response_headers({**JSON, "content-encoding": "gzip"}))
        *_, reply = carried(exchange, response_body(b"not gzip"))
        assert reply.immediate_response.status.code == 502

    def test_a_broken_stream_ends_with_an_error_event(self) -> None:
        exchange = asked(WITH_TOOLS)
        exchange.receive(response_headers(EVENTS))
        reply = only(exchange.receive(response_body(stream(["Hi"], None))))
        streamed = reply.response_body.response.body_mutation.streamed_response
        assert streamed.end_of_stream
        assert b'"code":502' in streamed.body
        assert metadata(reply)["error"] == "bad_gateway"

    def test_a_response_may_come_before_the_request_was_read(self) -> None:
        """Envoy's own 413 does: the body never reaches the processor."""
        exchange = started()
        exchange.receive(request_headers())
        exchange.receive(response_headers(JSON, status=413))
        body = b'{"error": {"message": "Too large.", "type": "invalid_request_error", "code": "body_too_large"}}'
        common = only(exchange.receive(response_body(body))).response_body.response
        assert orjson.loads(common.body_mutation.body)["error"]["code"] == "body_too_large"


class TestProtocol:
    @pytest.mark.parametrize(
        "messages",
        [
            [ProcessingRequest()],
            [ProcessingRequest(request_trailers=HttpTrailers())],
            [request_body(MESSAGES)],
            [response_body(b"")],
            [ProcessingRequest(response_trailers=HttpTrailers())],
            [request_headers(), request_headers()],
            [request_headers(), request_body(MESSAGES), request_body(MESSAGES)],
            [request_headers(), request_body(MESSAGES), response_headers(EVENTS), response_body(b"x")],
            [request_headers(), request_body(b"{"), response_body(b"x")],
        ],
    )
    def test_a_message_out_of_place_is_an_error(self, messages: list[ProcessingRequest]) -> None:
        exchange = started()
        for message in messages[:-1]:
            exchange.receive(message)
        with pytest.raises(ProtocolError, match="while waiting for"):
            exchange.receive(messages[-1])

    def test_trailers_are_always_let_pass(self) -> None:
        exchange = asked(MESSAGES)
        reply = only(exchange.receive(ProcessingRequest(request_trailers=HttpTrailers())))
        assert reply.WhichOneof("response") == "request_trailers"
        exchange.receive(response_headers(EVENTS))
        reply = only(exchange.receive(ProcessingRequest(response_trailers=HttpTrailers())))
        assert reply.WhichOneof("response") == "response_trailers"

    def test_exchanges_share_nothing(self) -> None:
        first, second = asked(WITH_TOOLS), asked(MESSAGES)
        first.receive(response_headers(EVENTS))
        second.receive(response_headers(EVENTS))
        assert (first.phase, second.phase) == (Phase.RESPONSE_STREAM, Phase.PASSED_BY)


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("kind", [kind for kind in Input if kind.value in ProcessingRequest.DESCRIPTOR.fields_by_name])
def test_a_message_without_a_row_in_the_table_is_a_protocol_error(phase: Phase, kind: Input) -> None:
    exchange = started()
    exchange.phase = phase
    message = ProcessingRequest()
    getattr(message, kind.value).SetInParent()
    if kind not in TRANSITIONS[phase]:
        with pytest.raises(ProtocolError, match=f"got {kind.value} while waiting for {phase.value}"):
            exchange.receive(message)
        assert exchange.phase is phase


def test_every_phase_is_reached_from_the_first() -> None:
    reached, new = set[Phase](), {Phase.REQUEST_HEADERS}
    while new - reached:
        reached |= new
        new = {phase for before in reached for follows in TRANSITIONS[before].values() for phase in follows}
    assert reached == set(Phase)
