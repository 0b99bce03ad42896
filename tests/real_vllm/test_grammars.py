"""What the grammars of forced decoding accept, by the xgrammar that vLLM uses. No model is needed for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from extproc.contract.tool_choice import NamedTool, ToolChoice
from extproc.prompts.grammar import _THINKING_TAGS, _USUAL_TAGS, Thinking, structural_tag
from extproc.prompts.grammar_schema import simplified
from extproc.toolcalls import SYNTAXES, CallSyntax
from extproc.toolcalls.syntax.forcing import READ_AS_BARE_JSON, marker_of_calls, marker_unwrapped
from tests.real_vllm.matcher import Matcher
from tests.schema_strategies import Json, arguments, parameters

pytestmark = pytest.mark.vllm


def tool(name: str, schema: Any = None, *, strict: bool = False) -> Json:
    return {"type": "function", "function": {"name": name, "parameters": schema, "strict": strict}}


def closed(**properties: Any) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name, schema in properties.items() if schema.get("title") != "optional"],
        "additionalProperties": False,
    }


def optional(**schema: Any) -> Json:
    return {**schema, "title": "optional"}


STRING = {"type": "string"}
TOOLS = [
    tool(
        "get_weather",
        closed(
            city=STRING,
            days=optional(type="integer", minimum=1, maximum=14),
            units=optional(enum=["c", "f"]),
            options=optional(type="object", properties={"x": STRING}),
            labels=optional(type="array", items=STRING),
        ),
    ),
    tool("now"),
    tool("search", closed(q=STRING, n={"type": ["integer", "null"]}), strict=True),
]
WEATHER = (
    "get_weather",
    '{"city": "Zürich \\"x\\"\\n", "days": 3, "units": "c", "options": {"x": "y"}, "labels": ["a"]}',
)
NOW = ("now", "{}")
SEARCH = ("search", '{"q": "<b>", "n": null}')
UNKNOWN = ("other", "{}")
WRONG_TYPE = ("get_weather", '{"city": "Rom", "days": "three"}')
MISSING = ("get_weather", '{"days": 3}')
TOO_MUCH = ("now", '{"x": 1}')
STRICTLY_WRONG = ("search", '{"q": "Rom"}')


def syntaxes(choice: ToolChoice) -> pytest.MarkDecorator:
    """For every format that can be forced so."""
    found = {
        name: syntax
        for name, syntax in SYNTAXES.items()
        if structural_tag(syntax, TOOLS, choice, parallel=True) is not None
    }
    return pytest.mark.parametrize("syntax", found.values(), ids=list(found))


class TestCalls:
    """What the syntax of a format writes is what its grammar allows."""

    def check(
        self,
        matcher: Matcher,
        syntax: CallSyntax,
        choice: ToolChoice,
        parallel: bool,
        right: list[str],
        wrong: list[str],
    ) -> None:
        for thinking, before in thoughts(syntax).items():
            tag = structural_tag(syntax, TOOLS, choice, parallel=parallel, thinking=thinking)
            assert tag is not None
            texts = [before + text for text in (*right, *wrong)]
            found = matcher.accepted(tag, *texts)
            assert [text for text, accepted in zip(texts, found, strict=True) if accepted] == texts[: len(right)]

    @syntaxes("required")
    @pytest.mark.parametrize("parallel", [True, False])
    def test_required(self, matcher: Matcher, syntax: CallSyntax, parallel: bool) -> None:
        write = syntax.write
        several = [write([WEATHER, NOW, SEARCH]), write([WEATHER, WEATHER])]
        right = [write([WEATHER]), write([NOW]), write([SEARCH]), *(several if parallel else [])]
        wrong = ["", "Hello", write([UNKNOWN]), write([WRONG_TYPE]), write([MISSING]), write([TOO_MUCH])]
        wrong += [write([NOW]) + " done", write([NOW])[:-1], "Hi " + write([NOW]), *([] if parallel else several)]
        self.check(matcher, syntax, "required", parallel, right, wrong)

    @syntaxes("required")
    @pytest.mark.parametrize("parallel", [True, False])
    def test_calls_or_json(self, matcher: Matcher, syntax: CallSyntax, parallel: bool) -> None:
        """What a request with tools and a schema of the text lets the model write."""
        write = syntax.write
        schema = {**closed(city={"$ref": "#/$defs/name"}), "$defs": {"name": {"type": "string", "minLength": 2}}}
        several = [write([WEATHER, NOW, SEARCH]), write([WEATHER, WEATHER])]
        right = ['{"city": "Rome"}', '{"city":"\\n "}', write([WEATHER]), write([NOW]), *(several if parallel else [])]
        wrong = ["", "Rome", "{}", '{"city": 1}', '{"city": "Rome"} ' + write([NOW]), write([NOW]) + '{"city": "Rome"}']
        wrong += [write([UNKNOWN]), write([MISSING]), "Hi " + write([NOW]), *([] if parallel else several)]
        any_object = [*right, '{"a": [1, {}]}'], ["", "Rome", "[]", "Hi " + write([NOW])]
        for text_schema, (allowed, refused) in ((schema, (right, wrong)), ({}, any_object)):
            for thinking, before in thoughts(syntax).items():
                tag = structural_tag(
                    syntax, TOOLS, "auto", parallel=parallel, text_schema=text_schema, thinking=thinking
                )
                assert tag is not None
                found = matcher.accepted(tag, *(before + text for text in (*allowed, *refused)))
                assert found == [True] * len(allowed) + [False] * len(refused)

    @pytest.mark.parametrize("schema", [{"type": "array", "items": STRING}, {"enum": ["a", 1]}, STRING])
    def test_json_that_is_no_object(self, matcher: Matcher, schema: Json) -> None:
        tag = structural_tag(SYNTAXES["hermes"], TOOLS, "auto", parallel=True, text_schema=schema)
        assert tag is not None
        values = ['["x"]', '"a"', "1", "{}"]
        accepted = [json.loads(text) for text, is_ in zip(values, matcher.accepted(tag, *values), strict=True) if is_]
        assert accepted == {"array": [["x"]], "string": ["a"]}.get(schema.get("type", ""), ["a", 1])

    @syntaxes(NamedTool("search"))
    def test_a_tool_by_name(self, matcher: Matcher, syntax: CallSyntax) -> None:
        write = syntax.write
        wrong = ["", write([WEATHER]), write([SEARCH, SEARCH]), write([STRICTLY_WRONG])]
        self.check(matcher, syntax, NamedTool("search"), True, [write([SEARCH])], wrong)

    @syntaxes("auto")
    @pytest.mark.parametrize("parallel", [True, False])
    def test_strict(self, matcher: Matcher, syntax: CallSyntax, parallel: bool) -> None:
        write = syntax.write
        more = [write([NOW]) + write([SEARCH]), write([SEARCH, NOW]), write([SEARCH]) + " done"]
        right = ["", 'Hello {"name": "Bob"} [1] <b> ```json\n{}\n```', "Sure.\n" + write([SEARCH]), write([TOO_MUCH])]
        right += more if parallel else []
        wrong = [write([STRICTLY_WRONG]), "Hi\n" + write([STRICTLY_WRONG]), *([] if parallel else more)]
        self.check(matcher, syntax, "auto", parallel, right, wrong)


def thoughts(syntax: CallSyntax) -> dict[Thinking | None, str]:
    """What may stand before everything else."""
    opening, closing = _THINKING_TAGS.get(syntax.format, _USUAL_TAGS)
    quoted = "I could write " + syntax.begin_of("other")
    return {None: "", "tags": f"{opening}{quoted}{closing}\n", "open": f"{quoted}{closing}\n\n"}


class TestThinking:
    def test_in_tags_it_may_be_left_out(self, matcher: Matcher) -> None:
        tag = structural_tag(SYNTAXES["hermes"], TOOLS, "required", parallel=True, thinking="tags")
        assert tag is not None
        call = SYNTAXES["hermes"].write([NOW])
        texts = (call, f"<think>Hm.</think>{call}", "<think>Hm.</think>", f"Hm.</think>{call}")
        assert matcher.accepted(tag, *texts) == [True, True, False, False]

    def test_one_that_has_begun_may_not(self, matcher: Matcher) -> None:
        tag = structural_tag(SYNTAXES["hermes"], TOOLS, "required", parallel=True, thinking="open")
        assert tag is not None
        call = SYNTAXES["hermes"].write([NOW])
        assert matcher.accepted(tag, call, f"</think>{call}", f"Hm.\n</think>\n\n{call}") == [False, True, True]


class TestStrictCallsInBareJson:
    """Small models write them so, whatever they are told; the parser takes them for calls."""

    @pytest.mark.parametrize(
        "text",
        [
            '{"name": "search", "arguments": %s}',
            '{"name":"search","parameters":%s}',
            'Sure:\n```json\n{\n  "name": "search",\n  "arguments": %s\n}\n```',
            '```json\n{"name": "search", "arguments": %s}',
            '[{"name": "search", "arguments": %s}]',
        ],
    )
    def test_obey(self, matcher: Matcher, text: str) -> None:
        tag = structural_tag(SYNTAXES["hermes"], TOOLS, "auto", parallel=False)
        assert tag is not None
        assert matcher.accepted(tag, text % SEARCH[1], text % STRICTLY_WRONG[1]) == [True, False]


FREE = (
    "",
    "Hello",
    'Here: {"name": "Bob"}, [1] <b> find() ```json\n{}\n```',
    '{"name": "search", "version": "1.0"}',
    '```json\n{\n  "name": "now",\n  "scripts": {"arguments": "x"}\n}\n```\nSo much for package.json.',
    'Its "name": "search" is taken.',
    '{"name": "other", "arguments": {"q": 1}}',
)
"""Texts that hold ordinary JSON, with the names of offered tools too, and no call."""


class TestBegunCalls:
    """`forced: begun`: a call is by its schema from where it begins, and all else is free."""

    @syntaxes("auto")
    @pytest.mark.parametrize("parallel", [True, False])
    def test_are_valid_and_the_text_is_free(self, matcher: Matcher, syntax: CallSyntax, parallel: bool) -> None:
        write = syntax.write
        right = [*FREE, *(f"Sure.\n{write([call])}" for call in (WEATHER, NOW, SEARCH))]
        right += [write([WEATHER, NOW]), write([SEARCH]) + " done"] if parallel else []
        wrong = [f"Sure.\n{write([call])}" for call in (WRONG_TYPE, MISSING, TOO_MUCH, STRICTLY_WRONG)]
        if syntax.format not in READ_AS_BARE_JSON or marker_of_calls(syntax) is not None:
            wrong.append(write([UNKNOWN]))
        if (marker := marker_unwrapped(syntax)) is not None:
            section = len(syntax.closing)  # which nothing has opened
            unwrapped = [text[text.index(marker) : len(text) - section] for text in (write([NOW]), write([TOO_MUCH]))]
            right.append(f"Sure. {unwrapped[0]}")
            wrong.append(f"Sure. {unwrapped[1]}")
        tag = structural_tag(syntax, TOOLS, "auto", parallel=parallel, forced="begun")
        assert tag is not None
        found = matcher.accepted(tag, *right, *wrong)
        texts = [*right, *wrong]
        assert [text for text, accepted in zip(texts, found, strict=True) if accepted] == right

    @pytest.mark.parametrize("syntax", [SYNTAXES[name] for name in ("hermes", "json", "llama3_json")])
    @pytest.mark.parametrize(
        "text",
        [
            '{"name": "search", "arguments": %s}',
            '{"name":"search" ,"parameters":%s}',
            'Sure:\n```json\n[\n      {\n\t"name": "search",\n\t"arguments" : %s\n}\n]\n```\nDone.',
            'First {"name": "now", "version": 2}, then\n{"name": "search", "arguments": %s}',
        ],
    )
    def test_are_valid_in_bare_json(self, matcher: Matcher, syntax: CallSyntax, text: str) -> None:
        tag = structural_tag(syntax, TOOLS, "auto", parallel=True, forced="begun")
        assert tag is not None
        found = matcher.accepted(tag, *(text % json_ for json_ in (SEARCH[1], STRICTLY_WRONG[1], "{}", '"Rome"')))
        assert found == [True, False, False, False]

    def test_may_be_thought_of(self, matcher: Matcher) -> None:
        tag = structural_tag(SYNTAXES["hermes"], TOOLS, "auto", parallel=True, forced="begun")
        assert tag is not None
        thought = "<think>I could write <tool_call>{}</tool_call>.</think>\n"
        call, bad = (SYNTAXES["hermes"].write([made]) for made in (NOW, TOO_MUCH))
        found = matcher.accepted(tag, thought + "No.", thought + call, thought + bad, "No <think> of it.", bad)
        assert found == [True, True, False, True, False]

    @settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
    @given(st.data(), st.sampled_from(["hermes", "json", "mistral", "kimi_k2"]))
    def test_whatever_the_schema(self, matcher: Matcher, data: st.DataObject, format_: str) -> None:
        """A call with valid arguments can be written amid text; one with others than an object, or cut short, can't."""
        schema = data.draw(parameters())
        value = in_order(data.draw(arguments(schema)))
        offered = [tool("f", in_order(schema)), tool("g")]
        tag = structural_tag(SYNTAXES[format_], offered, "auto", parallel=True, forced="begun")
        assert tag is not None
        write = SYNTAXES[format_].write
        right = write([("f", json.dumps(value, ensure_ascii=False))])
        wrong = [write([("f", text)]) for text in ("[]", "null", '"x"')]
        texts = (f"Well.\n{right}\nDone.", f"{right[:-8]}", *wrong)
        assert matcher.accepted(tag, *texts) == [True, False, False, False, False]


