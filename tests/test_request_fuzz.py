"""No request whatever breaks the gateway: it is accepted, or refused with an error that is the client's."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

import httpx
from hypothesis import example, given, settings
from hypothesis import strategies as st

from extproc.config import Config, parse
from extproc.contract.errors import ApiError
from extproc.contract.parameters import TOOL_PARAMETERS
from extproc.surfaces import CHAT as OPENAI
from extproc.surfaces import find_problems, prepare, rewrite_completion
from extproc.turn.spec import ResponseSpec
from extproc.turn.upstream import UpstreamRequest
from tests.gateway import Gateway
from tests.request_strategies import Json, bodies, broken_requests, encoded, json_values, keys, legal_requests

CONFIG: Config = parse("""
models:
  - {name: coder, backend: qwen, tools: prompt}
  - {name: lenient, backend: qwen, tools: prompt, malformed_history: pass, invalid_calls: text}
  - {name: mending, backend: qwen, tools: prompt, malformed_history: repair, invalid_calls: error}
  - {name: renamed, backend: qwen, tools: prompt, upstream_model: org/Name}
backends:
  - {name: qwen, address: 127.0.0.1:8000, parameters: [metadata]}
""")
CHAT = "/v1/chat/completions"
_OTHER_MODELS = rb'"model": "(lenient|mending|renamed)"'
"""Models that the shared gateway hasn't got."""


def outcome(body: bytes) -> UpstreamRequest | ApiError:
    """What becomes of a request; anything else than these two is a bug."""
    result = _prepared(body)
    found = find_problems(body, CONFIG)
    if isinstance(result, UpstreamRequest):
        assert found == []
        assert_can_be_sent(result, body)
    else:
        assert (found[0].code, found[0].param) == (result.code, result.param)
        for problem in found:
            assert_is_the_clients(problem)
    return result


def _prepared(body: bytes) -> UpstreamRequest | ApiError:
    try:
        return prepare(body, CONFIG)
    except ApiError as error:
        return error


def assert_is_the_clients(error: ApiError) -> None:
    assert 400 <= error.status < 500
    assert 0 < len(error.message) < 2000
    assert len(error.param or "") < 2000
    shown = json.loads(OPENAI.error_body(error))["error"]
    assert (shown["message"], shown["param"], shown["code"]) == (error.message, error.param, error.code)


def assert_can_be_sent(prepared: UpstreamRequest, body: bytes) -> None:
    """What the backend gets is a request that a plain vLLM takes."""
    sent = json.loads(prepared.body or body)
    assert isinstance(sent["model"], str)
    assert sent["messages"]
    if prepared.body is not None:
        assert not TOOL_PARAMETERS & sent.keys()
        assert not set(prepared.dropped) & sent.keys()
    if prepared.answer is not None:
        for message in sent["messages"]:
            assert message["role"] in ("system", "user", "assistant")
            assert isinstance(message["content"], str)


class TestTheContract:
    @settings(max_examples=60)
    @given(legal_requests())
    def test_a_legal_request_is_accepted(self, request: Json) -> None:
        assert isinstance(outcome(encoded(request)), UpstreamRequest)

    @settings(max_examples=80)
    @given(broken_requests(), st.booleans())
    def test_a_broken_request_is_accepted_or_refused(self, requests: list[Any], ascii_only: bool) -> None:
        for request in requests:
            outcome(encoded(request, ascii_only=ascii_only))

    @settings(max_examples=60)
    @given(bodies)
    @example(b"")
    def test_bytes_are_accepted_or_refused(self, body: bytes) -> None:
        outcome(body)

    @settings(max_examples=80)
    @given(broken_requests(), st.one_of(json_values, st.dictionaries(keys, json_values)), st.booleans())
    def test_what_was_accepted_can_be_answered(self, requests: list[Any], arguments: Any, known: bool) -> None:
        """With a call of whatever tool and arguments, checked against schemas that were taken as they came."""
        for request in requests:
            result = outcome(encoded(request))
            if isinstance(result, UpstreamRequest) and result.answer is not None:
                assert_can_be_answered(result.answer, arguments, known=known)


def assert_can_be_answered(plan: ResponseSpec, arguments: Any, *, known: bool) -> None:
    name = plan.tools[0]["function"]["name"] if known and plan.tools else "unheard_of"
    said = f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"
    message = {"role": "assistant", "content": said}
    choices = [{"index": index, "message": message, "finish_reason": "stop"} for index in range(plan.choices)]
    completion = {"choices": choices}
    refusals = (ApiError,) if plan.invalid_calls == "error" else ()
    with suppress(*refusals):
        rewritten = rewrite_completion(encoded(completion), plan)
        assert json.loads(rewritten.body)["choices"]


class TestTheFrontDoor:
    @settings(max_examples=30)
    @given(request=legal_requests(), broken=broken_requests())
    def test_a_request_is_answered_or_refused(self, shared_gateway: Gateway, request: Json, broken: list[Any]) -> None:
        for body in map(encoded, [request, *broken]):
            assert_is_answered(shared_gateway, re.sub(_OTHER_MODELS, b'"model": "coder"', body))

    @settings(max_examples=30)
    @given(body=bodies)
    def test_bytes_are_answered_or_refused(self, shared_gateway: Gateway, body: bytes) -> None:
        assert_is_answered(shared_gateway, body)


def assert_is_answered(gateway: Gateway, body: bytes) -> None:
    """In ten seconds, to the end, and with a status that isn't the server's fault."""
    reply: httpx.Response = gateway.http.post(
        CHAT, content=body, headers={"content-type": "application/json"}, timeout=10
    )
    assert reply.status_code == 200 or 400 <= reply.status_code < 500, reply.text
    if reply.headers["content-type"].startswith("text/event-stream"):
        assert reply.text.endswith("data: [DONE]\n\n")
        assert '"error"' not in reply.text
    elif reply.status_code == 200:
        assert reply.json()["choices"]
    else:
        assert reply.json()["error"]["message"]
