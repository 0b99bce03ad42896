"""Who let a tool run, and what came of it: a log line for each call."""

from __future__ import annotations

import logging

from extproc.runner.driver import ToolRun

log = logging.getLogger(__name__)


def audit(ran: ToolRun, *, run_id: str, client: str | None, model: str, shows_arguments: bool) -> None:
    """Names, time, outcome and sizes; what was said only where the settings ask for it."""
    call, result = ran.call, ran.result
    fields: dict[str, object] = {
        "model": model,
        "source": call.offered.source,
        "tool": call.offered.name,
        "call": call.id,
        "outcome": result.outcome,
        "ms": round(ran.seconds * 1000, 1),
        "argument_bytes": len(call.arguments.encode(errors="replace")),
        "result_bytes": len(result.text.encode(errors="replace")),
    }
    if client is not None:
        fields["client"] = client
    if shows_arguments:
        fields |= {"arguments": call.arguments, "result": result.text}
    log.info("a tool has run", extra={"exchange": run_id, "fields": fields})
