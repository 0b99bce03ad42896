"""Calls in Gemma's notation, through the parser's public door."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.toolcalls import ArgumentsDelta, Call, CallEnd, CallStart, Event, Parsed, Parser, parse
from extproc.toolcalls.events import collect

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("get_weather", "f")]
MARKERS = {
    "gemma4": ("<|tool_call>", "<tool_call|>", '<|"|>'),
    "functiongemma": ("<start_function_call>", "<end_function_call>", "<escape>"),
}


def events_of(pieces: list[str], format_: str = "gemma4") -> list[Event]:
    parser = Parser(format=format_, tools=TOOLS)
    return [event for piece in pieces for event in parser.feed(piece)] + parser.close()


def parsed(text: str, format_: str = "gemma4") -> Parsed:
    """What the text means, and that its cut doesn't matter."""
    whole = parse(text, format=format_, tools=TOOLS)
    for size in (1, 2, 5):
        assert collect(events_of([text[at : at + size] for at in range(0, len(text), size)], format_)) == whole
    return whole


@pytest.mark.parametrize("format_", MARKERS)
@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ("{}", "{}"),
        ("{city:~Paris, France~}", '{"city": "Paris, France"}'),
        ("{a:~~,b:~x~}", '{"a": "", "b": "x"}'),
        ('{a:~say "hi" {to: me}\n\\n~}', '{"a": "say \\"hi\\" {to: me}\\n\\\\n"}'),
        (
            "{n:42,pi:3.14,e:1e5,big:123456789012345678901}",
            '{"n": 42, "pi": 3.14, "e": 1e5, "big": 123456789012345678901}',
        ),
        ("{t:true,f:false,x:null}", '{"t": true, "f": false, "x": null}'),
        ("{o:{k:[~v~,1,{z:true}]},l:[],e:{}}", '{"o": {"k": ["v", 1, {"z": true}]}, "l": [], "e": {}}'),
        ("{my key: 1, ~other key~ : 2}", '{"my key": 1, "other key": 2}'),
        (
            "{unit:celsius,at:12:30 (noon),day:2026-01-02}",
            '{"unit": "celsius", "at": "12:30 (noon)", "day": "2026-01-02"}',
        ),
        ('{"city": "Pa\\"ris", "l": ["a", \'b\']}', '{"city": "Pa\\"ris", "l": ["a", "b"]}'),
        ("{a:,b:1}", '{"a": "", "b": 1}'),
    ],
)
def test_an_object_is_handed_on_as_json(written: str, arguments: str, format_: str) -> None:
    opening, closing, delimiter = MARKERS[format_]
    made = parsed(f"{opening}call:f{written.replace('~', delimiter)}{closing}", format_)
    assert [(call.name, call.arguments) for call in made.calls] == [("f", arguments)]
    assert made.content is None


@pytest.mark.parametrize("call", ["call:f{}", ":f{}", "f{}", "call: f {}", "call:f({})", "call:f"])
def test_the_name_is_found_however_it_is_introduced(call: str) -> None:
    assert [made.name for made in parsed(f"<|tool_call>{call}<tool_call|>").calls] == ["f"]


def test_calls_may_follow_each_other_in_one_piece_with_text_around() -> None:
    made = parsed("One.<|tool_call>call:f{a:1}<tool_call|><|tool_call>call:a.b{}<tool_call|><|tool_response>")
    assert [(call.name, call.arguments) for call in made.calls] == [("f", '{"a": 1}'), ("a.b", "{}")]
    assert made.content == "One."


def test_the_last_marker_may_be_missing() -> None:
    assert events_of(["<|tool_call>call:f{a:1}"])[-1] == CallEnd(0)


def test_a_string_leaves_while_it_is_written() -> None:
    parser = Parser(format="gemma4", tools=TOOLS)
    assert parser.feed('<|tool_call>call:f{text:<|"|>first wo') == [
        CallStart(0, "f"),
        ArgumentsDelta(0, '{"text": "first wo'),
    ]
    assert parser.feed("rds <|") == [ArgumentsDelta(0, "rds ")], "the rest may end the string"
    assert parser.feed("x") == [ArgumentsDelta(0, "<|x")]


@pytest.mark.parametrize(
    "broken", ["{a:1,o:{b:2<tool_call|>", "{a:1,o:{b:2,c:<tool_call|>", "{a:1,o:{b:2,<tool_call|>"]
)
def test_an_object_that_breaks_off_is_closed_at_the_next_marker(broken: str) -> None:
    events = events_of([f"<|tool_call>call:f{broken}So."])
    made = collect(events)
    assert [call.arguments for call in made.calls] == ['{"a": 1, "o": {"b": 2}}']
    assert CallEnd(0, whole=False) in events
    assert made.content == "So."


def test_a_call_that_is_cut_off_keeps_what_was_sent() -> None:
    assert events_of(['<|tool_call>call:f{a:<|"|>ab']) == [
        CallStart(0, "f"),
        ArgumentsDelta(0, '{"a": "ab'),
        CallEnd(0, whole=False),
    ]


