"""Calls in Python's syntax, through the parser's public door."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.toolcalls import ArgumentsDelta, CallEnd, CallStart, Event, Parsed, Parser, Text, parse
from extproc.toolcalls.events import collect

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
        },
    }
    for name in ("get_weather", "bash")
]
OPENING, CLOSING = "<|tool_call_start|>", "<|tool_call_end|>"


def events_of(pieces: list[str], format_: str = "lfm2") -> list[Event]:
    parser = Parser(format=format_, tools=TOOLS)
    return [event for piece in pieces for event in parser.feed(piece)] + parser.close()


def parsed(text: str, format_: str = "lfm2") -> Parsed:
    """What the text means, and that its cut doesn't matter."""
    whole = parse(text, format=format_, tools=TOOLS)
    for size in (1, 2, 5):
        assert collect(events_of([text[at : at + size] for at in range(0, len(text), size)], format_)) == whole
    return whole


def arguments(call: str) -> str:
    """The arguments of `f(CALL)`, as they were written out."""
    (made,) = parsed(f"{OPENING}[f({call})]{CLOSING}").calls
    assert made.name == "f"
    return made.arguments


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("'Paris'", "Paris"),
        ('"Paris"', "Paris"),
        ("''", ""),
        ("'''it's \"here\"\n'''", 'it\'s "here"\n'),
        ('"""a""b"""', 'a""b'),
        (r"'a\n\t\\\'\"b'", "a\n\t\\'\"b"),
        (r"'\x41\u00e9\U0001F600\101\N{EM DASH}'", "Aé😀A—"),
        (r"'\ud83d\ude00'", "😀"),
        (r"'\ud83d!'", "\ufffd!"),
        (r"'\d+ \N{NO SUCH NAME} \U00110000'", r"\d+ \N{NO SUCH NAME} \U00110000"),
        ("'a\\\nb'", "ab"),
        ("'first\nsecond\x00'", "first\nsecond\x00"),
        (r"r'\d\n'", r"\d\n"),
        ("f'{x}'", "{x}"),
        ("'one '\n   'two'", "one two"),
        ("'one ' \"two\" r'\\n'", r"one two\n"),
        ("('one '\n 'two')", "one two"),
        ("'one ' + 'two'", "one two"),
        ("dict(a=1, b=[dict()])", {"a": 1, "b": [{}]}),
        ("list((1, 2))", [1, 2]),
        ("(1)", 1),
        ("()", []),
        ("((1, 2), (3))", [[1, 2], 3]),
        ("True", True),
        ("false", False),
        ("None", None),
        ("null", None),
        ("[]", []),
        ("[1, 'a', [True], ]", [1, "a", [True]]),
        ("(1,)", [1]),
        ("{}", {}),
        ("{'a', 'b'}", ["a", "b"]),
        ("{(1, 2)}", [[1, 2]]),
        ("{'a': {'b': [1]}, \"c\": None,}", {"a": {"b": [1]}, "c": None}),
        ("{1: 'x', True: 'y', z: 'w'}", {"1": "x", "true": "y", "z": "w"}),
        ("celsius", "celsius"),
        ("date(2026, 1, 2)", "date(2026, 1, 2)"),
        ("1 + 2", "1 + 2"),
        ("007", "007"),
        ("", ""),
    ],
)
def test_a_literal_has_the_value_it_has_in_python(literal: str, value: object) -> None:
    assert json.loads(arguments(f"a={literal}, b=1")) == {"a": value, "b": 1}


@pytest.mark.parametrize(
    ("literal", "number"),
    [
        ("12345678901234567890123", "12345678901234567890123"),
        ("1.0", "1.0"),
        ("-2.50e+10", "-2.50e+10"),
        ("1_000", "1000"),
        ("+1", "1"),
        (".5", "0.5"),
        ("-1.", "-1.0"),
        ("00", "0"),
        ("0x_FF", "255"),
        ("-0b101", "-5"),
        ("0o17", "15"),
    ],
)
def test_a_number_keeps_its_spelling_where_json_has_it(literal: str, number: str) -> None:
    assert arguments(f"a={literal}") == f'{{"a": {number}}}'


def test_any_word_may_be_the_name_of_an_argument() -> None:
    assert (
        arguments("from='a', class='b', _limit=1, user-id = 2, ")
        == '{"from": "a", "class": "b", "_limit": 1, "user-id": 2}'
    )


@pytest.mark.parametrize(
    ("command", "closing"),
    [
        ("sed -n '360,450p' /x", "'"),
        ("python -c \"print('hello')\"", "'"),
        ("echo 'a', 'b' done", "'"),
        ("echo $(date +'%Y') now", "'"),
        ('echo "hi"', '"'),
        ("it's", "'"),
    ],
)
def test_quotes_that_should_have_been_escaped_are_told_by_what_follows(command: str, closing: str) -> None:
    expected = {"command": command, "n": 1, "last": command}
    assert (
        json.loads(arguments(f"command={closing}{command}{closing}, n=1, last={closing}{command}{closing}")) == expected
    )


