"""Formats that come with a checkpoint: what Hugging Face transformers reads by a response template, our table reads.

The templates are those of transformers' own tests, of Muse, and one for DeepSeek V4; most outputs are from there too.
"""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.toolcalls import Event, Format, Parser, ResponseTemplateError, compile_template, parse
from tests.cuts import cuts, parsed, random_cut
from tests.format_writers.generated import tool
from tests.test_format_properties import joined

TEMPLATES: dict[str, dict[str, Any]] = {
    file.stem: json.loads(file.read_text(encoding="utf-8"))
    for file in sorted((Path(__file__).parent / "samples" / "response_templates").glob("*.json"))
}
TABLES = {name: compile_template(template) for name, template in TEMPLATES.items()}
TEMPERATURE = {"location": "Paris"}
TOOLS = [
    tool("get_weather", {"city": {"type": "string"}, "days": {"type": "integer"}, "locations": {"type": "array"}}),
    tool("get_time", {}),
]

OUTPUTS: list[tuple[str, str, str | None, str | None, list[tuple[str, Any]]]] = [
    # template, output, content, reasoning, calls
    (
        "cohere",
        "<|START_THINKING|>I should call a tool.<|END_THINKING|>"
        '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "simple_tool", '
        '"parameters": {"temperature_format": "Celsius"}}\n]<|END_ACTION|><|END_OF_TURN_TOKEN|>',
        None,
        "I should call a tool.",
        [("simple_tool", {"temperature_format": "Celsius"})],
    ),
    (
        "cohere",
        '<|START_ACTION|>[{"tool_name": "a", "parameters": {"x": 1}}, {"tool_name": "b", "parameters": {}}]'
        "<|END_ACTION|>",
        None,
        None,
        [("a", {"x": 1}), ("b", {})],
    ),
    (
        "cohere",
        "<|START_RESPONSE|>The token <|START_ACTION|> begins calls.<|END_RESPONSE|>",
        "The token <|START_ACTION|> begins calls.",
        None,
        [],
    ),
    ("cohere", "An answer without its marker.", "An answer without its marker.", None, []),
    ("cohere", "<|START_THINKING|>[<|START_ACTION|>]<|END_THINKING|>", None, "[<|START_ACTION|>]", []),
    (
        "ernie",
        "The user asks.\n</think>\n\n"
        '<tool_call>\n{"name": "get_current_temperature", "arguments": {"location": "Paris"}}\n</tool_call>\n</s>',
        None,
        "The user asks.",
        [("get_current_temperature", TEMPERATURE)],
    ),
    ("ernie", "Greet.\n</think>\n\n<response>\nHello!\n</response>\n</s>", "Hello!", "Greet.", []),
    ("ernie", "<think>\nGreet.\n</think>\n\n<response>\nHello!", "Hello!", "Greet.", []),
    (
        "gpt_oss",
        "<|channel|>analysis<|message|>We call.<|end|><|start|>assistant<|channel|>commentary "
        'to=functions.get_weather <|constrain|>json<|message|>{\n  "city": "San Francisco, CA"\n}',
        None,
        "We call.",
        [("get_weather", {"city": "San Francisco, CA"})],
    ),
    (
        "gpt_oss",
        "<|channel|>analysis<|message|>Easy.<|end|><|start|>assistant<|channel|>final<|message|>4",
        "4",
        "Easy.",
        [],
    ),
    (
        "smollm",
        "<think>\nHm.\n</think>\n\n"
        '<tool_call>{"name": "greet", "arguments": {"greeting": "I\'m </tool_call>"}}</tool_call>',
        None,
        "Hm.",
        [("greet", {"greeting": "I'm </tool_call>"})],
    ),
    (
        "smollm",
        'Two: <tool_call>{"name": "a", "arguments": {}}</tool_call>\n'
        '<tool_call>{"name": "b"}</tool_call> Done.<|im_end|>',
        "Two: Done.",
        None,
        [("a", {}), ("b", {})],
    ),
    ("smollm", "<think>\nGravity</think>\nIt pulls.", "It pulls.", "Gravity", []),
    ("smollm", "A <tool_call> is a tag.", "A <tool_call> is a tag.", None, []),
    (
        "qwen3",
        "<think>short</think>\n<tool_call>\n<function=get_weather>\n<parameter=locations>\n"
        '[{"country": "France", "city": "Paris"}]\n</parameter>\n<parameter=city>\n7\n</parameter>\n'
        "<parameter=days>\n7\n</parameter>\n</function>\n</tool_call>",
        None,
        "short",
        [("get_weather", {"locations": [{"country": "France", "city": "Paris"}], "city": "7", "days": 7})],
    ),
    (
        "qwen3",
        "<tool_call><function=get_weather><parameter=city>a </parameter> b </tool_call> c</parameter></function>"
        "</tool_call>\n<tool_call><function=get_time></function></tool_call> Bye",
        "Bye",
        None,
        [("get_weather", {"city": "a </parameter> b </tool_call> c"}), ("get_time", {})],
    ),
    (
        "gemma4",
        "<|channel>thought\nThe user asks.<channel|>"
        '<|tool_call>call:get_weather{days:0,city:<|"|>Paris, "France"<|"|>,o:{l:[true,null]}}<tool_call|>'
        "<|tool_response>",
        None,
        "The user asks.",
        [("get_weather", {"days": 0, "city": 'Paris, "France"', "o": {"l": [True, None]}})],
    ),
    (
        "gemma4",
        "Before <|tool_call>call:f{}<tool_call|><|tool_call>call:g{n:1}<tool_call|> after<turn|>",
        "Before after",
        None,
        [("f", {}), ("g", {"n": 1})],
    ),
    ("gemma4", "text <|tool_call> not a call", "text <|tool_call> not a call", None, []),
    (
        "inkling",
        "<|content_thinking|>Consider the weather.<|end_message|>"
        "<|message_model|><|content_thinking|> Tokyo, probably.<|end_message|>"
        "<|message_model|><|content_text|>Checking the weather now.<|end_message|>"
        "<|message_model|>get_weather<|content_invoke_tool_json|>"
        '{"name":"get_weather","args":{"city":"Tokyo","units":"C"}}<|end_message|><|content_model_end_sampling|>',
        "Checking the weather now.",
        "Consider the weather. Tokyo, probably.",
        [("get_weather", {"city": "Tokyo", "units": "C"})],
    ),
    (
        "muse",
        " to=self<|message|>Look.<|eom|><|start|>assistant to=get_weather<|message|><atem:function_calls>\n"
        '<atem:invoke name="get_weather">\n<atem:parameter name="city">Paris</atem:parameter>\n'
        '<atem:parameter name="days">3</atem:parameter>\n</atem:invoke>\n<atem:invoke name="get_time">\n'
        "</atem:invoke>\n</atem:function_calls><|eom|><|start|>assistant to=user<|message|>Done.<|eot|>",
        "Done.",
        "Look.",
        [("get_weather", {"city": "Paris", "days": 3}), ("get_time", {})],
    ),
    (
        "deepseek_v4",
        "<think>Hm.</think>Let me look.\n\n<｜DSML｜tool_calls>\n"
        '<｜DSML｜invoke name="get_weather">\n<｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
        '<｜DSML｜invoke name="get_time">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>',
        "Let me look.",
        "Hm.",
        [("get_weather", {"city": "Paris", "days": 3}), ("get_time", {})],
    ),
]


