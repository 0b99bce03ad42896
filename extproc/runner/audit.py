"""Who let a tool run, and what came of it: a log line for each call."""

from __future__ import annotations

import logging

from extproc.runner.driver import ToolRun

log = logging.getLogger(__name__)


def told_of(ran: ToolRun, *, shows_arguments: bool) -> dict[str, object]:
    """What there is to be told: names, outcome and sizes; what was said only if so."""
    call, result = ran.call, ran.result
    fields: dict[str, object] = {
        "source": call.offered.source,
        "tool": call.offered.name,
        "call": call.id,
        "outcome": result.outcome,
        "argument_bytes": len(call.arguments.encode(errors="replace")),
        "result_bytes": len(result.text.encode(errors="replace")),
    }
    return {**fields, "arguments": call.arguments, "result": result.text} if shows_arguments else fields


def audit(ran: ToolRun, *, run_id: str, client: str | None, model: str, shows_arguments: bool) -> None:
    """What was said only where the settings ask for it."""
    fields: dict[str, object] = {"model": model, "ms": round(ran.seconds * 1000, 1)}
    fields |= told_of(ran, shows_arguments=shows_arguments)
    if client is not None:
        fields["client"] = client
    log.info("a tool has run", extra={"exchange": run_id, "fields": fields})
