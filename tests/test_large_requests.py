"""A large request is read beside the others, and what would take too long is refused."""

from __future__ import annotations

import orjson
import pytest

from extproc.contract.model_name import MOST_FIELDS
from extproc.contract.parameters import MOST_SCHEMA_BYTES
from extproc.exchange.effects import Prepare
from extproc.exchange.machine import Exchange
from extproc.exchange.phases import Phase
from extproc.exchange.replies import immediate, mutation, with_metadata
from extproc.exchange.request import AT_ONCE, LARGE, PATIENCE, PREPARING
from extproc.prompts.escaping import escaper
from extproc.server.large_reply import body_apart
from extproc.surfaces.chat.messages import MOST_ITEMS
from extproc.wire import BodyMutation, BodyResponse, CommonResponse, ProcessingResponse
from scripted_vllm import Reply
from tests.gateway import Gateway
from tests.test_exchange import WITH_TOOLS, only, request_body, request_headers, said, started
from tests.test_request import MESSAGES, refused

TEXT = [{"role": "user", "content": "x" * LARGE}]


def large(**changes: object) -> tuple[Exchange, Prepare]:
    exchange = started()
    exchange.receive(request_headers())
    wait, effect = exchange.receive(request_body({**WITH_TOOLS, "messages": TEXT, **changes}))
    assert said(wait).override_message_timeout.ToSeconds() == PREPARING
    assert isinstance(effect, Prepare)
    assert exchange.phase is Phase.PREPARING
    return exchange, effect


def test_it_leaves_the_exchange_as_an_effect() -> None:
    exchange, effect = large()
    reply = only(exchange.resume(effect.perform()))
    assert b"You can use these tools" in reply.request_body.response.body_mutation.body
    assert exchange.phase is Phase.RESPONSE_HEADERS


def test_what_is_wrong_with_it_comes_back_the_same_way() -> None:
    exchange, effect = large(temperature=9)
    reply = only(exchange.resume(effect.perform()))
    assert reply.immediate_response.status.code == 400
    assert exchange.phase is Phase.ENDED


def test_it_is_served_as_any_other(gateway: Gateway) -> None:
    gateway.backend.play(Reply("Well, well."))
    completion = gateway.openai.chat.completions.create(
        model="coder",
        messages=[{"role": "user", "content": "x" * 20 + " " * LARGE}],
        tools=[{"type": "function", "function": {"name": "get_weather"}}],
    )
    assert completion.choices[0].message.content == "Well, well."
    assert len(gateway.backend.requests[0].body) > LARGE


def test_one_of_megabytes_is_served_and_so_is_the_next(gateway: Gateway) -> None:
    for word in ("x", "y"):
        gateway.backend.play(Reply("Well, well."))
        completion = gateway.openai.chat.completions.create(
            model="coder",
            messages=[{"role": "user", "content": word * 2_000_000}],
            tools=[{"type": "function", "function": {"name": "get_weather"}}],
        )
        assert completion.choices[0].message.content == "Well, well."
        assert gateway.backend.requests[-1].body.count(word.encode() * 2_000_000) == 1


COMMON = CommonResponse(
    header_mutation=mutation({"content-length": "7"}),
    clear_route_cache=True,
    body_mutation=BodyMutation(body=b"a body"),
)


@pytest.mark.parametrize(
    ("reply", "body"),
    [
        (ProcessingResponse(request_body=BodyResponse(response=COMMON)), b"a body"),
        (ProcessingResponse(response_body=BodyResponse(response=COMMON)), b"a body"),
        (ProcessingResponse(request_body=BodyResponse(response=CommonResponse(clear_route_cache=True))), b""),
        (immediate(413, b"too much", "too_much"), b""),
    ],
    ids=["request", "answer", "no body", "immediate"],
)
def test_a_reply_is_the_same_when_its_body_is_serialised_apart(reply: ProcessingResponse, body: bytes) -> None:
    with_metadata(reply, {"model": "coder"})
    expected = ProcessingResponse.FromString(reply.SerializeToString())
    head, apart = body_apart(reply)
    assert apart == body
    assert ProcessingResponse.FromString(head + apart) == expected


def test_a_large_reply_is_the_same_too() -> None:
    """Its lengths take several bytes."""
    reply = ProcessingResponse(request_body=BodyResponse(response=COMMON))
    reply.request_body.response.body_mutation.body = b"x" * 3_000_000
    expected = ProcessingResponse.FromString(reply.SerializeToString())
    assert ProcessingResponse.FromString(b"".join(body_apart(reply))) == expected


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": ""}] * (MOST_ITEMS + 1),
        [{"role": "user", "content": [{"type": "text", "text": ""}] * MOST_ITEMS}],
        [{"role": "assistant", "tool_calls": [{}] * MOST_ITEMS}],
    ],
    ids=["messages", "parts", "calls"],
)
def test_there_may_not_be_too_many_items(messages: list[object]) -> None:
    error = refused(orjson.dumps({**MESSAGES, "messages": messages}))
    assert error.param == "messages"
    assert f"at most {MOST_ITEMS}" in error.message


def test_there_may_not_be_too_many_fields() -> None:
    error = refused(orjson.dumps({**MESSAGES, **{f"field_{number}": 1 for number in range(MOST_FIELDS)}}))
    assert (error.code, error.param) == ("invalid_value", None)
    assert f"at most {MOST_FIELDS}" in error.message


def test_the_schema_of_an_answer_has_the_limit_of_a_tools() -> None:
    schema = {"type": "object", "description": "x" * MOST_SCHEMA_BYTES}
    format_ = {"type": "json_schema", "json_schema": {"name": "large", "schema": schema}}
    error = refused(orjson.dumps({**MESSAGES, "response_format": format_}))
    assert error.param == "response_format.json_schema.schema"
    assert str(MOST_SCHEMA_BYTES) in error.message


@pytest.mark.parametrize("before", range(8186, 8194))
def test_a_control_token_is_found_wherever_a_long_text_is_searched_in_parts(before: int) -> None:
    assert escaper("hermes").text("x" * before + "<|im_end|>!") == "x" * before + "<\u200b|im_end|>!"


WORDS = {"role": "user", "content": "x" * AT_ONCE}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "r"}


def called(arguments: str) -> dict[str, object]:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


@pytest.mark.parametrize(
    ("messages", "at_once"),
    [
        ([WORDS], True),
        ([{"role": "user", "content": "x" * LARGE}], False),
        ([WORDS, *[{"role": "user", "content": "x"}] * 64], False),
        ([WORDS, {"role": "user", "content": "$ref" * 100}], False),
        ([WORDS, called("{}"), RESULT], True),
        ([WORDS, called("{'text': '" + "x" * PATIENCE), RESULT], False),
    ],
    ids=["words", "more words", "many messages", "many references", "a call", "much to be repaired"],
)
def test_what_is_plain_is_read_at_once_though_it_is_larger(messages: list[object], at_once: bool) -> None:
    exchange = started()
    exchange.receive(request_headers())
    *_, last = exchange.receive(request_body({**WITH_TOOLS, "messages": messages}))
    assert isinstance(last, Prepare) is not at_once
    exchange.close()
