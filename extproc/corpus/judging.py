"""Runs a parser over rows, each whole and in cuts, and says what was right.

A parser is a callable that gets a `Given` and yields deltas in the shape of OpenAI's streams:
`{"content": "..."}`, `{"reasoning": "..."}` (or `reasoning_content`),
`{"tool_calls": [{"index": 0, "id": "...", "function": {"name": "...", "arguments": "..."}}]}`. Whatever it raises is a
failure of that row. Pure: what a parser does is its own affair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from extproc.corpus.differences import Came, difference
from extproc.corpus.reports import Report, Verdict
from extproc.corpus.rows import Row

Delta: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Given:
    """What a parser gets: the text in the pieces in which it arrives, and what is known of the request.

    One piece is the whole of an answer that isn't streamed.
    """

    pieces: Sequence[str]
    format: str
    tools: Sequence[Mapping[str, Any]]
    prompt_opens_thinking: bool
    cut_off: bool = False
    """The output ended at a limit (`finish_reason: length`), and not because the model was done."""


ParserUnderTest: TypeAlias = Callable[[Given], Iterable[Delta]]
Cuts: TypeAlias = Callable[[str], Iterator[list[str]]]

SHORT = 160
"""Texts of at most so many characters are cut in two at every place as well."""
_SIZES = (1, 3, 16)


class DeltaError(ValueError):
    """The deltas are none that a client of OpenAI's could join."""


def fixed_cuts(text: str) -> Iterator[list[str]]:
    """Whole, and in pieces of each size."""
    yield [text]
    for size in _SIZES:
        if len(text) > size:
            yield [text[at : at + size] for at in range(0, len(text), size)]


def every_cut(text: str) -> Iterator[list[str]]:
    """`fixed_cuts`, and a short text cut in two at every place."""
    yield from fixed_cuts(text)
    if len(text) <= SHORT:
        for at in range(1, len(text)):
            yield [text[:at], text[at:]]


def judge(parser: ParserUnderTest, rows: Iterable[Row], *, cuts: Cuts = every_cut) -> Report:
    """A verdict for each row: it passes if it is right whole and in every cut."""
    return Report(tuple(_verdict(parser, row, cuts) for row in rows))


def _verdict(parser: ParserUnderTest, row: Row, cuts: Cuts) -> Verdict:
    wrong: dict[str, str] = {}
    for pieces in cuts(row.text):
        way = "whole" if len(pieces) == 1 else "streamed" if max(map(len, pieces)) == 1 else "cut"
        if way not in wrong and (reason := _reason(parser, row, pieces)):
            where = "" if way == "whole" else f"in {len(pieces)} pieces, the first {len(pieces[0])} long: "
            wrong[way] = where + reason
    return Verdict(row.id, row.format, row.kind, **wrong)


def _reason(parser: ParserUnderTest, row: Row, pieces: Sequence[str]) -> str | None:
    try:
        came = joined(parser(Given(pieces, row.format, row.tools, row.prompt_opens_thinking, row.kind == "cut_off")))
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
    return difference(row, came)


def joined(deltas: Iterable[Delta]) -> Came:
    """What a client makes of deltas. DeltaError where it couldn't: a gap in the indices, a call without a name."""
    content: list[str] = []
    reasoning: list[str] = []
    calls: list[tuple[str, list[str]]] = []
    for delta in deltas:
        content.append(delta.get("content") or "")
        reasoning.append(delta.get("reasoning") or delta.get("reasoning_content") or "")
        for piece in delta.get("tool_calls") or ():
            _add_to_call(calls, piece)
    return Came("".join(content), "".join(reasoning), tuple((name, "".join(parts)) for name, parts in calls))


def _add_to_call(calls: list[tuple[str, list[str]]], piece: Mapping[str, Any]) -> None:
    function: Mapping[str, Any] = piece.get("function") or {}
    index, name = piece.get("index"), function.get("name")
    if index == len(calls):
        if not name:
            raise DeltaError(f"call {index} begins without a name")
        calls.append((name, []))
    elif not isinstance(index, int) or not 0 <= index < len(calls):
        raise DeltaError(f"index {index!r} after {len(calls)} calls")
    elif name and name != calls[index][0]:
        raise DeltaError(f"call {index} is {calls[index][0]!r}, then {name!r}")
    calls[index][1].append(function.get("arguments") or "")
