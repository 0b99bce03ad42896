"""A tool's parameters as a JSON Schema: which are taken, and what the error says of those that aren't."""

from __future__ import annotations

import json
import socket
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.contract.arguments import ArgumentChecker
from extproc.contract.errors import ApiError
from extproc.contract.schema_graph import SchemaGraph
from extproc.contract.schemas import schema_problems
from extproc.surfaces import CHAT

Json: TypeAlias = dict[str, Any]

DRAFT_3 = "http://json-schema.org/draft-03/schema#"
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_6 = "http://json-schema.org/draft-06/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


def problems(schema: Json, *, strict: bool = False) -> list[ApiError]:
    return list(schema_problems(schema, "parameters", strict=strict))


def places(schema: Json, *, strict: bool = False) -> list[str]:
    """The `param` of each problem, from the schema on."""
    return [
        str(problem.param).removeprefix("parameters").removeprefix(".") for problem in problems(schema, strict=strict)
    ]


def with_property(schema: Any) -> Json:
    return {"type": "object", "properties": {"a": schema}}


def nested(schema: Any, depth: int, keyword: str) -> Json:
    for _ in range(depth):
        schema = {keyword: [schema] if keyword.endswith("Of") else {"a": schema} if keyword == "properties" else schema}
    return with_property(schema)


WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where.", "minLength": 1},
        "unit": {"anyOf": [{"enum": ["celsius", "fahrenheit"]}, {"type": "null"}], "default": None},
        "days": {"type": "array", "items": {"type": "integer", "minimum": -9007199254740991}, "maxItems": 7},
    },
    "required": ["city"],
    "additionalProperties": False,
}

TAKEN: dict[str, Json] = {
    "nothing at all": {},
    "no properties": {"type": "object", "properties": {}},
    "what clients send": WEATHER,
    "booleans for schemas": {"type": "object", "properties": {"a": True}, "additionalProperties": False},
    "keywords nobody knows": with_property({"type": "string", "x-order": 1, "nullable": True, "example": {"$ref": 5}}),
    "formats nobody knows": with_property({"type": "string", "format": "colour"}),
    "properties named as keywords": with_property(
        {"type": "object", "properties": {"$ref": {"type": "string"}, "type": {"type": "integer"}, "required": True}}
    ),
    "references that are values": with_property(
        {"enum": [{"$ref": "#/nowhere"}], "default": {"$ref": "http://example.com"}, "const": {"$ref": 5}}
    ),
    "a pattern with what only ECMAScript knows": with_property({"pattern": r"^(?<!a)\cA[^](?=b)$"}),
    "a pattern that is none": with_property({"pattern": "("}),
    "a name's pattern that is none": {"type": "object", "patternProperties": {"(": {"type": "string"}}},
    "a pattern that is none, where the draft has it checked": {"$schema": DRAFT_7, **with_property({"pattern": "("})},
    "a pattern that is enormous": with_property({"pattern": "(a{1000}){1000}{1000}"}),
    "draft 4": {"$schema": DRAFT_4, **with_property({"minimum": 0, "exclusiveMinimum": True})},
    "draft 4, with empty lists": {
        "$schema": DRAFT_4,
        "required": [],
        **with_property({"enum": [], "items": {"properties": {"required": {}}, "required": []}}),
        "components": {"b": {"required": []}},
        "not": {"$ref": "#/components/b"},
    },
    "draft 3, read as 2020-12": {"$schema": DRAFT_3, **with_property({"type": "string", "divisibleBy": "any"})},
    "draft 6": {"$schema": DRAFT_6, **with_property({"exclusiveMinimum": 0, "contains": {}})},
    "draft 7": {"$schema": DRAFT_7, **with_property({"items": [{"type": "string"}], "additionalItems": False})},
    "2019-09": {"$schema": DRAFT_2019, **with_property({"items": [{"type": "string"}], "$recursiveRef": "#"})},
    "2020-12": {"$schema": DRAFT_2020, **with_property({"prefixItems": [{"type": "string"}], "items": False})},
    "a draft's URI, loosely": {"$schema": "https://json-schema.org/draft-07/schema", **with_property({"items": [{}]})},
    "a `$schema` that nobody knows": {"$schema": "https://example.com/our-own", **WEATHER},
    "a `$schema` that is no URI": {"$schema": "http://[::", **WEATHER},
    "an `$id` that is no URI": {"$id": "Weather tool", **with_property({"$ref": "#/$defs/a"}), "$defs": {"a": {}}},
}


