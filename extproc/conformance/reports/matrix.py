"""The layout matrix: what a server makes of each pair of body modes."""

from __future__ import annotations

from collections.abc import Mapping

from extproc.conformance.host.settings import REQUESTS, RESPONSES
from extproc.conformance.verdicts import Report, Verdict

ROWS = tuple(mode.name for mode in REQUESTS)
COLUMNS = tuple(mode.name for mode in RESPONSES)


def matrix(report: Report) -> Mapping[tuple[str, str], Verdict]:
    """By request and response mode, of the cases that were played; empty if none was."""
    found = {}
    for result in report.results:
        if result.layout:
            request, _, response = result.layout.partition("/")
            found[request, response] = result.verdict
    return found
