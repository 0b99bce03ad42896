"""Values that were written as bare text get the type that their schema allows."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.toolcalls import ArgumentsDelta, Parser, parse
from extproc.toolcalls.notations.lenient_literal import literal, number
from extproc.toolcalls.notations.values import ANY_TYPE, allowed_types, listed_strings, object_members, typed


def types(*names: str) -> frozenset[str]:
    return frozenset(names)


def test_what_can_only_be_a_string_is_the_text_as_it_stands() -> None:
    for text in ("", " 5 ", "null", "None", "true", '"x"', "{}", "[1]", "&lt;", "\n"):
        assert json.loads(typed(text, types("string"))) == text


# What is certain

_OF_STRING_OR_NULL = {
    "null": "null",
    " Null\n": "null",
    "NULL": "null",
    "None": "null",
    "none": '"none"',
    "NONE": '"NONE"',
    "nil": '"nil"',
    "": '""',
    '"x"': r'"\"x\""',
    "5": '"5"',
}
_OF_INTEGER = {
    " 5 ": "5",
    "-5": "-5",
    "+5": "5",
    "−5": "-5",
    "07": "7",
    "-007": "-7",
    "00": "0",
    "1_000": "1000",
    "1,000": "1000",
    "12,345,678": "12345678",
    "0x1F": "31",
    "5.0": "5.0",
    "5.": "5.0",
    "1e3": "1e3",
    '"5"': "5",
    "'5'": "5",
    r'"\"5\""': "5",
    "123456789012345678901234567890": "123456789012345678901234567890",
    # What isn't certain, or no integer:
    "5.5": '"5.5"',
    "1,00": '"1,00"',
    "0,5": '"0,5"',
    "5 days": '"5 days"',
    "five": '"five"',
    "true": '"true"',
    "null": '"null"',
    "": '""',
    "٣": '"٣"',
    "1__0": '"1__0"',
    "NaN": '"NaN"',
}
_OF_NUMBER = {
    "1.0": "1.0",
    "2.50": "2.50",
    "1E-7": "1E-7",
    ".5": "0.5",
    "-.5": "-0.5",
    "5.": "5.0",
    "07.5": "7.5",
    "+1e+5": "1e+5",
    "1,000.5": "1000.5",
    "1,000,000": "1000000",
    "1,500": '"1,500"',  # which is 1.5 in many languages
    "1.000.000": '"1.000.000"',
    "Infinity": '"Infinity"',
    ".": '"."',
    "-": '"-"',
    "e5": '"e5"',
}
_OF_BOOLEAN = {
    "true": "true",
    "False": "false",
    " TRUE ": "true",
    '"true"': "true",
    "yes": '"yes"',
    "1": '"1"',
    "0": '"0"',
    "on": '"on"',
    "": '""',
}
_OF_INTEGER_OR_NULL = {"none": "null", "nil": "null", "": "null", "NULL": "null", "None": "null", "0": "0", "x": '"x"'}
_OF_INTEGER_OR_STRING = {"5": "5", "05": '"05"', "+5": '"+5"', "1_000": '"1_000"', '"5"': '"5"', "'5'": "\"'5'\""}
_OF_ARRAY = {
    "[1, 2]": "[1, 2]",
    "[1, 2,]": "[1, 2]",
    "['a', \"b\"]": '["a", "b"]',
    "[1.10, True, None, null]": "[1.10, true, null, null]",
    "(1, 2)": "[1, 2]",
    '"[1, 2]"': "[1, 2]",
    r'"[\"a\"]"': '["a"]',
    "```json\n[1]\n```": "[1]",
    "```\n[1,]```": r'"```\n[1,]```"',
    "[red, blue]": '["red", "blue"]',
    "[1, 2": "[1, 2]",
    "[1, 2]]": "[1, 2]",
    '[{"a": 1} {"a": 2}]': '[{"a": 1}, {"a": 2}]',
    "red, blue": '"red, blue"',
    "[red wine]": '"[red wine]"',
    "[1, NaN]": '"[1, NaN]"',
    '{"a": 1}': r'"{\"a\": 1}"',
    "[open(1)]": '"[open(1)]"',
}
_OF_OBJECT = {
    '{"a": 1,}': '{"a": 1}',
    "{'a': true, 'b': None}": '{"a": true, "b": null}',
    "{a: 1, b-c: 'x'}": '{"a": 1, "b-c": "x"}',
    "{1: 2}": '{"1": 2}',
    '{"a": 1 "b": 2}': '{"a": 1, "b": 2}',
    '{"a": "x" "b": "y"}': '{"a": "x", "b": "y"}',
    "{'a': 'x' 'y'}": '{"a": "xy"}',
    '{"a": "one\ntwo"}': r'{"a": "one\ntwo"}',
    r'{"a": "\d"}': r'{"a": "\\d"}',
    '{"a": "say "hi" now"}': r'{"a": "say \"hi\" now"}',
    '{"a": [1, 2}': '{"a": [1, 2]}',
    '{"a": {"b": 1}': '{"a": {"b": 1}}',
    r'"{\"a\": 1}"': '{"a": 1}',
    "{}": "{}",
    "{'a'}": "\"{'a'}\"",
    '{"a": }': r'"{\"a\": }"',
}
_OF_OBJECT_OR_STRING = {"{'a': 1}": '{"a": 1}', "{a: 1}": '"{a: 1}"', "{'a': 1": "\"{'a': 1\"", '"{}"': '"{}"'}

_TABLES = {
    ("string", "null"): _OF_STRING_OR_NULL,
    ("integer",): _OF_INTEGER,
    ("number",): _OF_NUMBER,
    ("boolean",): _OF_BOOLEAN,
    ("integer", "null"): _OF_INTEGER_OR_NULL,
    ("integer", "string"): _OF_INTEGER_OR_STRING,
    ("array",): _OF_ARRAY,
    ("object",): _OF_OBJECT,
    ("object", "string"): _OF_OBJECT_OR_STRING,
}
_ROWS = [(allowed, text, value) for allowed, table in _TABLES.items() for text, value in table.items()]


@pytest.mark.parametrize(("allowed", "text", "value"), _ROWS, ids=[f"{'/'.join(row[0])}: {row[1]!r}" for row in _ROWS])
def test_a_value_is_typed_by_its_schema(allowed: tuple[str, ...], text: str, value: str) -> None:
    assert typed(text, frozenset(allowed)) == value


def test_a_string_that_the_schema_lists_is_meant() -> None:
    schema = {"anyOf": [{"enum": ["None", "5", "low"]}, {"type": ["null", "integer"]}]}
    allowed, words = allowed_types(schema, {}), listed_strings(schema, {})
    assert [typed(text, allowed, words) for text in ("None", "5", "6", "null")] == ['"None"', '"5"', "6", "null"]


def test_packed_arguments_may_be_spelled_as_python() -> None:
    assert object_members("{'a': 1, 'b': None,}") == '"a": 1, "b": null'
    assert object_members(r'"{\"a\": 1}"') == '"a": 1'
    assert object_members("{}") is object_members("[1]") is object_members("a") is None


# What a schema allows

_ROOT = {
    "$defs": {
        "unit": {"enum": ["c", "f"]},
        "loop": {"anyOf": [{"$ref": "#/$defs/loop"}, {"type": "null"}]},
        "wide": {"anyOf": [{"$ref": "#/$defs/wide"}] * 50 + [{"allOf": [{"$ref": "#/$defs/wide"}] * 50}]},
    }
}


@pytest.mark.parametrize(
    ("schema", "allowed"),
    [
        (None, {"string"}),
        (True, {"string"}),
        ({}, {"string"}),
        ({"type": ["integer", "null"]}, {"integer", "null"}),
        ({"type": "string", "nullable": True}, {"string", "null"}),
        ({"enum": [1, "a", None]}, {"integer", "string", "null"}),
        ({"const": 1.5}, {"number"}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"integer", "null"}),
        ({"anyOf": [{"type": "integer"}, {}]}, {"integer", "string"}),
        ({"oneOf": [{"items": {}}, {"properties": {}}]}, {"array", "object"}),
        ({"allOf": [{"$ref": "#/$defs/unit"}, {"description": "the unit"}]}, {"string"}),
        ({"allOf": [{"type": ["integer", "null"]}, {"type": ["integer", "string"]}]}, {"integer"}),
        ({"allOf": [{"description": "how many"}, {"type": "integer"}]}, {"integer"}),
        ({"additionalProperties": {"type": "integer"}}, {"object"}),
        ({"prefixItems": [{"type": "integer"}]}, {"array"}),
        ({"$ref": "#/$defs/loop"}, {"null"}),
        ({"$ref": "#/$defs/wide"}, {"string"}),
        ({"$ref": "#/$defs/none"}, {"string"}),
        ({"$ref": "https://example.org/schema"}, {"string"}),
        ({"anyOf": "integer", "enum": 5}, {"string"}),
    ],
)
def test_the_types_that_a_schema_allows(schema: Any, allowed: set[str]) -> None:
    assert allowed_types(schema, _ROOT) == allowed


# Literals

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(_VALUES, max_size=4) | st.dictionaries(st.text(), _VALUES, max_size=4))
def test_json_and_python_come_back_exactly(value: Any) -> None:
    for spelled in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1), repr(value)):
        found = literal(spelled)
        assert found is not None
        assert found.exact
        assert json.loads(found.json) == value


@given(st.text(alphabet="[]{}(),:\"' a1\\\n-.", max_size=24).map(lambda text: "[" + text))
def test_a_literal_is_json_or_none(text: str) -> None:
    found = literal(text)
    assert found is None or json.loads(found.json) is not None


@given(st.text(alphabet="+-0123456789._eExXabo−", max_size=12))
def test_a_number_is_json_or_none(text: str) -> None:
    found = number(text)
    assert found is None or isinstance(json.loads(found), int | float)


@given(st.sampled_from(sorted(ANY_TYPE)), st.text(max_size=30))
def test_any_text_makes_a_json_value(name: str, text: str) -> None:
    for allowed in (types(name), types(name, "string"), types(name, "null")):
        json.loads(typed(text, allowed))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 50_000,
        '"' * 200_000,
        "[" + "'a' " * 50_000 + "]",
        '[{"a"' * 40_000,
        '["' + '" ' * 90_000 + "]",
        "\\" * 200_000,
        "```\n" + "\n " * 90_000 + "```",
        "-" * 200_000,
        "1," * 100_000,
        "1" * 200_000,
        '"' + '\\"' * 90_000 + '"',
    ],
    ids=lambda text: text[:8],
)
def test_no_text_takes_long(text: str) -> None:
    before = time.process_time()
    json.loads(typed(text, types("array", "integer", "null")), parse_int=str)
    assert time.process_time() - before < 2


# Streaming


def tool(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": schema}}}}]


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "none of these words is a null, "),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "5 words of these are no null, "),
        ({"type": ["string", "integer"]}, "3 lines of text and "),
        ({"type": ["string", "integer"]}, "true it is, but no boolean that is written "),
        ({"type": ["string", "integer"]}, "[see below] and "),
        ({"type": ["string", "array"]}, "words and more words, "),
    ],
)
def test_a_string_leaves_as_soon_as_it_can_be_nothing_else(schema: dict[str, Any], text: str) -> None:
    parser = Parser(format="qwen3_coder", tools=tool(schema))
    parser.feed("<tool_call>\n<function=f>\n<parameter=a>\n")
    came = ""
    for character in text * 4:
        came += "".join(event.json for event in parser.feed(character) if isinstance(event, ArgumentsDelta))
    assert len(came) > len(text * 3)
    assert parse(
        f"<tool_call>\n<function=f>\n<parameter=a>\n{text * 4}\n</parameter>\n</function>\n</tool_call>",
        format="qwen3_coder",
        tools=tool(schema),
    ).calls[0].arguments == json.dumps({"a": text * 4})
