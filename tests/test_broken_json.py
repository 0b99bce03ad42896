"""JSON as models write it: what was meant comes out, in every cut, and what is JSON already comes out to the letter."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.broken_json import TOOLS, arguments, rows
from extproc.toolcalls import ArgumentsDelta, CallEnd, Parser
from extproc.toolcalls.notations.json_scanner import JsonValue
from tests.cuts import cuts, parsed, random_cut
from tests.json_values import same

ROWS = rows()
MEANT = [row for row in ROWS if "means" in row]
UNCLEAR = [row for row in ROWS if "means" not in row]


@pytest.mark.parametrize("row", MEANT, ids=[row["id"] for row in MEANT])
def test_a_slip_becomes_what_was_meant_in_every_cut(row: dict[str, Any]) -> None:
    outcomes = {repr(parsed(pieces, format=row["format"], tools=TOOLS)) for pieces in cuts(row["text"])}
    assert len(outcomes) == 1
    got = parsed([row["text"]], format=row["format"], tools=TOOLS)
    assert same(arguments(got), row["means"]), got


@pytest.mark.parametrize("row", UNCLEAR, ids=[row["id"] for row in UNCLEAR])
def test_what_isnt_certain_is_no_json_in_any_cut(row: dict[str, Any]) -> None:
    """The client is told that it is none, and no call of the kind is said to be complete."""
    outcomes = {repr(parsed(pieces, format=row["format"], tools=TOOLS)) for pieces in cuts(row["text"])}
    assert len(outcomes) == 1
    assert arguments(parsed([row["text"]], format=row["format"], tools=TOOLS)) is None
    parser = Parser(format=row["format"], tools=TOOLS)
    events = parser.feed(row["text"]) + parser.close()
    assert [event.whole for event in events if isinstance(event, CallEnd)] == [False]


@pytest.mark.parametrize("name", ['""', "''"])
def test_a_tool_without_a_name_is_none(name: str) -> None:
    text = f'<tool_call>\n{{"name": {name}, "arguments": {{}}}}\n</tool_call>'
    assert parsed([text], format="hermes", tools=TOOLS).calls == []


def test_a_key_or_name_of_any_length_isnt_waited_for() -> None:
    for begin in ('{"', '{"name": "', "{'", "{"):
        parser = Parser(format="hermes", tools=TOOLS)
        came = [event for _ in range(100) for event in parser.feed("word" * 4)] if parser.feed(begin) == [] else []
        assert came, begin


def test_there_are_many_slips() -> None:
    assert len(MEANT) >= 150
    assert len({row["format"] for row in MEANT}) >= 12


def scanned(pieces: list[str]) -> tuple[str, bool]:
    """What the pieces become, and whether the value is complete."""
    value = JsonValue()
    out = []
    for piece in pieces:
        end, text = value.scan(piece, 0)
        out.append(text)
        if value.done or end < len(piece):
            return "".join([*out, value.break_off()]), value.done
    return "".join([*out, value.end_of_input()]), value.done


_KEYS = st.one_of(st.text(), st.sampled_from(["a<b", "`", "", '"', "a: ", "//", "\\", "# x", "'"]))
_STRINGS = st.one_of(
    st.text(),
    st.lists(st.sampled_from(['"', "'", ", ", ": ", "{", "}", "[", "]", "\\", "<", "`", "a", " ", "//", "\n"])).map(
        "".join
    ),
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _STRINGS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(
    _VALUES.filter(lambda value: isinstance(value, dict | list)),
    st.booleans(),
    st.sampled_from([None, 1, 3]),
    st.sampled_from([(", ", ": "), (",", ":"), (" ,\n", " :\t")]),
    st.randoms(use_true_random=False),
)
def test_json_is_handed_on_to_the_letter(
    value: Any, ascii_only: bool, indent: int | None, separators: tuple[str, str], source: random.Random
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent, separators=separators)
    for pieces in ([text], list(text), random_cut(text, source)):
        assert scanned(pieces) == (text, True)


_HARD = (
    *('"', '"', "'", "{", "}", "[", "]", ",", ":", "\\", "\n", " ", "a", "1", "True", "//", "/*", "*/", "#", "<", "`"),
    *("“", "”", "‘", "’", ";", "...", 'r"', "</tool_call>", "<|end|>", "}}</", "<tool", "```", '" + y', ', "k"'),
    *('"""', "'''", "\\u00e9", "\\u", "(", ")", "+", "=>", '"a": ', '"b", ', '"}}} "', " " * 300, ', "' + "x" * 300),
)
_BROKEN = st.lists(st.sampled_from(_HARD), max_size=25).map("".join)


@given(_BROKEN, st.randoms(use_true_random=False))
def test_any_text_becomes_the_same_in_any_cut(text: str, source: random.Random) -> None:
    text = '{"a": ' + text
    whole = scanned([text])
    assert scanned(list(text)) == whole
    assert scanned(random_cut(text, source)) == whole


_REPEATED = (
    *(
        "[",
        "{",
        '{"a":',
        '"',
        '" ',
        "'",
        "' ",
        "\\",
        '\\"',
        ",",
        " ",
        "x ",
        "x,",
        "/* ",
        "# ",
        '"}}} ',
        '{("',
        '", "k" ',
    ),
    *("\n", "<", ")", "(", "1", "\x01", "a:", '"a" + ', "}"),
    *("“", "“x” ", "`", "` ", ";", "1; ", "...", "<tool", "</", "}<", "}}\n</d>", 'r"', '" + y ', '", "k", '),
)


@pytest.mark.long
@pytest.mark.parametrize("opening", _REPEATED)
@pytest.mark.parametrize("before", ['{"a": ', '{"a": "x"y', "{'a': '", "["])
def test_the_work_grows_with_the_text(before: str, opening: str) -> None:
    def seconds(count: int, size: int) -> float:
        text = before + opening * (count // len(opening))
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        begin = time.process_time()
        scanned(pieces)
        return time.process_time() - begin

    for size in (1 << 20, 4):
        most = 8 * 3 * min(seconds(4_000, size) for _ in range(3)) + 0.02
        assert any(seconds(32_000, size) < most for _ in range(3))  # the quickest of three, or one that is quick enough


def test_a_string_leaves_piece_by_piece_also_where_it_is_mended() -> None:
    parser = Parser(format="hermes", tools=TOOLS)
    parser.feed("<tool_call>\n{'name': 'f', 'arguments': {'a': 'one")
    assert parser.feed(" two") == [ArgumentsDelta(0, " two")]
    parser = Parser(format="kimi_k2", tools=TOOLS)
    parser.feed('<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"{\\"a\\": \\"one')
    assert parser.feed(" two") == [ArgumentsDelta(0, " two")]


def test_arguments_beside_the_name_wait_for_the_end() -> None:
    parser = Parser(format="hermes", tools=TOOLS)
    assert parser.feed('<tool_call>\n{"name": "f", "city": "A"') == []
    assert parser.feed("}")[1:-1] == [ArgumentsDelta(0, '{"city": "A"}')]
