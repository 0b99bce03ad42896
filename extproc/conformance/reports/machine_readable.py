"""Reports for programs: JSON, JUnit's XML, TAP 13."""

from __future__ import annotations

import json
from xml.sax.saxutils import quoteattr

from extproc.conformance.verdicts import Report, Result, Verdict

_SKIPPED = (Verdict.SKIP, Verdict.REFUSES)


def json_(report: Report) -> str:
    """`format` counts up when a field changes its meaning."""
    return (
        json.dumps(
            {
                "format": 1,
                "suite": report.suite,
                "target": report.target,
                "profiles": report.profiles,
                "recipe": report.recipe,
                "conforms": report.conforms,
                "counts": {verdict.value: report.count(verdict) for verdict in Verdict},
                "results": [_result(result) for result in report.results],
            },
            indent=2,
        )
        + "\n"
    )


def _result(result: Result) -> dict[str, object]:
    return {
        "id": result.id,
        "level": result.level.value,
        "profile": result.profile,
        "title": result.title,
        "source": result.source,
        "layout": result.layout or None,
        "verdict": result.verdict.value,
        "reason": result.finding.reason,
        "invariants": result.finding.broken,
        "messages": result.finding.trace,
        "seconds": round(result.seconds, 3),
    }


def junit(report: Report) -> str:
    """A failure is a failure; a refused layout and what isn't played are skipped; a warning is output."""
    seconds = sum(result.seconds for result in report.results)
    skipped = sum(report.count(verdict) for verdict in _SKIPPED)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuite name="ext_proc conformance" tests="{len(report.results)}" failures="{report.count(Verdict.FAIL)}"'
        f' errors="0" skipped="{skipped}" time="{seconds:.3f}">',
    ]
    for result in report.results:
        name = _attribute(f"{result.id} {result.title}")
        lines.append(
            f'  <testcase classname="extproc.conformance.{result.profile}" name={name} time="{result.seconds:.3f}">'
        )
        reason = _attribute(result.finding.reason or result.verdict.value)
        if result.verdict is Verdict.FAIL:
            lines.append(f"    <failure message={reason}>{_xml(chr(10).join(result.finding.trace))}</failure>")
        elif result.verdict in _SKIPPED:
            lines.append(f"    <skipped message={reason}/>")
        elif result.finding.reason:
            lines.append(f"    <system-out>{_xml(f'{result.verdict.value}: {result.finding.reason}')}</system-out>")
        lines.append("  </testcase>")
    return "\n".join([*lines, "</testsuite>"]) + "\n"


def _xml(words: str) -> str:
    """XML 1.0 can't hold control characters at all."""
    kept = "".join(each if each.isprintable() or each == "\n" else "?" for each in words)
    return kept.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _attribute(words: str) -> str:
    return quoteattr("".join(each if each.isprintable() else "?" for each in words))


def tap(report: Report) -> str:
    """Version 13. A warning and a refusal are `ok`, with a comment."""
    lines = ["TAP version 13", f"1..{len(report.results)}"]
    for number, result in enumerate(report.results, 1):
        good = "not ok" if result.verdict is Verdict.FAIL else "ok"
        words = "".join(each if each.isprintable() and each != "#" else "?" for each in result.finding.reason)
        directive = f" # SKIP {result.verdict.value} {words}".rstrip() if result.verdict in _SKIPPED else ""
        lines.append(f"{good} {number} - {result.id} {result.title.replace('#', '?')}{directive}")
        if words and not directive:
            lines.append(f"# {result.verdict.value}: {words}")
    return "\n".join(lines) + "\n"