@pytest.mark.parametrize("schema", TAKEN.values(), ids=TAKEN)
def test_a_schema_is_taken(schema: Json) -> None:
    assert problems(schema) == []


# The schema of property `a`, where in it the fault is, and what the message says of it.
REFUSED: dict[str, tuple[Any, str, str]] = {
    "no schema": (5, "", "expected a schema (an object or a boolean), got 5."),
    "null": (None, "", "expected a schema (an object or a boolean), got null."),
    "an unknown type": ({"type": "strin"}, "type", "'object', 'string', or an array of these, got 'strin'."),
    "a type that is no word": ({"type": {"a": 1}}, "type", "got an object."),
    "an unknown type among others": ({"type": ["null", "str"]}, "type[1]", "expected one of 'array', 'boolean', "),
    "a type twice": ({"type": ["null", "null"]}, "type", "expected every element only once."),
    "no type in a list of types": ({"type": []}, "type", "expected at least one element, got none."),
    "properties in an array": ({"properties": ["a"]}, "properties", "expected an object, got an array."),
    "required in the property": ({"required": True}, "required", "expected an array, got a boolean. List the names "),
    "required twice": ({"required": ["b", "b"]}, "required", "expected every element only once."),
    "required that is no name": ({"required": ["b", 1]}, "required[1]", "expected a string, got 1."),
    "one value for enum": ({"enum": "b"}, "enum", "expected an array, got 'b'."),
    "a negative length": ({"minLength": -1}, "minLength", "expected at least 0, got -1."),
    "half a character": ({"maxLength": 0.5}, "maxLength", "expected an integer, got a number."),
    "multiples of nothing": ({"multipleOf": 0}, "multipleOf", "expected more than 0, got 0."),
    "a bound in quotes": ({"minimum": "1"}, "minimum", "expected a number, got '1'."),
    "a bound as draft 4 has it": ({"exclusiveMinimum": True}, "exclusiveMinimum", "Give the bound itself."),
    "a tuple as draft 7 has it": ({"items": [{}]}, "items", "of a tuple's elements belong in 'prefixItems'."),
    "no alternatives": ({"anyOf": []}, "anyOf", "expected at least one element, got none."),
    "one alternative": ({"oneOf": {}}, "oneOf", "expected an array, got an object."),
    "an alternative that is no schema": ({"anyOf": [{}, "b"]}, "anyOf[1]", "expected a schema (an object or "),
    "a pattern that is no string": ({"pattern": 5}, "pattern", "expected a string, got 5."),
    "a fault behind a pattern that is none": ({"pattern": "(", "type": "any"}, "type", "got 'any'."),
    "a fault in a definition": ({"$defs": {"b": {"type": "int"}}}, "$defs.b.type", "got 'int'."),
    "a fault in a pattern's schema": ({"patternProperties": {"^x.y": 1}}, "patternProperties.^x.y", "got 1."),
    "an anchor that is none": ({"$anchor": "1 2"}, "$anchor", "expected a string that matches "),
    "a name that is empty": ({"dependentRequired": {"": ["b", 1]}}, "dependentRequired.[1]", "expected a string"),
    "names that look like numbers": ({"properties": {"0": {}, "007": 5}}, "properties.007", "got 5."),
}  # fmt: skip


