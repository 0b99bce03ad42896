"""What Codex makes of trouble at one turn: it tries again, whatever it has shown by then, and finishes."""

from __future__ import annotations

import pytest

from scripted_vllm import Cut, ErrorEvent, Fail, Garbage, Nonsense, Refuse, Stall, Trouble, Verbatim
from tests.clients.actor import Actor, step
from tests.clients.codex import last_message, run_codex
from tests.clients.errand import LAST_WORDS, TASK
from tests.clients.sandbox import Sandbox
from tests.clients.trouble import chunk
from tests.format_writers import Call
from tests.gateway import Gateway

pytestmark = pytest.mark.clients

INSIDE_CALL = 30
"""Tokens."""


@pytest.mark.parametrize(
    "trouble",
    [
        Fail(503),
        Refuse(),
        Cut(after=0),
        Cut(after=INSIDE_CALL),
        ErrorEvent(after=0),
        ErrorEvent(after=INSIDE_CALL),
        Garbage(Nonsense.BROKEN_JSON, after=INSIDE_CALL),
        Garbage(Nonsense.WRONG_TYPE),
        Stall(after=INSIDE_CALL, seconds=60),
        Verbatim(chunk("", None)),
    ],
    ids=lambda trouble: type(trouble).__name__,
)
def test_it_tries_again_and_finishes(gateway: Gateway, actor: Actor, sandbox: Sandbox, trouble: Trouble) -> None:
    command = "echo all is well, and this line is long enough for trouble in its middle > hello.txt"
    actor.perform(TASK, step(Call("exec_command", {"cmd": command}), troubles=[trouble]), step(says=LAST_WORDS))
    assert last_message(run_codex(sandbox, f"{gateway.url}/v1", "coder", TASK)) == LAST_WORDS
    assert (actor.problems, actor.played) == ([], [0, 0, 1])
    assert (sandbox.workspace / "hello.txt").read_text().startswith("all is well")
