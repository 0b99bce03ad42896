"""The actor takes its next step when the conversation has got there, whoever else is talking."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from scripted_vllm import Fail
from tests.clients.actor import ASIDE, MODEL, Actor, step
from tests.format_writers import Call

TOOL = {"type": "function", "function": {"name": "write_file"}}
WRITE = Call("write_file", {"path": "a.txt"})
USER = {"role": "user", "content": "Please write a.txt."}
TURN = {"role": "assistant", "content": "..."}
RESULT = {"role": "user", "content": "The tool write_file returned:\nwritten"}
PROMPT = {"role": "system", "content": "# Tools\n\n## write_file\n- path (string)\nCall: write_file(path=...)"}
WRITTEN = '<tool_call>\n{"name": "write_file", "arguments": {"path": "a.txt"}}\n</tool_call>'


@pytest.fixture
def actor() -> Iterator[Actor]:
    with (actor := Actor()).running():
        yield actor


def answered(actor: Actor, *messages: dict[str, Any], **fields: Any) -> httpx.Response:
    body = {"model": MODEL, "messages": messages, **fields}
    return httpx.post(f"{actor.url}/v1/chat/completions", json=body)


def said(actor: Actor, *messages: dict[str, Any], **fields: Any) -> str:
    return str(answered(actor, *messages, **fields).json()["choices"][0]["message"]["content"])


def test_a_step_for_each_turn_in_whatever_order_they_are_asked_for(actor: Actor) -> None:
    actor.perform("write a.txt", step(WRITE, says="At once."), step(says="Done."))
    assert said(actor, PROMPT, USER, TURN, RESULT) == "Done."
    actor.perform("write a.txt", step(WRITE, says="At once."), step(says="Done."))
    assert said(actor, PROMPT, USER) == f"At once.\n{WRITTEN}"
    assert said(actor, PROMPT, USER) == f"At once.\n{WRITTEN}"
    assert said(actor, PROMPT, USER, TURN, RESULT) == "Done."
    assert (actor.played, actor.asides, actor.problems) == ([0, 0, 1], [], [])


def test_turns_from_before_the_task_do_not_count(actor: Actor) -> None:
    actor.perform("write a.txt", step(WRITE), step(says="Done."))
    assert said(actor, PROMPT, {"role": "user", "content": "Hello"}, TURN, USER) == WRITTEN


@pytest.mark.parametrize(
    ("format_", "written"),
    [
        ("qwen3_coder", "<function=write_file>\n<parameter=path>\na.txt\n</parameter>\n</function>"),
        ("pythonic", "write_file(path='a.txt')"),
    ],
)
def test_calls_are_written_as_the_format_has_them(actor: Actor, format_: str, written: str) -> None:
    actor.perform("write a.txt", step(WRITE), format=format_)
    assert written in said(actor, USER, tools=[TOOL], tool_choice="none")


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_with_a_parser_has_its_calls_apart(stream: bool) -> None:
    with (actor := Actor(tool_parser=True)).running():
        actor.perform("write a.txt", step(WRITE, WRITE, says="At once."))
        answer = answered(actor, USER, tools=[TOOL], stream=stream)
    assert '"finish_reason":"tool_calls"' in answer.text
    assert "<tool_call>" not in answer.text
    if not stream:
        message = answer.json()["choices"][0]["message"]
        assert message["content"] == "At once."
        assert [call["function"] for call in message["tool_calls"]] == [
            {"name": "write_file", "arguments": '{"path": "a.txt"}'}
        ] * 2


def test_titles_and_what_comes_after_the_end_are_asides(actor: Actor) -> None:
    actor.perform("write a.txt", step(WRITE), step(says="Done."))
    title = {"role": "system", "content": "Give this conversation a title. Never write more than a line to a file."}
    assert said(actor, title, USER) == ASIDE
    assert said(actor, PROMPT, {"role": "user", "content": "Something else"}) == ASIDE
    assert said(actor, PROMPT, USER, TURN, RESULT) == "Done."
    assert said(actor, PROMPT, USER) == ASIDE
    assert (actor.played, len(actor.asides)) == ([1], 3)


def test_steps_of_the_gateways_own_tools_may_be_left_out_of_what_is_told(actor: Actor) -> None:
    ask = Call("box__weather", {"city": "Bern"})
    asked = {**TURN, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "box__weather"}}]}
    found = {"role": "tool", "tool_call_id": "1", "content": "Sunny"}
    script = (step(ask, served=True), step(WRITE), step(ask, served=True), step(says="Done."))
    actor.perform("write a.txt", *script)
    for conversation in (
        [USER],
        [USER, asked, found],  # a round of the gateway's own
        [USER, TURN, RESULT],  # what a client tells, to whom the call isn't shown
        [USER, asked, found, TURN, RESULT],  # and one to whom it is
        [USER, TURN, RESULT, asked, found],
    ):
        answered(actor, *conversation, tools=[TOOL], tool_choice="none")
    assert (actor.played, actor.asides, actor.problems) == ([0, 1, 2, 2, 3], [], [])


def test_a_step_that_misses_what_it_waits_for_is_refused(actor: Actor) -> None:
    actor.perform("write a.txt", step(WRITE), step(says="Done.", sees="written"))
    answer = answered(actor, PROMPT, USER, TURN, {"role": "user", "content": "an error"})
    assert (answer.status_code, actor.played) == (400, [])
    assert "step 1 waits for ['written']" in answer.json()["error"]["message"]
    assert len(actor.problems) == 1


def test_troubles_are_for_the_first_tries(actor: Actor) -> None:
    actor.perform("write a.txt", step(says="Done.", troubles=[Fail(503), Fail(429, retry_after=1)]))
    assert [answered(actor, USER).status_code for _ in range(3)] == [503, 429, 200]
    assert actor.played == [0, 0, 0]


def test_there_is_an_end_to_asking(actor: Actor) -> None:
    actor.perform("write a.txt", step(says="Done."))
    statuses = [answered(actor, USER).status_code for _ in range(20)]
    assert statuses == [200] * 15 + [400] * 5
    assert actor.problems[0] == "there were 15 requests already"