@pytest.mark.parametrize(("schema", "where", "says"), REFUSED.values(), ids=REFUSED)
def test_a_fault_is_at_its_keyword(schema: Any, where: str, says: str) -> None:
    [problem] = problems(with_property(schema))
    param = f"parameters.properties.a.{where}" if where else "parameters.properties.a"
    assert problem.param == param
    assert problem.message.startswith(f"Invalid value for '{param}': ")
    assert says in problem.message
    assert (problem.status, problem.type, problem.code) == (400, "invalid_request_error", "invalid_value")


@pytest.mark.parametrize("keyword", ["items", "anyOf", "properties", "not", "additionalProperties"])
@pytest.mark.parametrize("draft", [DRAFT_4, DRAFT_7, DRAFT_2019, DRAFT_2020])
def test_a_fault_is_found_however_deep_it_lies(draft: str, keyword: str) -> None:
    depth = 95
    step = {"anyOf": ".anyOf[0]", "properties": ".properties.a"}.get(keyword, f".{keyword}")
    assert places({"$schema": draft, **nested({"type": "strin"}, depth, keyword)}) == [
        f"properties.a{step * depth}.type"
    ]


def test_all_faults_are_told_once_each_and_in_the_same_order() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "strin", "enum": 1, "items": {"minItems": -1}},
            "b": {"$ref": "#/$defs/missing"},
            "c": 5,
        },
        "required": "a",
    }
    assert sorted(places(schema)) == [
        "properties.a.enum",
        "properties.a.items.minItems",
        "properties.a.type",
        "properties.b.$ref",
        "properties.c",
        "required",
    ]
    assert places(schema) == places(json.loads(json.dumps(schema)))


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"properties": {}}, "expected 'object', because a tool's arguments are one, but it is missing."),
        ({"type": "string"}, "got 'string'."),
        ({"type": ["object", "null"]}, "got an array."),
        ({"type": None}, "got null."),
        ({"type": "objekt"}, "got 'objekt'."),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}, "it is missing."),
    ],
)
def test_the_root_describes_an_object(schema: Json, says: str) -> None:
    [problem] = problems(schema)
    assert problem.param == "parameters.type"
    assert says in problem.message


@pytest.mark.parametrize(
    ("draft", "keywords", "where"),
    [
        (DRAFT_4, {"exclusiveMinimum": 1}, "exclusiveMinimum"),
        (DRAFT_4, {"additionalProperties": "no"}, "additionalProperties"),
        (DRAFT_4, {"items": [True]}, "items[0]"),
        (DRAFT_4, {"properties": {"required": []}}, "properties.required"),
        (DRAFT_4, {"required": [], "type": "strin"}, "type"),
        (DRAFT_4, {"allOf": []}, "allOf"),
        (DRAFT_3, {"required": True}, "required"),
        (DRAFT_7, {"items": 5}, "items"),
        (DRAFT_7, {"items": [{"type": "x"}]}, "items[0].type"),
        (DRAFT_7, {"dependencies": {"b": ["c", 1]}}, "dependencies.b[1]"),
        (DRAFT_7, {"definitions": {"b": {"type": "x"}}}, "definitions.b.type"),
        (DRAFT_2019, {"unevaluatedItems": {"type": "x"}}, "unevaluatedItems.type"),
        ("https://example.com/our-own", {"prefixItems": {}}, "prefixItems"),
        (7, {}, None),
    ],
)
def test_keywords_are_those_of_the_draft(draft: Any, keywords: Json, where: str | None) -> None:
    [place] = places({"$schema": draft, **with_property(keywords)})
    assert place == ("$schema" if where is None else f"properties.a.{where}")