class TestSchemas:
    @settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
    @given(st.data())
    def test_what_is_valid_can_be_written(self, matcher: Matcher, data: st.DataObject) -> None:
        schema = data.draw(parameters())
        value = data.draw(arguments(schema))
        assert matcher.accepted_values(in_order(simplified(schema)), in_order(value)) == [True]

    @pytest.mark.parametrize(
        ("lower", "upper"),
        [(0, 0), (1, 12), (-3, 4), (-120, -7), (99, 101), (-1, 1000), (7, None), (None, -1), (None, 100), (-101, None)],
    )
    def test_ranges_of_whole_numbers_are_kept_exactly(
        self, matcher: Matcher, lower: int | None, upper: int | None
    ) -> None:
        bounds = {"minimum": lower, "maximum": upper}
        schema = simplified(
            {
                "type": "object",
                "properties": {"a": {"type": "integer"} | {k: v for k, v in bounds.items() if v is not None}},
            }
        )
        numbers = range(-1100, 1100)
        found = matcher.accepted_values(schema, *({"a": number} for number in numbers))
        expected = [(lower is None or number >= lower) and (upper is None or number <= upper) for number in numbers]
        assert found == expected

    @pytest.mark.parametrize(
        ("schema", "value"),
        [
            ({"type": "integer", "minimum": -(2**53) + 1, "maximum": 2**53 - 1}, 2**53),
            ({"type": "string", "pattern": "^[a-z]{2,3}$"}, "abcd"),
            ({"enum": ["a", 1, None]}, "b"),
            ({"const": "a"}, "b"),
            ({"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2}, []),
            ({"type": "array", "prefixItems": [{"type": "string"}], "items": False}, ["a", "b"]),
            ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 1),
            ({"oneOf": [{"type": "string"}, {"type": "null"}]}, 1),
            ({"allOf": [{"type": "object", "required": ["x"]}, {"properties": {"x": {"type": "null"}}}]}, {"x": 1}),
            ({"type": "object", "properties": {"x": {"type": "null"}}, "required": ["x"]}, {}),
            ({"type": "object", "additionalProperties": {"type": "integer"}}, {"x": "y"}),
            (
                {"type": "object", "patternProperties": {"^x": {"type": "null"}}, "additionalProperties": False},
                {"x": 1},
            ),
            ({"$ref": "#/$defs/node"}, {"next": {"next": 1}}),
        ],
    )
    def test_what_is_wrong_cannot(self, matcher: Matcher, schema: Json, value: Any) -> None:
        node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
        whole = {"type": "object", "properties": {"a": schema}, "$defs": {"node": node}}
        assert matcher.accepted_values(simplified(whole), {"a": value}) == [False]

    @pytest.mark.parametrize("text", ["x\ny", 'say "hi"', "a\\b", "", "x" * 5000, "\t", "é😀"])
    def test_every_string_can_be_written_however_long(self, matcher: Matcher, text: str) -> None:
        schema = {"type": "object", "properties": {"a": {"type": "string", "minLength": 1, "format": "uri"}}}
        assert matcher.accepted_values(simplified(schema), {"a": text}) == [True]

    def test_fifty_tools_with_everything(self, matcher: Matcher) -> None:
        node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "x": {"type": "number"}}}
        tools = [
            tool(
                f"tool_{index}",
                {
                    "type": "object",
                    "properties": {
                        "which": {"enum": [f"{index} {choice}" for choice in range(100)]},
                        "node": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
                        **{f"p{number}": {"type": ["string", "integer"]} for number in range(20)},
                    },
                    "$defs": {"node": node},
                },
            )
            for index in range(50)
        ]
        tag = structural_tag(SYNTAXES["hermes"], tools, "required", parallel=True)
        assert tag is not None
        write = SYNTAXES["hermes"].write
        right = write([("tool_49", '{"which": "49 99", "node": {"next": {"x": 1e5}}, "p19": 3}'), ("tool_0", "{}")])
        wrong = write([("tool_49", '{"which": "48 99"}')])
        assert matcher.accepted(tag, right, wrong) == [True, False]


def in_order(value: Any) -> Any:
    """With members by name, because xgrammar has an order for them, and with whole numbers that look like it."""
    if isinstance(value, dict):
        return {name: in_order(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return list(map(in_order, value))
    return int(value) if isinstance(value, float) and value.is_integer() else value
