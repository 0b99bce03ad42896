"""Reports for people: lines for a terminal, and markdown."""

from __future__ import annotations

from extproc.conformance.reports.matrix import COLUMNS, ROWS, matrix
from extproc.conformance.verdicts import Report, Result, Verdict

_LONGEST = 200


def line(result: Result) -> str:
    """One case on one line, and not too long a one: the other reports have all of it."""
    told = printable(result.finding.reason)
    told = told if len(told) <= _LONGEST else told[: _LONGEST - 3] + "..."
    reason = f"\n{'':9}{told}" if told else ""
    return f"{result.verdict.value:8} {result.id:10} {result.level.value:6} {result.title}{reason}"


def text(report: Report) -> str:
    """Every case, then the messages of those that failed, then the sum."""
    lines = [line(result) for result in report.results]
    for result in report.results:
        if result.verdict is Verdict.FAIL and result.finding.trace:
            lines += ["", f"{result.id} {result.title} ({result.source})"]
            lines += [f"    {printable(step)}" for step in result.finding.trace[-40:]]
    return "\n".join([*lines, "", closing(report)]) + "\n"


def closing(report: Report) -> str:
    return f"{report.target}: {report.summary}"


def markdown(report: Report) -> str:
    facts = f"Suite {report.suite}, profiles {', '.join(report.profiles)}, recipe {_cell(report.recipe)}"
    lines = [
        f"# ext_proc conformance of {_cell(report.target)}",
        "",
        f"{facts}: {report.summary}.",
        "",
    ]
    if found := matrix(report):
        lines += ["| request \\ response | " + " | ".join(COLUMNS) + " |", "| --- |" + " --- |" * len(COLUMNS)]
        for row in ROWS:
            cells = [found[row, column].value if (row, column) in found else "-" for column in COLUMNS]
            lines.append(f"| {row} | " + " | ".join(cells) + " |")
        lines.append("")
    lines += ["| case | level | verdict | what | why |", "| --- | --- | --- | --- | --- |"]
    for result in report.results:
        cells = [result.id, result.level.value, result.verdict.value, result.title, result.finding.reason]
        lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    return "\n".join(lines) + "\n"


def printable(words: str) -> str:
    """On one line, without control characters: a server's words may hold any."""
    return "".join(each if each.isprintable() else "?" for each in words)


def _cell(words: str) -> str:
    return printable(words).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")
