"""What a run's report looks like, by format. Each is a pure function of the report.

Nothing of a body or of a header's value is in a report: reasons name kinds, sizes, names and statuses.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from extproc.conformance.reports.badge import badge
from extproc.conformance.reports.machine_readable import json_, junit, tap
from extproc.conformance.reports.page import html
from extproc.conformance.reports.readable import markdown, text
from extproc.conformance.verdicts import Report

FORMATS: MappingProxyType[str, Callable[[Report], str]] = MappingProxyType(
    {"text": text, "json": json_, "junit": junit, "tap": tap, "markdown": markdown, "html": html, "badge": badge}
)