def test_values_without_names_are_named_by_the_tools_schema() -> None:
    (call,) = parsed(f"{OPENING}[get_weather('Paris', 3, True)]{CLOSING}").calls
    assert call.arguments == '{"city": "Paris", "days": 3, "2": true}'


@pytest.mark.parametrize("call", ["f({'a': 1})", "f(**{'a': 1})", "f(a=1)", "f (a: 1)"])
def test_one_object_may_be_all_arguments(call: str) -> None:
    assert [made.arguments for made in parsed(f"{OPENING}[{call}]{CLOSING}").calls] == ['{"a": 1}']


def test_a_string_leaves_while_it_is_written() -> None:
    parser = Parser(format="lfm2", tools=TOOLS)
    assert parser.feed(f"{OPENING}[bash(command='first wo") == [
        CallStart(0, "bash"),
        ArgumentsDelta(0, '{"command": "first wo'),
    ]
    assert parser.feed("rds") == [ArgumentsDelta(0, "rds")]
    assert parser.feed("'") == [], "it may be a quote inside"
    assert parser.feed(")]") == [ArgumentsDelta(0, '"}'), CallEnd(0)]


def test_a_call_that_breaks_off_is_closed_at_the_next_marker() -> None:
    assert events_of([f"{OPENING}[bash(a=[1, {{'b': 2{CLOSING}"]) == [
        CallStart(0, "bash"),
        ArgumentsDelta(0, '{"a": [1, {"b": 2}]}'),
        CallEnd(0, whole=False),
    ]


def test_a_call_that_is_cut_off_keeps_what_was_sent() -> None:
    assert events_of([f"{OPENING}[bash(command='ab"]) == [
        CallStart(0, "bash"),
        ArgumentsDelta(0, '{"command": "ab'),
        CallEnd(0, whole=False),
    ]


def test_a_call_is_whole_when_only_the_lists_end_is_missing() -> None:
    assert events_of([f"{OPENING}[bash(command='ab')"])[-1] == CallEnd(0)


# Without markers


def test_a_bare_list_may_stand_anywhere_in_the_text() -> None:
    assert parsed("I look. [get_weather(city='Paris'), bash()] Done.", "pythonic") == Parsed(
        "I look. Done.", None, parsed(f"{OPENING}[get_weather(city='Paris'), bash()]{CLOSING}").calls
    )


@pytest.mark.parametrize(
    "text",
    [
        "See [get_weather](https://example.com) and [1].",
        "`[get_weather(city='Paris')]`",
        "```\n[get_weather(city='Paris')]\n```",
        "[get_weather(the city)] tells it.",
        "[open_door(a=1)]",
        "hello world[A(A=\t)A(A=,\t\t)A(A=,\t",
        "[get_weather(",
        "[[[",
    ],
)
def test_what_only_looks_like_a_call_stays_text(text: str) -> None:
    assert parsed(text, "pythonic") == Parsed(text, None, [])


def test_other_text_in_brackets_leaves_as_soon_as_it_shows_that_it_is_no_call() -> None:
    parser = Parser(format="pythonic", tools=TOOLS)
    assert parser.feed("[lin") == []
    assert parser.feed("k ") == [Text("[link")]


def test_between_markers_any_name_is_a_call_if_it_stands_in_a_list() -> None:
    in_list = parsed("<|python_start|>[open_door(n=1)]<|python_end|>", "llama4_pythonic")
    assert [(call.name, call.arguments) for call in in_list.calls] == [("open_door", '{"n": 1}')]
    code = "<|python_start|>print(1)<|python_end|>"
    assert parsed(code, "llama4_pythonic") == Parsed(code, None, [])


# Olmo's lines and LFM2's blocks


def test_olmo_writes_a_call_a_line() -> None:
    text = "<function_calls>\nbash(command='a')\nbash(command='</function_calls>')\nbash()</function_calls> So."
    made = parsed(text, "olmo3")
    assert [call.arguments for call in made.calls] == ['{"command": "a"}', '{"command": "</function_calls>"}', "{}"]
    assert made.content == " So."


def test_lfm2_writes_json_too() -> None:
    call = '{"name": "bash", "arguments": {"a": 1}}'
    made = parsed(f"{OPENING}[{call}, {call}]{CLOSING}And {OPENING}{call}{CLOSING}")
    assert [(call.name, call.arguments) for call in made.calls] == [("bash", '{"a": 1}')] * 3
    assert made.content == "And"


def test_a_list_that_lfm2_repeats_behind_its_end_is_not_called_again() -> None:
    made = parsed(f"{OPENING}[bash(a=1)]{CLOSING}[bash(a=1)]{CLOSING}Done [1].")
    assert len(made.calls) == 1
    assert made.content == "Done [1]."


def test_text_between_blocks_is_kept() -> None:
    made = parsed(f"One. {OPENING}[bash(a=1)]{CLOSING} Two. {OPENING}[bash(a=2)]{CLOSING} Three.")
    assert (made.content, len(made.calls)) == ("One. Two. Three.", 2)