LEADS_TO_A_SCHEMA: dict[str, tuple[str, Json]] = {
    "the whole": ("#", {}),
    "a definition": ("#/$defs/b", {"$defs": {"b": {"type": "string"}}}),
    "a definition of draft 7": ("#/definitions/b", {"$schema": DRAFT_7, "definitions": {"b": {"type": "string"}}}),
    "a definition that 2020-12 doesn't know": ("#/components/b", {"components": {"b": {"type": "string"}}}),
    "a definition that draft 7 doesn't know": ("#/$defs/b", {"$schema": DRAFT_7, "$defs": {"b": {"type": "string"}}}),
    "a definition that refers to itself": ("#/$defs/b", {"$defs": {"b": {"items": {"$ref": "#/$defs/b"}}}}),
    "definitions that refer to each other": (
        "#/$defs/b",
        {"$defs": {"b": {"$ref": "#/$defs/c"}, "c": {"$ref": "#/$defs/b"}}},
    ),
    "a property": ("#/properties/a", {}),
    "an alternative": ("#/anyOf/1", {"anyOf": [{}, {"type": "object"}]}),
    "a boolean": ("#/$defs/b", {"$defs": {"b": False}}),
    "a name with a slash and a tilde": ("#/$defs/b~1c~0d", {"$defs": {"b/c~d": {}}}),
    "a name with a space": ("#/$defs/b%20c", {"$defs": {"b c": {}}}),
    "a name that is empty": ("#/$defs/", {"$defs": {"": {}}}),
    "an anchor": ("#b", {"$defs": {"x": {"$anchor": "b"}}}),
    "an anchor of draft 7": ("#b", {"$schema": DRAFT_7, "definitions": {"x": {"$id": "#b"}}}),
    "its own `$id`": ("https://example.com/tool", {"$id": "https://example.com/tool"}),
    "a schema's `$id` in it": ("b", {"$id": "https://example.com/tool", "$defs": {"x": {"$id": "/b"}}}),
    "a place in a schema with an `$id`": (
        "b.json#/$defs/c",
        {"$id": "https://example.com/tool", "$defs": {"x": {"$id": "b.json", "$defs": {"c": {}}}}},
    ),
    "a schema's `$id` of draft 4": ("b", {"$schema": DRAFT_4, "definitions": {"x": {"id": "b"}}}),
    "a place in a URN": ("#/$defs/b", {"$id": "urn:uuid:00000000-0000-0000-0000-000000000001", "$defs": {"b": {}}}),
}


@pytest.mark.parametrize(("reference", "around"), LEADS_TO_A_SCHEMA.values(), ids=LEADS_TO_A_SCHEMA)
def test_a_reference_leads_to_a_schema(reference: str, around: Json) -> None:
    assert problems({**with_property({"items": {"$ref": reference}}), **around}) == []


LEADS_ASTRAY: dict[str, tuple[Any, str]] = {
    "to a definition that is missing": ("#/$defs/missing", "'#/$defs/missing' leads nowhere in this schema."),
    "past the end of an array": ("#/anyOf/1", "leads nowhere"),
    "into an array by name": ("#/anyOf/-", "leads nowhere"),
    "into a word": ("#/title/0", "leads nowhere"),
    "to an anchor that is missing": ("#missing", "leads nowhere"),
    "to a word": ("#/title", "leads to a string; expected a schema (an object or a boolean) there."),
    "to an array": ("#/anyOf", "leads to an array"),
    "to another host": ("https://example.com/schema.json", "lies outside of this schema, and nothing is fetched."),
    "to a file": ("file:///etc/hostname", "lies outside"),
    "to a file nearby": ("other.json#/$defs/b", "lies outside"),
    "to the meta-schema": (DRAFT_2020, "lies outside"),
    "to what is no URI": ("http://[::", "lies outside"),
    "by a name as long as a book": ("#/" + "a" * 1_999, "expected at most 2000 characters, got 2001."),
    "to nothing that is a string": ({"a": 1}, "expected a string, got an object."),
}


@pytest.mark.parametrize(("reference", "says"), LEADS_ASTRAY.values(), ids=LEADS_ASTRAY)
@pytest.mark.parametrize("draft", [DRAFT_4, DRAFT_7, DRAFT_2020])
def test_a_reference_that_leads_to_no_schema_is_refused_where_it_is(draft: str, reference: Any, says: str) -> None:
    around = {"$schema": draft, "title": "weather", "anyOf": [{"type": "object"}]}
    [problem] = problems({**around, **with_property({"items": {"$ref": reference}})})
    assert problem.param == "parameters.properties.a.items.$ref"
    assert says in problem.message