def test_cut_off_before_the_first_argument_it_is_a_call_as_soon_as_its_name_is_whole() -> None:
    for text in ("<|tool_call>call:f{", "<|tool_call>call:f{ke"):
        assert parsed(text) == Parsed(None, None, [Call("f", '{"', whole=False)])
    assert parsed("<|tool_call>call:f") == Parsed(None, None, [])
    assert parsed("<|tool_call>so to say") == Parsed("<|tool_call>so to say", None, [])


def test_gemma_thinks_in_a_channel_and_a_call_ends_it() -> None:
    assert parsed("<|channel>thought\nHm.<channel|>Hello.") == Parsed("Hello.", "Hm.", [])
    made = parsed("<|channel>thought\nHm.<|tool_call>call:f{}<tool_call|>")
    assert (made.reasoning, len(made.calls)) == ("Hm.", 1)


# Invariants

# No value can hold the delimiter of strings, nor begin one at its end.
# Of a call's end in a string only so much is looked at behind it as the parser may hold.
_TEXTS = st.text().filter(lambda text: not re.search(r"<\||<esc|<tool_call\|>|<end_function_call>", text))

_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXTS
    # Of a string of nothing but markers only a few hundred characters are looked at; then it is the call's end.
    | st.lists(
        st.sampled_from(['"', "\\", "\n", "}", "<tool_call|>", "<|tool_call>", "<end_function_call>", "a"]), max_size=10
    ).map("".join),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=10,
)


def in_gemmas_notation(value: Any, delimiter: str) -> str:
    match value:
        case str():
            return f"{delimiter}{value}{delimiter}"
        case list():
            return f"[{','.join(in_gemmas_notation(item, delimiter) for item in value)}]"
        case dict():
            pairs = [
                f"{key if key.isalnum() else in_gemmas_notation(key, delimiter)}:{in_gemmas_notation(item, delimiter)}"
                for key, item in value.items()
            ]
            return f"{{{','.join(pairs)}}}"
        case _:
            return json.dumps(value)


@given(st.dictionaries(_TEXTS, _VALUES), st.sampled_from(sorted(MARKERS)), st.integers(1, 40))
def test_generated_arguments_come_back_exactly(arguments: dict[str, Any], format_: str, size: int) -> None:
    opening, closing, delimiter = MARKERS[format_]
    text = f"{opening}call:f{in_gemmas_notation(arguments, delimiter)}{closing}"
    (call,) = collect(events_of([text[at : at + size] for at in range(0, len(text), size)], format_)).calls
    # Compared as text, so that 1 is not 1.0, nor true.
    assert json.dumps(json.loads(call.arguments)) == json.dumps(arguments)


_PLAIN = st.text("ab ,:{}[]()\"'<|\n", max_size=12).map(lambda text: f"a{re.sub(r'<[|]+', '<', text)}b")


@given(st.lists(_PLAIN, min_size=1, max_size=4), st.data(), st.integers(1, 40))
def test_a_string_that_nothing_closes_ends_with_the_next_one_or_the_call(
    values: list[str], data: st.DataObject, size: int
) -> None:
    quotes = ['<|"|>', "", '"']
    written = [f'k{at}:<|"|>{value}' + data.draw(st.sampled_from(quotes)) for at, value in enumerate(values)]
    text = "<|tool_call>call:f{" + ",".join(written) + "}<tool_call|>"
    (call,) = collect(events_of([text[at : at + size] for at in range(0, len(text), size)])).calls
    assert json.loads(call.arguments) == {f"k{at}": value for at, value in enumerate(values)}


def test_a_marker_that_never_comes_is_looked_for_once() -> None:
    started = time.process_time()
    parse("<|tool_call>call:f{a:<x>" * 40_000, format="gemma4", tools=TOOLS)
    assert time.process_time() - started < 20, "it would be a minute"


_PIECES = st.lists(
    st.sampled_from(
        [
            *r"""call: f call:f{ { a: <|"|> , } " ' [ ] 1 true \ < <| : ( )""".split(),
            *("<|tool_call>", "<tool_call|>", "<channel|>", "<|channel>thought\n", "<|channel>", "<|tool_response>"),
            *('<|"|>x}<tool_call|>', '<|"|>x,b:<|"|>', '"<|"|>', '}"<', "<|turn>model\n", "thought\n", "<tool_call"),
            *(" ", "\n", "x y"),
        ]
    ),
    max_size=30,
).map("".join)


@given(_PIECES, st.sampled_from(["", "<|tool_call>call:f{a:"]))
def test_any_text_means_the_same_in_any_cut_and_whole_calls_are_json(text: str, beginning: str) -> None:
    text = beginning + text
    parsed(text)
    pieces: dict[int, str] = {}
    for event in events_of([text]):
        match event:
            case ArgumentsDelta(index, piece):
                pieces[index] = pieces.get(index, "") + piece
            case CallEnd(index, whole=True):
                assert isinstance(json.loads(pieces[index]), dict)
