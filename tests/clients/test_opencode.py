"""opencode does a task of several turns."""

from __future__ import annotations

import pytest

from tests.clients import opencode_like
from tests.clients.errand import TASK, check_done, errand, words
from tests.clients.installed import client
from tests.clients.sandbox import Sandbox
from tests.clients.stage import Stage

pytestmark = pytest.mark.clients


def do_errand(stage: Stage, sandbox: Sandbox, model: str, **env: str) -> None:
    opencode = client("opencode")
    steps = errand(opencode_like.TOOLS, sandbox.workspace)
    stage.perform(model, TASK, *steps)
    finished = opencode_like.run(sandbox, opencode, "opencode", stage, model, **env)
    check_done(stage, sandbox)
    assert opencode_like.said(finished) == words(steps)


@pytest.mark.parametrize("model", ["prompt-hermes", "template-qwen3_coder"])
def test_it_does_the_errand(stage: Stage, sandbox: Sandbox, model: str) -> None:
    do_errand(stage, sandbox, model)


def test_over_tls_too(tls_stage: Stage, sandbox: Sandbox) -> None:
    do_errand(tls_stage, sandbox, "prompt-hermes", NODE_EXTRA_CA_CERTS=str(tls_stage.certificate))