@pytest.mark.parametrize(
    ("draft", "keyword"), [(DRAFT_4, "id"), (DRAFT_7, "$id"), (DRAFT_2020, "$id")], ids=["4", "7", "2020-12"]
)
def test_an_id_is_refused_where_it_is_too_long(draft: str, keyword: str) -> None:
    base = "http://x/" + "a" * 100 + "/"
    schema = {"$schema": draft, keyword: base, **with_property({keyword: "b" * 140})}
    assert places(schema) == []
    schema["properties"]["a"][keyword] += "b"
    [problem] = problems(schema)
    assert problem.param == f"parameters.properties.a.{keyword}"
    assert "expected a URI of at most 250 characters, with what it is relative to." in problem.message
    [problem] = problems({"$schema": draft, keyword: "a" * 2_001, **WEATHER})
    assert problem.param == f"parameters.{keyword}"
    assert "expected at most 2000 characters, got 2001." in problem.message


def test_uris_are_few_but_may_come_often() -> None:
    often = {f"p{index}": {"$ref": "other"} for index in range(1_000)}
    schema = {"type": "object", "$id": "http://x/y", "properties": often, "$defs": {"b": {"$id": "other"}}}
    assert places(schema) == []
    schema["properties"] = {f"p{index}": {"$ref": f"other?{index}"} for index in range(1_000)}
    last = problems(schema)[-1]
    assert last.param == "parameters.properties.p999.$ref"
    assert "expected at most 200 different URIs in '$id's and references of one schema." in last.message


def test_what_a_reference_leads_to_is_checked_wherever_it_lies() -> None:
    schema = {
        **with_property({"$ref": "#/components/schemas/b"}),
        "components": {
            "schemas": {"b": {"items": {"type": "strin", "$ref": "#/components/c"}}, "c": {"type": "unused"}}
        },
    }
    assert places(schema) == ["components.schemas.b.items.type", "components.schemas.b.items.$ref"]


def test_nothing_is_ever_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        here = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        for schema in (with_property({"$ref": here}), {"$schema": here, **WEATHER}, {"$id": here, **WEATHER}):
            problems(schema)
        with pytest.raises(BlockingIOError):
            server.accept()


def strict_object(**properties: Any) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def levels(count: int) -> Json:
    return strict_object(a=levels(count - 1)) if count > 1 else strict_object(a={"type": "string"})


def referring(count: int) -> Json:
    """As many levels, in definitions that stand beside each other."""
    definitions = {f"l{level}": strict_object(a={"$ref": f"#/$defs/l{level + 1}"}) for level in range(2, count + 1)}
    definitions[f"l{count + 1}"] = {"type": "string"}
    return {**strict_object(a={"$ref": "#/$defs/l2"}), "$defs": definitions}


FITS_STRICT: dict[str, Json] = {
    "no parameters": {},
    "no properties": strict_object(),
    "optional by null": strict_object(a={"type": ["string", "null"]}),
    "ten levels": levels(10),
    "ten levels by references": referring(10),
    "ten levels that go round": {
        **referring(10),
        "$defs": {**referring(10)["$defs"], "l11": {"anyOf": [{"$ref": "#"}, {"$ref": "#/$defs/l2"}]}},
    },
    "ten levels and definitions that nothing refers to": {**levels(10), "$defs": {"b": {"anyOf": [levels(10)]}}},
    "five thousand properties": strict_object(**{f"p{index}": {} for index in range(5_000)}),
    "a definition that refers to itself": {
        **strict_object(a={"$ref": "#/$defs/b"}),
        "$defs": {"b": strict_object(b={"anyOf": [{"$ref": "#/$defs/b"}, {"type": "null"}]})},
    },
}


@pytest.mark.parametrize("schema", FITS_STRICT.values(), ids=FITS_STRICT)
def test_a_schema_fits_a_strict_tool(schema: Json) -> None:
    assert problems(schema, strict=True) == []


