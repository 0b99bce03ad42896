"""What stands above the lanes of an exchange, as styled text: what it was, when what happened, what was found. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extproc.diagnosis import told
from extproc.watch.listing import outcome_of
from extproc.watch.summary import State, Summary
from extproc.watch.tui.words import FAINT, HEADING, Part, duration, one_line, with_code
from extproc.watch.viewed import Viewed

COLOURS: dict[State, str] = {
    "running": "bold $accent",
    "failed": "bold $error",
    "invalid": "bold $warning",
    "left": "bold $warning",
    "called": "$success",
    "answered": "$foreground-muted",
    "passed": "$foreground-muted",
}
"""Of the outcomes."""
_SEVERITIES = {"error": "bold $error", "warning": "bold $warning", "note": "bold $primary"}


def about(view: Viewed, rounds: Sequence[Summary], width: int) -> list[Part]:
    """All of it, for so many columns."""
    sections = (_head(view), _timing(view, width), _rounds(rounds), _diagnosis(view), _found(view), _notes(view))
    return [part for section in sections for part in section]


def _head(view: Viewed) -> Iterator[Part]:
    summary, lanes = view.summary, view.lanes
    yield summary.model or "?", "bold"
    yield f"  {outcome_of(summary)}", COLOURS[summary.state]
    yield f"  {lanes.method} {lanes.path}\n", FAINT
    tokens = None
    if summary.completion_tokens is not None:
        tokens = f"{'?' if summary.prompt_tokens is None else summary.prompt_tokens} + {summary.completion_tokens}"
    facts = {
        "status": summary.status,
        "key": summary.client,
        "mode": lanes.mode,
        "format": lanes.format,
        "tools": summary.tools or None,
        "tokens": tokens,
        "round": lanes.round,
        "took": duration(lanes.timing.end if lanes.timing.end is not None else summary.ms),
        "began": summary.began,
        "id": lanes.request_id,
    }
    for name, value in facts.items():
        if value is not None and value != "":
            yield f"{name} ", FAINT
            yield f"{value}  ", ""
    yield "\n", ""


def _timing(view: Viewed, width: int) -> Iterator[Part]:
    """A bar of what took how long, and the same in words."""
    timing = view.lanes.timing
    end = max(timing.end or 0, 1)
    stretches = (
        ("$primary", "the gateway, before the backend was asked", timing.asked, timing.forwarded),
        ("$warning", "the backend, before its first words", timing.forwarded, timing.first),
        ("$success", "the model writes", timing.first, timing.last),
    )
    there = [
        (style, words, since, until)
        for style, words, since, until in stretches
        if since is not None and until is not None
    ]
    column = 0
    for style, _, since, until in there:
        begins = min(max(int(width * since / end), column), width - 1)
        ends = max(int(width * until / end), begins + 1)
        yield "─" * (begins - column), FAINT
        yield "━" * (ends - begins), style
        column = ends
    if there:
        yield "\n", ""
    for style, words, since, until in there:
        yield "━ ", style
        yield f"{words} ", FAINT
        yield f"{duration(until - since)}  ", "bold"
    if there:
        yield "\n", ""


def _rounds(rounds: Sequence[Summary]) -> Iterator[Part]:
    """Of a run, and what their tools came to."""
    if rounds:
        yield "Rounds of this run\n", HEADING
    for each in rounds:
        yield f"round {each.round} ", ""
        yield outcome_of(each), COLOURS[each.state]
        if each.calls:
            yield f" called {', '.join(each.calls)}", ""
        if each.round is not None and each.round > 1 and each.words:
            yield f" after: {one_line(each.words)}", FAINT
        yield f" {duration(each.ms)}\n", FAINT


def _diagnosis(view: Viewed) -> Iterator[Part]:
    """What is likely wrong, and the setting to change."""
    if view.findings:
        yield "Diagnosis\n", HEADING
    for finding in view.findings:
        words = told(finding, quotes=True)
        yield f"{words['severity']}: ", _SEVERITIES[words["severity"]]
        yield from with_code(words["what"])
        yield " ", ""
        yield from with_code(words["shown_by"], FAINT)
        if quoted := words.get("quoted"):
            yield f' "{one_line(quoted)}"', FAINT
        yield "\n  ", ""
        yield from with_code(words["change"])
        yield "\n", ""


def _found(view: Viewed) -> Iterator[Part]:
    """What was wrong with the calls, and what was repaired."""
    retry = view.lanes.retry
    outputs = [*view.lanes.written, *(retry.written if retry is not None else ())]
    if any(output.violations or output.repairs for output in outputs):
        yield "Violations and repairs\n", HEADING
    for output in outputs:
        for violation in output.violations:
            yield "✗ ", "bold $error"
            yield f"{violation}\n", ""
        told_of: set[int] = set()
        for repair in output.repairs:
            yield "✓ ", "bold $success"
            yield "The model wrote ", ""
            yield from with_code(repair.reason)
            yield ". ", ""
            if repair.call not in told_of:
                yield one_line(repair.wrote), "$error"
                yield " → ", FAINT
                yield one_line(repair.became), "$success"
            told_of.add(repair.call)
            yield "\n", ""


def _notes(view: Viewed) -> Iterator[Part]:
    for note in view.lanes.notes:
        yield f"{note}\n", FAINT
