"""What becomes of a tool's schema so that xgrammar takes it, and takes it as it is meant.

What xgrammar makes of the result is tested with the real one, in tests/real_vllm/test_grammars.py.
"""

from __future__ import annotations

import copy
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator

from extproc.contract.schemas import schema_problems
from extproc.prompts.grammar_pattern import is_plain_pattern
from extproc.prompts.grammar_schema import simplified
from tests.schema_strategies import Json, arguments, parameters

STRING = {"type": "string"}
INTEGER = {"type": "integer"}
OBJECT = {"type": "object", "additionalProperties": True}
SAFE = 2**53 - 1


def with_property(schema: Any, **keywords: Any) -> Json:
    return {"type": "object", "properties": {"a": schema}, **keywords}


def rewritten(schema: Any, **keywords: Any) -> Any:
    """What a property's schema becomes; None if the property can't be."""
    return simplified(with_property(schema, **keywords)).get("properties", {}).get("a")


class TestWhatStays:
    @pytest.mark.parametrize(
        "schema",
        [
            {},
            {"type": "string"},
            {"type": "integer"},
            {"type": "number"},
            {"type": "boolean"},
            {"type": "null"},
            {"type": ["string", "null"]},
            {"type": "integer", "minimum": -SAFE, "maximum": SAFE},
            {"type": ["integer", "null"], "minimum": 0},
            {"type": "string", "pattern": "^[a-z0-9]{2,8}$"},
            {"enum": ["a", "b", 1, True, None]},
            {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
            {"type": "array", "items": {}, "prefixItems": [{"type": "string"}, {"type": "integer"}]},
            {"type": "array", "items": False, "prefixItems": [{"type": "string"}]},
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            {"type": "object", "additionalProperties": {"type": "string"}},
            {
                "type": "object",
                "properties": {"b": {"type": "string"}, "c": {"type": "integer"}},
                "required": ["b"],
                "additionalProperties": False,
            },
        ],
    )
    def test_what_xgrammar_reads_as_it_is_meant(self, schema: Json) -> None:
        assert rewritten(schema) == schema

    def test_the_order_of_properties(self) -> None:
        """It is the order in which the model has to write them."""
        schema = {"type": "object", "properties": dict.fromkeys(("z", "a", "m"), STRING), "required": ["m", "z"]}
        assert list(simplified(schema)["properties"]) == ["z", "a", "m"]

    def test_the_schema_itself(self) -> None:
        schema = with_property({"allOf": [{"minLength": 1}, {"$ref": "#/$defs/x"}]}, **{"$defs": {"x": {"const": "a"}}})
        before = copy.deepcopy(schema)
        simplified(schema)
        assert schema == before


class TestWhatIsSaid:
    """xgrammar reads what isn't said in its own way."""

    def test_an_object_may_have_more_properties(self) -> None:
        assert simplified(with_property(STRING)) == {**with_property(STRING), "additionalProperties": True}
        assert rewritten({"type": "object"}) == OBJECT

    def test_an_array_may_hold_anything(self) -> None:
        assert rewritten({"type": "array"}) == {"type": "array", "items": {}}
        assert rewritten({"type": "array", "prefixItems": [STRING]})["items"] == {}

    def test_a_required_property_is_named(self) -> None:
        schema = {"type": "object", "required": ["b"], "additionalProperties": INTEGER}
        assert rewritten(schema) == {**schema, "properties": {"b": INTEGER}}

    def test_keywords_of_one_type_leave_the_others_alone(self) -> None:
        (types, others) = (rewritten({"properties": {"b": STRING}}).pop(key) for key in ("type", "properties"))
        assert set(types) == {"string", "number", "boolean", "null", "object", "array"}
        assert others == {"b": STRING}
        assert rewritten({"minLength": 3, "minimum": 3}) == {}


class TestWhatIsLoosened:
    @pytest.mark.parametrize(
        "keywords",
        [
            {"minLength": 1, "maxLength": 5},
            {"format": "date-time"},
            {"format": "int32"},
            {"pattern": "abc"},
            {"pattern": "^(?!x).*$"},
            {"contentEncoding": "base64"},
            {"nullable": True, "title": "A", "description": "a", "default": "b", "examples": ["c"]},
            {"not": {"const": "x"}},
            {"if": {"const": "x"}, "then": False},
        ],
    )
    def test_strings(self, keywords: Json) -> None:
        assert rewritten({"type": "string", **keywords}) == STRING

    @pytest.mark.parametrize(
        ("schema", "bounds"),
        [
            ({"exclusiveMinimum": 0, "exclusiveMaximum": 10}, {"minimum": 1, "maximum": 9}),
            ({"minimum": 0.5, "maximum": 2.5}, {"minimum": 1, "maximum": 2}),
            ({"exclusiveMinimum": -0.5, "exclusiveMaximum": 2.5}, {"minimum": 0, "maximum": 2}),
            ({"minimum": 1e3, "exclusiveMinimum": 5}, {"minimum": 1000}),
            ({"minimum": -(2**63), "maximum": 2**63 - 1}, {"minimum": -(2**63), "maximum": 2**63 - 1}),
            ({"minimum": -(2**63) - 1, "maximum": 2**63}, {}),
            ({"minimum": 0, "maximum": 1e300}, {"minimum": 0}),
            ({"minimum": 5, "maximum": 3}, {}),
            ({"minimum": 0, "multipleOf": 5}, {"minimum": 0}),
            ({"multipleOf": 5}, {}),
        ],
    )
    def test_whole_numbers(self, schema: Json, bounds: Json) -> None:
        assert rewritten({"type": "integer", **schema}) == {"type": "integer", **bounds}

    def test_ranges_of_other_numbers(self) -> None:
        """In a range xgrammar writes six decimals and no exponent: 1e-7 would become 0."""
        assert rewritten({"type": "number", "minimum": 0, "exclusiveMaximum": 1}) == {"type": "number"}
        assert rewritten({"type": ["integer", "number"], "minimum": 0}) == {"type": "number"}

    @pytest.mark.parametrize(
        ("schema", "expected"),
        [
            ({"const": "a"}, {"enum": ["a"]}),
            ({"const": None}, {"enum": [None]}),
            ({"enum": [1.0, 1, True]}, {"enum": [1, True]}),
            ({"enum": ["a", None], "type": "string"}, {"enum": ["a"]}),
            ({"enum": ["a", 0.1]}, {"anyOf": [{"enum": ["a"]}, {"type": "number"}]}),
            ({"enum": [2**63]}, {"type": "integer"}),
            ({"enum": [{"b": 1}, {"c": 2}]}, OBJECT),
            ({"const": [1, 2]}, {"type": "array", "items": {}}),
            ({"enum": [f"v{i}" for i in range(5000)]}, STRING),
            ({"allOf": [{"enum": ["a", "b", "c"]}, {"enum": ["b", "c"]}]}, {"enum": ["b", "c"]}),
        ],
    )
    def test_choices(self, schema: Json, expected: Json) -> None:
        found = simplified(with_property(schema))
        definitions = found.get("$defs", {})
        got = found["properties"]["a"]
        assert (definitions["1"] if "$ref" in got else got) == expected

    @pytest.mark.parametrize(
        ("schema", "expected"),
        [
            ({"minItems": 5, "maxItems": 3, "items": STRING}, {"items": STRING, "maxItems": 3}),
            ({"items": STRING, "minItems": 10**12}, {"items": STRING}),
            ({"items": STRING, "maxItems": 10**12}, {"items": STRING}),
            ({"items": STRING, "minItems": 2.0}, {"items": STRING, "minItems": 2}),
            ({"items": STRING, "uniqueItems": True, "contains": {"const": "a"}, "minContains": 2}, {"items": STRING}),
            ({"prefixItems": [STRING, INTEGER], "maxItems": 1}, {"prefixItems": [STRING], "items": False}),
            ({"prefixItems": [STRING], "items": False, "minItems": 2}, {"prefixItems": [STRING], "items": False}),
            ({"prefixItems": [STRING, False, STRING]}, {"prefixItems": [STRING], "items": False}),
            ({"prefixItems": [STRING] * 1000}, {"items": {}}),
            ({"items": False}, {"items": False}),
        ],
    )
    def test_arrays(self, schema: Json, expected: Json) -> None:
        assert rewritten({"type": "array", **schema}) == {"type": "array", **expected}

    @pytest.mark.parametrize(
        ("schema", "expected"),
        [
            ({"minProperties": 1, "maxProperties": 3, "propertyNames": {"pattern": "^a"}}, OBJECT),
            ({"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"a": {"required": ["b"]}}}, OBJECT),
            ({"patternProperties": {"^x": INTEGER}}, OBJECT),
            (
                {"patternProperties": {"^x": INTEGER}, "additionalProperties": False},
                {"type": "object", "additionalProperties": INTEGER},
            ),
            (
                {"patternProperties": {"^x": INTEGER, "^y": STRING}, "additionalProperties": False},
                {"type": "object", "additionalProperties": {"anyOf": [INTEGER, STRING]}},
            ),
            ({"unevaluatedProperties": False}, {"type": "object", "additionalProperties": False}),
            ({"unevaluatedProperties": False, "if": {"properties": {"b": STRING}}}, OBJECT),
            (
                {"properties": {"b": False, "c": STRING}, "required": ["b", "c"]},
                {**OBJECT, "properties": {"c": STRING}, "required": ["c"]},
            ),
            ({"properties": {f"p{i}": STRING for i in range(500)}}, OBJECT),
        ],
    )
    def test_objects(self, schema: Json, expected: Json) -> None:
        assert rewritten({"type": "object", **schema}) == expected

    @pytest.mark.parametrize(
        ("schema", "expected"),
        [
            ({"oneOf": [STRING, INTEGER]}, {"anyOf": [STRING, INTEGER]}),
            ({"anyOf": [STRING, {}]}, {}),
            ({"anyOf": [False, STRING]}, STRING),
            ({"anyOf": [STRING, {"type": "string", "format": "uri"}]}, STRING),
            ({"type": "string", "anyOf": [{"const": "a"}, {"const": 1}, {}]}, {"anyOf": [{"enum": ["a"]}, STRING]}),
            (
                {"type": "object", "properties": {"b": STRING}, "anyOf": [{"required": ["b"]}, {"required": ["c"]}]},
                {**OBJECT, "properties": {"b": STRING}},
            ),
            (
                {"type": "object", "oneOf": [{"properties": {"b": STRING}}, {"properties": {"c": STRING}}]},
                {"anyOf": [{**OBJECT, "properties": {"b": STRING}}, {**OBJECT, "properties": {"c": STRING}}]},
            ),
        ],
    )
    def test_alternatives(self, schema: Json, expected: Json) -> None:
        assert rewritten(schema) == expected

    def test_what_is_never_valid_cannot_be_written(self) -> None:
        for schema in (False, {"anyOf": [False]}, {"enum": [1], "type": "string"}, {"allOf": [STRING, False]}):
            assert rewritten(schema) is None
        assert simplified({"type": "object", "allOf": [False]}) == OBJECT


class TestReferences:
    def test_lead_to_definitions_that_are_written_once(self) -> None:
        schema = {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/x y"}, "b": {"$ref": "#/$defs/x%20y", "description": "b"}},
            "$defs": {"x y": {"type": "string", "minLength": 1}, "unused": STRING},
        }
        reference = {"$ref": "#/$defs/1"}
        assert simplified(schema)["properties"] == {"a": reference, "b": reference}
        assert simplified(schema)["$defs"] == {"1": STRING}

    @pytest.mark.parametrize("reference", ["#node", "#/$defs/node", "#/properties/a/properties/next/anyOf/0"])
    def test_however_they_are_written(self, reference: str) -> None:
        node = {"$anchor": "node", "type": "object", "properties": {"value": INTEGER}}
        holder = with_property({"type": "object", "properties": {"next": {"anyOf": [INTEGER, {"type": "null"}]}}})
        schema = {**holder, "properties": {**holder["properties"], "b": {"$ref": reference}}, "$defs": {"node": node}}
        expected = INTEGER if "anyOf" in reference else {**OBJECT, "properties": {"value": INTEGER}}
        assert simplified(schema)["$defs"] == {"1": expected}

    def test_cycles_stay_cycles(self) -> None:
        tree = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}}
        found = simplified(tree)
        assert found["properties"]["children"]["items"] == {"$ref": "#/$defs/1"}
        assert found["$defs"]["1"]["properties"]["children"]["items"] == {"$ref": "#/$defs/1"}

    def test_what_only_refers_to_itself_says_nothing(self) -> None:
        for loop in (
            {"$ref": "#/$defs/loop"},
            {"allOf": [{"$ref": "#/$defs/loop"}]},
            {"anyOf": [{"$ref": "#/$defs/loop"}]},
            {"anyOf": [{"anyOf": [STRING, {"$ref": "#/$defs/loop"}]}, STRING]},
        ):
            found = simplified(with_property({"$ref": "#/$defs/loop"}, **{"$defs": {"loop": loop}}))
            schema = found["properties"]["a"]
            assert (found["$defs"]["1"] if "$ref" in schema else schema) == {}

    def test_all_of_them_become_one_schema(self) -> None:
        schema = {
            "type": "object",
            "allOf": [{"$ref": "#/$defs/base"}, {"properties": {"b": INTEGER}, "required": ["b"]}],
            "$defs": {"base": {"properties": {"a": STRING}, "required": ["a"], "additionalProperties": STRING}},
        }
        assert simplified(schema)["$defs"] == {
            "1": {
                "type": "object",
                "properties": {"a": STRING, "b": INTEGER},
                "required": ["a", "b"],
                "additionalProperties": STRING,
            }
        }


class TestPatterns:
    @pytest.mark.parametrize(
        "pattern",
        [
            r"^[a-z]+$",
            r"^\d{4}-\d{2}-\d{2}$",
            r"^#[0-9a-fA-F]{6}$",
            r"^(GET|POST|)$",
            r"^\+?[1-9]\d{1,14}$",
            r"^v?\d+(\.\d+){0,2}(?:-[a-z0-9.-]+)?$",
            r"^[\w.-]+@[\w-]+\.[a-z]{2,}$",
            r"^()$",
            r"^$",
            r"^[-a]$",
        ],
    )
    def test_that_are_left_to_xgrammar(self, pattern: str) -> None:
        assert is_plain_pattern(pattern)

    @pytest.mark.parametrize(
        "pattern",
        [
            # It takes them as of the whole string.
            *("abc", "^abc", "abc$", "", "^", "^a|b$", "^a$|^b$"),
            # It passes over assertions, or refuses them.
            *("^(?!a)b$", "^(?=a)b$", r"^\bfoo\b$", r"^a\$"),
            # They match what JSON has to escape, or an element could end with.
            *("^.*$", r"^\s$", r"^\S+$", r"^[^a]$", r"^\W$", r"^\D$", '^"$', r"^\\$", r"^\n$", "^\t$", "^<$"),
            *(r"^\x22$", r"^\u0022$", r"^[!-~]$", r"^[A-z]$", r'^["]$'),
            # They are none, or none that it knows.
            *("^(a$", "^a)$", "^[a$", "^[]$", "^[z-a]$", "^*$", "^a**$", "^a{2,1}$", "^a{0}$", "^a{,3}$", "^a{x}$"),
            *(r"^\1(a)$", r"^\p{L}$", "^(?i:a)$", "^(?P<n>a)$", "^(?<n>a)$", r"^\cA$"),
            # They cost too much.
            *("^[a-z]{1,1000}$", "^([a-z]{1,50}-){1,50}$", "^((a{9}){9}){9}$"),
        ],
    )
    def test_that_are_not(self, pattern: str) -> None:
        assert not is_plain_pattern(pattern)

    @given(st.text('^$()[]{}|*+?.,-\\ad9"\n', max_size=12))
    def test_plain_patterns_match_nothing_that_json_escapes(self, inner: str) -> None:
        pattern = f"^{inner}$"
        if is_plain_pattern(pattern):
            validator = Draft202012Validator({"pattern": pattern})  # a valid one, that is
            assert not any(validator.is_valid(text) for text in ('"', "\\", "\n", "a\n", 'a"', "\x00"))


class TestLooserNeverTighter:
    @settings(max_examples=100)
    @given(st.data())
    def test_what_is_valid_stays_valid(self, data: st.DataObject) -> None:
        schema = data.draw(parameters())
        value = data.draw(arguments(schema))
        assert Draft202012Validator(simplified(schema)).is_valid(value)

    @settings(max_examples=100)
    @given(parameters())
    def test_the_result_is_a_schema_of_few_keywords(self, schema: Json) -> None:
        found = simplified(schema)
        assert not list(
            schema_problems({"type": "object", "allOf": [found], "$defs": found.get("$defs", {})}, "p", strict=False)
        )
        assert keywords(found) <= {
            *("type", "enum", "anyOf", "$ref", "$defs", "pattern", "minimum", "maximum"),
            *("properties", "required", "additionalProperties", "items", "prefixItems", "minItems", "maxItems"),
        }


def keywords(schema: Any) -> set[str]:
    if not isinstance(schema, dict):
        return set()
    found = set(schema)
    for key, value in schema.items():
        inner = value.values() if key in ("properties", "$defs") else value if isinstance(value, list) else [value]
        if key != "enum":
            found |= {keyword for one in inner for keyword in keywords(one)}
    return found


def depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


def nested(levels: int) -> Json:
    schema: Json = {"type": "string"}
    for _ in range(levels):
        schema = {"anyOf": [with_property({"type": "array", "prefixItems": [schema]}), {"type": "null"}]}
    return with_property(schema)


def doubling(levels: int) -> Json:
    """Each definition twice in the next one, in three ways."""
    definitions: Json = {"0": STRING}
    for level in range(1, levels):
        below = {"$ref": f"#/$defs/{level - 1}"}
        both = with_property({"allOf": [below, {"description": "x"}]})
        definitions[str(level)] = {
            **both,
            "allOf": [below, {"properties": {"b": {"allOf": [below, both]}}}],
            "anyOf": [below, below],
        }
    return with_property({"$ref": f"#/$defs/{levels - 1}"}, **{"$defs": definitions})


def inheriting(levels: int) -> Json:
    """Each definition has all the properties of the one before, and one more."""
    definitions: Json = {"0": {"type": "object"}}
    for level in range(1, levels):
        own = {"properties": {f"p{level}": {"type": "object", "properties": {"x": {"$ref": f"#/$defs/{level - 1}"}}}}}
        definitions[str(level)] = {"allOf": [{"$ref": f"#/$defs/{level - 1}"}, own]}
    return with_property({"$ref": f"#/$defs/{levels - 1}"}, **{"$defs": definitions})


class TestSize:
    @pytest.mark.parametrize(
        "schema",
        [
            nested(32),
            doubling(40),
            doubling(1000),
            inheriting(40),
            inheriting(2000),
            {"type": "object", "properties": {f"p{i}": {"enum": [f"v{j}" for j in range(100)]} for i in range(1000)}},
            {"type": "object", "required": [f"p{i}" for i in range(20_000)]},
            with_property({"anyOf": [{"type": "string", "minLength": i} for i in range(20_000)]}),
            with_property({"anyOf": [with_property({"enum": [i]}, required=["a"]) for i in range(5_000)]}),
        ],
        ids=[
            "deep",
            "doubling",
            "doubling more",
            "inheriting",
            "inheriting more",
            "enums",
            "required",
            "alike",
            "union",
        ],
    )
    def test_nothing_explodes(self, schema: Json) -> None:
        began = time.process_time()
        found = simplified(schema)
        assert time.process_time() - began < 2
        assert len(json.dumps(found)) < 2 * len(json.dumps(schema)) + 200_000
        assert json.dumps(found).count('"type"') <= 3_000

    def test_what_is_deeper_than_vllm_allows_is_left_open(self) -> None:
        """It takes structural tags of 80 levels of JSON."""
        assert depth(nested(32)) == 195  # a request may have 200
        assert depth(simplified(nested(32))) < 64

    def test_the_limit_can_be_lower(self) -> None:
        schema = {"type": "object", "properties": {f"p{i}": with_property(STRING) for i in range(100)}}
        found = simplified(schema, most=40)
        assert list(found["properties"]) == list(schema["properties"])
        assert 10 <= sum(inner != {} for inner in found["properties"].values()) <= 40
