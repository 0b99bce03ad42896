"""A badge: `ext_proc | 61 of 62`, green, yellow with warnings, red with failures. SVG."""

from __future__ import annotations

from html import escape

from extproc.conformance.verdicts import Report, Verdict

_CHARACTER, _MARGIN = 7, 10
_GREEN, _YELLOW, _RED = "#2e7d32", "#b08800", "#c62828"


def badge(report: Report) -> str:
    passes, warnings = report.count(Verdict.PASS), report.count(Verdict.WARN)
    judged = passes + warnings + report.count(Verdict.FAIL)
    name, words = "ext_proc", f"{passes + warnings} of {judged}"
    colour = _RED if not report.conforms else _YELLOW if warnings else _GREEN
    left, right = (len(each) * _CHARACTER + 2 * _MARGIN for each in (name, words))
    told = escape(f"ext_proc conformance: {report.summary}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" aria-label="{told}">'
        f"<title>{told}</title>"
        f'<rect width="{left}" height="20" fill="#444"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{colour}"/>'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">'
        f'<text x="{left / 2:g}" y="14">{name}</text>'
        f'<text x="{left + right / 2:g}" y="14">{words}</text></g></svg>\n'
    )
