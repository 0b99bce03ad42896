"""From an exchange to its causes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from extproc.diagnosis import answers, requests, writing
from extproc.diagnosis.causes import CAUSES
from extproc.diagnosis.finding import Finding, Severity
from extproc.diagnosis.observed import Observed
from extproc.recording.document import Document

Rule: TypeAlias = Callable[[Observed], Iterator[Finding]]

_RULES: tuple[Rule, ...] = (
    requests.refused,
    answers.failed,
    answers.ended_early,
    answers.out_of_tokens,
    writing.missing_call,
    writing.tools_not_shown,
    writing.invalid_calls,
    writing.no_call_read,
    answers.empty,
    requests.repeated_call,
    requests.nothing_offered,
    requests.repaired_history,
    requests.dropped_parameters,
)
_SEVERITIES = list(Severity)


def diagnose(document: Document) -> list[Finding]:
    """What went wrong in an exchange, the likeliest cause first; nothing where all is well.

    It takes some tenths of a second where the model wrote much and no call was read: all formats are tried on it.
    Raises RecordingError when this version doesn't know the recording's settings.
    """
    if not document.asked:
        return []
    seen = Observed.of(document)
    found = [finding for rule in _RULES for finding in rule(seen)]
    return sorted(found, key=lambda finding: _SEVERITIES.index(CAUSES[finding.cause].severity))
