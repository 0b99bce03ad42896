"""Mistakes in the tools that a request offers: their names, their schemas, and the promises of strict ones."""

from __future__ import annotations

from typing import Any

from tests.malformed.edits import (
    EMPTY_STRING,
    LONG_ARRAY,
    LONG_STRING,
    MISSING,
    SCHEMA,
    TYPE,
    VALUE,
    Edit,
    Json,
    bad,
    both,
    drop,
    made_from,
    put,
)
from tests.malformed.legal import BOOKING, CHOOSING, LEGACY, STRICT, function, strict_object, tool

_FUNCTION = "tools[0].function"

_TOOLS = made_from(
    CHOOSING,
    bad("tools that are an object", put("tools", {"get_weather": {}}), TYPE),
    bad("tools that are a string", put("tools", "get_weather"), TYPE),
    bad("tools that are a boolean", put("tools", True), TYPE),
    bad("tools that are nought", put("tools", 0), TYPE),
    bad("129 tools", put("tools", [tool(f"tool_{number}") for number in range(129)]), LONG_ARRAY),
    bad("a tool as a string", put("tools[1]", "get_weather"), TYPE),
    bad("a tool that is null", put("tools[1]", None), TYPE),
    bad("a tool in an array", put("tools[1]", [tool("get_time")]), TYPE),
    bad("a tool without a type", drop("tools[1].type"), MISSING),
    bad("a tool's type is null", put("tools[1].type", None), MISSING),
    bad("a tool's type is a number", put("tools[1].type", 1), TYPE),
    bad("a tool of another type", put("tools[1].type", "web_search"), VALUE),
    bad("a custom tool", put("tools[1]", {"type": "custom", "custom": {"name": "sh"}}), VALUE, "tools[1].type"),
    bad("a tool without a function", drop("tools[1].function"), MISSING),
    bad("a tool's function is null", put("tools[1].function", None), MISSING),
    bad("a tool's function as a string", put("tools[1].function", "get_time"), TYPE),
    bad(
        "a tool of the Responses API", put("tools[1]", {"type": "function", "name": "f"}), MISSING, "tools[1].function"
    ),
    bad("a tool without a name", drop("tools[1].function.name"), MISSING),
    bad("a tool's name is null", put("tools[1].function.name", None), MISSING),
    bad("a tool's name is a number", put("tools[1].function.name", 7), TYPE),
    bad("a tool's name is an object", put("tools[1].function.name", {}), TYPE),
    *(
        bad(f"a tool's name {flaw}", put("tools[1].function.name", name), VALUE)
        for flaw, name in {
            "has a space": "get time",
            "has a dot": "clock.now",
            "has a slash": "clock/now",
            "has an umlaut": "zeit_für",
            "ends in a line break": "get_time\n",
            "has a NUL": "get\0time",
            "has digits of another script": "tool_٣",
        }.items()
    ),
    bad("a tool's name is empty", put("tools[1].function.name", ""), EMPTY_STRING),
    bad("a tool's name has 65 characters", put("tools[1].function.name", "x" * 65), LONG_STRING),
    bad("a tool's name has 10 MB", put("tools[1].function.name", "x" * 10_000_000), LONG_STRING),
    bad("two tools with one name", put("tools[1].function.name", "get_weather"), VALUE),
    bad("a tool's description is a number", put("tools[1].function.description", 7), TYPE),
    bad("a tool's description is an array", put("tools[1].function.description", ["a", "b"]), TYPE),
    bad("strict as a string", put(f"{_FUNCTION}.strict", "true"), TYPE),
    bad("strict as a number", put(f"{_FUNCTION}.strict", 1), TYPE),
    bad("parameters as an array", put(f"{_FUNCTION}.parameters", ["city"]), TYPE),
    bad("parameters as a string", put(f"{_FUNCTION}.parameters", '{"type": "object"}'), TYPE),
    bad("parameters as a boolean", put(f"{_FUNCTION}.parameters", True), TYPE),
    bad("parameters that are an empty array", put(f"{_FUNCTION}.parameters", []), TYPE),
    bad("parameters without a type", drop(f"{_FUNCTION}.parameters.type"), SCHEMA),
    bad("parameters of another type", put(f"{_FUNCTION}.parameters.type", "array"), SCHEMA),
    bad("parameters of two types", put(f"{_FUNCTION}.parameters.type", ["object", "null"]), SCHEMA),
    bad("parameters of type null", put(f"{_FUNCTION}.parameters.type", None), SCHEMA),
    bad(
        "parameters without a wrapping object",
        put(f"{_FUNCTION}.parameters", {"city": {"type": "string"}}),
        SCHEMA,
        f"{_FUNCTION}.parameters.type",
    ),
)

