"""Outputs that hypothesis makes up, for a writer: everything that its format can express, the hard parts first."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from hypothesis import strategies as st

from tests.format_writers import WRITERS
from tests.format_writers.output import Call, Output, Place, Spelled, Types, Writer

TOOL_NAMES = ("get_weather", "write_file", "math.add", "read-page", "_x9", "f")

_HARD_KEYS = (
    *("city", "größe", "城市", "_limit", "class", "from", "name", "arguments", "parameters", "function", "type"),
    *("a b", "x-y", "$ref", "a.b", "@id", "1", "😀", "a/b", "k" * 60, 'say "hi"', "a&b", "a<b", "", " x ", "\n"),
)
_HARD_TEXTS = (
    *("\n", "\n\n", "\r\n", "\t", " ", "  ", '"', "'", "\\", "\\\\", "\\n", '\\"', "\\u00e9", "\\ud83d", "\\x41"),
    *("é", "😀", "𝒳", "\u2028", "\u0085", "\ufeff", "\x00", "\x1b", "\x7f", "'''", '"""', "```", "```json\n", "`"),
    *("{", "}", "[", "]", "(", ")", "<", ">", "</", "/>", ",", ":", "=", ";", "&lt;", "&amp;", "#", "%s"),
    *("null", "true", "None", "1.0", "42", "word", "if (a < b && c > d) {\n\treturn;\n}", "<![CDATA[", "]]>"),
    *('{"name": "f", "arguments": {}}', "f(x='1')", "[f()]", "'}]", '"}', "')]", "</p>\n", "\n    "),
)
_MARKUP = tuple(sorted({marker for writer in WRITERS for marker in writer.markup}))
_FIRST_WORDS = ("I", "Sure:", "好", "Ça", "1")


Parameter: TypeAlias = tuple[dict[str, Any], st.SearchStrategy[Any]]


@dataclass(frozen=True, slots=True)
class Generated:
    """An output, and the tools that it calls."""

    output: Output
    tools: list[dict[str, Any]] = field(default_factory=list)


@functools.cache
def strings(writer: Writer) -> st.SearchStrategy[str]:
    """What a value can hold: its own markup above all."""
    hard = st.sampled_from(_HARD_TEXTS)
    pieces = st.one_of(
        hard, hard, st.sampled_from([*writer.markup, "<"]), st.sampled_from(_MARKUP), st.text(max_size=5)
    )
    return st.lists(pieces, max_size=5).map("".join).filter(writer.holds)


@functools.cache
def said(writer: Writer) -> st.SearchStrategy[str]:
    """What text can be: it begins with a word, and may hold what is nearly markup, and other formats' markup."""
    hard = [text for text in _HARD_TEXTS if writer.can_say(text)]
    foreign = [marker for marker in _MARKUP if writer.can_say(marker)]
    unfinished = [marker[:-1] for marker in writer.markup if len(marker) > 1 and writer.can_say(marker[:-1])]
    pieces = st.one_of(*(st.sampled_from(pool) for pool in (hard, foreign, unfinished) if pool), st.text(max_size=5))
    return (
        st.tuples(st.sampled_from(_FIRST_WORDS), st.lists(pieces, max_size=4))
        .map(lambda drawn: drawn[0] + "".join(drawn[1]))
        .filter(writer.can_say)
    )


def keys(writer: Writer) -> st.SearchStrategy[str]:
    return st.sampled_from([key for key in _HARD_KEYS if writer.names(key)])


_INTEGERS = st.one_of(st.sampled_from([0, -1, 42, 10**30, -(10**30)]), st.integers())
_NUMBERS = st.one_of(
    st.sampled_from(["1.0", "-0.0", "1e5", "1E-7", "2.50", "-1.5e+300", "0.1"]).map(Spelled),
    st.floats(allow_nan=False, allow_infinity=False).map(repr).map(Spelled),
)


