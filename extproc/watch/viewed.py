"""One exchange as it is shown, and what one can take along of it: a recording, a report, a command, a replay."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from extproc.diagnosis import Finding, told
from extproc.diagnosis.diagnosing import diagnose
from extproc.recording.difference import first_difference, steps_of
from extproc.recording.document import Document, RecordingError
from extproc.recording.replay import ReplayResult, replay
from extproc.watch import page
from extproc.watch.lanes import Lanes, lanes
from extproc.watch.summary import Summary
from extproc.watch.watched import Watched

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Viewed:
    """An exchange with its lanes, as far as it has come."""

    summary: Summary
    lanes: Lanes
    findings: list[Finding]
    """What is likely wrong with it, once it has ended."""
    ended: bool

    def as_json(self) -> Json:
        """For the page."""
        return {
            **self.lanes.as_json(),
            "diagnosis": [told(finding, quotes=True) for finding in self.findings],
            "summary": self.summary.as_json(),
            "began": self.summary.began,
            "ended": self.ended,
        }


def viewed(watched: Watched) -> Viewed:
    """Reads all of it, which takes some time where a model wrote much."""
    ended = watched.ended is not None
    document = watched.document()
    made = lanes(document, ended=ended)
    return Viewed(watched.summary, made, _findings(document) if ended else [], ended)


def _findings(document: Document) -> list[Finding]:
    try:
        return diagnose(document)
    except RecordingError:  # the lanes tell of it
        return []


@dataclass(frozen=True, slots=True)
class Replayed:
    """What this very code makes of an exchange, byte by byte."""

    steps: int = 0
    place: str = ""
    """Where it differs first; "": it is the same,"""
    recorded: str = ""
    now: str = ""
    trouble: str = ""
    """unless it can't be replayed: why."""

    def as_json(self) -> Json:
        """For the page."""
        if self.trouble:
            return {"trouble": self.trouble}
        made: Json = {"same": not self.place, "steps": self.steps}
        return made | ({"place": self.place, "recorded": self.recorded, "now": self.now} if self.place else {})


def replayed(watched: Watched) -> Replayed:
    """Whether the same comes of it by this version."""
    if watched.ended is None:
        return Replayed(trouble="It hasn't ended yet.")
    document = watched.document()
    try:
        now = replay(document, 1)
    except RecordingError as error:
        return Replayed(trouble=str(error))
    difference = first_difference(ReplayResult.recorded(document), now)
    if difference is None:
        return Replayed(steps_of(now))
    return Replayed(steps_of(now), difference.place, difference.recorded, difference.now)


def report(watched: Watched) -> bytes:
    """One HTML file with the exchange in it."""
    document = watched.document()
    made = viewed(watched).as_json()
    # Whose key it was, and what else isn't in a recording, is in no report either.
    made["summary"] = {**made["summary"], "client": None}
    made["recording"] = document.written().decode()
    made["extproc"] = document.extproc
    return page.report(made, f"extproc: {watched.summary.model or 'an exchange'}, {watched.summary.began}")


def name_of(watched: Watched) -> str:
    """What a file of it is named, without a suffix. An id can come from a client; what is left of it is plain."""
    identity = re.sub(r"[^A-Za-z0-9-]", "", watched.summary.request_id)[:36] or "unnamed"
    return f"extproc-{watched.began:%Y%m%dT%H%M%S}Z-{identity}"
