"""Forced decoding: which grammar a request makes, and what becomes of the tools' schemas in it.

What the grammars accept is tested with the real xgrammar, in tests/real_vllm/test_grammars.py.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from extproc.contract.tool_choice import NamedTool, ToolChoice
from extproc.prompts import grammar
from extproc.prompts.grammar import structural_tag
from extproc.prompts.grammar_bare import no_call_behind_name
from extproc.toolcalls import SYNTAXES, CallSyntax, get_format, parse
from extproc.toolcalls.states import State
from extproc.toolcalls.syntax.forcing import READ_AS_BARE_JSON, marker_of_calls, marker_unwrapped
from extproc.toolcalls.table import Body, Prose
from tests.schema_strategies import Json

STRING = {"type": "string"}
INTEGER = {"type": "integer"}
CITY = {"type": "object", "properties": {"city": STRING}, "required": ["city"], "additionalProperties": False}


def tool(name: str, schema: Any = None, *, strict: bool | None = None) -> Json:
    function = {"name": name, "parameters": schema, "strict": strict}
    return {"type": "function", "function": {key: value for key, value in function.items() if value is not None}}


WEATHER = tool("get_weather", CITY)
STRICT = tool("find", CITY, strict=True)
NOW = tool("now")
TOOLS = [WEATHER, NOW]

NOT_FORCED = {
    *(name for name, syntax in SYNTAXES.items() if syntax.style is None),
    "minimax_m3",  # its style can't say "anything"
    "openai",  # a call is a message, which ends with the answer
}
FORCED = {name: syntax for name, syntax in SYNTAXES.items() if name not in NOT_FORCED}
every_forced_syntax = pytest.mark.parametrize("syntax", FORCED.values(), ids=list(FORCED))


def grammar_of(
    syntax: CallSyntax | str, choice: ToolChoice, *tools: Json, parallel: bool = True, **options: Any
) -> Json:
    """The grammar itself; there has to be one."""
    syntax = SYNTAXES[syntax] if isinstance(syntax, str) else syntax
    tag = structural_tag(syntax, tools or TOOLS, choice, parallel=parallel, **options)
    assert tag is not None
    assert tag.keys() == {"type", "format"}
    assert tag["type"] == "structural_tag"
    found: Json = tag["format"]
    return found


def inside(value: Any, kind: str) -> list[Json]:
    """All that is of a kind, wherever it is."""
    if isinstance(value, list):
        return [found for element in value for found in inside(element, kind)]
    if not isinstance(value, dict):
        return []
    here = [value] if value.get("type") == kind else []
    return here + [found for key, element in value.items() if key != "json_schema" for found in inside(element, kind)]


def constants(value: Json) -> list[str]:
    return [found["value"] for found in inside(value, "const_string")]


class TestWhatIsForced:
    def test_nothing_unless_it_is_asked_for(self) -> None:
        for syntax in SYNTAXES.values():
            assert structural_tag(syntax, TOOLS, "none", parallel=True) is None
            assert structural_tag(syntax, TOOLS, "auto", parallel=True) is None
            assert structural_tag(syntax, [], "required", parallel=True) is None
            assert structural_tag(syntax, TOOLS, NamedTool("other"), parallel=True) is None

    def test_a_tool_that_is_not_strict_is_no_reason(self) -> None:
        tools = [tool("f", CITY, strict=False)]
        assert structural_tag(SYNTAXES["hermes"], tools, "auto", parallel=True) is None

    def test_some_formats_cannot_be(self) -> None:
        for name in NOT_FORCED:
            for choice in ("required", "auto", NamedTool("find")):
                assert structural_tag(SYNTAXES[name], [STRICT], choice, parallel=True) is None

    def test_all_others_can(self) -> None:
        assert len(FORCED) > 30
        for syntax in FORCED.values():
            grammar_of(syntax, "required")
            grammar_of(syntax, NamedTool("now"))

    def test_few_formats_only_where_a_call_is_demanded(self) -> None:
        """Inkling's first marker begins other messages too, Functionary's is Python's prompt, Solar has no last one."""
        without = {
            name for name, syntax in FORCED.items() if structural_tag(syntax, [STRICT], "auto", parallel=True) is None
        }
        assert without == {"inkling", "functionary_v32", "solar_open"}

    def test_it_is_json(self) -> None:
        for syntax in FORCED.values():
            value = grammar_of(syntax, "required")
            assert json.loads(json.dumps(value)) == value