OPEN = {"type": "object", "properties": {"x": {}, "y": {}}, "required": ["y"]}

BREAKS_STRICT: dict[str, tuple[Json, list[str]]] = {
    "open": ({**strict_object(a={}), "additionalProperties": True}, ["additionalProperties"]),
    "open to a schema": ({**strict_object(), "additionalProperties": {"type": "string"}}, ["additionalProperties"]),
    "optional": ({**strict_object(a={}), "required": []}, ["required"]),
    "in a property": (strict_object(a=OPEN), ["properties.a.additionalProperties", "properties.a.required"]),
    "in an array": (
        strict_object(a={"items": OPEN}),
        ["properties.a.items.additionalProperties", "properties.a.items.required"],
    ),
    "in an alternative": (
        strict_object(a={"anyOf": [{"type": "null"}, OPEN]}),
        ["properties.a.anyOf[1].additionalProperties", "properties.a.anyOf[1].required"],
    ),
    "in a definition": (
        {**strict_object(), "$defs": {"b": OPEN}},
        ["$defs.b.additionalProperties", "$defs.b.required"],
    ),
    "an object by its properties": (strict_object(a={"properties": {}}), ["properties.a.additionalProperties"]),
    "an object among types": (strict_object(a={"type": ["null", "object"]}), ["properties.a.additionalProperties"]),
    "eleven levels": (levels(11), [""]),
    "eleven levels by references": (referring(11), [""]),
    "eleven levels, some by references": (strict_object(a=levels(2), b={"$ref": "#/c"}) | {"c": levels(10)}, [""]),
    "eleven levels that go round": (
        {**referring(11), "$defs": {**referring(11)["$defs"], "l12": {"$ref": "#/$defs/l2"}}},
        [""],
    ),
    "a name that is no property": ({**strict_object(a={}), "required": ["a", "b"]}, ["required"]),
    "names of no properties": (
        {"type": "object", "required": ["b"], "additionalProperties": False},
        ["required"],
    ),
    "properties by pattern": ({**strict_object(), "patternProperties": {"^x": {}}}, ["patternProperties"]),
    "properties by pattern, further in": (
        strict_object(a={"anyOf": [{"patternProperties": {}}]}),
        ["properties.a.anyOf[0].patternProperties"],
    ),
    "properties here and there": (strict_object(a=strict_object(**{f"p{index}": {} for index in range(5_000)})), [""]),
}


@pytest.mark.parametrize(("schema", "where"), BREAKS_STRICT.values(), ids=BREAKS_STRICT)
def test_a_schema_breaks_the_rules_of_strict_tools_only(schema: Json, where: list[str]) -> None:
    assert places(schema, strict=True) == where
    assert problems(schema) == []


def test_the_rules_of_strict_tools_say_how_to_keep_them() -> None:
    names = [problem.message.partition(": ")[2] for problem in problems(OPEN, strict=True)]
    assert names == [
        "expected false, because the tool is strict: its objects have no properties but those they list.",
        "expected all properties, because the tool is strict, but 'x' is missing. "
        "Make a property optional by allowing null in its type.",
    ]
    [problem] = problems({**strict_object(a={}), "required": ["a", "b", "c"]}, strict=True)
    assert problem.message.endswith(
        "expected the object's own properties, because the tool is strict, but 'b', 'c' are none of them."
    )
    [problem] = problems({**strict_object(), "patternProperties": {"^x": {}}}, strict=True)
    assert problem.message.endswith(
        "expected none, because the tool is strict: its objects have no properties but those they list."
    )
    [problem] = problems(levels(12), strict=True)
    assert problem.message.endswith("expected objects at most 10 levels deep of a strict tool, got 12 levels.")
    [problem] = problems(strict_object(**{f"p{index}": {} for index in range(5_001)}), strict=True)
    assert problem.message.endswith("expected at most 5000 properties of a strict tool, got 5001.")


MANY = 20_000

