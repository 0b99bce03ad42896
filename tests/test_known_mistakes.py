"""Outputs that the parsers of vLLM 0.33 and SGLang 0.5.23 take wrongly: each is right here, in every cut.

The mistakes were seen by replaying outputs through those parsers, or are reported in their trackers (vllm#, sgl#).
A test's name says what goes right; its first line, what went wrong, where, and in which cut.
"""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

import pytest

from extproc.toolcalls import NAMED, ArgumentsDelta, CallEnd, CallStart, Event, Parser, Reasoning
from tests.call_texts import deepseek_v3, deepseek_v31, dsml, gemma, glm, hermes, kimi, minimax, qwen3, step3
from tests.cuts import cuts, parsed
from tests.json_values import same

STRING = {"type": "string"}


def tool(name: str, **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}}


TOOLS = [
    tool("get_weather", city=STRING, unit=STRING),
    tool("get_time"),
    tool("search", query=STRING, limit={"type": "integer"}, options={"type": "object"}),
    tool("write_file", path=STRING, text=STRING),
]
PARIS = ("get_weather", {"city": "Paris"})
ROME = ("get_weather", {"city": "Rome"})


def expect(
    format_: str,
    text: str,
    *calls: tuple[str, dict[str, Any]],
    content: str | None = None,
    reasoning: str | None = None,
    tools: list[dict[str, Any]] = TOOLS,
    **options: Any,
) -> None:
    """`text` is these calls, this content and this reasoning: whole, and however it is cut."""
    by_token = ([text[at : at + size] for at in range(0, len(text), size)] for size in (4, 8, 12))
    for pieces in chain(cuts(text), by_token):
        got = parsed(pieces, format=format_, tools=tools, **options)
        assert [call.name for call in got.calls] == [name for name, _ in calls], pieces
        arguments = [json.loads(call.arguments) for call in got.calls]
        assert same(arguments, [expected for _, expected in calls]), (pieces, arguments)
        assert ((got.content or "").strip() or None, got.reasoning) == (content, reasoning), pieces


def events(format_: str, *pieces: str, tools: list[dict[str, Any]] = TOOLS) -> list[Event]:
    parser = Parser(format=format_, tools=tools)
    return [event for piece in pieces for event in parser.feed(piece)] + parser.close()


# vLLM


def test_deepseek_v3_takes_a_whole_block_in_one_delta() -> None:
    """vLLM, one delta: no call at all (vllm#48020)."""
    expect("deepseek_v3", deepseek_v3(("get_weather", '{"city": "Paris"}')), PARIS)
    expect("deepseek_v31", deepseek_v31(("get_weather", '{"city": "Paris"}')), PARIS)


def test_deepseek_v31_keeps_the_last_brace() -> None:
    """vLLM, 1 to 4 tokens per delta: arguments `{"x":1`, and the text before is a character short."""
    expect(
        "deepseek_v31",
        "Let me see." + deepseek_v31(("search", '{"x":1}')),
        ("search", {"x": 1}),
        content="Let me see.",
    )


def test_llama3_json_calls_a_tool_without_parameters() -> None:
    """vLLM, any cut: no call."""
    expect("llama3_json", '{"name": "get_time", "parameters": {}}', ("get_time", {}))


def test_llama3_json_takes_a_whole_call_in_one_delta_and_leaves_other_json_alone() -> None:
    """vLLM, one delta: no call, and content that begins with a brace is dropped (vllm#58824)."""
    expect("llama3_json", '{"name":"get_weather","parameters":{"city":"Paris"}}', PARIS)
    expect("llama3_json", '{"status": "ok"}', content='{"status": "ok"}')
    expect("llama3_json", '{"name": "Ann", "age": 7}', content='{"name": "Ann", "age": 7}')