class TestDemandedCalls:
    def test_one_tag_for_each_tool(self) -> None:
        assert grammar_of("hermes", "required") == {
            "type": "tags_with_separator",
            "tags": [
                {
                    "type": "tag",
                    "begin": '<tool_call>\n{"name": "get_weather", "arguments": ',
                    "content": {"type": "json_schema", "json_schema": CITY},
                    "end": "}\n</tool_call>",
                },
                {
                    "type": "tag",
                    "begin": '<tool_call>\n{"name": "now", "arguments": ',
                    "content": {
                        "type": "json_schema",
                        "json_schema": {"type": "object", "additionalProperties": False},
                    },
                    "end": "}\n</tool_call>",
                },
            ],
            "separator": "\n",
            "at_least_one": True,
            "stop_after_first": False,
        }

    @every_forced_syntax
    def test_further_calls_only_if_they_are_allowed(self, syntax: CallSyntax) -> None:
        for parallel in (True, False):
            (calls,) = inside(grammar_of(syntax, "required", parallel=parallel), "tags_with_separator")
            assert calls["stop_after_first"] is not parallel
            assert calls["at_least_one"] is True
            assert calls["separator"] == syntax.separator

    @every_forced_syntax
    def test_a_named_tool_is_the_only_one_and_is_called_once(self, syntax: CallSyntax) -> None:
        (calls,) = inside(grammar_of(syntax, NamedTool("now")), "tags_with_separator")
        assert calls["stop_after_first"] is True
        assert len(calls["tags"]) == 1
        assert "now" in json.dumps(calls["tags"])
        assert "get_weather" not in json.dumps(calls["tags"])

    @every_forced_syntax
    def test_the_parts_are_those_that_the_syntax_writes(self, syntax: CallSyntax) -> None:
        value = grammar_of(syntax, "required", NOW)
        (call,) = inside(value, "tag")
        before, behind = syntax.write([("now", "{}")]).split("now", 1)
        assert (syntax.opening + call["begin"]).startswith(before.partition("0")[0])
        assert behind.endswith(call["end"] + syntax.closing)
        assert [text for text in (syntax.opening, syntax.closing) if text] == [
            text for text in constants(value) if text in (syntax.opening, syntax.closing)
        ]

    @every_forced_syntax
    def test_arguments_are_spelled_in_the_style_of_the_format(self, syntax: CallSyntax) -> None:
        schemas = inside(grammar_of(syntax, "required"), "json_schema")
        assert [schema.get("style", "json") for schema in schemas] == [syntax.style] * 2

    @pytest.mark.parametrize(
        ("name", "begin", "rest"),
        [
            ("kimi_k2", "<|tool_call_begin|>functions.now:", "<|tool_call_argument_begin|>"),
            ("kimi_k3", '<|open|>call tool="now" index="', '"<|sep|>'),
            ("cohere_command3", '{"tool_call_id": "', '", "tool_name": "now", "parameters": '),
        ],
    )
    def test_a_call_may_have_any_number(self, name: str, begin: str, rest: str) -> None:
        (call,) = inside(grammar_of(name, "required", NOW), "tag")
        assert call["begin"] == begin
        number, constant, schema = call["content"]["elements"]
        assert number == {"type": "regex", "pattern": "[0-9]{1,4}"}
        assert constant["value"] == rest
        assert schema["type"] == "json_schema"

    def test_a_tool_without_parameters_has_no_arguments(self) -> None:
        for tool_without in (tool("f"), tool("f", {})):
            (schema,) = inside(grammar_of("hermes", "required", tool_without), "json_schema")
            assert schema["json_schema"] == {"type": "object", "additionalProperties": False}


