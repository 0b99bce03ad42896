"""Makes the pictures of docs/dashboards.md of what was seen: `make test-alerts PICTURES=1`."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.alerts.everyday import Seen
from tests.dashboards import DASHBOARDS
from tests.dashboards.answers import Answer, Series
from tests.dashboards.drawing import PICTURES, Beside, picture

_EVERY = 5
"""Seconds that tokens are added up for."""
_LARGEST = 24
"""Spans of a trace that are still readable."""


def write(seen: Seen) -> None:
    """All of them."""
    for dashboard in DASHBOARDS:
        path = PICTURES / f"{dashboard.uid.removeprefix('extproc-')}.svg"
        path.write_text(picture(dashboard, seen.answers[dashboard.uid], _beside(seen)), encoding="utf-8")


def _beside(seen: Seen) -> Beside:
    """What Tempo and Loki would show: the trace of a run with most in it, its lines, and whose tokens they all were."""
    traces = defaultdict(list)
    for span in seen.spans:
        traces[span.trace].append(span)
    lines = {trace: [line for line in seen.lines if trace in (line["traceparent"] or "")] for trace in traces}
    whole = (trace for trace, spans in traces.items() if len(spans) <= _LARGEST and lines[trace])
    trace = max(whole, key=lambda trace: len(traces[trace]))
    return Beside(
        spans={"Its trace": traces[trace]},
        lines={"Its lines in the access log, and in the logs of the processor": [_line(each) for each in lines[trace]]},
        answers={"Tokens by key": [_tokens(seen)]},
        seconds=seen.seconds,
    )


def _line(told: Mapping[str, Any]) -> str:
    """As it was, but for where the sockets of the run were."""
    return json.dumps({**told, "upstream": Path(told["upstream"]).name})


def _tokens(seen: Seen) -> Answer:
    """By the names of keys: in a run's rounds they are that of the client whose run it is."""
    times = [datetime.fromisoformat(line["time"]).timestamp() for line in seen.lines]
    begin = min(times)
    spans = range(0, int(seen.seconds), _EVERY)
    added: dict[str, Counter[int]] = defaultdict(Counter)
    for time, line in zip(times, seen.lines, strict=True):
        told = line["extproc"] or {}
        if "total_tokens" in told:
            added[told["client"]][int((time - begin) // _EVERY) * _EVERY] += told["total_tokens"]
    return Answer([Series(key, [(at, counts[at]) for at in spans]) for key, counts in sorted(added.items())])