def test_mistral_ends_the_arguments_where_the_object_ends() -> None:
    """vLLM, streamed: arguments `{"city":"SF"}Estimating...` (vllm#48975)."""
    text = '[TOOL_CALLS]get_weather[ARGS]{"city":"Paris"}Estimating...'
    expect("mistral", text, PARIS, content="Estimating...")


def test_mistral_gives_empty_arguments_to_a_bare_name() -> None:
    """vLLM, streamed: arguments are the empty string."""
    expect("mistral", "[TOOL_CALLS]get_time", ("get_time", {}))


def test_mistrals_end_of_a_turn_is_none_where_the_text_goes_on() -> None:
    """It is HTML as well."""
    expect("mistral", "I</s>", content="I")
    expect("mistral", "I</s>\n", content="I")
    expect("mistral", "<s>old</s> text", content="<s>old</s> text")


def test_gigachat3_keeps_arguments_and_hides_a_split_header() -> None:
    """vLLM, one delta: arguments `{}`; a header in two deltas leaks into the content (vllm#51701)."""
    call = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
    expect("gigachat3", f"Soon.<|message_sep|>\n\nfunction call<|role_sep|>\n{call}", PARIS, content="Soon.")
    expect("gigachat3", f"<|function_call|>{call}", PARIS)


def test_functiongemma_separates_its_parameters() -> None:
    """vLLM, streamed: `{"location": "San Francisco"} "unit": "celsius"}`; one delta: nothing (vllm#48020)."""
    text = (
        "<start_function_call>call:get_weather{city:<escape>Paris<escape>,unit:<escape>celsius<escape>}"
        "<end_function_call>"
    )
    expect("functiongemma", text, ("get_weather", {"city": "Paris", "unit": "celsius"}))


def test_granite_20b_takes_one_delta_and_empty_arguments() -> None:
    """vLLM: no call in either case."""
    expect("granite-20b-fc", '<function_call> {"name": "get_time", "arguments": {}}', ("get_time", {}))


def test_hunyuan_a13b_takes_a_nested_name_for_an_argument() -> None:
    """vLLM, streamed: the second call's arguments are empty, a nested "name" becomes a third (vllm#47901)."""
    text = (
        '<tool_calls>[{"name": "search", "arguments": {"options": {"name": "John Doe"}}}, '
        '{"name": "get_weather", "arguments": {"city": "Paris"}}]</tool_calls>'
    )
    expect("hunyuan_a13b", text, ("search", {"options": {"name": "John Doe"}}), PARIS)


def test_xlam_gives_each_calls_arguments_once() -> None:
    """vLLM, random chunks: `{..}{..}` or `{{..`; one delta: the first of two calls is lost (vllm#51697)."""
    text = (
        '[{"name": "get_weather", "arguments": {"city": "Paris"}}, {"name": "get_weather", "arguments": '
        '{"city": "Rome"}}]'
    )
    expect("xlam", text, PARIS, ROME)


def test_jamba_keeps_keys_and_closing_braces() -> None:
    """vLLM, streamed: `{"Dallas", "state"..`, and the closing brace is lost."""
    text = (
        '<tool_calls>[\n    {"name": "search", "arguments": {"query": "Dallas", "options": {"state": "TX"}}}'
        "\n]</tool_calls>"
    )
    expect("jamba", text, ("search", {"query": "Dallas", "options": {"state": "TX"}}))


def test_internlm_gives_empty_parameters_and_takes_a_split_opener() -> None:
    """vLLM, streamed: arguments are the empty string; an opener in two deltas loses the call (vllm#48347 #57490)."""
    opener = "<|action_start|><|plugin|>"
    expect("internlm", opener + '{"name": "get_time", "parameters": {}}<|action_end|>', ("get_time", {}))
    expect("internlm", opener + '{"name": "get_weather", "parameters": {"city": "Paris"}}<|action_end|>', PARIS)


def test_step3_gives_arguments_once_in_any_cut() -> None:
    """vLLM, one delta or 27 of 64 splits: arguments empty or `{..}{}` (vllm#55082)."""
    expect("step3", step3(("get_weather", {"city": "Paris"})), PARIS)


