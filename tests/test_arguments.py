"""What a model wrote into a call, held against the tools it was offered: the faults that are found, and their words."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.contract.arguments import ArgumentChecker, Violation
from extproc.contract.json_array import tools_by_name
from tests.test_schemas import DRAFT_4, DRAFT_7, DRAFT_2019, anything_as_schema, json_values

Json: TypeAlias = dict[str, Any]

SECRET = "hunter2"
"""Stands in arguments where a message could repeat it."""


def tool(parameters: Any = None, name: str = "get_weather") -> Json:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def checker(parameters: Any) -> ArgumentChecker:
    return ArgumentChecker(tools_by_name([tool(parameters)]))


def violation(parameters: Any, arguments: Any) -> Violation | None:
    return checker(parameters).violation("get_weather", json.dumps(arguments))


def with_property(schema: Any) -> Json:
    return {"type": "object", "properties": {"a": schema}}


WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 1},
        "unit": {"anyOf": [{"enum": ["celsius", "fahrenheit"]}, {"type": "null"}]},
        "days": {"type": "array", "items": {"type": "integer", "minimum": 0}},
    },
    "required": ["city"],
    "additionalProperties": False,
}


def test_a_call_that_fits_has_no_fault() -> None:
    check = checker(WEATHER)
    for arguments in (
        '{"city": "Paris"}',
        ' {"city":"Paris","unit":null,"days":[0,1]}\n',
        '{"city": "x", "city": "y"}',
    ):
        assert check.violation("get_weather", arguments) is None


def test_a_tool_that_was_not_offered() -> None:
    check = ArgumentChecker(tools_by_name([tool(name="get_weather"), tool(name="get_time")]))
    assert check.violation("get_time", "{}") is None
    assert check.violation("get_date", "{}") == Violation(
        "unknown_tool_call", "The model called 'get_date', which is none of the tools it was offered."
    )
    assert check.violation("get_date", "no JSON either") == check.violation("get_date", "{}")
    long = check.violation("x" * 10_000, "{}")
    assert long is not None
    assert len(long.message) < 200


def test_no_tools_at_all() -> None:
    found = ArgumentChecker({}).violation("get_weather", "{}")
    assert found is not None
    assert found.code == "unknown_tool_call"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ('{"a": 1', "are not valid JSON: EOF while parsing an object at line 1 column 7."),
        ('{"a": 1} {}', "are not valid JSON: trailing characters at line 1 column 10."),
        ("{'a': 1}", "are not valid JSON: key must be a string at line 1 column 2."),
        ('{"a": 1,}', "are not valid JSON: trailing comma at line 1 column 9."),
        ('{"a": NaN}', "are not valid JSON: expected value at line 1 column 7."),
        ('{"a": -Infinity}', "are not valid JSON: invalid number at line 1 column 8."),
        ('{"a": 01}', "are not valid JSON: invalid number at line 1 column 8."),
        ('{"a": True}', "are not valid JSON: expected value at line 1 column 7."),
        ('{"a": "b\nc"}', "are not valid JSON: control character"),
        ('{"a": "\\ud800"}', "are not valid JSON"),
        ('{"a": "\ud800"}', "hold half of a surrogate pair."),
        ("\ufeff{}", "are not valid JSON: expected value at line 1 column 1."),
        (f'{{"a": {"[" * 500}{"]" * 500}}}', "are not valid JSON: recursion limit exceeded"),
        ("get_weather(city='Paris')", "are not valid JSON"),
        ('[{"a": 1}]', "are an array; expected an object."),
        ('"{}"', "are a string; expected an object."),
        ("null", "are null; expected an object."),
        ("5", "are an integer; expected an object."),
    ],
)
@pytest.mark.parametrize("parameters", [None, {}, WEATHER])
def test_arguments_that_are_no_json_object(parameters: Any, arguments: str, says: str) -> None:
    found = checker(parameters).violation("get_weather", arguments)
    assert found is not None
    assert found.code == "malformed_tool_arguments"
    assert found.message.startswith("The arguments of the call to 'get_weather' ")
    assert says in found.message


@pytest.mark.parametrize("arguments", ["", " ", "\n\t"])
def test_no_arguments_are_an_empty_object(arguments: str) -> None:
    assert checker({"type": "object"}).violation("get_weather", arguments) is None
    found = checker(WEATHER).violation("get_weather", arguments)
    assert found is not None
    assert found.message.endswith("break its schema: the property 'city' is missing.")


# A schema of property `a`, its value, and how the message goes on.
BROKEN: dict[str, tuple[Any, Any, str]] = {
    "type": ({"type": "string"}, 5, " at 'a': expected a string, got an integer"),
    "types": ({"type": ["integer", "null"]}, 0.5, " at 'a': expected an integer or null, got a number"),
    "boolean for a number": ({"type": "number"}, True, " at 'a': expected a number, got a boolean"),
    "enum": ({"enum": ["b", 1, None]}, SECRET, " at 'a': expected one of 'b', 1, null"),
    "long enum": ({"enum": list(range(99))}, SECRET, " at 'a': expected one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …"),
    "const": ({"const": {"b": 1}}, SECRET, " at 'a': expected {\"b\": 1}"),
    "minimum": ({"minimum": 5}, 3, " at 'a': expected at least 5"),
    "maximum": ({"maximum": 2.5}, 3, " at 'a': expected at most 2.5"),
    "exclusiveMinimum": ({"exclusiveMinimum": 3}, 3, " at 'a': expected more than 3"),
    "exclusiveMaximum": ({"exclusiveMaximum": 3}, 3, " at 'a': expected less than 3"),
    "multipleOf": ({"multipleOf": 5}, 3, " at 'a': expected a multiple of 5"),
    "minLength": ({"minLength": 9}, SECRET, " at 'a': expected at least 9 characters"),
    "maxLength": ({"maxLength": 2}, SECRET, " at 'a': expected at most 2 characters"),
    "pattern": ({"pattern": r"^\d+$"}, SECRET, r" at 'a': expected a string that matches '^\\d+$'"),
    "minItems": ({"minItems": 2}, [SECRET], " at 'a': expected at least 2 elements"),
    "maxItems": ({"maxItems": 2}, [SECRET] * 3, " at 'a': expected at most 2 elements"),
    "uniqueItems": ({"uniqueItems": True}, [SECRET, SECRET], " at 'a': expected every element only once"),
    "contains": ({"contains": {"type": "null"}}, [SECRET], " at 'a': it has too few or too many elements of the kind"),
    "items": ({"items": {"type": "null"}}, [None, SECRET], " at 'a[1]': expected null, got a string"),
    "prefixItems": ({"prefixItems": [True], "items": False}, [1, 2], " at 'a[1]': the schema allows nothing here"),
    "minProperties": ({"minProperties": 2}, {SECRET: 1}, " at 'a': expected at least 2 properties"),
    "maxProperties": ({"maxProperties": 0}, {SECRET: 1}, " at 'a': expected at most 0 properties"),
    "required": ({"required": ["b"]}, {SECRET: 1}, " at 'a': the property 'b' is missing"),
    "dependentRequired": ({"dependentRequired": {"b": ["c"]}}, {"b": SECRET}, " at 'a': the property 'c' is missing"),
    "additionalProperties": (
        {"additionalProperties": False},
        {SECRET: 1},
        " at 'a': it has properties that the schema",
    ),
    "no more properties": (
        {"properties": {"b": {}}, "additionalProperties": False},
        {SECRET: 1},
        " at 'a': it has properties that the schema doesn't name",
    ),
    "propertyNames": ({"propertyNames": {"maxLength": 2}}, {SECRET: 1}, " at 'a': it has a property whose name"),
    "a value by any name": ({"additionalProperties": {"type": "null"}}, {SECRET: 1}, " at 'a.*': expected null, got"),
    "a value by a pattern": ({"patternProperties": {"^h": {"type": "null"}}}, {SECRET: 1}, " at 'a.*': expected null"),
    "a name that is a number": ({"properties": {"007": {"type": "null"}}}, {"007": 1}, " at 'a.007': expected null"),
    "not": ({"not": {"type": "string"}}, SECRET, " at 'a': it fits what 'not' rules out"),
    "nothing": (False, SECRET, " at 'a': the schema allows nothing here"),
    "if": ({"if": {"type": "string"}, "then": {"maxLength": 2}}, SECRET, " at 'a': expected at most 2 characters"),
    "alternatives of type": (
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        SECRET,
        " at 'a': expected an integer or null, got a string",
    ),
    "the alternative that was meant, by its type": (
        {"anyOf": [{"type": "object", "required": ["b"]}, {"type": "null"}]},
        {SECRET: 1},
        " at 'a': the property 'b' is missing",
    ),
    "the alternative that was meant, by its name": (
        {
            "oneOf": [
                {"properties": {"kind": {"const": "b"}, "of": {"type": "null"}}},
                {"properties": {"kind": {"const": "c"}, "of": {"type": "string"}}},
            ]
        },
        {"kind": "b", "of": SECRET},
        " at 'a.of': expected null, got a string",
    ),
    "alternatives of any kind": (
        {"anyOf": [{"minLength": 9}, {"pattern": "^x"}]},
        SECRET,
        " at 'a': it fits none of the alternatives",
    ),
    "more than one alternative": ({"oneOf": [{}, {}]}, SECRET, " at 'a': it fits more than one of the alternatives"),
    "a definition": ({"$ref": "#/$defs/b"}, {"b": {"b": 5}}, " at 'a.b.b': expected an object, got an integer"),
    "a name with a dot": ({"properties": {"b.c": {"type": "null"}}}, {"b.c": SECRET}, " at 'a.b.c': expected null"),
}


@pytest.mark.parametrize(("schema", "value", "says"), BROKEN.values(), ids=BROKEN)
def test_arguments_that_break_the_schema(schema: Any, value: Any, says: str) -> None:
    definitions = {"b": {"type": "object", "properties": {"b": {"$ref": "#/$defs/b"}}}}
    found = violation({**with_property(schema), "$defs": definitions}, {"a": value})
    assert found is not None
    assert found.code == "invalid_tool_arguments"
    assert found.message.startswith(f"The arguments of the call to 'get_weather' break its schema{says}")
    assert found.message.endswith(".")
    assert SECRET not in found.message


@pytest.mark.parametrize(
    ("draft", "schema", "good", "bad"),
    [
        (DRAFT_4, {"minimum": 1, "exclusiveMinimum": True}, 2, 1),
        (DRAFT_7, {"items": [{"type": "string"}], "additionalItems": False}, ["b"], ["b", "c"]),
        (DRAFT_7, {"$ref": "#/properties/b", "maxLength": 1}, "bcd", 5),
        (DRAFT_2019, {"dependentRequired": {"b": ["c"]}}, {"c": 1}, {"b": 1}),
        ("https://example.com/our-own", {"prefixItems": [{"type": "string"}]}, ["b"], [1]),
        ("http://[::", {"type": "string"}, "b", 1),
    ],
)
def test_keywords_mean_what_they_mean_in_the_draft(draft: str, schema: Json, good: Any, bad: Any) -> None:
    parameters = {"$schema": draft, "type": "object", "properties": {"a": schema, "b": {"type": "string"}}}
    assert violation(parameters, {"a": good}) is None
    assert violation(parameters, {"a": bad}) is not None


@pytest.mark.parametrize("draft", [DRAFT_7, "https://json-schema.org/draft/2020-12/schema"])
def test_formats_are_notes(draft: str) -> None:
    assert (
        violation({"$schema": draft, **with_property({"type": "string", "format": "date-time"})}, {"a": "noon"}) is None
    )


UNCHECKED: dict[str, Any] = {
    "nothing": None,
    "an empty schema": {},
    "no schema": 5,
    "a fault": {"type": "object", "properties": {"b": {"type": "strin"}}, "required": ["c"]},
    "a reference that leads nowhere": {"type": "object", "required": ["c"], "properties": {"b": {"$ref": "#/nowhere"}}},
    "a reference that leads away": {"type": "object", "required": ["c"], "properties": {"b": {"$ref": "http://x/y"}}},
    "a reference to itself": {"type": "object", "required": ["c"], "allOf": [{"$ref": "#"}]},
    "a reference by the way": {"type": "object", "required": ["c"], "properties": {"b": {"$dynamicRef": "#"}}},
}


@pytest.mark.parametrize("parameters", UNCHECKED.values(), ids=UNCHECKED)
def test_without_a_schema_that_can_be_checked_any_object_will_do(parameters: Any) -> None:
    assert violation(parameters, {"b": 1}) is None
    assert checker(parameters).violation("get_weather", "[]") is not None


def test_an_id_that_is_no_uri_is_no_reason_not_to_check() -> None:
    parameters = {"$id": "Weather tool", **with_property({"$ref": "#/$defs/b"}), "$defs": {"b": {"type": "string"}}}
    assert violation(parameters, {"a": 1}) is not None


def test_empty_lists_of_draft_4_are_no_reason_not_to_check() -> None:
    parameters = {"$schema": DRAFT_4, "required": [], **with_property({"type": "string"})}
    assert violation(parameters, {}) is None
    assert violation(parameters, {"a": 1}) is not None


def test_a_schema_of_a_draft_within_another_is_no_reason_not_to_check() -> None:
    parameters = with_property({"$schema": DRAFT_7, "type": "string"})
    assert violation(parameters, {"a": "x"}) is None
    assert violation(parameters, {"a": 1}) is not None


LOOKS_AHEAD = "^(?=.*[0-9]).{8,}$"

# A schema with a pattern that the engine doesn't know; arguments that may be right, and some that can't be.
WITH_UNKNOWN_PATTERN: dict[str, tuple[Json, list[Json], list[Json]]] = {
    "alone": (with_property({"type": "string", "pattern": LOOKS_AHEAD}), [{"a": "x"}], [{"a": 1}]),
    "that can't be": (with_property({"type": "string", "pattern": "("}), [{"a": "x"}], [{"a": 1}]),
    "that is enormous": (with_property({"type": "string", "pattern": "(a{999}){999}"}), [{"a": "x"}], [{"a": 1}]),
    "beside one that is known": (
        {"type": "object", "properties": {"a": {"pattern": LOOKS_AHEAD}, "b": {"pattern": "^x"}}},
        [{"a": "x", "b": "x"}],
        [{"b": "y"}],
    ),
    "in a definition": (
        {**with_property({"$ref": "#/$defs/b"}), "$defs": {"b": {"type": "string", "pattern": LOOKS_AHEAD}}},
        [{"a": "x"}],
        [{"a": 1}],
    ),
    "of names": (
        {
            "type": "object",
            "properties": {"a": {"type": "integer"}},
            "patternProperties": {LOOKS_AHEAD: {"type": "string"}, "^b": {"type": "null"}},
            "additionalProperties": False,
        },
        [{"password1": "x"}, {"a": 1, "b": None, "c": 1}],
        [{"a": "x"}, {"b": 1}],
    ),
    "where it's ruled out": (
        with_property({"type": "string", "not": {"pattern": LOOKS_AHEAD}}),
        [{"a": "x"}],
        [{"a": 1}],
    ),
    "as a condition": (
        with_property({"type": "string", "if": {"pattern": LOOKS_AHEAD}, "then": {"maxLength": 1}, "else": False}),
        [{"a": "xyz"}, {"a": "x"}],
        [{"a": 1}],
    ),
    "as one of two": (
        with_property({"oneOf": [{"pattern": LOOKS_AHEAD}, {"pattern": "^x(?!y)"}, {"type": "null"}], "maxLength": 3}),
        [{"a": "x"}, {"a": None}],
        [{"a": "xxxx"}],
    ),
    "in at most one element": (
        with_property({"contains": {"pattern": LOOKS_AHEAD}, "maxContains": 1, "items": {"type": "string"}}),
        [{"a": ["x", "y", "z"]}],
        [{"a": [1]}],
    ),
}


@pytest.mark.parametrize(("schema", "may_be", "cannot_be"), WITH_UNKNOWN_PATTERN.values(), ids=WITH_UNKNOWN_PATTERN)
def test_a_pattern_that_the_engine_does_not_know_is_left_out(
    schema: Json, may_be: list[Json], cannot_be: list[Json]
) -> None:
    assert [violation(schema, arguments) for arguments in may_be] == [None] * len(may_be)
    assert None not in [violation(schema, arguments) for arguments in cannot_be]


def test_what_other_keywords_leave_over_is_left_out() -> None:
    schema = {**with_property({"type": "string"}), "unevaluatedProperties": False}
    assert violation(schema, {"b": 1}) is None
    assert violation(schema, {"a": 1}) is not None


def doubling(keyword: str, count: int) -> Json:
    """Definitions that each have the next one twice: 2**count of the last one."""
    definitions: Json = {
        f"d{index}": {keyword: [{"$ref": f"#/$defs/d{index + 1}"} for _ in "ab"]} for index in range(count)
    }
    return {"type": "object", "$ref": "#/$defs/d0", "$defs": {**definitions, f"d{count}": {"type": "string"}}}


def recursion(keyword: str) -> Json:
    return {"type": "object", "required": ["y"], keyword: [{"properties": {"x": {"$ref": "#"}}} for _ in "ab"]}


def chain(depth: int) -> Json:
    value: Json = {}
    for _ in range(depth):
        value = {"x": value}
    return value


def unevaluated(depth: int) -> Json:
    schema: Json = {"type": "object"}
    for index in range(depth):
        schema = {"anyOf": [schema, {"properties": {f"x{index}": True}}], "unevaluatedProperties": False}
    return {"type": "object", "properties": {"x": schema}}


# Any of these would take jsonschema-rs, or an engine that backtracks, from seconds to ages.
UNAFFORDABLE: dict[str, tuple[Json, Json]] = {
    "all of twice as many": (doubling("allOf", 40), {}),
    "any of twice as many": (doubling("anyOf", 40), {}),
    "one of twice as many": (doubling("oneOf", 40), {}),
    "itself twice over, all the way down": (recursion("allOf"), chain(198)),
    "either of itself, all the way down": (recursion("anyOf"), chain(198)),
    "what is left over by alternatives": (unevaluated(60), {"x": {"y": 1}}),
    "a pattern with many states": (with_property({"pattern": "1[01]{1300}x"}), {"a": "01" * 50_000}),
    "many patterns": (
        with_property({"allOf": [{"pattern": f"1[01]{{1300}}x{index}"} for index in range(5000)]}),
        {"a": "01" * 5000},
    ),
    "many patterns of names": (
        {"type": "object", "patternProperties": {f"1[01]{{1300}}x{index}": True for index in range(5000)}},
        {"01" * 5000: 1},
    ),
    "what is left over, out of the draft's sight": (
        {**with_property({"$ref": "#/x/y/z"}), "x": {"y": {"z": unevaluated(60)}}},
        {"a": {"x": {"y": 1}}},
    ),
    "many properties of many": (
        with_property({"items": {"properties": {f"p{index}": True for index in range(60_000)}}}),
        {"a": [{"p1": 1, "y": 1}] * 10_000},
    ),
    "many names that need others": (
        with_property({"items": {"dependentRequired": {f"p{index}": ["y"] for index in range(60_000)}}}),
        {"a": [{"p1": 1, "y": 1}] * 10_000},
    ),
    "many objects to be one of": (
        with_property({"items": {"enum": [{"b": index} for index in range(60_000)]}}),
        {"a": [{"b": 59_999}] * 10_000},
    ),
    "a long name of another draft's": (
        with_property(
            {
                "$schema": "http://json-schema.org/draft-04/schema#",
                "id": "http://x/" + "a" * 400_000 + "/",
                "properties": {f"p{index}": {"id": f"y{index}"} for index in range(4_000)},
            }
        ),
        {"a": 1},
    ),
    "references by the thousand": (
        {
            "type": "object",
            "$ref": "#/$defs/d0",
            "$defs": {f"d{index}": {"$ref": f"#/$defs/d{(index + 1) % 20_000}"} for index in range(20_000)},
        },
        {},
    ),
}


@pytest.mark.parametrize(("schema", "arguments"), UNAFFORDABLE.values(), ids=UNAFFORDABLE)
def test_what_would_take_too_long_is_not_checked(schema: Json, arguments: Json) -> None:
    assert violation(schema, arguments) is None


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        (doubling("anyOf", 13), {}),
        ({"type": "object", "anyOf": [{"type": "string"} for _ in range(1000)]}, {"x": list(range(30_000))}),
    ],
    ids=["many alternatives", "some alternatives for much"],
)
def test_a_fault_that_would_take_too_long_to_place_is_told_without_its_place(schema: Json, arguments: Json) -> None:
    found = violation(schema, arguments)
    assert found is not None
    assert found.message == "The arguments of the call to 'get_weather' break its schema."


def test_a_pattern_takes_time_in_proportion_to_the_text() -> None:
    assert violation(with_property({"pattern": "^(a+)+$"}), {"a": "a" * 20_000}) is None
    assert violation(with_property({"pattern": "^(a+)+$"}), {"a": "a" * 20_000 + "!"}) is not None


def test_recursion_that_is_none_of_that_is_checked() -> None:
    tree = {"type": "object", "properties": {"of": {"type": "array", "items": {"$ref": "#"}}, "n": {"type": "integer"}}}
    deep: Json = {"n": "x"}
    for _ in range(60):
        deep = {"of": [{"n": 1}, deep]}
    found = violation(tree, deep)
    assert found is not None
    assert f"at '{'of[1].' * 60}n': expected an integer, got a string." in found.message


@given(schema=anything_as_schema(), arguments=json_values(), text=st.text(max_size=20))
def test_whatever_the_schema_and_the_arguments_the_answer_is_a_fault_or_none(
    schema: Json, arguments: Any, text: str
) -> None:
    check = checker(json.loads(json.dumps(schema)))
    for written in (json.dumps(arguments), json.dumps({"a": arguments, "0": {SECRET: arguments}}), text):
        found = check.violation("get_weather", written)
        assert found == check.violation("get_weather", written)
        if found is not None:
            assert found.code != "unknown_tool_call"
            assert len(found.message) < 3000
            assert SECRET not in found.message
