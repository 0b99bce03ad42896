"""How answers ended, and what passes the processor by: Envoy tells it, by its access log."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from scripted_vllm import Cut, ErrorEvent, Fail, Reply, Stall
from tests.gateway import Gateway, wait_until

CHAT = "/v1/chat/completions"
PLAIN: dict[str, Any] = {"model": "coder", "messages": [{"role": "user", "content": "Hello!"}]}
TOOLS = {"tools": [{"type": "function", "function": {"name": "look"}}]}
WORDS = "It is fine today."


def ended(end: str, tools: str, dialect: str = "chat") -> str:
    labels = {"dialect": dialect, "end": end, "format": "hermes", "mode": "prompt", "model": "coder", "tools": tools}
    shown = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return f"extproc_answers_total{{{shown}}}"


def duration(gateway: Gateway, error: str) -> float:
    name = "gen_ai_client_operation_duration_seconds_count"
    ours = 'extproc_dialect="chat",extproc_format="hermes",extproc_mode="prompt"'
    theirs = 'gen_ai_operation_name="chat",gen_ai_provider_name="vllm",gen_ai_request_model="coder"'
    return gateway.metric(f'{name}{{error_type="{error}",{ours},{theirs}}}')


def leave(gateway: Gateway, fields: dict[str, Any]) -> None:
    """Read the first piece of a stream, and go."""
    with gateway.http.stream("POST", CHAT, json=fields) as response:
        next(response.iter_raw())


def ask(gateway: Gateway, fields: dict[str, Any]) -> None:
    try:
        gateway.http.post(CHAT, json=fields)
    except httpx.RemoteProtocolError:
        return  # it was cut


@pytest.mark.parametrize("tools", ["yes", "no"])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize(
    ("reply", "end"),
    [
        (Reply(WORDS), "complete"),
        (Reply(WORDS, trouble=Fail(500)), "error"),
        (Reply(WORDS, trouble=Fail(429)), "error"),
        (Reply(WORDS, trouble=Fail(400)), "refused"),
        (Reply(WORDS, pieces=4, trouble=Cut(after=2)), "cut_by_backend"),
    ],
    ids=["complete", "error", "full", "refused", "cut"],
)
def test_how_an_answer_ended(gateway: Gateway, reply: Reply, end: str, tools: str, *, stream: bool) -> None:
    fields = PLAIN | (TOOLS if tools == "yes" else {}) | {"stream": stream}
    before = gateway.metric(ended(end, tools))
    gateway.backend.play(reply)
    ask(gateway, fields)
    wait_until(lambda: gateway.metric(ended(end, tools)) == before + 1)


@pytest.mark.parametrize("tools", ["yes", "no"])
def test_a_client_that_leaves_is_told_from_a_backend_that_does(gateway: Gateway, tools: str) -> None:
    names = [ended(end, tools) for end in ("left_by_client", "cut_by_backend")]
    before = [gateway.metric(name) for name in names]
    gateway.backend.play(Reply(WORDS, pieces=4, trouble=Stall(after=2, seconds=20)))
    leave(gateway, PLAIN | (TOOLS if tools == "yes" else {}) | {"stream": True})
    wait_until(lambda: [gateway.metric(name) for name in names] == [before[0] + 1, before[1]])


LAST_EVENTS = {"chat": "data: [DONE]", "responses": "event: response.completed", "messages": "event: message_stop"}


@pytest.mark.parametrize("dialect", LAST_EVENTS)
def test_a_client_that_leaves_at_the_last_event_has_all_of_its_answer(gateway: Gateway, dialect: str) -> None:
    """As agents do: they close the connection without waiting for the end of the body."""
    complete, left = (ended(end, "yes", dialect) for end in ("complete", "left_by_client"))
    unfinished = 'extproc_unfinished_exchanges_total{phase="response_stream"}'
    before = [gateway.metric(name) for name in (complete, left, unfinished)]
    gateway.backend.play(Reply(WORDS, trouble=Stall(after=1_000, seconds=20)))
    path, fields = asked_in(dialect)
    with gateway.http.stream("POST", path, json=fields | {"model": "coder", "stream": True}) as response:
        assert any(line.startswith(LAST_EVENTS[dialect]) for line in response.iter_lines())
    wait_until(lambda: gateway.metric(complete) == before[0] + 1)
    assert [gateway.metric(left), gateway.metric(unfinished)] == before[1:]


def asked_in(dialect: str) -> tuple[str, dict[str, Any]]:
    messages = [{"role": "user", "content": "Hello!"}]
    match dialect:
        case "chat":
            return CHAT, {"messages": messages} | TOOLS
        case "messages":
            tool = {"name": "look", "input_schema": {"type": "object"}}
            return "/v1/messages", {"messages": messages, "max_tokens": 100, "tools": [tool]}
        case _:
            tool = {"type": "function", "name": "look", "parameters": {"type": "object"}}
            return "/v1/responses", {"input": "Hello!", "tools": [tool]}


def test_an_error_inside_a_stream_is_no_good_end(gateway: Gateway) -> None:
    before = gateway.metric(ended("error", "yes"))
    gateway.backend.play(Reply(WORDS, pieces=4, trouble=ErrorEvent(after=2)))
    ask(gateway, PLAIN | TOOLS | {"stream": True})
    wait_until(lambda: gateway.metric(ended("error", "yes")) == before + 1)


@pytest.mark.parametrize(("fields", "tools"), [({}, "no"), (TOOLS, "yes"), (TOOLS | {"stream": True}, "yes")])
@pytest.mark.parametrize(("reply", "error"), [(Reply(WORDS), ""), (Reply(trouble=Fail(503)), "service_unavailable")])
def test_each_answers_time_is_counted_once(
    gateway: Gateway, fields: dict[str, Any], tools: str, reply: Reply, error: str
) -> None:
    """By the processor what it sees to the end, by Envoy's log what passes it by."""
    end = ended("error" if error else "complete", tools)
    before, logged = duration(gateway, error), gateway.metric(end)
    gateway.backend.play(reply)
    ask(gateway, PLAIN | fields)
    wait_until(lambda: gateway.metric(end) == logged + 1)  # the log has been read
    assert duration(gateway, error) == before + 1


def test_bytes_and_the_first_byte_of_what_passes_by(gateway: Gateway) -> None:
    labels = 'dialect="chat",direction="{}",format="hermes",mode="prompt",model="coder",tools="no"'
    names = [f"extproc_answer_bytes_total{{{labels.format(way)}}}" for way in ("from_client", "to_client")]
    of_streams = 'dialect="chat",format="hermes",mode="prompt",model="coder",stream="yes"'
    first = f"extproc_time_to_first_byte_seconds_count{{{of_streams}}}"
    before, begun = [gateway.metric(name) for name in names], gateway.metric(first)
    gateway.backend.play(Reply(WORDS))
    response = gateway.http.post(CHAT, json=PLAIN | {"stream": True})
    sent = len(response.request.content)
    wait_until(lambda: gateway.metric(first) == begun + 1)
    assert [gateway.metric(name) for name in names] == [before[0] + sent, before[1] + len(response.content)]
