"""One HTML page that holds all it needs: the layout matrix first, then every case. No script, nothing is loaded."""

from __future__ import annotations

import html as entities

from extproc.conformance.reports.matrix import COLUMNS, ROWS, matrix
from extproc.conformance.reports.readable import printable
from extproc.conformance.verdicts import Report, Result, Verdict

_STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75em; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse; margin: 1em 0; width: 100% }
th, td { border: 1px solid #8886; padding: .35em .6em; text-align: left; vertical-align: top }
.PASS { background: #2e7d3233 } .WARN { background: #b0880044 } .FAIL { background: #c6282844 }
.REFUSES, .SKIP { background: #8883 }
.matrix td { text-align: center } pre { overflow-x: auto; margin: .5em 0; font-size: 12px }
"""


def escape(words: str) -> str:
    """A server's words, as text."""
    return entities.escape("\n".join(map(printable, words.split("\n"))))


def html(report: Report) -> str:
    title = escape(f"ext_proc conformance of {report.target}")
    facts = f"Suite {report.suite}, profiles {', '.join(report.profiles)}, recipe {report.recipe}: {report.summary}."
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n'
        f"<body><h1>{title}</h1>\n{_matrix(report)}<p>{escape(facts)}</p>\n"
        "<table><thead><tr><th>case</th><th>level</th><th>verdict</th><th>what</th><th>why</th></tr></thead><tbody>\n"
        + "".join(map(_row, report.results))
        + "</tbody></table></body></html>\n"
    )


def _matrix(report: Report) -> str:
    found = matrix(report)
    if not found:
        return ""
    head = "".join(f'<th scope="col">{column}</th>' for column in COLUMNS)
    rows = ""
    for row in ROWS:
        cells = ""
        for column in COLUMNS:
            verdict = found.get((row, column))
            cells += f'<td class="{verdict.value}">{verdict.value}</td>' if verdict else "<td></td>"
        rows += f'<tr><th scope="row">{row}</th>{cells}</tr>\n'
    return (
        "<h2>Layouts</h2><p>Rows: the request's body mode; columns: the response's.</p>\n"
        f'<table class="matrix"><thead><tr><th></th>{head}</tr></thead><tbody>\n{rows}</tbody></table>\n'
    )


def _row(result: Result) -> str:
    why = escape(result.finding.reason)
    if result.finding.trace and result.verdict in (Verdict.FAIL, Verdict.WARN):
        steps = escape("\n".join(result.finding.trace[-60:]))
        why += f"<details><summary>messages</summary><pre>{steps}</pre></details>"
    verdict = result.verdict.value
    return (
        f'<tr><td id="{result.id}">{result.id}</td><td>{result.level.value}</td><td class="{verdict}">{verdict}</td>'
        f"<td>{escape(result.title)}<br><small>{escape(result.source)}</small></td><td>{why}</td></tr>\n"
    )