@functools.cache
def json_values(writer: Writer) -> st.SearchStrategy[Any]:
    """Anything that JSON has."""
    inner_keys = keys(writer) if writer.plain_keys else st.one_of(st.sampled_from(_HARD_KEYS), strings(writer))
    return st.recursive(
        st.one_of(strings(writer), _INTEGERS, _NUMBERS, st.sampled_from([None, True, False, "", [], {}])),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(inner_keys, inner, max_size=3)),
        max_leaves=5,
    )


@functools.cache
def parameters(writer: Writer) -> st.SearchStrategy[Parameter]:
    """A parameter: its schema, and the values that it may have."""
    string = strings(writer)
    nullable = st.one_of(
        st.none(), string.filter(lambda text: text.strip() != "None" and text.strip().lower() != "null")
    )
    kinds: list[Parameter] = [
        ({"type": "string"}, string),
        ({"type": "string"}, string),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, nullable),
        ({"type": "integer"}, _INTEGERS),
        ({"type": "number"}, st.one_of(_INTEGERS, _NUMBERS)),
        ({"type": ["boolean", "null"]}, st.sampled_from([True, False, None])),
    ]
    if writer.types is Types.ELEMENTS:
        members = {"city": string, "zip": _INTEGERS}
        properties = {"city": {"type": "string"}, "zip": {"type": "integer"}}
        place = st.fixed_dictionaries({}, optional=members)
        kinds += [
            ({"type": "array", "items": {"type": "string"}}, st.lists(string, max_size=3)),
            ({"type": "object", "properties": properties}, place),
            ({"type": "array", "items": {"type": "object", "properties": properties}}, st.lists(place, max_size=2)),
        ]
    else:
        value = json_values(writer)
        inner_keys = keys(writer) if writer.plain_keys else st.sampled_from(_HARD_KEYS)
        kinds += [
            ({"type": "array"}, st.lists(value, max_size=3)),
            ({"type": "object"}, st.dictionaries(inner_keys, value, max_size=3)),
        ]
    return st.sampled_from(kinds)


def tool(name: str, properties: Mapping[str, Any] | None) -> dict[str, Any]:
    """An OpenAI tool definition; without `properties` it doesn't say what its parameters are."""
    function: dict[str, Any] = {"name": name}
    if properties is not None:
        function["parameters"] = {"type": "object", "properties": dict(properties)}
    return {"type": "function", "function": function}


_CHANCES = st.booleans()


@functools.cache
def _tools(writer: Writer) -> st.SearchStrategy[dict[str, dict[str, Parameter]]]:
    one = st.dictionaries(keys(writer), parameters(writer), max_size=3)
    return st.dictionaries(st.sampled_from(TOOL_NAMES), one, min_size=1, max_size=2)


@st.composite
def _generated(draw: st.DrawFn, writer: Writer, most_calls: int) -> Generated:
    tools = draw(_tools(writer))
    calls = []
    for number in range(draw(st.integers(0, min(most_calls, writer.most_calls)))):
        name = list(tools)[draw(_CHANCES) % len(tools)]
        arguments = {key: draw(values) for key, (_, values) in tools[name].items() if draw(_CHANCES)}
        calls.append(Call(name, arguments, number))
    text = {place: draw(said(writer)) for place in Place if place in writer.places and draw(_CHANCES)}
    reasoning = draw(said(writer)) if writer.thinks and draw(_CHANCES) else ""
    described = writer.types is not Types.OUTPUT or draw(_CHANCES)
    return Generated(
        Output(
            calls=tuple(calls),
            reasoning=reasoning,
            before=text.get(Place.BEFORE, ""),
            between=text.get(Place.BETWEEN, "") if len(calls) > 1 else "",
            after=text.get(Place.AFTER, ""),
            thinking_is_open=bool(reasoning) and draw(_CHANCES),
            ascii_only=draw(_CHANCES),
            compact=draw(_CHANCES),
        ),
        [
            tool(name, {key: schema for key, (schema, _) in properties.items()} if described else None)
            for name, properties in tools.items()
        ],
    )


@functools.cache
def outputs(writer: Writer, most_calls: int = 3) -> st.SearchStrategy[Generated]:
    """Whole outputs with their tools."""
    return _generated(writer, most_calls)
