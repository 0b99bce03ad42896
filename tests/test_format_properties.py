"""What holds for every format, whatever a model writes in it: the parser's promises, with generated calls and text.

A writer (`tests/format_writers`) renders them as a model of that family would; the parser has to give them back.
"""

from __future__ import annotations

import dataclasses
import json
import random
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.toolcalls import (
    FORMATS,
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Event,
    Parsed,
    Parser,
    Reasoning,
    Text,
    get_format,
)
from extproc.toolcalls.events import collect
from tests.cuts import random_cut
from tests.format_writers import WRITERS, Call, Output, Place, Writer
from tests.format_writers.generated import Generated, outputs, tool

pytestmark = pytest.mark.long

every_writer = pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.name)


def events_of(writer: Writer, generated: Generated, pieces: list[str]) -> list[Event]:
    """What the parser says, as the pieces arrive and at the end."""
    return [event for events in events_by_piece(writer, generated, pieces) for event in events]


def events_by_piece(writer: Writer, generated: Generated, pieces: list[str]) -> list[list[Event]]:
    parser = Parser(
        format=writer.format,
        tools=generated.tools,
        reasoning="open" if generated.output.thinking_is_open else None,
    )
    return [*map(parser.feed, pieces), parser.close()]


def joined(events: list[Event]) -> list[Event]:
    """The events with neighbours of one kind made one, which is all that a cut may change."""
    whole: list[Event] = []
    for event in events:
        match (whole[-1] if whole else None), event:
            case (Text(before), Text(text)):
                whole[-1] = Text(before + text)
            case (Reasoning(before), Reasoning(text)):
                whole[-1] = Reasoning(before + text)
            case (ArgumentsDelta(_, before), ArgumentsDelta(index, piece)):
                whole[-1] = ArgumentsDelta(index, before + piece)
            case _:
                whole.append(event)
    return whole


def assert_well_ordered(events: list[Event]) -> None:
    """Calls are numbered without gaps and never overlap; each has arguments; no event is empty."""
    open_call: int | None = None
    calls = deltas = 0
    for event in events:
        match event:
            case CallStart(index, name):
                assert (open_call, index) == (None, calls)
                assert name
                open_call, calls, deltas = index, calls + 1, 0
            case ArgumentsDelta(index, piece):
                assert index == open_call
                assert piece
                deltas += 1
            case CallEnd(index):
                assert index == open_call
                assert deltas
                open_call = None
            case Text(text) | Reasoning(text):
                assert open_call is None
                assert text
    assert open_call is None


def exactly(got: Any, expected: Any) -> bool:
    """Equal as JSON: true is not 1, 1 is not 1.0, and keys keep their order."""
    if isinstance(expected, Mapping):
        return (
            isinstance(got, dict)
            and list(got) == list(expected)
            and all(exactly(got[key], expected[key]) for key in expected)
        )
    if isinstance(expected, list):
        return isinstance(got, list) and len(got) == len(expected) and all(map(exactly, got, expected))
    if isinstance(expected, float):
        return isinstance(got, float) and repr(got) == repr(float(expected))
    return type(got) is type(expected) and bool(got == expected)


def assert_is_what_was_written(writer: Writer, output: Output, parsed: Parsed) -> None:
    assert [call.name for call in parsed.calls] == [call.name for call in output.calls]
    for got, call in zip(parsed.calls, output.calls, strict=True):
        assert exactly(json.loads(got.arguments), call.arguments), got.arguments
        if writer.verbatim:
            assert got.arguments == output.json(call.arguments)
        if not call.arguments:
            assert got.arguments == "{}"
    text = [output.before, *([output.between] * (len(output.calls) - 1)), output.after]
    ends_in_text = bool(output.after) or not output.calls
    if any(text[1:]) or (ends_in_text and squeezed(*text) != without_begun_marker(writer, *text)):
        # How much white space is left where calls stood between two texts is not said, and text at the very end may
        # lose what is surely the beginning of a marker.
        ends = [squeezed(*text), *([without_begun_marker(writer, *text)] if ends_in_text else [])]
        assert squeezed(parsed.content) in ends
    else:
        assert (parsed.content or "").strip() == output.before.strip()
    assert (parsed.reasoning or "").strip() == output.reasoning.strip()


def squeezed(*texts: str | None) -> str:
    return "".join("".join(text or "" for text in texts).split())


