"""Arguments that are nested elements (MiniMax M3): any value comes back, and any text makes JSON."""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.toolcalls import ArgumentsDelta, CallStart, Parser, parse
from tests.cuts import parsed, random_cut

Json: TypeAlias = dict[str, Any]
Drawn: TypeAlias = tuple[Json, Any, str]
"""A schema, a value that it allows, and how a model writes that."""

MARKER = "]<]minimax[>["


def tool(properties: Json, **parameters: Any) -> list[Json]:
    schema = {"type": "object", "properties": properties, **parameters}
    return [{"type": "function", "function": {"name": "f", "parameters": schema}}]


def element(key: str, inside: str) -> str:
    return f"{MARKER}<{key}>{inside}{MARKER}</{key}>"


def call(inside: str) -> str:
    section = f'{MARKER}<tool_call>\n{MARKER}<invoke name="f">'
    return f"{section}{inside}{MARKER}</invoke>\n{MARKER}</tool_call>"


def without_repetitions(pairs: list[tuple[str, Any]]) -> Json:
    assert [key for key, count in Counter(key for key, _ in pairs).items() if count > 1] == []
    return dict(pairs)


def read(text: str, tools: list[Json]) -> list[Any]:
    """The arguments of all calls, which are the same in any cut."""
    whole = parse(text, format="minimax_m3", tools=tools)
    for pieces in (list(text), random_cut(text, random.Random(len(text)))):
        assert parsed(pieces, format="minimax_m3", tools=tools) == whole
    return [json.loads(call.arguments, object_pairs_hook=without_repetitions) for call in whole.calls]


# There and back

_KEYS = st.sampled_from(["city", "zip", "item", "items", "invoke", "a-b", "größe", "a b", "type"])
_TEXTS = st.text(max_size=12) | st.sampled_from(["null", "[1]", "<b>x</b>", " a\n", "a" * 40, '{"a": 1}', "]<]mini"])
_NULLS = ("null", "Null", "NULL", "None")
_STRINGS = _TEXTS.filter(lambda text: MARKER not in text + MARKER[:-1])


def _leaf(schema: Json, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Drawn]:
    return values.map(lambda value: (schema, value, value if isinstance(value, str) else json.dumps(value)))


_LEAVES = st.one_of(
    _leaf({"type": "string"}, _STRINGS),
    _leaf({"type": ["string", "null"]}, st.none() | _STRINGS.filter(lambda text: text.strip() not in _NULLS)),
    _leaf({"type": "integer"}, st.integers()),
    _leaf(
        {"anyOf": [{"type": "number"}, {"type": "null"}]}, st.none() | st.floats(allow_nan=False, allow_infinity=False)
    ),
    _leaf({"enum": [True, False]}, st.booleans()),
)


@st.composite
def _arrays(draw: st.DrawFn, inner: st.SearchStrategy[Drawn]) -> Drawn:
    drawn = draw(st.lists(inner, max_size=3))
    schemas = [schema for schema, _, _ in drawn]
    return (
        {"prefixItems": schemas},
        [value for _, value, _ in drawn],
        "".join(element("item", one) for _, _, one in drawn),
    )


@st.composite
def _objects(draw: st.DrawFn, inner: st.SearchStrategy[Drawn]) -> Drawn:
    members = draw(st.dictionaries(_KEYS, inner, max_size=4))
    schema: Json = {"properties": {key: schema for key, (schema, _, _) in members.items()}}
    spelled = "".join(element(key, one) for key, (_, _, one) in members.items())
    return (
        draw(
            st.sampled_from([{"type": "object", **schema}, {"oneOf": [{"type": "null"}, schema]}, {"allOf": [schema]}])
        ),
        {key: value for key, (_, value, _) in members.items()},
        spelled,
    )


@st.composite
def _maps(draw: st.DrawFn) -> Drawn:
    numbers = draw(st.dictionaries(_KEYS, st.integers(), max_size=3))
    spelled = "".join(element(key, str(number)) for key, number in numbers.items())
    return {"type": "object", "additionalProperties": {"type": "integer"}}, numbers, spelled


_DRAWN = st.recursive(_LEAVES | _maps(), lambda inner: _arrays(inner) | _objects(inner), max_leaves=10)


@given(st.dictionaries(_KEYS, _DRAWN, max_size=4))
def test_what_was_written_comes_back(members: dict[str, Drawn]) -> None:
    tools = tool({key: schema for key, (schema, _, _) in members.items()})
    text = call("".join(element(key, spelled) for key, (_, _, spelled) in members.items()))
    assert read(text, tools) == [{key: value for key, (_, value, _) in members.items()}]