def test_ernie45_takes_two_calls_in_one_delta() -> None:
    """vLLM, one delta: the second call is lost."""
    expect("ernie45", hermes("Paris") + "\n" + hermes("Rome"), PARIS, ROME)


def test_minicpm5_hides_its_markup_and_takes_two_calls() -> None:
    """vLLM, streamed: the XML is content too; one delta: the second call is lost."""
    calls = (f'<function name="get_weather"><param name="city">{city}</param></function>' for city in ("Paris", "Rome"))
    expect("minicpm5", "".join(calls), PARIS, ROME)


def test_phi4_mini_streams() -> None:
    """vLLM, streamed: content and calls vanish, there is no streaming."""
    text = 'functools[{"name": "get_weather", "arguments": {"city": "Paris"}}]'
    expect("phi4_mini_json", text, PARIS)
    assert events("phi4_mini_json", text[: text.index("ris")])[:2] == [
        CallStart(0, "get_weather"),
        ArgumentsDelta(0, '{"city": "Pa'),
    ]


@pytest.mark.parametrize(
    ("format_", "text"),
    [
        ("kimi_k2", kimi(("no@name", "{}"), ("functions.get_weather:1", '{"city": "Paris"}'))),
        ("minimax_m2", minimax(("nobody_offered_this", {}), ("get_weather", {"city": "Paris"}))),
    ],
)
def test_calls_are_counted_from_nought_without_gaps(format_: str, text: str) -> None:
    """vLLM kimi_k2 and minimax_m2, first call with a bad id or an unknown tool: the index begins at 1."""
    for pieces in cuts(text):
        starts = [event for event in events(format_, *pieces) if isinstance(event, CallStart)]
        assert [start.index for start in starts] == list(range(len(starts)))
        assert starts[-1].name == "get_weather"


def test_deepseek_v4_takes_a_self_closing_call() -> None:
    """vLLM: the name is `get_time"/>` and all that follows."""
    expect(
        "deepseek_v4",
        '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="get_time"/>\n</｜DSML｜tool_calls>',
        ("get_time", {}),
    )


def test_deepseek_v32_unpacks_arguments_from_one_parameter() -> None:
    """vLLM, streamed: begins with `{"input": `, then switches."""
    packed = ("input", "true", '{"city": "Paris"}')
    text = dsml("function_calls", "get_weather", packed)
    expect("deepseek_v32", text, PARIS)
    takes_input = [tool("get_weather", input=STRING)]
    expect("deepseek_v32", text, ("get_weather", {"input": '{"city": "Paris"}'}), tools=takes_input)


def test_qwen3_keeps_an_object_whose_parameter_is_not_closed() -> None:
    """vLLM: the parameter is dropped without a word."""
    text = '<tool_call>\n<function=search>\n<parameter=options>\n{"deep": true}\n</function>\n</tool_call>'
    expect("qwen3_xml", text, ("search", {"options": {"deep": True}}))


def test_gemma4_keeps_the_type_that_the_model_wrote() -> None:
    """vLLM, a nested value that the schema doesn't name: `true` becomes "true"."""
    text = "<|tool_call>call:search{options:{open_now:true}}<tool_call|>"
    expect("gemma4", text, ("search", {"options": {"open_now": True}}))


def test_hermes_reads_over_a_closing_tag_in_a_string() -> None:
    """vLLM: the call is dropped and its raw text is content (vllm#45167)."""
    text = '<tool_call>\n{"name": "write_file", "arguments": {"text": "ends with </tool_call> always"}}\n</tool_call>'
    expect("hermes", text, ("write_file", {"text": "ends with </tool_call> always"}))