_SCHEMA = f"{_FUNCTION}.parameters"
_PROPERTIES = f"{_SCHEMA}.properties"
_CITY = f"{_SCHEMA}.$defs.place.properties.city"

_SCHEMAS = made_from(
    BOOKING,
    bad("an unknown type", put(f"{_PROPERTIES}.days.type", "int"), SCHEMA),
    bad("a type in capitals", put(f"{_PROPERTIES}.days.type", "INTEGER"), SCHEMA),
    bad("a type that is a number", put(f"{_PROPERTIES}.days.type", 1), SCHEMA),
    bad("a type that is null", put(f"{_PROPERTIES}.days.type", None), SCHEMA),
    bad("no type in the list of types", put(f"{_PROPERTIES}.days.type", []), SCHEMA),
    bad("an unknown type in an array", put(f"{_PROPERTIES}.tags.items.type", "str"), SCHEMA),
    bad("an unknown type in a nested object", put(f"{_PROPERTIES}.note.properties.text.type", "text"), SCHEMA),
    bad("an unknown type in a definition", put(f"{_CITY}.type", "str"), SCHEMA),
    bad("an unknown type in a branch", put(f"{_PROPERTIES}.to.anyOf[1].type", "none"), SCHEMA),
    bad("properties as an array", put(_PROPERTIES, ["from", "to"]), SCHEMA),
    bad("a property as a string", put(f"{_PROPERTIES}.days", "integer"), SCHEMA),
    bad("a property that is null", put(f"{_PROPERTIES}.days", None), SCHEMA),
    bad("a property as an array", put(f"{_PROPERTIES}.days", [{"type": "integer"}]), SCHEMA),
    bad("required as a string", put(f"{_SCHEMA}.required", "from"), SCHEMA),
    bad("required as a boolean", put(f"{_SCHEMA}.required", True), SCHEMA),
    bad("required of a property, as of old", put(f"{_PROPERTIES}.days.required", True), SCHEMA),
    bad("required that is null", put(f"{_SCHEMA}.required", None), SCHEMA),
    bad("a number in required", put(f"{_SCHEMA}.required[1]", 7), SCHEMA),
    bad("a name twice in required", put(f"{_SCHEMA}.required", ["from", "from"]), SCHEMA),
    bad("enum as a string", put(f"{_PROPERTIES}.class.enum", "first"), SCHEMA),
    bad("enum as an object", put(f"{_PROPERTIES}.class.enum", {"first": 1}), SCHEMA),
    bad("minimum as a string", put(f"{_PROPERTIES}.days.minimum", "1"), SCHEMA),
    bad("maximum that is null", put(f"{_PROPERTIES}.days.maximum", None), SCHEMA),
    bad("exclusiveMinimum as of old", put(f"{_PROPERTIES}.days.exclusiveMinimum", True), SCHEMA),
    bad("multipleOf nought", put(f"{_PROPERTIES}.days.multipleOf", 0), SCHEMA),
    bad("maxItems below nought", put(f"{_PROPERTIES}.tags.maxItems", -1), SCHEMA),
    bad("maxItems with a fraction", put(f"{_PROPERTIES}.tags.maxItems", 1.5), SCHEMA),
    bad("minLength as a string", put(f"{_CITY}.minLength", "1"), SCHEMA),
    bad("uniqueItems as a number", put(f"{_PROPERTIES}.tags.uniqueItems", 1), SCHEMA),
    bad("a pattern that is a number", put(f"{_PROPERTIES}.tags.items.pattern", 7), SCHEMA),
    bad("items as a string", put(f"{_PROPERTIES}.tags.items", "string"), SCHEMA),
    bad("items that are a list, as of old", put(f"{_PROPERTIES}.tags.items", [{"type": "string"}]), SCHEMA),
    bad("additionalProperties as a string", put(f"{_PROPERTIES}.note.additionalProperties", "no"), SCHEMA),
    bad("anyOf without a branch", put(f"{_PROPERTIES}.to.anyOf", []), SCHEMA),
    bad("anyOf as an object", put(f"{_PROPERTIES}.to.anyOf", {"type": "string"}), SCHEMA),
    bad("a branch as a string", put(f"{_PROPERTIES}.to.anyOf[1]", "null"), SCHEMA),
    bad("definitions as an array", put(f"{_SCHEMA}.$defs", []), SCHEMA),
    bad("a description that is a number", put(f"{_PROPERTIES}.days.description", 7), SCHEMA),
    bad("$schema that is a number", put(f"{_SCHEMA}.$schema", 7), SCHEMA),
    bad("$ref that is a number", put(f"{_PROPERTIES}.from.$ref", 1), SCHEMA),
    bad("$ref to a definition that isn't there", put(f"{_PROPERTIES}.from.$ref", "#/$defs/town"), SCHEMA),
    bad("$ref to definitions of old", put(f"{_PROPERTIES}.from.$ref", "#/definitions/place"), SCHEMA),
    bad("$ref in a branch to nowhere", put(f"{_PROPERTIES}.to.anyOf[0].$ref", "#/$defs/"), SCHEMA),
    bad("$ref to an anchor that isn't there", put(f"{_PROPERTIES}.from.$ref", "#place"), SCHEMA),
    bad("$ref whose definitions were dropped", drop(f"{_SCHEMA}.$defs"), SCHEMA, f"{_PROPERTIES}.from.$ref"),
    bad("$ref to the web", put(f"{_PROPERTIES}.from.$ref", "https://example.com/place.json"), SCHEMA),
    bad("$ref to a file", put(f"{_PROPERTIES}.from.$ref", "file:///etc/passwd"), SCHEMA),
    bad("$ref to a neighbour", put(f"{_PROPERTIES}.from.$ref", "place.json"), SCHEMA),
    bad("$ref of 100 KB", put(f"{_PROPERTIES}.from.$ref", "#/" + "x" * 100_000), SCHEMA),
    bad(
        "draft 7 with a fault of draft 7",
        both(
            put(f"{_SCHEMA}.$schema", "http://json-schema.org/draft-07/schema#"),
            put(f"{_PROPERTIES}.days.exclusiveMinimum", True),
        ),
        SCHEMA,
    ),
    bad(
        "a fault under an unknown $schema",
        both(put(f"{_SCHEMA}.$schema", "urn:mine"), put(f"{_PROPERTIES}.days.minimum", "1")),
        SCHEMA,
    ),
)


