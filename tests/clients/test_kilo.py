"""Kilo's command line does a task of several turns."""

from __future__ import annotations

import pytest

from tests.clients import opencode_like
from tests.clients.errand import TASK, check_done, errand, words
from tests.clients.installed import client
from tests.clients.sandbox import Sandbox
from tests.clients.stage import Stage

pytestmark = pytest.mark.clients


@pytest.mark.parametrize("model", ["prompt-hermes", "template-minimax_m2"])
def test_it_does_the_errand(stage: Stage, sandbox: Sandbox, model: str) -> None:
    kilo = client("kilo")
    steps = errand(opencode_like.TOOLS, sandbox.workspace)
    stage.perform(model, TASK, *steps)
    finished = opencode_like.run(sandbox, kilo, "kilo", stage, model, "--auto")
    check_done(stage, sandbox)
    assert opencode_like.said(finished) == words(steps)