def test_hermes_keeps_a_complete_call_when_the_next_is_cut_off() -> None:
    """vLLM, not streamed: both are content."""
    text = hermes("Paris") + '\n<tool_call>\n{"name": "get_weather", "arguments": {"ci'
    for pieces in cuts(text):
        got = parsed(pieces, format="hermes", tools=TOOLS)
        assert got.content is None
        assert [call.arguments for call in got.calls] == ['{"city": "Paris"}', '{"ci'], pieces
        ends = [event for event in events("hermes", *pieces) if isinstance(event, CallEnd)]
        assert ends == [CallEnd(0), CallEnd(1, whole=False)]


def test_glm_needs_no_opening_or_last_closing_tag_of_a_value() -> None:
    """vLLM: arguments `{}`, or the parameter is lost (vllm#49248)."""
    expect("glm47", "<tool_call>get_weather<arg_key>city</arg_key>Paris</arg_value></tool_call>", PARIS)
    expect("glm47", "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</tool_call>", PARIS)


def test_qwen3_keeps_the_last_thought_before_a_call_in_the_same_delta() -> None:
    """vLLM, several tokens per delta: the last tokens of the thinking are lost (vllm#43221)."""
    expect("qwen3_xml", "<think>\nWrite.</think>" + qwen3("get_time"), ("get_time", {}), reasoning="\nWrite.")
    begun = Parser(format="qwen3_xml", tools=TOOLS, reasoning="open")
    assert begun.feed("Write.</think><tool_call>") == [Reasoning("Write.")]
    assert begun.feed("\n<function=get_time>\n</function>")[0] == CallStart(0, "get_time")


def test_gemma4_takes_the_end_of_a_call_and_the_next_in_one_delta() -> None:
    """vLLM, several tokens per delta: the first call's arguments are dropped (vllm#41967)."""
    expect("gemma4", gemma("Paris", "Rome"), PARIS, ROME)
    text = gemma("Paris", "Rome")
    middle = text.index("<|tool_call>", 1)
    got = parsed([text[: middle - 12], text[middle - 12 : middle + 20], text[middle + 20 :]], format="gemma4")
    assert [json.loads(call.arguments) for call in got.calls] == [{"city": "Paris"}, {"city": "Rome"}]


def test_qwen3_finds_a_call_inside_of_thinking() -> None:
    """vLLM, not streamed: no calls (vllm#39056)."""
    text = "<think>I need the weather." + qwen3("get_weather", ("city", "Paris")) + "\n</think>"
    expect("qwen3_xml", text, PARIS, reasoning="I need the weather.")


def test_kimi_k2_parses_two_outputs_at_a_time() -> None:
    """vLLM, under load: empty deltas, IndexError (vllm#54701)."""
    one, other = (kimi(("functions.get_weather:0", f'{{"city": "{city}"}}')) for city in ("Paris", "Reims"))
    for size in (1, 3, 16):
        parsers = [Parser(format="kimi_k2", tools=TOOLS) for _ in range(2)]
        seen: list[list[Event]] = [[], []]
        for at in range(0, len(one), size):
            for parser, text, into in zip(parsers, (one, other), seen, strict=True):
                into += parser.feed(text[at : at + size])
        for parser, into, city in zip(parsers, seen, ("Paris", "Reims"), strict=True):
            into += parser.close()
            pieces = [event.json for event in into if isinstance(event, ArgumentsDelta)]
            assert "".join(pieces) == f'{{"city": "{city}"}}'
            assert all(pieces)


@pytest.mark.parametrize(
    "header",
    [
        "<|channel|>commentary<|channel|>commentary to=functions.web-browsing <|constrain|>json",
        "<|channel|>commentary to=functions.web-browsing code",
        "<|start|>assistantassistant<|channel|>––commentary to=functions.web-browsing json",
        "<|start|>assistant to=functions.web-browsing<|channel|>analysis",
    ],
)
def test_harmony_takes_a_bad_header_and_a_dash_in_a_name(header: str) -> None:
    """vLLM: error 500, or a stray header becomes a call (vllm#51977 #58825 #46464)."""
    text = f'<|channel|>analysis<|message|>Hm.<|end|>{header}<|message|>{{"q": "x"}}<|call|>'
    expect("openai", text, ("web-browsing", {"q": "x"}), reasoning="Hm.")


