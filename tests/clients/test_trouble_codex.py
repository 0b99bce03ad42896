"""What Codex makes of trouble at one turn: it tries again, whatever it has shown by then, and finishes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scripted_vllm import Cut, ErrorEvent, Fail, Garbage, Nonsense, Refuse, Stall, Trouble, Verbatim
from tests.clients.actor import MODEL, Actor, step
from tests.clients.codex import last_message, run_codex
from tests.clients.errand import LAST_WORDS, TASK
from tests.clients.sandbox import Sandbox
from tests.clients.test_trouble_cline import chunk
from tests.format_writers import Call
from tests.gateway import Gateway, configured_gateway

pytestmark = pytest.mark.clients

INSIDE_CALL = 30
"""Tokens."""


@pytest.fixture(scope="module")
def actor() -> Iterator[Actor]:
    with Actor().running() as actor:
        yield actor


@pytest.fixture(scope="module")
def gateway(actor: Actor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that loses patience soon."""
    configuration = f"""
models:
  - {{name: coder, backend: vllm, upstream_model: {MODEL}, tools: prompt}}
backends:
  - {{name: vllm, address: "127.0.0.1:{actor.port}", health_check: false}}
limits: {{silence_seconds: 1}}
"""
    with configured_gateway(tmp_path_factory.mktemp("trouble"), configuration, envoy={"1800s": "3s"}) as gateway:
        yield gateway


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