def _members(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = _KEYS.filter(lambda key: key != "item")
    return st.dictionaries(keys, inner, min_size=1, max_size=3)


@given(st.recursive(_STRINGS, lambda inner: st.lists(inner, min_size=1, max_size=3) | _members(inner), max_leaves=8))
def test_what_no_schema_describes_comes_back(value: Any) -> None:
    for tools in (tool({}), tool({"a": {}}), []):
        assert read(call(element("a", _spelled(value))), tools) == [{"a": value}]
    if isinstance(value, dict):
        assert read(call(element("a", _spelled(value))), tool({"a": {"type": "object"}})) == [{"a": value}]


def _spelled(value: Any) -> str:
    match value:
        case dict():
            return "".join(element(key, _spelled(one)) for key, one in value.items())
        case list():
            return "".join(element("item", _spelled(one)) for one in value)
        case _:
            return str(value)


# Broken outputs

_WORDS = ("α", "β", "γ", "α β γ δ ε ζ η θ ι κ λ μ ν ξ ο π ρ σ τ υ")
_PARTS = st.sampled_from(
    [
        *_WORDS,
        *(f"{MARKER}<{slash}{tag}>" for slash in ("", "/") for tag in ("text", "n", "tags", "item", "place", "x", "y")),
        *(MARKER, f"{MARKER}<", f"{MARKER}<x/>", f'{MARKER}<x a="α">', f"{MARKER}<parameter name='n'>", "[1]", "null"),
        f"{MARKER}<city>",
    ]
)
_PROPERTIES: Json = {
    "text": {"type": "string"},
    "n": {"type": "integer"},
    "tags": {"type": "array", "items": {"type": "string"}},
    "places": {"type": "array", "items": {"$ref": "#/$defs/place"}},
    "place": {"$ref": "#/$defs/place"},
    "x": {},
}
_PLACE: Json = {"type": "object", "properties": {"city": {"type": "string"}, "in": {"$ref": "#/$defs/place"}}}
_TOOLS = tool(_PROPERTIES, **{"$defs": {"place": _PLACE}})


_IN_Y = tool({"y": {"type": "object", "properties": _PROPERTIES}}, **{"$defs": {"place": _PLACE}})


@settings(max_examples=80)
@given(st.lists(_PARTS, max_size=14).map("".join), st.sampled_from([_IN_Y, tool({}), []]))
def test_any_elements_make_json_and_lose_no_text(inside: str, tools: list[Json]) -> None:
    inside = inside.replace("y>", "z>")
    (arguments,) = read(call(element("y", inside)), tools)
    assert not Counter(_words(inside)) - Counter(_words(json.dumps(arguments, ensure_ascii=False))), arguments


@settings(max_examples=60)
@given(st.lists(_PARTS, max_size=14).map("".join))
def test_any_arguments_make_json(inside: str) -> None:
    begins = f"{MARKER}<tags>{MARKER}</tags>"
    assert len(read(call(begins + inside), _TOOLS)) == 1
    assert len(read(call(inside), _TOOLS)) <= 1


@given(st.lists(_PARTS, max_size=10).map("".join), st.integers(0, 200))
def test_a_call_that_is_cut_off_is_the_same_in_any_cut(inside: str, end: int) -> None:
    text = call(inside)[: end + 40]
    whole = parse(text, format="minimax_m3", tools=_TOOLS)
    for pieces in (list(text), random_cut(text, random.Random(end))):
        assert parsed(pieces, format="minimax_m3", tools=_TOOLS) == whole


def _words(text: str) -> list[str]:
    return re.findall("[α-ω]", re.sub(r'a="α"', "", text))


# Streaming


@pytest.mark.parametrize(
    ("head", "schema"),
    [
        ("<text>", {"type": "string"}),
        ("<text>", {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ("<text>", {"type": ["string", "integer"]}),
        ("<text><item>", {"type": "array", "items": {"type": "string"}}),
        ("<text><a>", {"type": "object", "properties": {"a": {"type": "string"}}}),
        ("<text><a>", {"type": "object", "additionalProperties": {"type": "string"}}),
        ("<text><a><item>", {"properties": {"a": {"items": {"type": "string"}}}}),
    ],
)
def test_a_string_leaves_while_it_is_being_written(head: str, schema: Json) -> None:
    parser = Parser(format="minimax_m3", tools=tool({"text": schema}))
    events = parser.feed(call("").split(f"{MARKER}</")[0] + head.replace("<", f"{MARKER}<"))
    assert CallStart(0, "f") in events
    came = ""
    for word in ["words and more "] * 20:
        came += "".join(event.json for event in parser.feed(word) if isinstance(event, ArgumentsDelta))
    assert len(came) > 15 * 19


def test_an_argument_leaves_with_the_next_tag() -> None:
    parser = Parser(format="minimax_m3", tools=tool({"n": {"type": "integer"}, "text": {"type": "string"}}))
    parser.feed(call("").split(f"{MARKER}</")[0] + element("n", "5"))
    assert parser.feed(f"{MARKER}<text>") == [ArgumentsDelta(0, '{"n": 5')]


# Size


_BIG = {
    "nested": ("<x>", "</x>"),
    "nested, with text": ("<x>t", "</x>"),
    "never closed": ("<x>", ""),
    "never closed, with text": ("<x>t", ""),
    "nested as the schema says": ("<in><city>a</city>", "</in>"),
    "many": ("<x>a</x><n>1</n>", ""),
    "one that repeats": ("<x>a</x>", ""),
    "closed too often": ("<x></n></y>", "</z>"),
    "tags in a string": ("<b>", "</b>"),
    "tags in a string, closed wrongly": ("<b>", "</c>"),
    "markers": ("<", ""),
}


@pytest.mark.long
@pytest.mark.parametrize("name", _BIG)
@pytest.mark.parametrize("around", ["", "place", "text"])
def test_five_thousand_elements_take_their_time_and_no_more(name: str, around: str) -> None:
    opening, closing = _BIG[name]
    inside = (opening * 5_000 + closing * 5_000).replace("<", f"{MARKER}<")
    text = call(element(around, f"words {inside}") if around else inside)
    for size in (len(text), 16):
        before = time.process_time()
        parser = Parser(format="minimax_m3", tools=_TOOLS)
        events = [event for at in range(0, len(text), size) for event in parser.feed(text[at : at + size])]
        events += parser.close()
        assert time.process_time() - before < 2.5
        arguments = "".join(event.json for event in events if isinstance(event, ArgumentsDelta))
        assert _is_balanced(arguments)


def _is_balanced(text: str) -> bool:
    """Python's own reader of JSON goes no deeper than a thousand levels."""
    without_strings = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
    open_ = Counter(without_strings)
    return open_["{"] == open_["}"] and open_["["] == open_["]"]