def test_poolside_keeps_calls_apart_behind_a_key_without_a_value() -> None:
    """vLLM: the second call becomes part of the first one's argument."""
    text = glm("get_weather", "<arg_key>city</arg_key>") + glm(
        "search", "<arg_key>query</arg_key>\n<arg_value>tacos</arg_value>\n"
    )
    expect("poolside_v1", text, ("get_weather", {}), ("search", {"query": "tacos"}))


def test_lfm2_takes_two_blocks_and_json() -> None:
    """vLLM: the second block is lost, JSON in a block is not read."""
    one, two = (f"<|tool_call_start|>[get_weather(city='{city}')]<|tool_call_end|>" for city in ("Paris", "Rome"))
    expect("lfm2", f"{one}and then{two}", PARIS, ROME, content="and then")
    json_body = '[{"name": "get_weather", "arguments": {"city": "Paris"}}]'
    expect("lfm2", f"<|tool_call_start|>{json_body}<|tool_call_end|>", PARIS)


# SGLang

EXAMPLES = {name: format_.example for format_ in NAMED for name in (format_.name, *format_.aliases)}


@pytest.mark.parametrize(
    "format_",
    ["hermes", "qwen25", "llama3", "mistral", "deepseekv3", "deepseekv31", "gigachat3", "glm", "step3"],
)
def test_whole_calls_come_one_or_two_per_delta(format_: str) -> None:
    """SGLang: arguments are the empty string, or the second call is gone (sgl#37634 sgl#31915)."""
    example = EXAMPLES[format_]
    joint = "; " if format_ == "llama3" else ""
    for pieces in ([example], [example, joint + example], [example + joint + example]):
        got = parsed(pieces, format=format_, tools=TOOLS)
        count = "".join(pieces).count("get_weather")
        assert [(call.name, json.loads(call.arguments)) for call in got.calls] == [PARIS] * count
        assert got.content is None


def test_deepseek_v31_tells_the_names_of_two_calls_apart() -> None:
    """SGLang, two calls in one delta: the name is `foo<｜tool▁sep｜>{"x":1}..bar`."""
    expect("deepseekv31", deepseek_v31(("foo", '{"x":1}'), ("bar", '{"y":2}')), ("foo", {"x": 1}), ("bar", {"y": 2}))


def test_deepseek_v3_takes_a_split_fence() -> None:
    """SGLang, a fence in two deltas: its characters are removed and the call is never found."""
    text = deepseek_v3(("get_weather", '{"city": "Paris"}'))
    for at in range(text.index("```"), text.index("{")):
        assert [json.loads(call.arguments) for call in parsed([text[:at], text[at:]], format="deepseekv3").calls] == [
            {"city": "Paris"}
        ]


def test_gemma4_counts_calls_and_not_tools() -> None:
    """SGLang: a call of the sixth tool has index 5, two of one tool have the same (sgl#25073)."""
    tools = [*(tool(f"t{number}") for number in range(5)), tool("get_weather", city=STRING)]
    starts = [event for event in events("gemma4", gemma("Paris", "Rome"), tools=tools) if isinstance(event, CallStart)]
    assert [start.index for start in starts] == [0, 1]


def test_kimi_k2_takes_markers_that_were_split() -> None:
    """SGLang, deltas cut anew by a proxy: the call is content, its arguments end in `<|tool_call_end|`."""
    text = kimi(("functions.get_weather:0", '{"city": "Paris"}'), ("functions.get_weather:1", '{"city": "Rome"}'))
    expect("kimi_k2", text, PARIS, ROME)


