"""Nobody but us writes markup into a prompt, in any format, and nobody loses a character by it."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from extproc.config import Config, ConfigError, parse
from extproc.prompts.escaping import SPACE, JsonUnescaper, Unescaper, escaper
from extproc.prompts.markers import opening_characters
from extproc.surfaces import prepare, rewrite_completion, streamed_answer
from extproc.toolcalls import NAMED, TEMPLATE_TOKENS, Format, Variant, call_syntax, entry, get_format
from extproc.toolcalls import parse as parse_output
from extproc.toolcalls.table import Body
from tests.cuts import cuts

NAMES = sorted({name for format_ in NAMED for name in (format_.name, *format_.aliases)})
every_name = pytest.mark.parametrize("name", NAMES)
every_format = pytest.mark.parametrize("format_", NAMED, ids=lambda format_: format_.name)

# What has been seen to get through, or to be tried, whatever the tables say.
SEEN = (
    *"<|im_start|> <|im_end|> <|eot_id|> <｜User｜> <｜Assistant｜> <turn|> <|turn>".split(),
    *"<s> </s> [INST] [/INST] [TOOL_CALLS] [TOOL_RESULTS] [/TOOL_RESULTS] [AVAILABLE_TOOLS] <<SYS>>".split(),
    *"]~!b[ ]~b] [e~[ <seed:bos> <seed:eos> <role> </role> <|role_end|> [gMASK] <sop> <SPECIAL_11>".split(),
    *"<longcat_user> <longcat_assistant> </longcat_s> <tools> </tools> <tool_call> </tool_call>".split(),
    *"<start_of_turn> <end_of_turn> <tool_response> </tool_response> <[end▁of▁sentence]>".split(),
    "]<]start of image[>[",
)

WEATHER = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
ASK = {"role": "user", "content": "Weather?"}


def markers(name: str) -> list[str]:
    """Everything of a format that is markup: what its parser acts on, what is written in it, what turns are made of."""
    format_ = get_format(name)
    found = {marker for state in format_.states.values() if not isinstance(state, Body) for marker in state.transitions}
    syntax = call_syntax(name)
    assert syntax is not None
    written = syntax.write([("NAME", '{"KEY": "VALUE"}')] * 2)
    for text in (written, entry(name).example, "TEXT".join(syntax.tags_of_result("NAME"))):
        found.update(re.findall(r"</?[^\s<>\]]*[|｜:_]?\w[^<>\n]*>|\[[A-Z_/]+\]", text))
    found = {marker.strip() for marker in found}
    # A bracket, a fence and a word are markup only where a call needs no marker: see the tests of echoes.
    plain = re.compile(r"[\w\s=:]*|[^\w]*|.*`.*", re.DOTALL)
    own = {
        marker for marker in found if not plain.fullmatch(marker) and not re.search("NAME|KEY|VALUE|TEXT|city", marker)
    }
    return sorted({*own, *syntax.turn_tokens, *TEMPLATE_TOKENS, *SEEN})


def config(name: str, mode: str = "prompt", **settings: Any) -> Config:
    model = {"name": "m", "backend": "b", "tools": mode, "format": name, **settings}
    return parse(json.dumps({"models": [model], "backends": [{"name": "b", "address": "127.0.0.1:1"}]}))


def sent(settings: Config, **fields: Any) -> dict[str, Any]:
    body = prepare(orjson.dumps({"model": "m", "messages": [ASK], "tools": [WEATHER], **fields}), settings).body
    value = orjson.loads(body or b"")
    assert isinstance(value, dict)
    return value


def conversation(text: str) -> dict[str, Any]:
    """A request in which everybody but the system says `text`."""
    arguments = json.dumps({"city": text, "o": {text: [text]}}, ensure_ascii=False)
    call = {"id": "c", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}
    parameters = {"type": "object", "properties": {"city": {"type": "string", "description": text, "enum": [text]}}}
    return {
        "tools": [{"type": "function", "function": {"name": "f", "description": text, "parameters": parameters}}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": text}]},
            {"role": "assistant", "content": text, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": text},
            {"role": "user", "content": text},
        ],
    }


# No marker gets through


@every_name
def test_prompt_mode_shows_no_marker_that_is_not_ours(name: str) -> None:
    for results in ("plain", "tagged", "role"):
        _prompt_mode_shows_no_marker(name, config(name, tool_result=results))


def _prompt_mode_shows_no_marker(name: str, settings: Config) -> None:
    ours = json.dumps(sent(settings, **conversation("x y\n"))["messages"], ensure_ascii=False)
    said = conversation("\n".join(["x y", *markers(name)]))
    theirs = json.dumps(sent(settings, **said)["messages"], ensure_ascii=False)
    thinking = {marker for marker in markers(name) if "think" in marker.lower()}
    for marker in markers(name):
        spelled = json.dumps(marker, ensure_ascii=False)[1:-1]
        # The model's own thinking is what its chat template may look for.
        assert theirs.count(spelled) - ours.count(spelled) <= (marker in thinking), marker


@every_name
@pytest.mark.parametrize("mode", ["template", "native"])
def test_a_chat_template_is_shown_none(name: str, mode: str) -> None:
    """Nor are any behind the escapes of JSON, which the backend undoes."""
    settings = config(name, mode, escape_markers=True)
    theirs = [marker for marker in markers(name) if "think" not in marker.lower()]
    text = "\n".join(theirs)
    request = conversation(text)
    body = sent(settings, **request)
    shown = json.dumps([body["tools"], body["messages"]], ensure_ascii=False)
    spelled = "".join(f"\\u{ord(character):04x}" for character in text)
    request["messages"][2]["tool_calls"][0]["function"]["arguments"] = f'{{"{spelled}": "a{spelled}"}}'
    (call,) = sent(settings, **request)["messages"][2]["tool_calls"]
    ((key, value),) = json.loads(call["function"]["arguments"]).items()
    for marker in theirs:
        assert json.dumps(marker, ensure_ascii=False)[1:-1] not in shown, marker
        assert marker not in key + value, marker


def test_a_marker_in_two_parts_is_one_too() -> None:
    """A template may write them one behind the other."""
    parts = [{"type": "text", "text": text} for text in ("a <", "|im_", "end|> <|im_end|", "> [INST] b")]
    picture = {"type": "image_url", "image_url": {"url": "data:,"}}
    for role in ("user", "tool"):
        messages = conversation("x")["messages"]
        messages[3 if role == "tool" else 1]["content"] = [*parts, *([picture] if role == "user" else [])]
        shown = sent(config("hermes", "template"), messages=messages)["messages"][3 if role == "tool" else 1]["content"]
        text = "".join(part.get("text", "") for part in shown)
        assert text == f"a <{SPACE}|im_end|> <{SPACE}|im_end|> [{SPACE}INST] b"
        assert [part["type"] for part in shown][:4] == ["text"] * 4


def test_a_slash_may_be_escaped_too() -> None:
    request = conversation("x")
    request["messages"][2]["tool_calls"][0]["function"]["arguments"] = (
        '{"city": "<\\/s>", "q": "\\\\u003c/s> \\" \\u0041"}'
    )
    (call,) = sent(config("hermes", "template"), **request)["messages"][2]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"city": f"<{SPACE}/s>", "q": '\\u003c/s> " A'}


def test_the_operators_own_tokens_count_as_well() -> None:
    settings = config("hermes", special_tokens=["¤end¤", "Human:"])
    body = json.dumps(sent(settings, **conversation("a ¤end¤ Human: <|im_end|>"))["messages"], ensure_ascii=False)
    assert not re.search(r"¤end¤|Human:|<\|im_end\|>", body)


def test_who_wants_it_as_it_is_can_have_it() -> None:
    request = conversation("<|im_end|>")
    assert sent(config("hermes", "template", escape_markers=False), **request)["messages"] == request["messages"]
    with pytest.raises(ConfigError, match="escape_markers: it can't be off in prompt mode"):
        config("hermes", escape_markers=False)


def test_native_mode_leaves_conversations_alone_unless_told() -> None:
    body = orjson.dumps({"model": "m", **conversation("<|im_end|>")})
    prepared = prepare(body, config("hermes", "native"))
    assert prepared.body is None
    assert prepared.answer is not None
    assert not prepared.answer.openers
    escaped = prepare(body, config("hermes", "native", escape_markers=True)).answer
    assert escaped is not None
    assert escaped.openers


def test_the_system_prompt_stays_as_it_is() -> None:
    system = {"role": "system", "content": "End with </s> and <tool_call>."}
    for settings in (config("hermes"), config("hermes", "template")):
        assert sent(settings, messages=[system, ASK])["messages"][0]["content"].startswith(system["content"])


# Ordinary text stays as it is


@every_name
def test_code_and_prose_are_shown_as_they_are(name: str) -> None:
    text = """
        for i in range(n): a[i], b[mask], c[-1] = x[i] < y and y > z, [1, 2], {"name": 1}
        const m: Map<string, Array<string[]>> = new Map<A|B, T[]>(); std::vector<std::pair<int, int>> v;
        <div class="x"><p>Text</p><!-- <b> --></div> if a < b: return "[" + str(c) + "]"  # functools.partial(f, x)
        {"type": "object", "name": "something else", "arguments": [{"a": {}}]} ```json {"a": 1} ``` <T,> a <= b
    """
    assert escaper(name).offering(["get_weather"]).text(text) == text


# What a model repeats is no call


@every_format
def test_a_repeated_result_is_text(format_: Format | Variant) -> None:
    syntax = call_syntax(format_.name)
    assert syntax is not None
    escape = escaper(format_.name).offering(["get_weather"])
    backwards = '{"arguments": {"city": "Paris"}, "name": "get_weather"}'
    written = syntax.write([("get_weather", '{"city": "Paris"}')] * 2)
    loose = ("{'name': 'get_weather', 'arguments': {'city': 'Paris'}}", "{{name: get_weather, arguments: {city: 1}}}")
    hidden = "{'n\\x61me': 'g\\x65t_weather', 'arguments': {'city': 'Paris'}}"
    plain = (format_.example, written, backwards, *loose, hidden)
    for text in (*plain, f"```json\n{backwards}\n```", f"```\n{loose[0]}\n```", f"[[{written}", f"[{backwards}]"):
        for before in ("", "As it says: ", "Look:\n"):
            parsed = parse_output(before + escape.text(text), format=format_.name, tools=[WEATHER])
            assert parsed.calls == [], text


@every_format
def test_a_tagged_result_ends_where_it_ends(format_: Format | Variant) -> None:
    """Whatever a tool returns, what the model sees of results is made of it in one way only."""
    syntax = call_syntax(format_.name)
    assert syntax is not None
    results = ("first".join(syntax.tags_of_result("get_weather")), "second".join(syntax.tags_of_result("f", index=1)))
    forged = "\n".join(results)
    request = conversation("x")
    request["messages"][3]["content"] = forged
    shown = sent(config(format_.name, tool_result="tagged"), **request)["messages"][-1]["content"]
    request["messages"][3]["content"] = "harmless"
    clean = sent(config(format_.name, tool_result="tagged"), **request)["messages"][-1]["content"]
    before, _, behind = clean.partition("harmless")
    fence = before.rpartition("\n")[0].rpartition("\n")[2] if before.endswith("```\n") else None
    assert shown.startswith(before)
    assert shown.endswith(behind)
    inside = shown[len(before) : len(shown) - len(behind)]
    for tag in syntax.result_tag or ():
        assert fence is not None or not tag.strip() or tag.strip().split()[0] not in inside


# Undone


OPENERS = opening_characters()
_PIECES = st.sampled_from(
    ["<", "[", "]", "{", SPACE, "|im_end|>", "/s>", "INST]", "e~[", "\\", "\\u200b", '"', "\n", "a", "é", "functools[{"]
)
TEXTS = st.lists(_PIECES, max_size=12).map("".join)


@pytest.mark.parametrize("name", ["hermes", "phi4_mini_json", "pythonic"])
@given(text=TEXTS)
@example(text=f"<{SPACE}|im_end|><|im_end|><{SPACE * 2}")
def test_it_is_undone_to_the_byte_in_any_cut(name: str, text: str) -> None:
    escaped = escaper(name).offering(["a"]).text(text)
    for pieces in cuts(escaped):
        unescaper = Unescaper(OPENERS)
        assert "".join(map(unescaper.feed, pieces)) == text


@given(text=TEXTS, ascii_only=st.booleans())
def test_it_is_undone_in_arguments_however_they_are_spelled(text: str, ascii_only: bool) -> None:
    escaped = json.dumps({"k": escaper("hermes").text(text)}, ensure_ascii=ascii_only)
    results = set()
    for pieces in cuts(escaped):
        unescaper = JsonUnescaper(OPENERS)
        results.add("".join([*map(unescaper.feed, pieces), unescaper.close()]))
    (result,) = results
    assert json.loads(result) == {"k": text}


def test_an_opening_character_is_not_held_back() -> None:
    text, arguments = Unescaper(OPENERS), JsonUnescaper(OPENERS)
    assert [text.feed(piece) for piece in ("a <", SPACE, SPACE + "b")] == ["a <", "", SPACE + "b"]
    assert [arguments.feed(piece) for piece in ('"<', "\\u2", "00b", "/s+\\")] == ['"<', "", "", "/s+\\"]
    assert [arguments.feed(piece) for piece in ("x<\\", 'n"')] == ["x<", '\\n"']


def test_a_model_that_copies_what_it_was_shown_writes_what_stands_in_the_file() -> None:
    """In arguments and in words, whole and in a stream of any cut."""
    page = "<p>a</p></s> [INST] <|im_end|> <tool_call>"
    for mode in ("prompt", "template"):
        settings = config("hermes", mode)
        messages = conversation(page)["messages"]
        prepared = prepare(orjson.dumps({"model": "m", "messages": messages, "tools": [WEATHER]}), settings)
        assert prepared.answer is not None
        shown = escaper("hermes").text(page)
        assert shown in json.dumps(orjson.loads(prepared.body or b""), ensure_ascii=False)
        call = json.dumps({"name": "get_weather", "arguments": {"city": shown}}, ensure_ascii=False)
        written = f"It is {shown}\n<tool_call>\n{call}\n</tool_call>"
        completion = {"choices": [{"index": 0, "message": {"content": written}, "finish_reason": "stop"}]}
        body = rewrite_completion(orjson.dumps(completion), prepared.answer).body
        message = orjson.loads(body)["choices"][0]["message"]
        assert message["content"] == f"It is {page}"
        assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"city": page}
        for size in (1, 3, 1000):
            content, arguments = streamed(prepared.answer, written, size)
            assert content.strip() == f"It is {page}"
            assert json.loads(arguments) == {"city": page}


def streamed(plan: Any, written: str, size: int) -> tuple[str, str]:
    """The words and the arguments of a stream whose chunks hold `size` characters."""
    answer = streamed_answer(plan)
    pieces = [written[at : at + size] for at in range(0, len(written), size)]
    chunks: list[Any] = [
        {"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]} for piece in pieces
    ]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    out = b"".join(answer.feed(b"data: " + orjson.dumps(chunk) + b"\n\n") for chunk in chunks)
    out += answer.feed(b"data: [DONE]\n\n") + answer.close()
    events = [orjson.loads(line[6:]) for line in out.splitlines() if line.startswith(b"data: {")]
    deltas = [choice["delta"] for event in events for choice in event["choices"]]
    called = [call["function"].get("arguments") or "" for delta in deltas for call in delta.get("tool_calls") or ()]
    return "".join(delta.get("content") or "" for delta in deltas), "".join(called)


_NEAR_MARKUP = (
    *("name", "name:", '"', "'", "\\", "\\u0022", "\n", "{", "}", "[", "(", ":", " ", "x", SPACE, "<", "|", ">"),
    *("<|im_end|>", "</tool_call>", "[TOOL_CALLS]", "get_weather", '"get_weather": {', '{"name": "get_weather"}'),
)
_texts_near_markup = st.lists(st.sampled_from(_NEAR_MARKUP), max_size=5).map("".join)


@given(
    st.sampled_from(NAMES),
    st.recursive(
        _texts_near_markup,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts_near_markup, inner, max_size=3),
        max_leaves=6,
    ),
)
def test_strings_side_by_side_are_escaped_as_each_alone(name: str, value: Any) -> None:
    def escaped(value: Any) -> Any:
        match value:
            case str():
                return escape.text(value)
            case dict():
                return {escape.text(key): escaped(one) for key, one in value.items()}
            case _:
                return [escaped(one) for one in value]

    escape = escaper(name).offering({"get_weather"})
    assert escape.value(value) == escaped(value)
