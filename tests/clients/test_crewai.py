"""CrewAI: strict tools, and a result with a type."""

from __future__ import annotations

import pytest

from tests.clients.errand import check_done, errand
from tests.clients.installed import client
from tests.clients.library import TOOLS, run_program
from tests.clients.reports import REPORT, reports
from tests.clients.sandbox import Sandbox
from tests.clients.stage import Stage

pytestmark = pytest.mark.clients

QUIET = {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}


@pytest.mark.parametrize("model", ["prompt-hermes", "template-glm45", "template-kimi_k2"])
def test_its_result_is_json(stage: Stage, sandbox: Sandbox, model: str) -> None:
    *work, last = errand(TOOLS, sandbox.workspace, together=False)
    steps = (*work, reports(*last.sees))
    told = run_program(stage, sandbox, client("crewai"), "crewai_crew.py", model, steps, "kickoff", env=QUIET)
    check_done(stage, sandbox, len(steps))
    assert told["report"] == REPORT
    assert told["tokens"] > 0
    assert all("structural_tag" in request.json["structured_outputs"] for request in stage.actor.requests)