# Invariants

_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.lists(st.sampled_from(["'", '"', "\\", "\n", ")]", ", b='", "}", CLOSING, "</function_calls>", "a"])).map(
        "".join
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
_CALLS = st.lists(
    st.tuples(
        st.sampled_from(["get_weather", "bash"]),
        st.dictionaries(st.text("abc_", min_size=1, max_size=8), _VALUES, max_size=4),
    ),
    min_size=1,
    max_size=4,
)


def written(name: str, keywords: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in keywords.items())})"


@given(_CALLS, st.sampled_from(["pythonic", "llama4_pythonic", "olmo3", "lfm2"]), st.integers(1, 40))
def test_generated_calls_come_back_exactly(calls: list[tuple[str, dict[str, Any]]], format_: str, size: int) -> None:
    texts = [written(*call) for call in calls]
    text = {
        "pythonic": f"[{', '.join(texts)}]",
        "llama4_pythonic": f"<|python_start|>[{', '.join(texts)}]<|python_end|>",
        "olmo3": "<function_calls>" + "\n".join(texts) + "</function_calls>",
        "lfm2": f"{OPENING}[{', '.join(texts)}]{CLOSING}",
    }[format_]
    made = collect(events_of([text[at : at + size] for at in range(0, len(text), size)], format_))
    # Compared as text, so that 1 is not 1.0, nor true.
    assert [(call.name, json.dumps(json.loads(call.arguments))) for call in made.calls] == [
        (name, json.dumps(keywords)) for name, keywords in calls
    ]
    assert made.content is None


_SPACE = st.sampled_from(["", " ", "\n", "  # so\n  "])


@st.composite
def spelled(draw: st.DrawFn, value: Any) -> str:
    """`value` in one of the ways in which Python can spell it."""
    blank = draw(_SPACE)
    match value:
        case str():
            at = draw(st.integers(0, len(value)))
            between = draw(st.sampled_from([" ", " + ", "\n", " \\\n "]))
            parts = [value] if draw(st.booleans()) else [value[:at], value[at:]]
            written = between.join(json.dumps(part) if draw(st.booleans()) else repr(part) for part in parts)
            return f"({blank}{written}{blank})" if draw(st.booleans()) else written
        case list():
            items = [draw(spelled(item)) for item in value]
            comma = "," if len(items) == 1 or (items and draw(st.booleans())) else ""
            if draw(st.booleans()):
                return f"({blank}{f',{blank}'.join(items)}{comma})"
            written = f"[{', '.join(items)}{blank}]"
            return f"list({written})" if draw(st.booleans()) else written
        case dict():
            items = [f"{key!r}: {draw(spelled(item))}" for key, item in value.items()]
            return f"{{{blank}{f',{blank}'.join(items)}}}"
        case _:
            return f"({value!r})" if draw(st.booleans()) else repr(value)


_PLAIN_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("abc '\"\\\n,)#", max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=3),
    max_leaves=6,
)


@given(st.data(), st.dictionaries(st.sampled_from(["a", "b", "c"]), _PLAIN_VALUES, max_size=3), st.integers(1, 40))
def test_every_spelling_has_the_value_that_python_gives_it(
    data: st.DataObject, keywords: dict[str, Any], size: int
) -> None:
    written = {key: data.draw(spelled(value)) for key, value in keywords.items()}
    separator = "," + data.draw(_SPACE)
    text = f"{OPENING}[f({separator.join(f'{key}={value}' for key, value in written.items())})]{CLOSING}"
    (call,) = collect(events_of([text[at : at + size] for at in range(0, len(text), size)])).calls
    assert json.loads(call.arguments) == keywords


_PIECES = st.lists(
    st.sampled_from(
        [
            *r"""[ f( bash( [bash(a=' ) ] a= ' " ''' ', , { } **{ : 1 x = < r' ( ` ``` \ \n \u d83d \ude00""".split(),
            *(OPENING, CLOSING, "<function_calls>", "</function_calls>", "<|python_start|>", "<|python_end|>"),
            *(" ", "\n", " " * 300),
        ]
    ),
    max_size=30,
).map("".join)


_BEGINNINGS = {
    "pythonic": "[bash(a=",
    "llama4_pythonic": "<|python_start|>[f(",
    "olmo3": "<function_calls>f(a=",
    "lfm2": f"{OPENING}[f(a=",
}


@given(_PIECES, st.sampled_from(sorted(_BEGINNINGS)), st.booleans())
def test_any_text_means_the_same_in_any_cut_and_whole_calls_are_json(text: str, format_: str, begun: bool) -> None:
    text = _BEGINNINGS[format_] + text if begun else text
    parsed(text, format_)
    pieces: dict[int, str] = {}
    for event in events_of([text], format_):
        match event:
            case ArgumentsDelta(index, piece):
                pieces[index] = pieces.get(index, "") + piece
            case CallEnd(index, whole=True):
                assert isinstance(json.loads(pieces[index]), dict)