def _chained(levels: int) -> Json:
    """As many levels, each in a definition that the one above refers to."""
    definitions = {f"l{level}": strict_object(inner={"$ref": f"#/$defs/l{level + 1}"}) for level in range(2, levels)}
    definitions[f"l{levels}"] = strict_object(end={"type": "string"})
    return {**strict_object(inner={"$ref": "#/$defs/l2"}), "$defs": definitions}


def _nested(levels: int) -> Json:
    """Objects in objects, each as strict demands; the first level is that of `levels` properties below each other."""
    schema = strict_object(end={"type": "string"})
    for _ in range(levels - 1):
        schema = strict_object(inner=schema)
    return schema


def _many(properties: int) -> Json:
    return strict_object(**{f"p{number}": {"type": "string"} for number in range(properties)})


def _not_at(level: str, keyword: str, value: Any) -> Edit:
    return put(f"{_SCHEMA}{level}.{keyword}", value)


_LEVELS = {
    "the root": "",
    "an object in an object": ".properties.place",
    "an object in an array": ".properties.stops.items",
    "an object in a branch": ".properties.guide.anyOf[0]",
    "an object in a definition": ".$defs.hotel",
}
_STRICT = made_from(
    STRICT,
    *(
        bad(f"{where} is open", drop(f"{_SCHEMA}{level}.additionalProperties"), SCHEMA)
        for where, level in _LEVELS.items()
    ),
    *(
        bad(f"{where} says that it is open", _not_at(level, "additionalProperties", True), SCHEMA)
        for where, level in _LEVELS.items()
    ),
    *(bad(f"{where} requires nothing", drop(f"{_SCHEMA}{level}.required"), SCHEMA) for where, level in _LEVELS.items()),
    *(
        bad(f"{where} leaves one out", put(f"{_SCHEMA}{level}.required", []), SCHEMA)
        for where, level in _LEVELS.items()
    ),
    bad("strict with other properties of a type", _not_at("", "additionalProperties", {"type": "string"}), SCHEMA),
    bad("strict with 5,001 properties", put(_SCHEMA, _many(5_001)), SCHEMA),
    bad(
        "strict with 5,001 properties in two objects",
        put(_SCHEMA, strict_object(a=_many(2_500), b=_many(2_499))),
        SCHEMA,
    ),
    bad(
        "strict with 1,001 values",
        put(_SCHEMA, strict_object(a={"enum": [*range(500)]}, b={"enum": [*range(501)]})),
        SCHEMA,
    ),
    bad(
        "strict with an enum that is long",
        put(_SCHEMA, strict_object(a={"enum": [f"{number:060}" for number in range(251)]})),
        SCHEMA,
        f"{_SCHEMA}.properties.a.enum",
    ),
    bad("strict with names of 120,001 characters", put(_SCHEMA, strict_object(**{"x" * 120_001: {}})), SCHEMA),
    bad(
        "strict with strings of 120,001 characters",
        put(_SCHEMA, strict_object(a={"const": "x" * 60_000}, b={"enum": ["x" * 59_999]})),
        SCHEMA,
    ),
    bad("strict with 11 levels", put(_SCHEMA, _nested(11)), SCHEMA),
    bad("strict with 11 levels by references", put(_SCHEMA, _chained(11)), SCHEMA),
    bad("strict with 50 levels", put(_SCHEMA, _nested(50)), SCHEMA),
)