def stripped(text: str | None) -> str | None:
    return (text or "").strip() or None


@pytest.mark.parametrize(("name", "text", "content", "reasoning", "calls"), OUTPUTS)
def test_outputs_are_read_as_the_template_says_in_every_cut(
    name: str, text: str, content: str | None, reasoning: str | None, calls: list[tuple[str, Any]]
) -> None:
    whole = parse(text, format=TABLES[name], tools=TOOLS)
    assert [(call.name, json.loads(call.arguments)) for call in whole.calls] == calls
    assert (stripped(whole.content), stripped(whole.reasoning)) == (content, reasoning)
    for pieces in cuts(text):
        assert parsed(pieces, format=TABLES[name], tools=TOOLS) == whole, pieces


def test_thinking_that_the_prompt_has_opened() -> None:
    for name in ("smollm", "qwen3", "deepseek_v4"):
        got = parse("Hm.</think>Hi.", format=TABLES[name], reasoning="open")
        assert (got.reasoning, got.content) == ("Hm.", "Hi.")


@pytest.mark.parametrize("name", TABLES)
@settings(max_examples=40)
@given(st.data())
def test_broken_outputs_raise_nothing_and_read_the_same_in_any_cut(name: str, data: st.DataObject) -> None:
    outputs = [text for template, text, *_ in OUTPUTS if template == name]
    text = data.draw(st.sampled_from(outputs))
    at, size = data.draw(st.integers(0, len(text))), data.draw(st.integers(0, 12))
    text = data.draw(st.sampled_from((text[:at], text[:at] + text[at + size :], text[: at + size] + text[at:])))
    whole = events(TABLES[name], [text])
    for pieces in (list(text), random_cut(text, random.Random(at))):
        assert joined(events(TABLES[name], pieces)) == joined(whole), pieces


def events(format_: Format, pieces: list[str]) -> list[Event]:
    parser = Parser(format=format_, tools=TOOLS)
    return [event for piece in pieces for event in parser.feed(piece)] + parser.close()


# Where it stands


def test_a_tokenizers_configuration_has_it_inside() -> None:
    table = compile_template({"chat_template": "...", "response_template": TEMPLATES["smollm"]})
    assert parse("<think>a</think>b", format=table).content == "b"


