"""Calls in the shapes that small models write: behind the format's own marker each is read, in every cut, and counted.

Without a marker the same objects are answers: settings, logs, examples of what one should never run.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.toolcalls import CallEnd, Parser, Text
from extproc.toolcalls.events import collect
from extproc.toolcalls.repairs import Repair
from tests.cuts import cuts, parsed, random_cut
from tests.sample_rows import SAMPLES, rows

STRING = {"type": "string"}
INTEGER = {"type": "integer"}


def offered(tool_name: str, required: list[str], properties: dict[str, Any]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": tool_name, "parameters": parameters}}


WEATHER = offered("get_weather", ["city"], {"city": STRING, "days": INTEGER, "unit": {"enum": ["c", "f"]}})
SEARCH = offered("search", ["q"], {"q": STRING, "action": STRING})
NOW = offered("now", [], {})
TOOLS = [WEATHER, SEARCH, NOW]
ARGUMENTS = '{"city": "Paris", "days": 3}'
USUAL = f'{{"name": "get_weather", "arguments": {ARGUMENTS}}}'
PARIS = ("get_weather", {"city": "Paris", "days": 3})

MARKERS = {
    "hermes": ("<tool_call>", "</tool_call>"),
    "granite-20b-fc": ("<function_call> ", ""),
    "longcat": ("<longcat_tool_call>", "</longcat_tool_call>"),
    "jamba": ("<tool_calls>[", "]</tool_calls>"),
    "nemotron_json": ("<TOOLCALL>[", "]</TOOLCALL>"),
    "qwen3_coder": ("<tool_call>", "</tool_call>"),
    "poolside_v1": ("<tool_call>", "</tool_call>"),
}
every_format = pytest.mark.parametrize("format_", MARKERS)
without_a_marker = pytest.mark.parametrize(
    "format_", ["hermes", "json", "llama3_json", "xlam", "poolside_v1", "command_r", "sarashina"]
)

OBJECTS: dict[str, tuple[str, Repair]] = {
    "tool and parameters": (f'{{"tool": "get_weather", "parameters": {ARGUMENTS}}}', "keys"),
    "arguments before the tool": (f'{{"arguments": {ARGUMENTS}, "tool": "get_weather"}}', "keys"),
    "tool and args": (f'{{"tool": "get_weather", "args": {ARGUMENTS}}}', "keys"),
    "action": (f'{{"action": "get_weather", "action_input": {ARGUMENTS}}}', "keys"),
    "encoded": (f'{{"tool": "get_weather", "args": {json.dumps(ARGUMENTS)}}}', "keys"),
    "an id": (f'{{"tool": "get_weather", "id": "call_1", "parameters": {ARGUMENTS}}}', "keys"),
    "lines": (f'{{\n  "tool_name": "get_weather",\n  "params": {ARGUMENTS}\n}}', "keys"),
    "beside a tool": ('{"tool": "get_weather", "city": "Paris", "days": 3}', "beside"),
    "the name as the key": (f'{{"get_weather": {ARGUMENTS}}}', "names"),
    "other quotes": ("{'get_weather': {'city': 'Paris', 'days': 3}}", "quotes"),
    "encoded under a usual key": (f'{{"tool": "get_weather", "parameters": {json.dumps(ARGUMENTS)}}}', "encoded"),
}
every_object = pytest.mark.parametrize("text", [text for text, _ in OBJECTS.values()], ids=list(OBJECTS))

NO_CALLS = (
    '{"tool": "hammer", "parameters": {"city": "Paris"}}',
    '{"tool": "get_weather", "parameters": {"city": "Paris"}, "price": 3}',
    '{"tool": "get_weather", "parameters": {"type": "object"}}',
    '{"tool": "get_weather", "parameters": {"days": 3}}',
    '{"tool": "get_weather", "parameters": {"city": 75000}}',
    '{"tool": "get_weather", "parameters": {"city": "Paris", "unit": "k"}}',
    '{"tool": "get_weather", "parameters": ["city"]}',
    '{"tool": "get_weather", "args": {"city": NaN}}',
    '{"tool": "get_weather", "args": {"city": "Paris"}, "params": {"city": "Rome"}}',
    '{"tool": "get_weather", "tool": "search", "args": {"city": "Paris"}}',
    '{"tool": "get_weather", "action": "search", "args": {"city": "Paris"}}',
    '{"tool": "get_weather", "days": 3}',
    '{"tool": "get_weather"}',
    '{"tool": "now"}',
    '{"action": "search", "q": "Paris"}',  # which has a parameter `action`
    '{"get_weather": {"description": "The weather of a city"}}',
    '{"get_weather": {"city": "Paris"}, "search": {"q": "Paris"}}',
    '{"get_weather": "sunny"}',
    '{"hammer": {"city": "Paris"}}',
    '{"city": "Paris"}',
    '{"tool_call": {"tool": "get_weather"}}',
    '{"tool_calls": [{"name": "hammer", "arguments": {}}]}',
    "{}",
)


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


class TestBehindAMarker:
    @every_format
    @pytest.mark.parametrize(("text", "slip"), OBJECTS.values(), ids=list(OBJECTS))
    def test_they_are_calls(self, text: str, slip: Repair, format_: str) -> None:
        opening, closing = MARKERS[format_]
        check(f"{opening}{text}{closing}", format_, PARIS)
        check(f"{opening}{text}", format_, PARIS)
        assert {ends(cut, format=format_, tools=TOOLS)[0].repair for cut in cuts(opening + text)} == {slip}

    @every_object
    def test_they_may_be_several(self, text: str) -> None:
        check(f"<tool_calls>[{text}, {text}]</tool_calls>", "jamba", PARIS, PARIS)
        check(f"<tool_call>\n{text}\n</tool_call>\n" * 2, "hermes", PARIS, PARIS)
        check(f"<tool_call>\n{text}\n{USUAL}\n</tool_call>", "hermes", PARIS, PARIS)

    @every_format
    @pytest.mark.parametrize("text", NO_CALLS)
    def test_what_does_not_fit_is_none(self, text: str, format_: str) -> None:
        opening, closing = MARKERS[format_]
        for pieces in cuts(f"{opening}{text}{closing}"):
            got = parsed(pieces, format=format_, tools=TOOLS)
            assert got.calls == []
            assert text in (got.content or ""), pieces

    @every_object
    def test_cut_off_they_are_none(self, text: str) -> None:
        for size in range(1, len(text)):
            got = parsed(["<tool_call>" + text[:size]], format="hermes", tools=TOOLS)
            assert got.calls == []

    @pytest.mark.parametrize(
        "broken", ['{"tool": "get_weather", "args": {"city"', '{"get_weather": {"city": ', '{"tool":']
    )
    def test_a_broken_one_takes_no_call_with_it(self, broken: str) -> None:
        call = f"<tool_call>\n{USUAL}\n</tool_call>"
        for pieces in cuts(f"<tool_call>\n{broken}\n</tool_call>\n{call}"):
            got = parsed(pieces, format="hermes", tools=TOOLS)
            assert [(one.name, json.loads(one.arguments)) for one in got.calls] == [PARIS], pieces

    def test_the_usual_shape_is_preferred(self) -> None:
        text = '<tool_call>{"name": "search", "tool": "get_weather", "arguments": {"q": "a"}}</tool_call>'
        check(text, "hermes", ("search", {"q": "a"}))
        assert [end.repair for end in ends([text], format="hermes", tools=TOOLS)] == [None]


class TestWithoutAMarker:
    """They are what the model answers."""

    @without_a_marker
    @pytest.mark.parametrize("text", [text for text, _ in OBJECTS.values()] + [*NO_CALLS])
    def test_they_are_text(self, text: str, format_: str) -> None:
        check(text, format_, content=text)
        fenced = f"I look it up.\n```json\n{text}\n```"
        check(fenced, format_, content=fenced)
        check(f"{text}\n{text}", format_, content=f"{text}\n{text}")

    @without_a_marker
    def test_a_usual_one_in_a_list_of_calls_is_one_where_calls_begin_within_lines(self, format_: str) -> None:
        within_lines = format_ in ("llama3_json", "xlam")
        for pieces in cuts(f'{{"tool_calls": [{USUAL}]}}'):
            got = parsed(pieces, format=format_, tools=TOOLS)
            assert [call.name for call in got.calls] == ["get_weather"] * within_lines, pieces

    @without_a_marker
    @every_object
    def test_they_are_text_in_a_list(self, text: str, format_: str) -> None:
        check(f"[{text}, {text}]", format_, content=f"[{text}, {text}]")

    @pytest.mark.parametrize(
        "text", ['{"city"', '{"tool"', '{"get_weather"', '{"action"', '{"calls"', '{"name": "hammer"']
    )
    def test_they_leave_with_the_first_key_or_name(self, text: str) -> None:
        parser = Parser(format="hermes", tools=TOOLS)
        assert "".join(event.text for event in parser.feed(text) if isinstance(event, Text)).startswith(text)


ANSWERS = rows(SAMPLES / "answers.jsonl")
USED = [
    offered("bash", ["command"], {"command": STRING}),
    offered("delete_file", ["path"], {"path": STRING}),
    offered("search", ["query"], {"query": STRING}),
    offered("test", ["command"], {"command": STRING}),
    offered("deploy", ["env"], {"env": STRING, "replicas": INTEGER}),
    offered("get_weather", ["city"], {"city": STRING}),
]


class TestAnswers:
    """Such as people get, with the names and the arguments of tools in them: nobody has made a call there."""

    @pytest.mark.parametrize("format_", ["hermes", "json"])
    @pytest.mark.parametrize("row", ANSWERS, ids=[row["id"] for row in ANSWERS])
    def test_stay_as_they_are(self, row: dict[str, Any], format_: str) -> None:
        for pieces in cuts(row["text"]):
            got = parsed(pieces, format=format_, tools=USED)
            assert (got.calls, got.content, got.reasoning) == ([], row["text"], None), pieces

    def test_have_ids_of_their_own(self) -> None:
        assert len({row["id"] for row in ANSWERS}) == len(ANSWERS) == len({row["text"] for row in ANSWERS})


class TestCost:
    @pytest.mark.parametrize(
        "part",
        [
            '{"get_weather": ',
            '{"tool": "get_weather", "parameters": ',
            '{"tool": "get_weather", "args": {"city": 1}}',
            '<tool_call>{"get_weather": {"city": 1}}</tool_call>',
            "{",
        ],
    )
    @pytest.mark.parametrize("before", ["", "<tool_call>"])
    def test_is_in_proportion_to_the_text(self, part: str, before: str) -> None:
        def seconds(times: int) -> float:
            best = 10.0
            for _ in range(3):
                parser = Parser(format="hermes", tools=TOOLS)
                text = before + (part + "\n") * times
                begun = time.process_time()
                for at in range(0, len(text), 50):
                    parser.feed(text[at : at + 50])
                parser.close()
                best = min(best, time.process_time() - begun)
            return best

        assert seconds(2000) < 30 * seconds(200)


PIECES = (
    *(text for text, _ in OBJECTS.values()),
    *(ARGUMENTS, USUAL, "I will call ", "get_weather", ". ", "text ", "  ", "x" * 40),
    *("\n", "```", "```json\n", "`", "<tool_call>", "</tool_call>", "<tool_calls>[", "<think>", "</think>"),
    *("{", "}", "[", "]", ",", ":", '"', "'", "\\"),
    *('{"tool"', '{"get_weather": ', '{"action": "', '"city"'),
)


@given(
    st.lists(st.sampled_from(PIECES), min_size=2, max_size=9),
    st.sampled_from([*MARKERS, "json", "sarashina"]),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_whatever_is_written_is_read_the_same_in_every_cut(
    pieces: list[str], format_: str, cut_off: bool, source: Any
) -> None:
    text = MARKERS.get(format_, ("",))[0] + "".join(pieces)
    found = []
    for cut in ([text], list(text), random_cut(text, source)):
        parser = Parser(format=format_, tools=TOOLS)
        events = [event for piece in cut for event in parser.feed(piece)] + parser.close(cut_off=cut_off)
        found.append((collect(events), [event.repair for event in events if isinstance(event, CallEnd)]))
    assert found == [found[0]] * 3


_VALUES = {"city": st.text(max_size=8), "days": st.integers(-9, 99), "unit": st.sampled_from(["c", "f"])}


@given(
    st.fixed_dictionaries({"city": _VALUES["city"]}, optional={key: _VALUES[key] for key in ("days", "unit")}),
    st.sampled_from(list(MARKERS)),
    st.sampled_from(["keys", "beside", "names"]),
    st.randoms(use_true_random=False),
)
def test_whatever_the_arguments(arguments: dict[str, Any], format_: str, slip: str, source: Any) -> None:
    written = json.dumps(arguments, ensure_ascii=source.random() < 0.5, indent=source.choice([None, 2]))
    text = {
        "keys": f'{{"tool": "get_weather", "parameters": {written}}}',
        "beside": json.dumps({"tool": "get_weather", **arguments}),
        "names": f'{{"get_weather": {written}}}',
    }[slip]
    pieces = random_cut(text.join(MARKERS[format_]), source)
    assert [end.repair for end in ends(pieces, format=format_, tools=TOOLS)] == [slip]
    got = parsed(pieces, format=format_, tools=TOOLS)
    assert [(call.name, json.loads(call.arguments)) for call in got.calls] == [("get_weather", arguments)]
