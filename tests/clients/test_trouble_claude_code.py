"""What Claude Code makes of trouble at one turn: it finishes all the same, or says why not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripted_vllm import Cut, ErrorBody, ErrorEvent, Fail, Garbage, Nonsense, Refuse, Stall, Trouble, Verbatim
from tests.clients.actor import Actor, step
from tests.clients.claude_code import result_of, run_claude
from tests.clients.sandbox import Sandbox
from tests.clients.trouble import GREETING, TASK, chunk
from tests.format_writers import Call
from tests.gateway import Gateway

pytestmark = pytest.mark.clients

DONE = "hello.txt is there."
WORDS = "I write it."
INSIDE_TEXT, INSIDE_CALL = 2, 40
"""Tokens."""
PACE = 0.02


def perform(actor: Actor, workspace: Path, *troubles: Trouble, says: str = WORDS, pace: float = 0.0) -> None:
    writing = Call("Write", {"file_path": str(workspace / "hello.txt"), "content": GREETING})
    actor.perform(TASK, step(writing, says=says, troubles=troubles, pace=pace), step(says=DONE))


@pytest.mark.parametrize(
    "trouble",
    [
        Fail(429, retry_after=1),
        Fail(503, ErrorBody.HTML),
        Fail(500, ErrorBody.PLAIN),
        Refuse(),
        Cut(after=0),
        ErrorEvent(after=0),
        Garbage(Nonsense.WRONG_TYPE),
        Verbatim(chunk("", None)),
    ],
    ids=lambda trouble: type(trouble).__name__,
)
def test_it_tries_again_and_finishes(gateway: Gateway, actor: Actor, sandbox: Sandbox, trouble: Trouble) -> None:
    perform(actor, sandbox.workspace, trouble)
    result = result_of(run_claude(sandbox, gateway.url, "claude-sonnet-5", TASK))
    assert (result["is_error"], result["result"]) == (False, DONE), json.dumps(result)
    assert actor.problems == []
    assert actor.played == [0, 0, 1]
    assert (sandbox.workspace / "hello.txt").read_text() == GREETING


@pytest.mark.parametrize(
    ("cut", "says"), [(Cut(after=INSIDE_TEXT), WORDS), (Cut(after=INSIDE_CALL), "")], ids=["text", "call"]
)
def test_after_a_cut_before_any_block_is_whole_it_tries_again(
    gateway: Gateway, actor: Actor, sandbox: Sandbox, cut: Cut, says: str
) -> None:
    perform(actor, sandbox.workspace, cut, says=says, pace=PACE)
    result = result_of(run_claude(sandbox, gateway.url, "claude-sonnet-5", TASK))
    assert (result["is_error"], result["result"]) == (False, DONE), json.dumps(result)
    assert (actor.problems, actor.played) == ([], [0, 0, 1])


def test_after_a_cut_behind_whole_words_it_gives_up(gateway: Gateway, actor: Actor, sandbox: Sandbox) -> None:
    perform(actor, sandbox.workspace, Cut(after=INSIDE_CALL), pace=PACE)
    result = result_of(run_claude(sandbox, gateway.url, "claude-sonnet-5", TASK))
    assert result["is_error"]
    assert "Connection closed mid-response" in result["result"]
    assert (actor.problems, actor.played) == ([], [0])
    assert not (sandbox.workspace / "hello.txt").exists()


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (Fail(400, message="The model is on strike."), "The model is on strike."),
        (ErrorEvent(after=INSIDE_CALL), "The model's backend answered 500 Internal Server Error."),
        (Garbage(Nonsense.BROKEN_JSON, after=INSIDE_CALL), "The model's backend sent an answer that can't be read"),
        (Stall(after=INSIDE_CALL, seconds=60), "Nothing came from the model's backend for 3 seconds."),
    ],
    ids=["Fail", "ErrorEvent", "Garbage", "Stall"],
)
def test_what_it_gives_up_at_is_shown(
    gateway: Gateway, actor: Actor, sandbox: Sandbox, trouble: Trouble, reason: str
) -> None:
    """An error event behind the first words is final for it, whatever its type."""
    perform(actor, sandbox.workspace, *[trouble] * 3)
    result = result_of(run_claude(sandbox, gateway.url, "claude-sonnet-5", TASK))
    assert result["is_error"]
    assert reason in result["result"]
    assert not (sandbox.workspace / "hello.txt").exists()
