"""The parser, through its public door: every sample, in every cut."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from extproc.toolcalls import (
    NAMED,
    TEMPLATE_TOKENS,
    ArgumentsDelta,
    Call,
    CallEnd,
    CallStart,
    Event,
    Parsed,
    Parser,
    Text,
    UnknownFormatError,
    get_format,
    parse,
)
from extproc.toolcalls.events import collect
from tests.cuts import cuts, random_cut

SAMPLES = [
    json.loads(line)
    for line in (Path(__file__).parent / "samples" / "outputs.jsonl").read_text(encoding="utf-8").split("\n")
    if line
]
TOOLS = [{"type": "function", "function": {"name": name}} for name in ("get_weather", "write_file")]


def events_of(pieces: list[str], **options: Any) -> list[Event]:
    parser = Parser(**options)
    return [event for piece in pieces for event in parser.feed(piece)] + parser.close()


@pytest.mark.parametrize("sample", SAMPLES, ids=[sample["id"] for sample in SAMPLES])
def test_every_sample_is_right_in_every_cut(sample: dict[str, Any]) -> None:
    for pieces in cuts(sample["text"]):
        parsed = collect(events_of(pieces, format=sample["format"], tools=sample["tools"]))
        calls = [{"name": call.name, "arguments": json.loads(call.arguments)} for call in parsed.calls]
        assert calls == sample["calls"], pieces
        assert (parsed.content or "").strip() == (sample["content"] or "").strip(), pieces
        assert (parsed.reasoning or None) == sample.get("reasoning"), pieces


# Where a stop token ends a call, a name alone may be a whole call at one place and no more at the next.
CUT_OFF = [sample for sample in SAMPLES if not sample.get("ends_with_output")]


@pytest.mark.parametrize("sample", CUT_OFF, ids=[sample["id"] for sample in CUT_OFF])
def test_cut_off_anywhere_nothing_is_raised_and_calls_already_made_stand(sample: dict[str, Any]) -> None:
    text = sample["text"]
    done = 0
    for end in range(len(text) + 1):
        parsed = parse(text[:end], format=sample["format"], tools=sample["tools"])
        events = events_of([text[:end]], format=sample["format"], tools=sample["tools"])
        whole = sum(1 for event in events if isinstance(event, CallEnd) and event.whole)
        assert whole >= done, text[:end]
        done = whole
        for call, expected in zip(parsed.calls[:whole], sample["calls"], strict=False):
            assert call.name == expected["name"]
            assert json.loads(call.arguments) == expected["arguments"], text[:end]


@pytest.mark.parametrize("format_", NAMED, ids=lambda format_: format_.name)
def test_a_formats_own_example_is_understood(format_: Any) -> None:
    assert parse(format_.example, format=format_.name, tools=TOOLS) == Parsed(
        None, None, parse('{"name": "get_weather", "arguments": {"city": "Paris"}}', format="json", tools=TOOLS).calls
    )


def test_arguments_leave_while_they_are_written() -> None:
    parser = Parser(format="hermes", tools=TOOLS)
    events = parser.feed('<tool_call>\n{"name": "write_file", "arguments": {"text": "first wo')
    assert events == [CallStart(0, "write_file"), ArgumentsDelta(0, '{"text": "first wo')]
    assert parser.feed("rds") == [ArgumentsDelta(0, "rds")]


def test_text_leaves_at_once_and_only_what_may_be_a_marker_is_held() -> None:
    parser = Parser(format="hermes", tools=TOOLS)
    assert parser.feed("Hello") == [Text("Hello")]
    assert parser.feed(" you <tool_") == [Text(" you")]
    assert parser.feed("box>") == [Text(" <tool_box>")]


def test_other_json_leaves_as_soon_as_it_shows_that_it_is_no_call() -> None:
    parser = Parser(format="json", tools=TOOLS)
    assert parser.feed('{"colour') == []
    assert parser.feed('"') == [Text('{"colour"')]
    assert parser.feed(": 1}") == [Text(": 1}")]


def test_several_calls_may_come_in_one_piece() -> None:
    block = '<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>'
    events = Parser(format="hermes", tools=TOOLS).feed(f"{block}\n{block}")
    assert [event for event in events if not isinstance(event, ArgumentsDelta)] == [
        CallStart(0, "get_weather"),
        CallEnd(0),
        CallStart(1, "get_weather"),
        CallEnd(1),
    ]


def test_output_that_begins_inside_thinking() -> None:
    parsed = parse("So.</think>\nYes.", format="hermes", tools=TOOLS, reasoning="open")
    assert parsed == Parsed("Yes.", "So.", [])


def test_a_call_that_was_cut_off_keeps_what_was_sent() -> None:
    events = events_of(['<tool_call>{"name": "write_file", "arguments": {"text": "abc'], format="hermes", tools=TOOLS)
    assert events == [CallStart(0, "write_file"), ArgumentsDelta(0, '{"text": "abc'), CallEnd(0, whole=False)]


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("hermes", '<tool_call>\n{"name": "get_weather", "arguments": '),
        ("hermes", '<tool_call>\n{"name": "get_weather", "arguments": {'),
        ("hermes", "<tool_call>\n<function=get_weather>\n<parameter=ci"),
        ("granite", '<|tool_call|>[{"name": "get_weather"'),
        ("apertus", '<|tools_prefix|>[{"get_weather": '),
        ("kimi_k2", "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_arg"),
        ("deepseek_v31", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"),
        ("mistral", "[TOOL_CALLS]get_weather[AR"),
        ("glm45", "<tool_call>get_weather\n"),
        ("minimax_m2", '<minimax:tool_call>\n<invoke name="get_weather">\n'),
        ("kimi_k3", '<|open|>tools<|sep|><|open|>call tool="get_weather" ind'),
        ("gemma4", "<|tool_call>call:get_weather{ci"),
        ("minimax_m3", ']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="get_weather">]<]minimax[>[<ci'),
        ("lfm2", "<|tool_call_start|>[get_weather("),
        ("llama4_pythonic", "<|python_start|>[get_weather(ci"),
        ("openai", "<|channel|>commentary to=functions.get_weather <|constrain|>js"),
    ],
)
def test_cut_off_behind_its_name_a_call_is_one_that_nobody_can_run(name: str, head: str) -> None:
    """Many clients take no arguments at all for `{}`, and Cline takes `{` for it: they would run the tool."""
    events = events_of([f"Let me look.{head}"], format=name, tools=TOOLS)
    assert events[:2] == [Text("Let me look."), CallStart(0, "get_weather")]
    assert events[-1] == CallEnd(0, whole=False)
    assert collect(events).calls == [Call("get_weather", '{"', whole=False)]


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("hermes", "<tool_call>"),
        ("hermes", '<tool_call>\n{"name": "get_wea'),
        ("hermes", '<tool_call>\n{"arguments": {"city": "Par'),
        ("hermes", '<tool_call>{"name": "get_weather", "arguments": {}}</tool_call><tool_call>{"na'),
        ("apertus", '<|tools_prefix|>[{"other"'),
        ("olmo3", "<function_calls>get_wea"),
        ("mistral", "[TOOL_CALLS]get_wea"),
        ("glm45", "<tool_call>so "),
        ("openai", "<|channel|>commentary to=functions.get_weather"),
        ("openai", "<|start|>assistant<|channel|>anal"),
    ],
)
def test_cut_off_before_its_name_is_whole_nothing_of_a_call_shows(name: str, head: str) -> None:
    parsed = parse(f"Let me look.{head}", format=name, tools=TOOLS)
    assert (parsed.content, parsed.reasoning) == ("Let me look.", None)
    assert [call.arguments for call in parsed.calls] == ["{}"] * head.count("</tool_call>")


def test_a_call_that_is_only_repeated_is_none_when_the_next_one_is_cut_off() -> None:
    call = "[get_weather(city='Paris')]<|tool_call_end|>"
    parsed = parse(f"<|tool_call_start|>{call}{call} Now <|tool_call_start|>", format="lfm2", tools=TOOLS)
    assert (parsed.content, [call.arguments for call in parsed.calls]) == (" Now", ['{"city": "Paris"}'])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hermes", "Write <tool_call> and an object with two keys."),
        ("hermes", "<tool_call>\n{so much for"),
        ("hermes", '{"name": "get_weather", "arguments": '),
        ("hermes", '```json\n{"name": "get_weather", "arguments": '),
        ("xlam", '[{"name": "get_weather", "arguments": '),
        ("pythonic", "[get_weather("),
        ("glm45", "A tag such as <tool_call>opens a call"),
        ("openai", "to"),
    ],
)
def test_text_that_is_no_calls_head_or_has_no_marker_stays(name: str, text: str) -> None:
    assert parse(text, format=name, tools=TOOLS) == Parsed(text, None, [])


@pytest.mark.parametrize(
    ("name", "end"),
    [("hermes", "<tool_"), ("hermes", "<tool_call"), ("kimi_k2", "<|t"), ("mistral", "[TOOL_"), ("openai", "<|chan")],
)
def test_what_can_only_be_the_beginning_of_a_marker_is_markup_at_the_end(name: str, end: str) -> None:
    assert parse(f"a{end}", format=name, tools=TOOLS) == Parsed("a", None, [])


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("hermes", "<"),
        ("hermes", "<tool"),
        ("hermes", "</thi"),
        ("mistral", "[TOOL"),
        ("kimi_k2", "<|"),
        ("phi4_mini", "fun"),
    ],
)
def test_what_may_be_anything_is_text_at_the_end(name: str, end: str) -> None:
    assert parse(f"a{end}", format=name, tools=TOOLS) == Parsed(f"a{end}", None, [])


def test_a_format_may_be_given_as_it_is() -> None:
    """As one is that comes with a checkpoint and has no name here."""
    hermes = get_format("hermes")
    text = 'Hm.<|im_end|>\n<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>'
    assert parse(text, format=hermes, tools=TOOLS) == parse(text, format="hermes", tools=TOOLS)
    parser = Parser(format=hermes, tools=TOOLS, hidden=TEMPLATE_TOKENS)
    assert parser.feed("Hm.<|im_end|>")[0] == Text("Hm.")


def test_an_unknown_format_is_refused_with_near_names() -> None:
    with pytest.raises(UnknownFormatError, match="no tool-call format is named 'hermez'; did you mean 'hermes'"):
        Parser(format="hermez", tools=TOOLS)


@pytest.mark.parametrize(
    "tool", ["x", {"name": "get_weather"}, {"function": "get_weather"}, {"function": {"name": []}}]
)
def test_what_is_no_tool_is_refused_with_the_form_of_one(tool: Any) -> None:
    form = r'tools\[1\]: expected a tool as OpenAI defines it, \{"type": "function", "function": \{"name": '
    with pytest.raises(ValueError, match=form):
        Parser(format="hermes", tools=[*TOOLS[:1], tool])


def test_a_whole_output_tells_which_call_is_whole() -> None:
    text = '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call><tool_call>{"name": "f", "arguments": {"a": "b'
    assert parse(text, format="hermes").calls == [
        Call("f", '{"a": 1}', whole=True),
        Call("f", '{"a": "b', whole=False),
    ]


def test_a_parser_that_is_closed_takes_no_more() -> None:
    for text in ("Hm", "Hm <tool", '<tool_call>{"name": "f", "arguments": {"a": "b', '{"name": "get_weather"'):
        parser = Parser(format="hermes", tools=TOOLS)
        parser.feed(text)
        parser.close()
        with pytest.raises(RuntimeError, match="each output needs a Parser of its own"):
            parser.feed("m.")
        assert parser.close() == []


# Invariants

_MARKUP = st.sampled_from(
    ["<tool_call>", "</tool_call>", "<think>", "</think>", "```json\n", "```", "{", "}", '{"name": "get_weather"', '"']
)
_OUTPUTS = st.lists(
    st.one_of(
        _MARKUP,
        st.sampled_from(['"arguments": ', '{"city": "Par\\"is"}', ", ", "\n", " ", "null", "[1, 2]", "<", "\\", "\\u"]),
        st.text(max_size=12),
    ),
    max_size=24,
).map("".join)


@given(_OUTPUTS, st.randoms(use_true_random=False), st.sampled_from([format_.name for format_ in NAMED]))
def test_any_text_gives_the_same_events_in_any_cut(text: str, source: random.Random, name: str) -> None:
    whole = collect(events_of([text], format=name, tools=TOOLS))
    assert collect(events_of(random_cut(text, source), format=name, tools=TOOLS)) == whole
    assert collect(events_of(list(text), format=name, tools=TOOLS)) == whole


@given(st.text(alphabet=st.characters(exclude_characters="<{`"), max_size=200))
def test_text_without_markup_comes_back_as_it_is(text: str) -> None:
    assert parse(text, format="hermes", tools=TOOLS) == Parsed(text or None, None, [])


def _letters(text: str) -> str:
    """Without what is markup around nothing: tags, a fence right around or inside of them, blanks between."""
    without_tags = re.sub(r"</?tool_call>", "", text)
    return re.sub(r"\s", "", re.sub(r"```(?:json\s*)?", "", without_tags))


@given(_OUTPUTS)
@example('<tool_call>```json\n</tool_call><tool_call>"arguments": ')
@example('```json\n<tool_call></tool_call><tool_call>"arguments": ')
def test_a_text_without_calls_or_thinking_is_conserved(text: str) -> None:
    parsed = parse(text, format="hermes", tools=TOOLS)
    if not parsed.calls and parsed.reasoning is None and "think>" not in text:
        said, content = _letters(text), _letters(parsed.content or "")
        assert said.startswith(content)
        # Behind a closing tag, what an output ends with is the next call's beginning.
        assert said == content or re.search(r"<tool_call?|<function=|</tool_call>\s*(?:<\S*)?\Z", text), (
            "nothing but a call that is broken off is missing"
        )


@given(_OUTPUTS)
def test_events_keep_their_order(text: str) -> None:
    """Calls are numbered without gaps, never overlap, and their deltas belong to the open one."""
    open_call: int | None = None
    calls = 0
    for event in events_of(list(text), format="hermes", tools=TOOLS):
        match event:
            case CallStart(index):
                assert open_call is None
                assert index == calls
                open_call, calls = index, calls + 1
            case ArgumentsDelta(index):
                assert index == open_call
            case CallEnd(index):
                assert index == open_call
                open_call = None
    assert open_call is None


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
_CALLS = st.lists(st.tuples(st.sampled_from(["get_weather", "write_file"]), st.dictionaries(st.text(), _JSON)))


@given(_CALLS, st.booleans(), st.randoms(use_true_random=False))
def test_generated_calls_come_back_exactly(
    calls: list[tuple[str, dict[str, Any]]], ascii_only: bool, source: random.Random
) -> None:
    texts = [json.dumps(arguments, ensure_ascii=ascii_only) for _, arguments in calls]
    blocks = [
        f'<tool_call>\n{{"name": "{name}", "arguments": {text}}}\n</tool_call>'
        for (name, _), text in zip(calls, texts, strict=True)
    ]
    parsed = collect(events_of(random_cut("\n".join(["I begin.", *blocks]), source), format="hermes", tools=TOOLS))
    assert [call.name for call in parsed.calls] == [name for name, _ in calls]
    assert [call.arguments for call in parsed.calls] == texts, "arguments go through verbatim"
    assert parsed.content == "I begin."


@pytest.mark.parametrize("begin", ["", "```json\n", "<tool_call>\n"])
def test_a_list_of_arguments_is_a_wrong_call_and_no_text(begin: str) -> None:
    """Qwen2.5-Coder 0.5B writes it in Cline, which asks again for ever when it is shown as text."""
    parsed = parse(begin + '{"name": "get_weather", "arguments": ["Paris"]}', format="hermes", tools=TOOLS)
    assert parsed.calls == [Call("get_weather", '["Paris"]')]


@pytest.mark.parametrize("marker", ["`<tool_call>`", "<tool_call>", "<tool_call> "])
def test_prose_that_speaks_of_a_marker_stays(marker: str) -> None:
    text = f"Models write {marker} before a call, and then the name of the tool."
    for name in ("hermes", "glm45", "qwen3_coder", "hy_v3"):
        assert parse(text, format=name, tools=TOOLS).content == text


def test_a_list_under_another_key_is_text() -> None:
    text = '{"name": "get_weather", "parameters": ["city"]}'
    assert parse(text, format="hermes", tools=TOOLS) == Parsed(text, None, [])


def test_a_call_that_ends_with_the_output_is_none_when_the_output_was_cut_off() -> None:
    def read(text: str, *, cut_off: bool) -> list[Call]:
        parser = Parser(format="mistral", tools=TOOLS)
        return collect(parser.feed(text) + parser.close(cut_off=cut_off)).calls

    assert read("[TOOL_CALLS]get_weather", cut_off=False) == [Call("get_weather", "{}")]
    assert read("[TOOL_CALLS]get_weather", cut_off=True) == []
    assert read("[TOOL_CALLS]get_weather[ARGS]", cut_off=True) == [Call("get_weather", '{"', whole=False)]


def test_white_space_between_two_calls_is_no_text() -> None:
    call = "<tool_call>\n<function=f>\n</function>\n</tool_call>"
    assert parse(f"{call}\n{call}\n\nDone.", format="qwen3_coder").content == "\n\nDone."
    assert parse(f"Hi.\n{call}\n\n{call}\nDone.", format="qwen3_coder").content == "Hi.\n\nDone."
    assert parse(f"{call}\nand\n{call}\nDone.", format="qwen3_coder").content == "\nand\n\nDone."
