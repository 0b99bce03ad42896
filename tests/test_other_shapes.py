"""Calls in the shapes that small models write: each is read in every cut, and counted; what may be an answer isn't."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.toolcalls import CallEnd, Parser, Text
from extproc.toolcalls.events import collect
from extproc.toolcalls.notations.other_call_reader import LONGEST
from extproc.toolcalls.repairs import Repair
from tests.cuts import cuts, parsed, random_cut

STRING = {"type": "string"}


def offered(tool_name: str, required: list[str], properties: dict[str, Any]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": tool_name, "parameters": parameters}}


WEATHER = offered("get_weather", ["city"], {"city": STRING, "days": {"type": "integer"}, "unit": {"enum": ["c", "f"]}})
SEARCH = offered("search", ["q"], {"q": STRING, "name": STRING})
NOW = offered("now", [], {})
TOOLS = [WEATHER, SEARCH, NOW]
ARGUMENTS = '{"city": "Paris", "days": 3}'
USUAL = f'{{"name": "get_weather", "arguments": {ARGUMENTS}}}'
FORMATS = ("hermes", "json", "llama3_json", "xlam", "poolside_v1", "command_r")
every_format = pytest.mark.parametrize("format_", FORMATS)

OBJECTS: dict[str, tuple[str, Repair]] = {
    "tool and parameters": (f'{{"tool": "get_weather", "parameters": {ARGUMENTS}}}', "keys"),
    "action": (f'{{"action": "get_weather", "action_input": {ARGUMENTS}}}', "keys"),
    "other arguments": (f'{{"name": "get_weather", "args": {ARGUMENTS}}}', "keys"),
    "function and input": (f'{{"function": "get_weather", "input": {ARGUMENTS}}}', "keys"),
    "encoded": (f'{{"tool": "get_weather", "parameters": {json.dumps(ARGUMENTS)}}}', "keys"),
    "an id": (f'{{"tool": "get_weather", "id": "call_1", "parameters": {ARGUMENTS}}}', "keys"),
    "lines": (f'{{\n  "tool_name": "get_weather",\n  "params": {ARGUMENTS}\n}}', "keys"),
    "in an object": (f'{{"tool_call": {USUAL}}}', "keys"),
    "in a list": (f'{{"tool_calls": [{USUAL}]}}', "keys"),
    "beside": ('{"name": "get_weather", "city": "Paris", "days": 3}', "beside"),
    "beside a tool": ('{"tool": "get_weather", "city": "Paris", "days": 3}', "beside"),
    "the name as the key": (f'{{"get_weather": {ARGUMENTS}}}', "names"),
}
every_object = pytest.mark.parametrize("text", [text for text, _ in OBJECTS.values()], ids=list(OBJECTS))


def ends(pieces: list[str], **options: Any) -> list[CallEnd]:
    parser = Parser(**options)
    events = [event for piece in pieces for event in parser.feed(piece)] + parser.close()
    return [event for event in events if isinstance(event, CallEnd)]


def check(text: str, format_: str, *calls: tuple[str, Any], content: str | None = None) -> None:
    for pieces in cuts(text):
        got = parsed(pieces, format=format_, tools=TOOLS)
        assert [(call.name, json.loads(call.arguments)) for call in got.calls] == list(calls), pieces
        assert all(call.whole for call in got.calls)
        assert (got.content, got.reasoning) == (content, None), pieces


PARIS = ("get_weather", {"city": "Paris", "days": 3})


class TestObjects:
    @every_format
    @pytest.mark.parametrize(("text", "slip"), OBJECTS.values(), ids=list(OBJECTS))
    def test_are_calls_alone_and_in_a_fence(self, text: str, slip: Repair, format_: str) -> None:
        check(text, format_, PARIS)
        check(f"I look it up.\n```json\n{text}\n```", format_, PARIS, content="I look it up.")
        assert {ends(cut, format=format_, tools=TOOLS)[0].repair for cut in cuts(text)} == {slip}

    @pytest.mark.parametrize("format_", ["hermes", "granite-20b-fc", "longcat", "jamba", "nemotron_json"])
    @every_object
    def test_are_calls_behind_a_marker(self, text: str, format_: str) -> None:
        if text.startswith('{"tool_call'):
            return  # a marker and a wrapper: nobody has written that
        opening, closing = {
            "hermes": ("<tool_call>", "</tool_call>"),
            "granite-20b-fc": ("<function_call> ", ""),
            "longcat": ("<longcat_tool_call>", "</longcat_tool_call>"),
            "jamba": ("<tool_calls>[", "]</tool_calls>"),
            "nemotron_json": ("<TOOLCALL>[", "]</TOOLCALL>"),
        }[format_]
        check(f"{opening}{text}{closing}", format_, PARIS)

    @every_format
    @every_object
    def test_may_be_several(self, text: str, format_: str) -> None:
        check(f"[{text}, {text}]", format_, PARIS, PARIS)
        check(f"```json\n[\n{text},\n{text}\n]\n```", format_, PARIS, PARIS)
        check(f"{text}\n{text}", format_, PARIS, PARIS)

    @every_format
    def test_a_list_in_an_object_holds_several(self, format_: str) -> None:
        check(f'{{"tool_calls": [{USUAL}, {USUAL}]}}', format_, PARIS, PARIS)
        check(f'```json\n{{\n  "tool_calls": [\n{USUAL},\n{USUAL}\n]\n}}\n```', format_, PARIS, PARIS)

    @every_object
    def test_are_text_where_json_is_the_answer(self, text: str) -> None:
        parser = Parser(format="hermes", tools=TOOLS, slips=False)
        got = collect([*parser.feed(text), *parser.close()])
        assert (got.calls, got.content) == ([], text)

    @every_object
    def test_cut_off_they_are_text(self, text: str) -> None:
        if text.startswith('{"tool_call'):
            return  # in a wrapper stands a call in the usual shape, which is shown as far as it came
        for size in range(1, len(text)):
            got = parsed([text[:size]], format="hermes", tools=TOOLS)
            assert (got.calls, got.content) == ([], text[:size])


ANNOUNCED = (
    "I will call get_weather with ",
    "I'll use the `get_weather` tool with ",
    "Let me call get_weather: ",
    "The user asks for the weather. I need to call get_weather with these arguments:\n",
    "Calling get_weather with ",
    "Sure! I am going to use the get_weather function with the following parameters:\n\n",
)


class TestAnnouncements:
    @every_format
    @pytest.mark.parametrize("before", ANNOUNCED)
    def test_name_the_tool_of_the_arguments_behind_them(self, before: str, format_: str) -> None:
        for behind in ("", ".", "\n"):
            check(before + ARGUMENTS + behind, format_, PARIS, content=before.rstrip())
        check(f"{before}\n```json\n{ARGUMENTS}\n```", format_, PARIS, content=before.rstrip())
        assert {ends(cut, format=format_, tools=TOOLS)[0].repair for cut in cuts(before + ARGUMENTS)} == {"prose"}

    def test_may_stand_before_a_call_in_a_line(self) -> None:
        check(f"I will call get_weather: {USUAL}", "hermes", PARIS, content="I will call get_weather:")

    @every_format
    @pytest.mark.parametrize(
        "text",
        [
            f"I will call get_weather with {ARGUMENTS} once you agree.",
            f"I will call get_weather with {ARGUMENTS}. Shall I?",
            f"I will not call get_weather with {ARGUMENTS}",
            f"I would call get_weather with {ARGUMENTS}",
            f"You can call get_weather with {ARGUMENTS}",
            f"If it rains, I will call get_weather with {ARGUMENTS}",
            f"For example, I will call get_weather with {ARGUMENTS}",
            f"I will call get_weather or search with {ARGUMENTS}",
            f"I will call get_weather. The result was {ARGUMENTS}",
            f"I will call get_weather soon.\n\nHere is your JSON:\n{ARGUMENTS}",
            f"I will call get_time with {ARGUMENTS}",
            f"get_weather: {ARGUMENTS}",
            f"The weather is {ARGUMENTS}",
            'I will call get_weather with {"days": 3}',
            'I will call get_weather with {"city": "Paris", "country": "France"}',
            'I will call get_weather with {"city": 75000}',
            'I will call get_weather with {"city": "Paris", "unit": "k"}',
            "I will call get_weather with {'city': 'Paris'}",
            'I will call get_weather with {"city": "Paris"',
            "I will call now with {}",
            f"I will call get_weather with:\n```json\n{ARGUMENTS}\n```\nThen I will tell you.",
        ],
    )
    def test_leave_text_that_may_be_an_answer(self, text: str, format_: str) -> None:
        check(text, format_, content=text)

    def test_what_the_limit_cut_off_is_text(self) -> None:
        text = ANNOUNCED[0] + ARGUMENTS
        parser = Parser(format="hermes", tools=TOOLS)
        got = collect([*parser.feed(text), *parser.close(cut_off=True)])
        assert (got.calls, got.content) == ([], text)

    def test_count_for_nothing_behind_a_call(self) -> None:
        call = f"<tool_call>\n{USUAL}\n</tool_call>"
        said = f"\nI will call get_weather with {ARGUMENTS}"
        check(f"{call}{said}", "hermes", PARIS, content=said)


class TestAnswers:
    """JSON that somebody asked for, code and documentation."""

    @every_format
    @pytest.mark.parametrize(
        "text",
        [
            '{"name": "get_weather", "description": "The weather of a city", "city": "Paris"}',
            '{"name": "get_weather", "version": "1.0.0"}',
            '{"name": "get_weather", "days": 3}',
            '{"name": "search", "q": "Paris"}',  # which has a parameter `name`
            '{"name": "now", "city": "Paris"}',
            '{"tool": "hammer", "parameters": {"weight": 3}}',
            '{"tool": "get_weather", "parameters": {"city": "Paris"}, "price": 3}',
            '{"tool": "get_weather", "parameters": {"type": "object"}}',
            '{"tool": "get_weather", "parameters": ["city"]}',
            '{"tool": "get_weather", "tool": "search", "parameters": {"city": "Paris"}}',
            '{"tool": {"name": "get_weather"}}',
            '{"tool": "get_weather"}',
            '{"get_weather": {"description": "The weather of a city"}}',
            '{"get_weather": {"city": "Paris"}, "search": {"q": "Paris"}}',
            '{"get_weather": "sunny"}',
            '{"get_weather": {"days": 3}}',
            '{"get_weather": {"city": ["Paris"]}}',
            '{"city": "Paris"}',
            '{"calls": 3}',
            '{"tool_calls": []}',
            '{"tool_calls": [{"name": "hammer", "arguments": {}}]}',
            '{"tools": ["get_weather", "search"]}',
            'For example:\n{"get_weather": {"city": "Paris"}}',
            'Here is the result that you asked for:\n{"get_weather": {"city": "Paris", "days": 3}}',
            'The format is\n\n```json\n{"tool": "get_weather", "parameters": {"city": "Paris"}}\n```\nand no other.',
            '```python\n{"tool": "get_weather", "parameters": {"city": "Paris"}}\n```',
            'It says `{"get_weather": {"city": "Paris"}}` there.',
            '{"tool": "get_weather", "parameters": {"city": "Paris"',
            '{"get_weather": and more words, {"city": "Paris"}}',
        ],
    )
    def test_stay_text(self, text: str, format_: str) -> None:
        if format_ in ("llama3_json", "xlam") and '"hammer", "arg' not in text and text.startswith("It says"):
            return  # these find objects in the middle of a line, too
        check(text, format_, content=text)

    @pytest.mark.parametrize(
        "text",
        [
            '{"city"',
            '{"name": "get_weather", "description"',
            '{"tool": 3',
            '{"tool": "hammer",',
            '{"a": {"tool',
            '{"calls": 3',
        ],
    )
    def test_leave_as_soon_as_they_show_that_they_are_none(self, text: str) -> None:
        parser = Parser(format="hermes", tools=TOOLS)
        events = parser.feed(text) + parser.feed(' "word and more words')
        assert "".join(event.text for event in events if isinstance(event, Text)).startswith(text)


class TestCost:
    def test_no_more_is_held_than_a_few_kilobytes(self) -> None:
        text = '{"get_weather": {"city": "' + "x" * (2 * LONGEST)
        parser = Parser(format="hermes", tools=TOOLS)
        held = most = 0
        for at in range(0, len(text), 100):
            events = parser.feed(text[at : at + 100])
            held += 100 - sum(len(event.text) for event in events if isinstance(event, Text))
            most = max(most, held)
        assert most <= LONGEST + 200
        assert collect(parser.close()).calls == []

    @pytest.mark.parametrize("over", [-1, 0, 1])
    def test_the_limit_is_the_same_in_every_cut(self, over: int) -> None:
        before, behind = '{"get_weather": {"city": "', '"}}'
        text = before + "x" * (LONGEST + over - len(before + behind)) + behind + " </tool_call>"
        found = [
            parsed([text[at : at + size] for at in range(0, len(text), size)], format="hermes", tools=TOOLS)
            for size in (7, 1000, LONGEST, 2 * LONGEST)
        ]
        assert found == [found[0]] * 4
        assert len(found[0].calls) == (over < 0)

    @pytest.mark.parametrize(
        "part",
        [
            '{"get_weather": ',
            '{"tool": "get_weather", "parameters": ',
            '{"calls": ',
            'I will call get_weather with {"city": ',
        ],
    )
    @pytest.mark.parametrize("format_", ["hermes", "llama3_json"])
    def test_is_in_proportion_to_the_text(self, part: str, format_: str) -> None:
        def seconds(times: int) -> float:
            best = 10.0
            for _ in range(3):
                parser = Parser(format=format_, tools=TOOLS)
                text = (part + "\n") * times
                begun = time.process_time()
                for at in range(0, len(text), 50):
                    parser.feed(text[at : at + 50])
                parser.close()
                best = min(best, time.process_time() - begun)
            return best

        assert seconds(2000) < 30 * seconds(200)


PIECES = (
    *(text for text, _ in OBJECTS.values()),
    *(*ANNOUNCED, ARGUMENTS, USUAL, "I will call ", "get_weather", ". ", "text ", "  ", "x" * 40),
    *("\n", "```", "```json\n", "```python\n", "`", "<tool_call>", "</tool_call>", "<think>", "</think>"),
    *(
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        '"',
        "\\",
        '{"tool"',
        '{"tool_calls": [',
        '{"get_weather": ',
        '{"action": "',
        '"city"',
    ),
)


@given(
    st.lists(st.sampled_from(PIECES), min_size=2, max_size=9),
    st.sampled_from([*FORMATS, "sarashina"]),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_whatever_is_written_is_read_the_same_in_every_cut(
    pieces: list[str], format_: str, cut_off: bool, source: Any
) -> None:
    text = "".join(pieces)
    found = []
    for cut in ([text], list(text), random_cut(text, source)):
        parser = Parser(format=format_, tools=TOOLS)
        events = [event for piece in cut for event in parser.feed(piece)]
        found.append(collect(events + parser.close(cut_off=cut_off)))
    assert found == [found[0]] * 3


_VALUES = {"city": st.text(max_size=8), "days": st.integers(-9, 99), "unit": st.sampled_from(["c", "f"])}


@given(
    st.fixed_dictionaries({"city": _VALUES["city"]}, optional={key: _VALUES[key] for key in ("days", "unit")}),
    st.sampled_from(FORMATS),
    st.sampled_from(["keys", "beside", "names", "prose"]),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_whatever_the_arguments(arguments: dict[str, Any], format_: str, slip: str, fenced: bool, source: Any) -> None:
    written = json.dumps(arguments, ensure_ascii=source.random() < 0.5, indent=source.choice([None, 2]))
    text = {
        "keys": f'{{"tool": "get_weather", "parameters": {written}}}',
        "beside": json.dumps({"name": "get_weather", **arguments}),
        "names": f'{{"get_weather": {written}}}',
        "prose": written,
    }[slip]
    before = "I will call get_weather with\n" if slip == "prose" else ""
    text = before + (f"```json\n{text}\n```" if fenced else text)
    (end,) = ends(pieces := random_cut(text, source), format=format_, tools=TOOLS)
    assert end.repair == slip
    got = parsed(pieces, format=format_, tools=TOOLS)
    assert [(call.name, json.loads(call.arguments)) for call in got.calls] == [("get_weather", arguments)]