class TestStrictTools:
    def test_the_text_is_free_until_a_call_begins(self) -> None:
        value = grammar_of("qwen3_coder", "auto", STRICT, WEATHER)
        assert value["type"] == "triggered_tags"
        assert value["triggers"] == ["<tool_call>"]
        assert value.get("at_least_one", False) is False
        assert [call["begin"] for call in value["tags"]] == [
            f"<tool_call>\n<function={name}>\n" for name in ("find", "get_weather")
        ]

    def test_only_strict_tools_have_their_schema(self) -> None:
        strict, other = inside(grammar_of("qwen3_coder", "auto", STRICT, WEATHER), "json_schema")
        assert strict["json_schema"] == CITY
        assert other["json_schema"] == {"type": "object", "additionalProperties": True}

    @every_forced_syntax
    def test_it_stops_after_the_first_call_unless_there_may_be_more(self, syntax: CallSyntax) -> None:
        for parallel in (True, False):
            if structural_tag(syntax, [STRICT], "auto", parallel=parallel) is None:
                continue
            value = grammar_of(syntax, "auto", STRICT, parallel=parallel)
            assert value["stop_after_first"] is not parallel
            assert all(calls["stop_after_first"] is not parallel for calls in inside(value, "tags_with_separator"))

    @every_forced_syntax
    def test_every_tag_has_exactly_one_trigger(self, syntax: CallSyntax) -> None:
        """Otherwise xgrammar refuses it."""
        names = ("f", "ff", "f-", "g")
        tag = structural_tag(syntax, [tool(name, CITY, strict=True) for name in names], "auto", parallel=True)
        if tag is None:
            return
        for call in tag["format"]["tags"]:
            assert len([one for one in tag["format"]["triggers"] if call["begin"].startswith(one)]) == 1

    @pytest.mark.parametrize(
        ("name", "marker"),
        [
            ("hermes", "<tool_call>"),
            ("mistral", "[TOOL_CALLS]"),
            ("mimo", "<tool_call>"),
            ("phi4_mini_json", "functools["),
            ("jamba", "<tool_calls>["),
            ("deepseek_v31", "<｜tool▁calls▁begin｜>"),
            ("kimi_k3", "<|open|>tools<|sep|>"),
        ],
    )
    def test_the_shortest_marker_begins_a_call(self, name: str, marker: str) -> None:
        assert grammar_of(name, "auto", STRICT)["triggers"][0] == marker

    @every_forced_syntax
    def test_a_call_in_bare_json_is_one_where_the_parser_says_so(self, syntax: CallSyntax) -> None:
        text = '{"name": "find", "arguments": {"city": "Rom"}}'
        is_read = bool(parse(text, format=syntax.format, tools=[STRICT]).calls)
        tag = structural_tag(syntax, [STRICT], "auto", parallel=True)
        assert is_read == (tag is not None and '"name": "find"' in tag["format"]["triggers"])

    @every_forced_syntax
    def test_prose_does_not_begin_a_call(self, syntax: CallSyntax) -> None:
        text = 'Here: {"name": "Bob"}, [1], <b>, ```json\n{}\n```, "find", find(), functools.'
        tag = structural_tag(syntax, [STRICT], "auto", parallel=True)
        assert not any(trigger in text for trigger in (tag["format"]["triggers"] if tag else ()))


class TestBegunCalls:
    """`forced: begun`: what the decoder is held to begins where the parser sees a call."""

    @every_forced_syntax
    def test_all_tools_are_as_good_as_strict_where_a_marker_begins_calls(self, syntax: CallSyntax) -> None:
        forced, begun = (structural_tag(syntax, TOOLS, "auto", parallel=True, forced=kind) for kind in (True, "begun"))
        assert (forced is None) == (begun is None)
        if begun is None or forced is None:
            return
        text = inside(begun, "triggered_tags")[0]
        marker = marker_of_calls(syntax)
        if marker is not None and syntax.format not in READ_AS_BARE_JSON:
            assert text["stop_after_first"] is False
            assert text["triggers"][0] == forced["format"]["triggers"][0] == marker
            assert text["tags"][: len(forced["format"]["tags"])] == forced["format"]["tags"]
        schemas = inside(text, "json_schema")
        assert CITY in [schema["json_schema"] for schema in schemas]
        assert {"type": "object", "additionalProperties": True} not in [schema["json_schema"] for schema in schemas]

    @every_forced_syntax
    def test_every_tag_has_exactly_one_trigger(self, syntax: CallSyntax) -> None:
        tools = [tool(name, CITY) for name in ("f", "ff", "f-", "g")]
        tag = structural_tag(syntax, tools, "auto", parallel=True, forced="begun")
        for text in inside(tag, "triggered_tags"):
            for call in text["tags"]:
                assert len([one for one in text["triggers"] if call["begin"].startswith(one)]) == 1

    @every_forced_syntax
    def test_one_call_ends_the_text_only_where_each_tag_is_one(self, syntax: CallSyntax) -> None:
        tag = structural_tag(syntax, TOOLS, "auto", parallel=False, forced="begun")
        for text in inside(tag, "triggered_tags"):
            assert text["stop_after_first"] is (syntax.format not in READ_AS_BARE_JSON)

    @every_forced_syntax
    def test_a_first_marker_may_be_missing_where_the_parser_says_so(self, syntax: CallSyntax) -> None:
        written = syntax.write([("get_weather", '{"city": "Rome"}')])
        first = marker_of_calls(syntax)
        if first is None or syntax.format == "kimi_k3":  # whose second marker begins anything
            assert marker_unwrapped(syntax) is None
            return
        behind = written.index(first.strip("[")) + len(first.strip("["))
        if "<" not in written[behind:].partition("get_weather")[0]:
            assert marker_unwrapped(syntax) is None
            return
        text = written[written.index("<", behind) :]
        read = [(call.name, call.arguments) for call in parse(text, format=syntax.format, tools=TOOLS).calls]
        marker = marker_unwrapped(syntax)
        assert (read == [("get_weather", '{"city": "Rome"}')]) == (marker is not None)
        if marker is not None:
            assert text.startswith(marker)
            assert marker in inside(grammar_of(syntax, "auto", forced="begun"), "triggered_tags")[0]["triggers"]

    @pytest.mark.parametrize("syntax", [SYNTAXES["hermes"], SYNTAXES["qwen3_coder"]], ids=["hermes", "qwen3_coder"])
    def test_what_is_thought_in_tags_is_free(self, syntax: CallSyntax) -> None:
        thoughts, text = grammar_of(syntax, "auto", forced="begun")["elements"]
        assert thoughts["type"] == "optional"
        assert text["type"] == "triggered_tags"
        opened, _ = grammar_of(syntax, "auto", forced="begun", thinking="open")["elements"]
        assert not inside(opened, "optional")

    def test_a_format_without_thinking_has_none(self) -> None:
        assert grammar_of("json", "auto", forced="begun")["type"] == "triggered_tags"

    def test_a_demanded_call_is_the_same(self) -> None:
        for choice in ("required", NamedTool("now")):
            assert grammar_of("hermes", choice, forced="begun") == grammar_of("hermes", choice)

    def test_behind_a_name_in_json_stands_a_call_or_something_else(self) -> None:
        text = grammar_of("json", "auto", NOW, forced="begun")
        assert text["triggers"] == ['"name": "now"', '"name":"now"']
        for tag in text["tags"]:
            call, other = tag["content"]["elements"]
            assert inside(call, "json_schema")
            assert other["type"] == "regex"
            assert tag["end"] == ""

    @pytest.mark.parametrize(
        ("behind", "is_text"),
        [
            ("}", True),
            (".", True),
            ("\n}", True),
            (', "version": 1', True),
            (',\n  "argument": 1', True),
            (', "parametersx"', True),
            (', "": 1', True),
            (", and then", True),
            (', "arguments": {}', False),
            (',\n\t"parameters":', False),
            (",'arguments': {}", False),
            ("<tool_call>", False),
            ("", False),
        ],
    )
    def test_what_is_no_call_is_told_by_its_first_characters(self, behind: str, is_text: bool) -> None:
        assert (re.match(no_call_behind_name("<tool_call>"), behind) is not None) is is_text


