"""Requests drawn from the schema that OpenAI publishes, `openai_chat_request.json`.

The schema says less than its descriptions do: a function's name is any string there. `IN_WORDS` has what they add.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from hypothesis import strategies as st

from tests.request_strategies import json_values, keys, names, texts
from tests.schema_strategies import parameters

Json: TypeAlias = dict[str, Any]
Values: TypeAlias = st.SearchStrategy[Any]

SCHEMAS: Mapping[str, Json] = json.loads(Path(__file__).with_name("openai_chat_request.json").read_bytes())
MOST_OPTIONAL = 8
"""Of some forty optional fields a request has so many at most, as those of real clients."""

_reference = st.builds(lambda name: {"type": "function", "function": {"name": name}}, names)
IN_WORDS: Mapping[str, Values] = {
    "ModelIdsShared": st.just("gpt-5.4"),
    "FunctionObject.name": names,
    "ChatCompletionFunctions.name": names,
    "ResponseFormatJsonSchema.json_schema.name": names,
    "FunctionParameters": parameters() | st.just({}),
    "ResponseFormatJsonSchemaSchema": parameters(),
    "ChatCompletionAllowedTools.tools": st.lists(_reference, min_size=1, max_size=2),
    "CreateChatCompletionRequest.logit_bias": st.dictionaries(
        st.integers(0, 200_000).map(str), st.integers(-100, 100), max_size=3
    ),
}
"""What descriptions say of a schema or of a place in it."""
RARE = {"ChatCompletionMessageCustomToolCall", "CustomToolChatCompletions", "ChatCompletionNamedToolChoiceCustom"}
"""What can only be refused is drawn, but seldom: a request with it tells of nothing else."""

_KEYWORDS = {
    *("type", "properties", "required", "additionalProperties", "items", "minItems", "maxItems"),
    *("enum", "oneOf", "anyOf", "allOf", "$ref", "nullable", "default", "discriminator"),
    *("minimum", "maximum", "maxLength", "format"),
}


@cache
def named(name: str) -> Values:
    """Values of a schema of the document's."""
    return IN_WORDS[name] if name in IN_WORDS else _values(SCHEMAS[name], name)


def _values(schema: Json, place: str) -> Values:
    assert schema.keys() <= _KEYWORDS, f"{place} has keywords that nothing is drawn from"
    if place in IN_WORDS:
        values = IN_WORDS[place]
    elif "$ref" in schema:
        values = named(schema["$ref"].rpartition("/")[2])
    elif alternatives := schema.get("oneOf") or schema.get("anyOf"):
        values = st.one_of([_values(it, place) for it in alternatives for _ in range(1 if _is_rare(it) else 9)])
    elif "allOf" in schema:
        values = _values(_together(schema), place)
    elif "enum" in schema:
        values = st.sampled_from(schema["enum"])
    else:
        values = _of_type(schema, place)
    return st.none() | values if schema.get("nullable") else values


def _is_rare(schema: Json) -> bool:
    return schema.get("$ref", "").rpartition("/")[2] in RARE


def _of_type(schema: Json, place: str) -> Values:
    least, most = schema.get("minimum"), schema.get("maximum")
    match schema["type"]:
        case "object":
            return _object(schema, place)
        case "array":
            least, most = schema.get("minItems", 0), schema.get("maxItems", 3)
            return st.lists(_values(schema["items"], f"{place}[]"), min_size=least, max_size=most)
        case "string" if schema.get("format") == "uri":
            return st.sampled_from(["https://example.org/a.png", "http://example.org:80/b?c", "data:image/png;base64,"])
        case "string":
            return texts.filter(lambda text: len(text) <= schema.get("maxLength", len(text)))
        case "integer":
            whole = st.integers(least, most)
            return whole | whole.map(lambda number: float(number) if abs(number) < 2**53 else number)  # 1.0 is one, too
        case "number":
            return st.floats(least, most, allow_nan=False, allow_infinity=False) | st.integers(least, most)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case kind:
            raise AssertionError(f"{place}: nothing is drawn for {kind}")


def _object(schema: Json, place: str) -> Values:
    properties = schema.get("properties")
    if properties is None:
        inner = schema["additionalProperties"]
        return st.dictionaries(keys, json_values if inner is True else _values(inner, f"{place}.*"), max_size=3)
    members = {name: _values(member, f"{place}.{name}") for name, member in properties.items()}
    needed = schema.get("required", ())
    assert set(needed) <= members.keys(), place
    return _members(
        {name: member for name, member in members.items() if name in needed},
        {name: member for name, member in members.items() if name not in needed},
    )


@st.composite
def _members(draw: st.DrawFn, needed: Mapping[str, Values], optional: Mapping[str, Values]) -> Json:
    some = draw(st.lists(st.sampled_from(sorted(optional)), unique=True, max_size=MOST_OPTIONAL)) if optional else ()
    return {name: draw(member) for name, member in [*needed.items(), *((name, optional[name]) for name in some)]}


def _together(schema: Json) -> Json:
    """The one object that all of them describe."""
    properties: Json = {}
    required: list[str] = []
    for part in schema["allOf"]:
        whole = SCHEMAS[part["$ref"].rpartition("/")[2]] if "$ref" in part else part
        whole = _together(whole) if "allOf" in whole else whole
        properties |= whole.get("properties", {})
        required += whole.get("required", ())
    return {"type": "object", "properties": properties, "required": required}


REQUESTS: Values = named("CreateChatCompletionRequest")
