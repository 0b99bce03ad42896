"""A writer for a format that has none of its own here: it writes as the format's syntax does.

Writers of their own spell a format out a second time, from the models' chat templates, and know what exactly it can
express. This one takes both from the format's file, and asks less: no value and no text has any of the markup in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from extproc.toolcalls import CallSyntax, Format
from extproc.toolcalls.table import Body, Prose, Sink
from tests.format_writers.output import EVERYWHERE, Call, Output, Types, Writer, is_word, laid_out, without


def derived(format_: Format) -> Writer:
    """The writer of a format that has a syntax."""
    syntax = format_.syntax
    assert syntax is not None, f"{format_.name} has neither a syntax nor a writer in tests/format_writers"
    thinking = _thinking(format_)
    read = {marker for state in format_.states.values() if not isinstance(state, Body) for marker in state.transitions}
    markup = tuple(sorted({*read, *syntax.markup} - {"{", "[", "", "\n"}))
    in_json = syntax.style == "json"
    without_markup = without(*map(re.escape, markup))
    return Writer(
        format_.name,
        partial(_write, syntax, thinking or ("", "")),
        markup,
        places=EVERYWHERE,
        thinks=thinking is not None,
        types=Types.OUTPUT if in_json else Types.SCHEMA,
        verbatim=in_json,
        holds=(lambda _: True) if in_json else without_markup,
        names=is_word,
    )


def _write(syntax: CallSyntax, thinking: tuple[str, str], output: Output) -> str:
    def section(calls: Sequence[Call]) -> str:
        first = calls[0].number if calls else 0
        return syntax.write([(call.name, output.json(call.arguments)) for call in calls], first=first)

    return laid_out(output, section, thinking=thinking)


def _thinking(format_: Format) -> tuple[str, str] | None:
    """The tags around the thinking."""
    prose = format_.states[format_.start]
    if format_.thinking is None or not isinstance(prose, Prose):
        return None
    thinking = format_.states[format_.thinking]
    assert isinstance(thinking, Prose)
    assert thinking.sink is Sink.REASONING
    opening = next(marker for marker, leads in prose.transitions.items() if leads.to == format_.thinking)
    closing = next(marker for marker, leads in thinking.transitions.items() if leads.to == format_.start)
    return opening, closing