HUGE: dict[str, Json] = {
    "properties that are no schemas": {"type": "object", "properties": {f"p{index}": 5 for index in range(MANY)}},
    "types": {"type": ["x"] * MANY},
    "names": {"type": "object", "required": list(range(MANY))},
    "a draft 7 tuple": {"$schema": DRAFT_7, "type": "object", "items": [5] * MANY},
    "a dependency": {"$schema": DRAFT_7, "type": "object", "dependencies": {"a": [5] * MANY}},
    "a chain of references": {
        "type": "objekt",
        "$ref": "#/$defs/0",
        "$defs": {str(index): {"$ref": f"#/$defs/{index + 1}"} for index in range(MANY)},
    },
    "references that double": {
        "type": "objekt",
        "$ref": "#/$defs/0",
        "$defs": {str(index): {"allOf": [{"$ref": f"#/$defs/{index + 1}"} for _ in "ab"]} for index in range(MANY)},
    },
    "a name": {"type": "object", "properties": {"p" * MANY: {"type": "q" * MANY}}},
}


@pytest.mark.long
@pytest.mark.parametrize("schema", HUGE.values(), ids=HUGE)
@pytest.mark.parametrize("strict", [False, True])
def test_a_huge_schema_is_refused_with_little_ado(schema: Json, strict: bool) -> None:
    found = schema_problems(schema, "parameters", strict=strict)
    problem = next(found)
    assert len(problem.message) < 1000
    assert len(str(problem.param)) < 200


def of_parts(keyword: str, base: str, count: int) -> Json:
    return {
        "type": "object",
        "$id": base,
        "properties": {"z": {"$ref": "#"}, **{f"a{index}": {keyword: f"y{index}"} for index in range(count)}},
    }


def in_each_other(depth: int) -> Json:
    """References to schemas where no draft looks for any, each inside the next one."""
    schema: Json = {"properties": {f"a{index}": {} for index in range(60_000)}}
    for _ in range(depth):
        schema = {"items": schema}
    references = {f"r{level}": {"$ref": "#/x" + "/items" * level} for level in range(depth, -1, -1)}
    return {"type": "object", "properties": references, "x": schema}


def bases_in_each_other(depth: int, count: int) -> Json:
    schema = of_parts("$id", "a", count)
    for _ in range(depth):
        schema = {"$id": "a/" * 100, "items": schema}
    return with_property(schema) | {"$id": "http://x/"}


# About a megabyte each, and minutes or gigabytes for who resolves every URI, or visits twice what lies twice somewhere.
COSTLY: dict[str, Callable[[], Json]] = {
    "references under a long `$id`": lambda: of_parts("$ref", "http://x/" + "a/" * 250_000, 16_000),
    "an `$id` in each part of a long one": lambda: of_parts("$id", "http://x/" + "a" * 500_000 + "/", 20_000),
    "references under a short `$id`": lambda: of_parts("$ref", "http://x/" + "a/" * 120, 30_000),
    "an `$id` in each part of a short one": lambda: of_parts("$id", "http://x/" + "a/" * 100, 30_000),
    "an `$id` that grows": lambda: bases_in_each_other(80, 20_000),
    "references from the inside out": lambda: in_each_other(180),
    "an anchor in each part": lambda: of_parts("$anchor", "http://x/", 30_000),
}


@pytest.mark.long
@pytest.mark.parametrize("make", COSTLY.values(), ids=COSTLY)
def test_a_megabyte_of_schema_takes_little_time(make: Callable[[], Json]) -> None:
    schema = make()
    assert len(json.dumps(schema)) < 1_200_000
    check = ArgumentChecker({"f": {"function": {"name": "f", "parameters": schema}}})
    start = time.process_time()
    next(schema_problems(schema, "parameters", strict=True), None)
    next(schema_problems(schema, "parameters", strict=False), None)
    check.violation("f", "{}")
    assert time.process_time() - start < 4  # some 0.5 s; of what is quadratic, tens or hundreds


