"""Agents that answer with a type of their own: the errand, and at its end a report in JSON by a schema."""

from __future__ import annotations

import json
from typing import Any

from tests.clients.actor import Step, step
from tests.clients.errand import TEXT

REPORT = {"path": "hello.txt", "words": 8, "first_line": TEXT.partition("\n")[0]}
"""An instance of `scripts.report.Report`."""


def reports(*sees: str) -> Step:
    """The model answers with the report as text, once it has been told this."""
    return step(says=json.dumps(REPORT, ensure_ascii=False), sees=sees)


def is_asked_for(request: dict[str, Any]) -> bool:
    """Whether the model is held to the report, or to calls, in place of free text."""
    return "first_line" in json.dumps(request.get("structured_outputs"))