# What is refused


def changed(name: str, field: str, **parts: Any) -> dict[str, Any]:
    template = copy.deepcopy(TEMPLATES[name])
    one = template["fields"].setdefault(field, {})
    for part, value in parts.items():
        one.pop(part.removesuffix("_pattern"), None)
        one.pop(f"{part}_pattern", None)
        one[part] = value
    return template


def call(arguments: Any, name: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


TAG = "<parameter=(?P<key>\\w+)>(?P<value>.*?)</parameter>"


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ([], "expected an object"),
        ({"response_schema": {"x-regex": "x"}}, "response_schema, the form before it"),
        ({"fields": {}}, "fields: at least one"),
        ({"version": 2, "fields": {"content": {}}}, "version: only 1"),
        ({"field": {}, "fields": {"content": {}}}, "field: no such part"),
        ({"fields": {"content": {}, "thinking": {}}}, "fields: nothing begins content or thinking"),
        ({"fields": {"tool_calls": {}}}, r"fields\.tool_calls: nothing begins it"),
        ({"fields": {"citations": {"open": "["}}}, r"fields\.citations: an answer has nothing but"),
        (changed("smollm", "content", content="int"), r"fields\.content: content: 'int'"),
        (changed("smollm", "content", join=" "), r"fields\.content: join"),
        (changed("smollm", "content", transform="{content}"), r"fields\.content: transform"),
        (changed("smollm", "content", size=1), r"fields\.content: size: no such part"),
        (changed("smollm", "thinking", open=[]), r"fields\.thinking: open: expected"),
        (
            changed("smollm", "thinking", open_pattern="(?<=x)<think>"),
            r"fields\.thinking: open_pattern: .*looks around",
        ),
        (changed("smollm", "thinking", open_pattern="("), r"fields\.thinking: open_pattern: .*no regular expression"),
        (changed("smollm", "thinking", open_pattern="^<think>"), "at the output's beginning alone"),
        (changed("smollm", "thinking", open_pattern=r"\s*"), r"open_pattern: it has no literal"),
        (changed("smollm", "thinking", open_pattern="<a>.*<b>"), "can't be told"),
        (changed("smollm", "thinking", close_pattern=r"</think>\d"), r"only literals can end a field, not '\\\\d'"),
        (changed("smollm", "thinking", close_pattern=r"</a>\s*</b>"), "white space between '</a>' and '</b>'"),
        (changed("smollm", "thinking", open="<tool_call>"), "'<tool_call>' opens two things"),
        (changed("smollm", "tool_calls", content="kv-lines"), r"fields\.tool_calls: content: 'kv-lines'"),
        (changed("smollm", "tool_calls", content="text"), r"fields\.tool_calls: content: 'text'"),
        (changed("smollm", "tool_calls", transform={"function": {"name": "f"}}), "transform: function: expected"),
        (
            changed("smollm", "tool_calls", transform=call("{content}", "python")),
            r"transform: function\.name: expected",
        ),
        (changed("smollm", "tool_calls", transform=call("{content}", "{name}")), "open_pattern: no group 'name'"),
        (changed("smollm", "tool_calls", transform=call("{content.a.b}", "{content.n}")), "is no key of the call"),
        (changed("smollm", "tool_calls", transform={"function": "{content}", "index": 1}), "index: a call has no such"),
        (changed("gemma4", "tool_calls", content_args={"allow_non_json": True}), "content_args: allow_non_json"),
        (changed("gemma4", "tool_calls", content_args={"string_delims": [["«", "»"]]}), "string_delims: expected one"),
        (changed("gpt_oss", "tool_calls", open_pattern=r"<c>(?P<name>\w)+<m>"), "repeats a group that has a name"),
        (
            changed("qwen3", "tool_calls", content_args={"tag_pattern": TAG, "merge_duplicates": True}),
            "merge_duplicates",
        ),
        (
            changed("qwen3", "tool_calls", content_args={"tag_pattern": TAG, "value_parser": {"name": "int"}}),
            "content_args: value_parser: 'int'",
        ),
        (changed("qwen3", "tool_calls", content_args={}), "tag_pattern: expected a text"),
        (
            changed("qwen3", "tool_calls", content_args={"tag_pattern": "(?P<key>a)=(?P<value>b)"}),
            "tag_pattern: expected a",
        ),
        (changed("qwen3", "tool_calls", content_args={"tag_pattern": TAG + "|x"}), "tag_pattern: .*alternatives"),
        (changed("qwen3", "tool_calls", transform=None), "transform: the name has to come from the opening"),
    ],
)
def test_what_no_table_can_say_is_refused_by_name(template: Any, why: str) -> None:
    with pytest.raises(ResponseTemplateError, match=why):
        compile_template(template)