class TestThinking:
    @every_forced_syntax
    def test_the_tags_are_those_of_the_parser(self, syntax: CallSyntax) -> None:
        opening, closing = grammar._THINKING_TAGS.get(syntax.format, grammar._USUAL_TAGS)
        table = get_format(syntax.format)
        if table.thinking is None:
            return
        first, thinking = table.states[table.start], table.states[table.thinking]
        assert isinstance(thinking, Prose)
        assert thinking.transitions[closing].to in (State.PROSE, State.BETWEEN_MESSAGES)
        assert not isinstance(first, Body)
        assert opening in first.transitions
        text = f"{opening}: a{closing}b"
        assert (parse(text, format=syntax.format).reasoning or "").strip(": ") == "a"

    def test_there_is_none_unless_it_is_allowed(self) -> None:
        assert "think" not in json.dumps(grammar_of("hermes", "required"))

    def test_in_tags_it_may_come_first(self) -> None:
        thoughts, calls = grammar_of("hermes", "required", thinking="tags")["elements"]
        assert thoughts["type"] == "optional"
        assert [(tag["begin"], tag["end"]) for tag in inside(thoughts, "tag")] == [("<think>", "</think>")]
        assert calls == grammar_of("hermes", "required")

    def test_what_has_begun_must_end(self) -> None:
        thoughts, _ = grammar_of("hermes", "required", thinking="open")["elements"]
        assert not inside(thoughts, "optional")
        assert [(tag["begin"], tag["end"]) for tag in inside(thoughts, "tag")] == [("", "</think>")]

    def test_a_call_that_is_thought_of_is_none(self) -> None:
        thoughts, text = grammar_of("hermes", "auto", STRICT, thinking="open")["elements"]
        assert inside(thoughts, "any_text")
        assert text["type"] == "triggered_tags"


class TestManyTools:
    def test_share_what_a_grammar_may_cost(self) -> None:
        wide: Json = {
            "type": "object",
            "properties": {f"p{i}": {"type": "object", "properties": {"x": STRING}} for i in range(100)},
        }
        tools = [tool(f"t{i}", wide) for i in range(128)]
        schemas = inside(grammar_of("hermes", "required", *tools), "json_schema")
        assert len(schemas) == 128
        assert sum(json.dumps(schema).count('"type"') for schema in schemas) < 3 * 128 * 101
        one = inside(grammar_of("hermes", "required", tools[0]), "json_schema")[0]["json_schema"]
        assert one["properties"].keys() == wide["properties"].keys()
        assert all(inner["properties"] == {"x": STRING} for inner in one["properties"].values())