_FUNCTIONS = made_from(
    LEGACY,
    bad("functions that are an object", put("functions", {}), TYPE),
    bad("functions that are a string", put("functions", "get_weather"), TYPE),
    bad("129 functions", put("functions", [function(f"f{number}") for number in range(129)]), LONG_ARRAY),
    bad("a function as a string", put("functions[1]", "get_time"), TYPE),
    bad("a function without a name", drop("functions[1].name"), MISSING),
    bad("a function wrapped as a tool", put("functions[1]", tool("get_time")), MISSING, "functions[1].name"),
    bad("a function's name is a number", put("functions[1].name", 7), TYPE),
    bad("a function's name has a space", put("functions[1].name", "get time"), VALUE),
    bad("two functions with one name", put("functions[1].name", "get_weather"), VALUE),
    bad("a function's description is a number", put("functions[1].description", 7), TYPE),
    bad("a function's parameters as an array", put("functions[0].parameters", []), TYPE),
    bad("a function's parameters without a type", drop("functions[0].parameters.type"), SCHEMA),
    bad("an unknown type in a function", put("functions[0].parameters.properties.city.type", "text"), SCHEMA),
    bad("a $ref of a function to nowhere", put("functions[0].parameters.properties.city.$ref", "#/x"), SCHEMA),
    bad("functions and tools", both(drop("function_call"), put("tools", [tool("f")])), VALUE, "functions"),
)

ROWS = [*_TOOLS, *_SCHEMAS, *_STRICT, *_FUNCTIONS]
