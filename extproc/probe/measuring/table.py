"""What was measured, as lines for a person."""

from __future__ import annotations

from collections.abc import Iterator

from extproc.probe.measuring import Measured
from extproc.probe.measuring.questions import CATEGORIES
from extproc.probe.server import one_line


def table(measured: Measured) -> Iterator[str]:
    """What each way brought, in columns, the recommended one with a star; then what wasn't answered."""
    rows = [("right answers", *CATEGORIES.values(), "all", "valid calls", "tokens")]
    for score in measured.scores:
        tokens = f"{score.prompt_tokens:.0f}" if score.prompt_tokens is not None else "-"
        rates = (*score.categories.values(), score.total, score.valid)
        best = " *" if score is measured.best else ""
        rows.append((score.way.told + best, *(f"{rate.right}/{rate.of}" for rate in rates), tokens))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        yield "  ".join((first.ljust(widths[0]), *cells))
    for score in measured.scores:
        asked = score.total.of
        if score.failed:
            yield one_line(f"{score.way.told}: {score.failed} of {asked} weren't answered: {score.complaint}")
        if score.cut_off:
            yield f"{score.way.told}: {score.cut_off} of {asked} answers reached their token limit"
        if score.as_text:
            left = f"{score.as_text} of {asked} answers have a call in their text, which no client reads"
            yield f"{score.way.told}: {left}"