def without_begun_marker(writer: Writer, *texts: str | None) -> str:
    """The texts without white space, and without the beginning of a marker that they end in."""
    text = squeezed(*texts)
    beginnings = begun_markers(writer)
    first = max(0, len(text) - max(map(len, beginnings), default=0))
    return text[: next((at for at in range(first, len(text)) if text[at:] in beginnings), None)]


@cache
def begun_markers(writer: Writer) -> frozenset[str]:
    return frozenset(squeezed(marker[:size]) for marker in writer.markup for size in range(1, len(marker)))


def test_every_format_has_a_writer() -> None:
    assert {get_format(writer.format) for writer in WRITERS} == set(FORMATS)


@every_writer
@settings(max_examples=20)
@given(st.data())
def test_what_was_written_comes_back_in_any_cut(writer: Writer, data: st.DataObject) -> None:
    generated = data.draw(outputs(writer))
    text = writer.write(generated.output)
    whole = events_of(writer, generated, [text])
    assert_is_what_was_written(writer, generated.output, collect(whole))
    for pieces in (list(text), random_cut(text, random.Random(data.draw(st.integers(0, 1000))))):
        events = events_of(writer, generated, pieces)
        assert_well_ordered(events)
        assert joined(events) == joined(whole), pieces


# Broken outputs

_EDITS = st.lists(
    st.tuples(st.sampled_from(["delete", "repeat", "insert", "cut off"]), st.floats(0, 1), st.integers(1, 12)),
    min_size=1,
    max_size=3,
)


def mutilated(text: str, edits: list[tuple[str, float, int]], markup: tuple[str, ...]) -> str:
    for kind, place, size in edits:
        at = int(place * len(text))
        match kind:
            case "delete":
                text = text[:at] + text[at + size :]
            case "repeat":
                text = text[: at + size] + text[at:]
            case "insert":
                text = text[:at] + (markup or ("{",))[size % (len(markup) or 1)] + text[at:]
            case _:
                text = text[:at]
    return text


@every_writer
@settings(max_examples=12)
@given(st.data())
def test_broken_output_raises_nothing_and_is_read_the_same_in_any_cut(writer: Writer, data: st.DataObject) -> None:
    generated = data.draw(outputs(writer, most_calls=2))
    text = mutilated(writer.write(generated.output), data.draw(_EDITS), writer.markup)
    whole = events_of(writer, generated, [text])
    assert_well_ordered(whole)
    for pieces in (list(text), random_cut(text, random.Random(len(text)))):
        events = events_of(writer, generated, pieces)
        assert_well_ordered(events)
        assert joined(events) == joined(whole), pieces


# Greek stands for what the user would miss: no markup, key or name has any of it.
_GREEK = re.compile("[α-ω]")


def letters(*texts: str | None) -> str:
    """The Greek letters of the texts, sorted: content and calls may change places."""
    return "".join(sorted(_GREEK.findall("".join(text or "" for text in texts))))


