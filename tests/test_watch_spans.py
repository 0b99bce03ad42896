"""What each character of an output became: all of it is there, in every format, and every event has its text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from extproc.toolcalls import Parser, get_format, parse
from extproc.toolcalls.events import collect
from extproc.watch.repairs import notation_of, repairs
from extproc.watch.spans import FINE, Span, SpanReader
from tests.sample_rows import SAMPLES, rows

FILES = sorted((SAMPLES / "formats").glob("*.jsonl"))
F = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
WEATHER = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]


def read(text: str, name: str, tools: Any = None, reasoning: Any = None, cut: int | None = None) -> SpanReader:
    format_ = get_format(name)
    reader = SpanReader(Parser(format=format_, tools=tools, reasoning=reasoning), notation_of(format_))
    for at in range(0, len(text), cut or max(len(text), 1)):
        reader.feed(text[at : at + (cut or max(len(text), 1))])
    reader.close()
    return reader


def plain(spans: list[Span]) -> list[tuple[str, str]]:
    return [(span.kind, span.text) for span in spans]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_spans_of_every_sample_are_its_text_and_say_what_the_parser_says(path: Path) -> None:
    checked = 0
    for row in rows(path):
        text, name, tools = row["text"], row["format"], row.get("tools")
        reader = read(text, name, tools, row.get("reasoning"))
        assert "".join(span.text for span in reader.spans) == text, row["id"]
        assert collect(reader.events) == parse(text, format=name, tools=tools, reasoning=row.get("reasoning")), row[
            "id"
        ]
        for span in reader.spans:
            if span.kind in ("content", "reasoning", "name") and span.out is None and span.text:
                assert span.events, (row["id"], span)
        assert read(text, name, tools, row.get("reasoning"), cut=7).spans == reader.spans, row["id"]
        checked += 1
    assert checked


def test_a_call_is_laid_out_as_it_was_written() -> None:
    text = 'Sofort.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich"}}\n</tool_call>'
    reader = read(text, "hermes", WEATHER)
    assert plain(reader.spans) == [
        ("content", "Sofort."),
        ("marker", '\n<tool_call>\n{"name": "'),
        ("name", "get_weather"),
        ("marker", '", "arguments": '),
        ("arguments", '{"city": "Zürich"}'),
        ("marker", "}\n</tool_call>"),
    ]
    content, _, name, _, arguments, _ = reader.spans
    assert content.events["text"] >= 1
    assert name.events == {"call start": 1}
    assert arguments.events["call end"] == 1
    assert [span.call for span in reader.spans] == [None, 0, 0, 0, 0, None]


def test_what_stands_between_tagged_values_is_markup_and_no_repair() -> None:
    text = "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>"
    reader = read(text, "qwen3_coder", WEATHER)
    assert [span.text for span in reader.spans if span.kind == "arguments" and span.text] == ["Paris"]
    assert any(span.kind == "marker" and span.out == '{"city": "' for span in reader.spans)
    assert repairs(reader.spans) == []


def test_thinking_is_told_from_words() -> None:
    reader = read("<think>\nHm.\n</think>\n\nYes.", "hermes")
    assert [(kind, text.strip()) for kind, text in plain(reader.spans) if text.strip()] == [
        ("marker", "<think>"),
        ("reasoning", "Hm."),
        ("marker", "</think>"),
        ("content", "Yes."),
    ]


def test_what_is_not_decided_yet_is_there_too() -> None:
    reader = SpanReader(Parser(format="hermes"))
    reader.feed("Well <tool")
    assert "".join(span.text for span in reader.so_far()) == "Well <tool"
    reader.feed("s are fun.")
    reader.close()
    assert plain(reader.spans) == [("content", "Well <tools are fun.")]


def test_arguments_that_come_before_their_name_are_found_where_they_stand() -> None:
    reader = read('<|tool_call|>[{"arguments": {"a": 1}, "name": "f"}]', "granite", F)
    assert ("arguments", '{"a": 1}') in plain(reader.spans)
    assert "".join(span.text for span in reader.spans) == '<|tool_call|>[{"arguments": {"a": 1}, "name": "f"}]'


def test_the_end_of_a_long_output_is_read_in_pieces() -> None:
    text = "x" * FINE + 'y\n<tool_call>\n{"name": "f", "arguments": {"a": "b"}}\n</tool_call>'
    reader = read(text, "hermes", F)
    assert "".join(span.text for span in reader.spans) == text
    assert collect(reader.events).calls[0].arguments == '{"a": "b"}'


# Repairs, in words


@pytest.mark.parametrize(
    ("arguments", "reasons"),
    [
        ('{"city": "Paris"}', []),
        ("{'city': 'Paris'}", ["`arguments` with single quotes: repaired"]),
        ('{"ok": True}', ["`True` as Python spells it: repaired"]),
        ('{"a": 1,}', ["a comma too many: left out"]),
        ('{"a": 1 "b": 2}', ["a comma missing: repaired"]),
        ("{city: 1}", ["keys or values without quotes: repaired"]),
        ('{"a": (1, 2)}', ["brackets of the wrong kind: repaired"]),
        ('{"a": 0xFF}', ["a number in a form that JSON doesn't know: repaired"]),
        ('{"a": "one\ntwo"}', ["a line break or a tab in a string: escaped"]),
        ('{"a": "say "hi" now"}', ["quotes or backslashes in a string that weren't escaped: repaired"]),
        ('{"a": 1 // one\n}', ["a comment: left out"]),
    ],
)
def test_what_was_repaired_is_told_in_words(arguments: str, reasons: list[str]) -> None:
    reader = read(f'<tool_call>\n{{"name": "f", "arguments": {arguments}}}\n</tool_call>', "hermes", F)
    found = repairs(reader.spans)
    assert [repair.reason for repair in found] == reasons
    for repair in found:
        json.loads(repair.became)
        assert repair.wrote.strip() == arguments


def test_each_broken_call_of_the_samples_that_was_changed_is_told() -> None:
    told = changed = 0
    for line in (SAMPLES / "broken_json.jsonl").read_text(encoding="utf-8").split("\n"):
        if not line:
            continue
        row = json.loads(line)
        reader = read(row["text"], row["format"], F)
        assert "".join(span.text for span in reader.spans) == row["text"]
        if any(span.out is not None for span in reader.spans if span.kind == "arguments"):
            changed += 1
            told += bool(repairs(reader.spans))
    assert changed > 130
    assert told / changed > 0.95, (told, changed)
