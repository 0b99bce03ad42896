"""What Cline 3 makes of trouble at one turn, as docs/behaviour.md says: it finishes all the same, or says why not.

What decides is whether anything of the turn was shown before the trouble came. Two rows take Cline a minute, and one
needs a processor to be killed: those aren't tried again here.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripted_vllm import Cut, ErrorBody, ErrorEvent, Fail, Garbage, Nonsense, Refuse, Stall, Trouble, Verbatim
from tests.clients.actor import Actor, Step, step
from tests.clients.cline import ClineRun, run_cline
from tests.clients.sandbox import Sandbox
from tests.clients.trouble import GREETING, TASK, chunk
from tests.format_writers import Call
from tests.gateway import Gateway

pytestmark = pytest.mark.clients

INSIDE_TEXT, INSIDE_CALL = 2, 40
"""Tokens."""
TOO_LONG = Fail(400, message="This model's maximum context length is 4096 tokens. Please reduce the length.")
EMPTY = Verbatim(chunk("", "stop"))
PART_OF_CALL = '<tool_call>\n{"name": "editor", "arguments": {"path": "hello'


def writing(workspace: Path, *troubles: Trouble, says: str = "", sees: str = TASK, pace: float = 0.0) -> Step:
    call = Call("editor", {"path": str(workspace / "hello.txt"), "new_text": GREETING})
    return step(call, says=says, sees=sees, troubles=troubles, pace=pace)


def submitting() -> Step:
    return step(Call("submit_and_exit", {"summary": "Created hello.txt with a greeting.", "verified": True}))


def assert_done(run: ClineRun, actor: Actor, workspace: Path, played: list[int]) -> None:
    assert actor.problems == []
    assert actor.played == played
    assert run.completed, run.finished
    assert (workspace / "hello.txt").read_text() == GREETING
    assert not [text for text in run.said if "tool_call" in text or "new_text" in text]


@pytest.mark.parametrize(
    "trouble",
    [
        Fail(429, retry_after=1),
        Fail(503, ErrorBody.HTML),
        Fail(500, ErrorBody.PLAIN),
        Refuse(),
        Stall(after=None, seconds=60),
        Stall(after=INSIDE_CALL, seconds=60),
        Cut(after=0),
        ErrorEvent(after=0),
        ErrorEvent(after=INSIDE_CALL),
        Garbage(Nonsense.BROKEN_JSON, after=INSIDE_CALL),
        Garbage(Nonsense.WRONG_TYPE),
        EMPTY,
        Verbatim(chunk("", None)),
        Verbatim(chunk(PART_OF_CALL, None)),
    ],
    ids=lambda trouble: type(trouble).__name__,
)
def test_it_tries_again_and_finishes(gateway: Gateway, actor: Actor, sandbox: Sandbox, trouble: Trouble) -> None:
    actor.perform(TASK, writing(sandbox.workspace, trouble), submitting())
    run = run_cline(sandbox, f"{gateway.url}/v1", "coder", TASK)
    assert_done(run, actor, sandbox.workspace, [0, 0, 1])


@pytest.mark.parametrize("trouble", [Cut(after=INSIDE_CALL), ErrorEvent(after=INSIDE_CALL)], ids=["Cut", "ErrorEvent"])
def test_a_call_that_is_held_can_break_off(gateway: Gateway, actor: Actor, sandbox: Sandbox, trouble: Trouble) -> None:
    actor.perform(TASK, writing(sandbox.workspace, trouble), submitting())
    run = run_cline(sandbox, f"{gateway.url}/v1", "holding", TASK)
    assert_done(run, actor, sandbox.workspace, [0, 0, 1])


@pytest.mark.parametrize("reason", ["length", "stop"])
def test_a_call_that_is_cut_off_is_reported_to_the_model(
    gateway: Gateway, actor: Actor, sandbox: Sandbox, reason: str
) -> None:
    cut_off = Verbatim(chunk(PART_OF_CALL, reason))
    again = writing(sandbox.workspace, sees="could not be parsed as JSON")
    actor.perform(TASK, writing(sandbox.workspace, cut_off), again, submitting())
    run = run_cline(sandbox, f"{gateway.url}/v1", "coder", TASK)
    assert_done(run, actor, sandbox.workspace, [0, 1, 2])


def test_a_conversation_that_is_too_long_is_shortened(gateway: Gateway, actor: Actor, sandbox: Sandbox) -> None:
    look = step(Call("run_commands", {"commands": ["wc -c hello.txt"]}), troubles=[TOO_LONG])
    actor.perform(TASK, writing(sandbox.workspace), look, submitting())
    run = run_cline(sandbox, f"{gateway.url}/v1", "coder", TASK)
    assert_done(run, actor, sandbox.workspace, [0, 1, 0, 1, 2])  # what it has left out, the model does again


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (Fail(400, message="The model is on strike."), r"The model is on strike\."),
        (TOO_LONG, r"The request exceeds the model's context window and there is no conversation history [^{}<>]*"),
        (
            ErrorEvent(after=INSIDE_TEXT, message="The engine is on fire."),
            r"The model's backend answered 500 Internal Server Error\. What else it said is withheld; [^{}<>]*\.",
        ),
        (
            Garbage(Nonsense.BROKEN_JSON, after=INSIDE_TEXT),
            r"The model's backend sent an answer that can't be read: it is not JSON \([^{}<>]*\)\.",
        ),
        (Stall(after=INSIDE_TEXT, seconds=60), r"Nothing came from the model's backend for 3 seconds\."),
        (EMPTY, "Model returned empty response"),
        (Verbatim(chunk("First I write the file.", None)), r"The model's backend [^{}<>]*\."),
    ],
    ids=["Fail", "too long", "ErrorEvent", "Garbage", "Stall", "Empty", "ends too early"],
)
def test_else_it_says_why_in_clean_words(
    gateway: Gateway, actor: Actor, sandbox: Sandbox, trouble: Trouble, reason: str
) -> None:
    actor.perform(TASK, writing(sandbox.workspace, *[trouble] * 3, says="First I write the file."), submitting())
    run = run_cline(sandbox, f"{gateway.url}/v1", "coder", TASK)
    assert not run.completed
    assert re.fullmatch(reason, run.said[-1])
    assert not (sandbox.workspace / "hello.txt").exists()
    assert len(actor.requests) <= 3


@pytest.mark.parametrize(
    ("cut", "says", "pace"),
    [
        (Cut(after=INSIDE_TEXT), "First I write the file.", 0.8),  # a cut comes with what is before it, without a pause
        (Cut(after=INSIDE_CALL), "", 0.02),
    ],
    ids=["text", "call"],
)
def test_after_a_cut_in_what_was_shown_it_gives_up(
    gateway: Gateway, actor: Actor, sandbox: Sandbox, cut: Cut, says: str, pace: float
) -> None:
    actor.perform(TASK, writing(sandbox.workspace, cut, says=says, pace=pace), submitting())
    run = run_cline(sandbox, f"{gateway.url}/v1", "coder", TASK)
    assert not run.completed
    assert "socket connection was closed" in run.said[-1]
    assert actor.played == [0]
    assert not (sandbox.workspace / "hello.txt").exists()