def plain(writer: Writer) -> Generated:
    """An output without anything hard in it, whose every letter can be told."""
    arguments = {"text": "κλμ νξ\nοπρ", "count": 3, "place": {"city": "στυ", "zip": 4}}
    schemas = {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "place": {"type": "object", "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}}},
    }
    tools = [tool("write_file", schemas), tool("f", {})]
    calls = (Call("write_file", arguments, 0), Call("f", {}, 1), Call("write_file", {"text": "φχ"}, 2))
    text = {place: said for place, said in zip(Place, ("αβγ. δ", "εζ", "ηθ ι"), strict=True) if place in writer.places}
    return Generated(
        Output(
            calls=calls[: writer.most_calls],
            reasoning="ψω" if writer.thinks else "",
            before=text.get(Place.BEFORE, ""),
            between=text.get(Place.BETWEEN, ""),
            after=text.get(Place.AFTER, ""),
        ),
        tools,
    )


class CutOff(NamedTuple):
    """An output that ends early, and what the parser makes of it."""

    text: str
    complete: int
    """How many of its calls are complete."""
    events: list[Event]
    parsed: Parsed


@cache
def cut_off(writer: Writer) -> list[CutOff]:
    """The plain output, cut off everywhere."""
    generated = plain(writer)
    text = writer.write(generated.output)
    ends = [complete_after(writer, generated.output, calls + 1) for calls in range(len(generated.output.calls))]
    found = []
    for end in range(len(text) + 1):
        events = events_of(writer, generated, [text[:end]])
        found.append(CutOff(text[:end], sum(at <= end for at in ends), events, collect(events)))
    return found


@every_writer
def test_cut_off_anywhere_complete_calls_stand_and_no_letter_is_lost(writer: Writer) -> None:
    calls = plain(writer).output.calls
    for cut, complete, events, got in cut_off(writer):
        assert_well_ordered(events)
        assert complete <= len(got.calls) <= complete + 1, cut
        for call, expected in zip(got.calls[:complete], calls, strict=False):
            assert call.name == expected.name, cut
            assert exactly(json.loads(call.arguments), expected.arguments), cut
        assert letters(cut) == letters(got.content, got.reasoning, *(call.arguments for call in got.calls)), cut


@every_writer
def test_cut_off_anywhere_no_marker_shows_beside_a_complete_call(writer: Writer) -> None:
    for cut, complete, _, got in cut_off(writer):
        if complete:
            assert [marker for marker in writer.markup if marker in (got.content or "")] == [], cut


@pytest.mark.parametrize("writer", [writer for writer in WRITERS if not writer.offered_only], ids=lambda it: it.name)
def test_cut_off_anywhere_no_part_of_a_call_behind_a_marker_shows(writer: Writer) -> None:
    """All that shows too early is what may not have become a marker, such as `<tool`."""
    cuts = cut_off(writer)
    said = squeezed(cuts[-1].parsed.content)
    for cut, _, _, got in cuts:
        shown = squeezed(got.content)
        assert said.startswith((shown, without_begun_marker(writer, shown))), cut
        assert "write_file" not in shown, cut


def complete_after(writer: Writer, output: Output, calls: int) -> int:
    """Where the first `calls` calls are complete: as far as the text is the same when no more of them come."""
    fewer = writer.write(dataclasses.replace(output, calls=output.calls[:calls], after=""))
    whole = writer.write(output)
    return next((at for at, (one, other) in enumerate(zip(fewer, whole, strict=False)) if one != other), len(fewer))


# Streaming


@every_writer
def test_a_string_leaves_while_it_is_being_written(writer: Writer) -> None:
    """Also one that keeps beginning what may become a marker."""
    text = "words and more words, "
    almost = "".join(marker[:-1] for marker in writer.markup if not set(marker) & set("\n\"'"))
    generated = one_string(text * 8 + (almost if writer.holds(almost) else "") + text * 8)
    long = generated.output.calls[0].arguments["text"]
    written = writer.write(generated.output)
    start = written.index(long)
    pieces = [written[:start], *long]
    came = 0
    for position, events in enumerate(events_by_piece(writer, generated, pieces)[:-1]):
        came += sum(len(event.json) for event in events if isinstance(event, ArgumentsDelta))
        behind = position + len('{"text": "') - came
        assert behind <= held_at_most(writer), long[:position]


@every_writer
def test_text_leaves_while_it_is_being_written(writer: Writer) -> None:
    """The thinking too."""
    generated = plain(writer)
    text = "words and more words, " * 8
    for output in (Output(before=text.strip()), Output(reasoning=text.strip())):
        if (output.before and Place.BEFORE not in writer.places) or (output.reasoning and not writer.thinks):
            continue
        written = writer.write(output)
        start = written.index(text.strip())
        came = 0
        pieces = [written[:start], *text.strip()]
        events_of_pieces = events_by_piece(writer, dataclasses.replace(generated, output=output), pieces)
        for position, events in enumerate(events_of_pieces[:-1]):
            came += sum(len(event.text) for event in events if isinstance(event, Text | Reasoning))
            assert position - came <= held_at_most(writer), text[:position]


def one_string(value: str) -> Generated:
    """A call with one argument, which can only be a string."""
    output = Output(calls=(Call("write_file", {"text": value}),))
    return Generated(output, [tool("write_file", {"text": {"type": "string"}})])


def held_at_most(writer: Writer) -> int:
    """The longest marker, and what shows that a text is no list or object."""
    return max(map(len, writer.markup), default=0) + 40


# Size


@every_writer
def test_long_values_and_many_calls_come_back(writer: Writer) -> None:
    line = "\tif (a < b && c[0] > 'd') { print(\"é😀\\\\n\"); } </p> &amp; \u2028 ]] }} ```\n"
    value = "x" + line * (100_000 // len(line)) + "x"
    output = Output(
        calls=tuple(
            Call("write_file", {"text": value if number == 0 else line}, number) for number in range(writer.most_calls)
        )
    )
    generated = Generated(output, [tool("write_file", {"text": {"type": "string"}})])
    text = writer.write(output)
    pieces = [text[at : at + 16] for at in range(0, len(text), 16)]
    assert_is_what_was_written(writer, output, collect(events_of(writer, generated, pieces)))
