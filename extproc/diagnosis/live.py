"""While answers come: why a model doesn't call, found in what is at hand when an answer ends, and told in the log.

An answer costs a few comparisons. What the model wrote is only looked at where tools were offered, no call came and the
model ended by itself; of that the last pieces (`Tally.last`), and of each model once in LOOK seconds. What only the
whole exchange shows is for `diagnose`, of a recording.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from extproc.contract.errors import MISSING_CALL
from extproc.diagnosis.causes import told
from extproc.diagnosis.finding import Finding
from extproc.observability.telemetry import Telemetry
from extproc.turn.asked import Asked
from extproc.turn.spec import ResponseSpec
from extproc.turn.tally import Tally

Work: TypeAlias = Callable[[], Finding | None]
Done: TypeAlias = Callable[[Finding | None], None]

log = logging.getLogger(__name__)

LOOK = 60.0
"""Seconds between two looks at what one model wrote: trying all formats on it takes some milliseconds."""
AGAIN = 3600.0
"""Seconds between two lines of the log about the same model and cause."""


def at_once(work: Work, done: Done) -> None:
    """Look here and now."""
    done(work())


def in_a_thread(work: Work, done: Done) -> None:
    """Look beside the running loop, which the first look would stop for a tenth of a second."""
    looking = asyncio.get_running_loop().run_in_executor(None, work)
    looking.add_done_callback(lambda future: done(future.result()))


class LiveDiagnosis:
    """Of one processor (`extproc.exchange.context.Advice`). It keeps of each model when it was looked at last."""

    def __init__(
        self,
        telemetry: Telemetry,
        clock: Callable[[], float] = time.monotonic,
        look: Callable[[Work, Done], None] = at_once,
    ) -> None:
        self._look = look
        self._telemetry = telemetry
        self._clock = clock
        self._looked: dict[str, float] = {}
        self._told: dict[tuple[str, str], float] = {}

    def answered(self, model: str, asked: Asked, spec: ResponseSpec, tally: Tally, usage: Mapping[str, Any]) -> None:
        """An answer to a request with tools has come to this."""
        if tally.called and not tally.cut_off:
            return
        if "length" in tally.finish_reasons:
            cause = "length_in_call" if tally.cut_off else "length"
            self._found(model, Finding(cause, "`finish_reason` is `length`"))
        elif MISSING_CALL in tally.violations:
            self._found(model, Finding("missing_call", "`tool_choice` asks for a call"))
        if "stop" in tally.finish_reasons and not tally.called and self._due(self._looked, model, LOOK):
            self._look(partial(_why_no_call, asked, spec, tally, usage), partial(self._found, model))

    def _found(self, model: str, finding: Finding | None) -> None:
        if finding is not None:
            self._telemetry.diagnosed(model, finding.cause)
            self._tell(model, finding)

    def _tell(self, model: str, finding: Finding) -> None:
        if not self._due(self._told, (model, finding.cause), AGAIN):
            return
        # Without what shows it: names of tools are in there, which are the client's.
        words = told(finding, quotes=False)
        fields = {"model": model, "cause": finding.cause, "page": words["page"]}
        log.warning("model %s: %s %s", model, words["what"], words["change"], extra={"fields": fields})

    def _due(self, times: dict[Any, float], key: object, seconds: float) -> bool:
        now = self._clock()
        if now < times.get(key, -seconds) + seconds:
            return False
        times[key] = now
        return True


def _why_no_call(asked: Asked, spec: ResponseSpec, tally: Tally, usage: Mapping[str, Any]) -> Finding | None:
    from extproc.diagnosis.at_hand import why_no_call  # hardly any start needs it

    return why_no_call(asked, spec, tally, usage)