@pytest.mark.long
@pytest.mark.parametrize("name", ["an `$id` in each part of a long one", "an `$id` that grows"])
def test_a_long_id_is_not_kept_for_each_part(name: str) -> None:
    schema = COSTLY[name]()
    tracemalloc.start()
    try:
        SchemaGraph(schema)
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()


# Anything


def texts() -> st.SearchStrategy[str]:
    words = "type properties items $ref # #/ #/$defs/a a 0 007 object string array null ( http://x/y $defs $id".split()
    return st.one_of(st.sampled_from(words), st.text(st.characters(exclude_categories=["Cs"]), max_size=4))


KEYWORDS = """$id $schema $ref $anchor $dynamicRef $defs definitions title type enum const multipleOf minimum
exclusiveMinimum minLength pattern minItems uniqueItems required dependentRequired prefixItems items additionalItems
contains properties patternProperties additionalProperties propertyNames dependencies allOf anyOf oneOf not if then
unevaluatedProperties id""".split()


def json_values() -> st.SearchStrategy[Any]:
    numbers = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))
    return st.recursive(
        st.one_of(st.none(), st.booleans(), numbers, texts()),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(st.one_of(st.sampled_from(KEYWORDS), texts()), inner, max_size=4),
        ),
        max_leaves=12,
    )


def anything_as_schema() -> st.SearchStrategy[Json]:
    drafts = st.sampled_from([DRAFT_4, DRAFT_6, DRAFT_7, DRAFT_2019, DRAFT_2020, "http://x/y"])
    return st.builds(
        lambda schema, draft: {"type": "object", **schema, **draft},
        st.dictionaries(st.one_of(st.sampled_from(KEYWORDS), texts()), json_values(), max_size=5),
        st.one_of(st.just({}), st.fixed_dictionaries({"$schema": drafts})),
    )


def every_path(value: Any, path: str = "parameters") -> Iterator[str]:
    yield path
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from every_path(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from every_path(inner, f"{path}[{index}]")


@given(schema=anything_as_schema(), strict=st.booleans())
def test_whatever_is_sent_as_a_schema_the_answer_is_a_list_of_places_in_it(schema: Json, strict: bool) -> None:
    schema = json.loads(json.dumps(schema))  # a tree, as requests are
    found = problems(schema, strict=strict)
    known = set(every_path(schema))
    for problem in found:
        assert str(problem.param).removesuffix(".additionalProperties").removesuffix(".required") in known
        assert len(problem.message) < 2000
        CHAT.error_body(problem)
    assert len({problem.param for problem in found}) == len(found)


_refs = st.sampled_from(
    ["#", "#/$defs/a", "#/definitions/a", "#/$defs/b", "#/$defs/", "#/$defs/a/items", "#/%24defs/a", "#a", "u:x", 1]
)
_referring: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([{}, True, {"type": "string"}, {"type": "strin"}, {"$id": "u:x"}, {"id": "#a"}, 1]),
    lambda inner: st.one_of(
        st.builds(lambda ref: {"$ref": ref}, _refs),
        st.builds(lambda ref: {"$dynamicRef": ref}, _refs),
        st.builds(lambda one: {"items": one}, inner),
        st.builds(lambda one: {"default": one}, inner),
        st.builds(lambda one: {"properties": {"$ref": one}}, inner),
        st.builds(lambda one: {"properties": {"a": one}, "minLength": 1}, inner),
    ),
    max_leaves=4,
)


@given(
    st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.fixed_dictionaries({"a": _referring, "b": _referring})},
        optional={
            "$schema": st.sampled_from([DRAFT_4, DRAFT_7, DRAFT_2019, DRAFT_2020]),
            "$defs": st.dictionaries(st.sampled_from("ab"), _referring, max_size=2),
            "definitions": st.dictionaries(st.sampled_from("ab"), _referring, max_size=2),
        },
    )
)
def test_a_glance_finds_nothing_well_that_is_wrong(schema: Json) -> None:
    graph = SchemaGraph(schema)
    if not problems(schema):
        assert not graph.dead_ends
        assert graph.fits_meta_schema()
