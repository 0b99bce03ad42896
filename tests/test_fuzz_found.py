"""What the fuzzer found stays fixed; and the fuzzer finds what it is for, in parsers that are broken on purpose."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from extproc.toolcalls import ArgumentsDelta, CallEnd, CallStart, Event, Parser, Text
from tests.cuts import cuts
from tests.fuzz import early, exploring, growth, holding
from tests.fuzz.checks import Check, check_cuts
from tests.fuzz.exploring import Slice, explore
from tests.fuzz.found import found
from tests.fuzz.inputs import Input, from_row
from tests.fuzz.mutation import Mutator
from tests.fuzz.seeds import markup, samples
from tests.sample_rows import Row

EVERY = frozenset(Check)
ROWS = found()


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_what_was_found_stays_mended_in_every_cut(row: Row) -> None:
    input_ = from_row(row)
    assert check_cuts(input_, list(cuts(input_.text)), EVERY) is None
    for at in range(len(input_.text) + 1):
        assert early.wrong(input_, at) is None, input_.text[:at]
    assert holding.wrong(input_, len(input_.text)) is None
    if place := row.get("repeat"):
        assert growth.wrong(input_, *place) is None


def test_every_format_has_samples_and_markup() -> None:
    assert all(samples().values())
    assert all(markup().values())


def test_the_same_seed_makes_the_same_inputs() -> None:
    mutators = Mutator("hermes", 1), Mutator("hermes", 1), Mutator("hermes", 2)
    one, other, third = ([mutator.mutated(samples()["hermes"]) for _ in range(20)] for mutator in mutators)
    assert one == other != third


def test_a_parser_that_is_right_passes() -> None:
    learned = explore(Slice("hermes", 1, 60, frozenset({Check.ORDER, Check.CUT, Check.LETTERS})))
    assert not learned.failures
    assert learned.inputs == 60
    assert learned.seen
    assert learned.kept


class _Broken(Parser):
    """It tells what the right one tells, but as `breaks` has it."""

    breaks: Callable[[str, list[Event]], list[Event]]

    def feed(self, text: str) -> list[Event]:
        return type(self).breaks(text, super().feed(text))


def _raises(text: str, events: list[Event]) -> list[Event]:
    if "{" in text:
        raise KeyError(text)
    return events


def _swaps(_text: str, events: list[Event]) -> list[Event]:
    return events[::-1] if any(isinstance(event, CallStart) for event in events) else events


def _depends_on_the_cut(text: str, events: list[Event]) -> list[Event]:
    return [*events, Text("x")] if len(text) == 3 else events


def _loses(_text: str, events: list[Event]) -> list[Event]:
    for event in events:
        if isinstance(event, Text):
            event.text = re.sub("[가-힣]", "", event.text) or " "
    return events


def _spoils(_text: str, events: list[Event]) -> list[Event]:
    return [
        ArgumentsDelta(event.index, event.json.replace('"', "'")) if isinstance(event, ArgumentsDelta) else event
        for event in events
    ]


def _halves(_text: str, events: list[Event]) -> list[Event]:
    return [Text(event.text + "\ud83d") if isinstance(event, Text) else event for event in events]


def _holds(text: str, events: list[Event]) -> list[Event]:
    return [] if len(text) == 16 else events


@pytest.mark.parametrize(
    ("check", "breaks"),
    [
        (Check.EXCEPTION, _raises),
        (Check.ORDER, _swaps),
        (Check.CUT, _depends_on_the_cut),
        (Check.LETTERS, _loses),
        (Check.JSON, _spoils),
        (Check.UNICODE, _halves),
        (Check.HELD, _holds),
    ],
    ids=lambda value: value.value if isinstance(value, Check) else "",
)
def test_a_broken_parser_is_found_out(
    check: Check, breaks: Callable[[str, list[Event]], list[Event]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.fuzz.inputs.Parser", type("Broken", (_Broken,), {"breaks": staticmethod(breaks)}))
    monkeypatch.setattr(exploring, "_MOST_ALIKE", 1)
    learned = explore(Slice("hermes", 1, 60, frozenset({check})))
    assert {found for found, _ in learned.failures} & {check}
    for finding in learned.findings:
        assert finding.failure.check in (check, Check.EXCEPTION, Check.ORDER, Check.CUT)


def test_a_call_that_is_taken_for_whole_too_early_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Early(Parser):
        def close(self, *, cut_off: bool = False) -> list[Event]:
            events = super().close(cut_off=cut_off)
            return [CallEnd(event.index) if isinstance(event, CallEnd) else event for event in events]

    text = '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'
    monkeypatch.setattr("tests.fuzz.inputs.Parser", Early)
    assert early.wrong(Input("hermes", text), text.index("1")) is not None


def test_work_that_grows_faster_than_the_text_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(Parser):
        def feed(self, text: str) -> list[Event]:
            for at in range(0, len(text), 2):
                text[at:].count("ab")
            return super().feed(text)

    assert growth.wrong(Input("hermes", "abcdefgh"), 0, 8) is None
    monkeypatch.setattr("tests.fuzz.inputs.Parser", Slow)
    assert growth.wrong(Input("hermes", "abcdefgh"), 0, 8) is not None