def test_minimax_m2_takes_none_for_a_word_where_it_is_one() -> None:
    """SGLang: null, as is any value whose schema is a nullable anyOf."""
    nullable = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    tools = [tool("pick", level={"enum": ["none", "all"]}, word=STRING, owner=nullable, heir=nullable)]
    text = minimax(("pick", {"level": "none", "word": "nil", "owner": "Alice", "heir": "null"}))
    expected = {"level": "none", "word": "nil", "owner": "Alice", "heir": None}
    expect("minimax_m2", text, ("pick", expected), tools=tools)


def test_white_space_at_the_edges_of_a_value_is_kept() -> None:
    """SGLang, DeepSeek, MiniMax and Poolside: stripped, so that files lose their last line break (sgl#41317)."""
    code = "    return 1\n"
    expected = ("write_file", {"text": code})
    expect("deepseek_v32", dsml("function_calls", "write_file", ("text", "true", code)), expected)
    expect("deepseek_v4", dsml("tool_calls", "write_file", ("text", "true", code)), expected)
    expect("minimax_m2", minimax(("write_file", {"text": code})), expected)
    value = f"<arg_key>text</arg_key>\n<arg_value>{code}</arg_value>\n"
    expect("poolside_v1", glm("write_file", value), expected)


def test_qwen25_needs_no_line_breaks_in_a_block() -> None:
    """SGLang: the block is content."""
    expect("qwen25", hermes("Paris").replace("\n", ""), PARIS)


def test_glm47_takes_the_line_breaks_of_glm45() -> None:
    """SGLang, not streamed: no call, and the text is swallowed."""
    text = "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>"
    expect("glm47", text, PARIS)


def test_mistral_needs_no_args_marker() -> None:
    """SGLang, special tokens skipped: nothing."""
    expect("mistral", '[TOOL_CALLS]get_weather{"city": "Paris"}', PARIS)


def test_minimax_m3_ends_an_unclosed_parameter_with_its_call() -> None:
    """SGLang: the markup becomes part of the value."""
    parts = ("<tool_call>", '<invoke name="note">', "<user_id>1", "</user_id>", "<text>unended", "</invoke>")
    text = "".join("]<]minimax[>[" + part for part in (*parts, "</tool_call>"))
    tools = [tool("note", user_id={"type": "integer"}, text=STRING)]
    expect("minimax_m3", text, ("note", {"user_id": 1, "text": "unended"}), tools=tools)


def test_step3_keeps_the_parameters_of_two_calls_apart() -> None:
    """SGLang: the second call's are grafted on the first's (sgl#31915)."""
    text = step3(("get_weather", {"city": "Paris"}), ("search", {"query": "tacos", "limit": "3"}))
    expect("step3", text, PARIS, ("search", {"query": "tacos", "limit": 3}))


def test_gemma4_takes_null_and_exponents() -> None:
    """SGLang: strings (sgl#41316)."""
    text = "<|tool_call>call:search{options:{after:null,weight:1e5}}<tool_call|>"
    expect("gemma4", text, ("search", {"options": {"after": None, "weight": 1e5}}))


# Both


def test_pythonic_takes_arguments_that_are_no_python_names() -> None:
    """Both: a leading underscore makes the call content."""
    tools = [tool("search", _limit={"type": "integer"}, **{"from": STRING})]
    expect("pythonic", "[search(_limit=5)]", ("search", {"_limit": 5}), tools=tools)
    expect("pythonic", "[search(from='x')]", ("search", {"from": "x"}), tools=tools)


def test_qwen3_types_booleans_by_what_was_written() -> None:
    """SGLang maps "yes" to false; older vLLM fails on `[{"a": false}]` (vllm#43238)."""
    boolean, array = {"type": "boolean"}, {"type": "array"}
    tools = [tool("set", a=boolean, b=boolean, c=boolean, d=array)]
    values = (("a", "yes"), ("b", "True"), ("c", "false"), ("d", '[{"a": false}]'))
    expected = {"a": "yes", "b": True, "c": False, "d": [{"a": False}]}
    expect("qwen3_coder", qwen3("set", *values), ("set", expected), tools=tools)
