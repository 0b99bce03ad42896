"""A call of a tool that nobody offered is found where an answer begins, however it comes in pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.toolcalls import CallStart, Reasoning, Text
from extproc.turn.made_up_call import MadeUpCall

OFFERED = ("get_weather", "search")

MADE_UP = {
    '[{"name": "sqrt", "arguments": {"number": 144}}]': "sqrt",
    '{"name":"sqrt","parameters":{}}': "sqrt",
    '\n\n```json\n[{"name": "world cup", "arguments": {"year": 2018}}]\n```': "world cup",
    '``` {"function": "f", "args": {}': "f",
    '{"tool": "", "params": { }}': "",
    '{\n  "tool" : "Grüße" ,\n  "args" : {"a": 1}}, and so on': "Grüße",
    '{"name": "sqrt", "arguments": "{\\"number\\": 144}"}': "sqrt",
    '[\n  {"tool_name": "x", "params": {"a": "{"}}, {"name": "search", "arguments": {}}]': "x",
    '{"arguments": {"x": 144}, "name": "sqrt"}': "sqrt",
    '```json\n[ { "args" : {"a": {"b": ["}", "it\'s", "\\""]}} , "tool" : "f" } ]': "f",
    "{'name': 'sqrt', 'arguments': {'x': 144}}": "sqrt",
    "[{'name': \"it's\", 'parameters': {}}": "it's",
    "{'args': {'a': 'it\\'s }'}, 'name': 'sqrt'}, and so on": "sqrt",
}
NONE = [
    "There is no tool for that.",
    'I call [{"name": "sqrt", "arguments": {"number": 144}}]',
    '[{"name": "Ada", "age": 36}]',
    '{"name": "Ada", "arguments": ["for", "against"]}',
    '{"name": "search", "arguments": {"query": "x"}}',
    '{"name": "Ada"}',
    '{"name": "Ada", "arguments": "for and against"}',
    '{"name": "get_user", "parameters": {"type": "object", "properties": {}}}',
    '{"action": "Final Answer", "action_input": {"text": "x"}}',
    '{"name": "sqrt", "arguments": {',
    '{"arguments": {"x": 1}, "name": "search"}',
    '{"arguments": {"x": 1}, "name": "sqrt", "id": 7}',
    '{"arguments": {"x": 1}, "id": 7, "name": "sqrt"}',
    '{"arguments": {"type": "object"}, "name": "sqrt"}',
    '{"arguments": [1], "name": "sqrt"}',
    '{"arguments": {}, "arguments": {}}',
    '{"arguments": {"x": "' + "n" * 400 + '"}, "name": "sqrt"}',
    "{'name': 'sqrt', 'arguments': {'x': 1}, 'id': 7}",
    "{'name': 'search', 'arguments': {'x': 1}}",
    "{'name': 'Ada', 'age': 36}",
    "{'name': 'sqrt', 'arguments': [144]}",
    "{'name': 5, 'arguments': {}}",
    "{'name' 'sqrt'}",
    "{'name': 'sqrt', 'arguments': {'x': 1}",
    '{"name": "sqrt", "arguments": [144]}',
    '{"name": "sqrt", "arguments": null}',
    '```python\nprint("name")\n```',
    "```json",
    '["name", "arguments"]',
    '[[{"name": "sqrt", "arguments": {}}]]',
    '{{"name": "sqrt", "arguments": {}}',
    '{"name": "a\\"b", "arguments": {}}',
    '{"name": "' + "n" * 129 + '", "arguments": {}}',
    '{"name":' + " " * 400 + '"sqrt", "arguments": {}}',
    "``",
    "  ",
    "",
]


@st.composite
def pieces(draw: st.DrawFn, text: str) -> list[str]:
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(text) - 1)), max_size=8)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def told(parts: list[str]) -> MadeUpCall:
    found = MadeUpCall(OFFERED)
    for part in parts:
        found.take([Text(part)])
    return found


@given(st.data())
@pytest.mark.parametrize("text", [*MADE_UP, *NONE])
def test_it_is_found_in_any_cut(text: str, data: st.DataObject) -> None:
    assert told(data.draw(pieces(text))).name == MADE_UP.get(text)


@given(st.sampled_from(sorted(MADE_UP)), st.text(), st.data())
def test_words_before_it_show_that_it_is_none(text: str, words: str, data: st.DataObject) -> None:
    found = told(data.draw(pieces(f"x{words}{text}")))
    assert (found.name, found.undecided, found.spoke) == (None, False, True)


@pytest.mark.parametrize(
    ("begun", "after"),
    [
        ("", "T"),
        ("[", "1"),
        ("[{", "["),
        ('{"id', '"'),
        ('{"name": ', "5"),
        ('{"name": "Ada", "age', '"'),
        ("```\n", "i"),
    ],
)
def test_words_and_other_json_are_told_by_the_next_character(begun: str, after: str) -> None:
    assert told([begun]).undecided
    assert not told([begun, after]).undecided


def test_a_call_behind_it_is_the_answer() -> None:
    found = told(['{"name": "sqrt", "arguments": {"number": 144}}'])
    found.take([CallStart(0, "get_weather", "call_1")])
    assert (found.name, found.undecided) == (None, False)


def test_a_thought_or_a_call_decides_it() -> None:
    for event in (Reasoning("Which tool?"), CallStart(0, "get_weather", "call_1")):
        found = MadeUpCall(OFFERED)
        found.take([event, Text('{"name": "sqrt", "arguments": {}}')])
        assert (found.name, found.undecided, found.spoke) == (None, False, True)


def test_nothing_said_is_undecided() -> None:
    assert (told([]).undecided, told(["  "]).spoke) == (True, False)
