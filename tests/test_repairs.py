"""What a call's end tells of repairs: that there was one, of which kind, and the same in every cut."""

from __future__ import annotations

import pytest

from extproc.toolcalls import CallEnd, Format, Parser, get_format
from extproc.toolcalls.events import collect
from extproc.toolcalls.notations.json_arguments import JsonArguments
from extproc.toolcalls.notations.json_call import JsonCall
from extproc.toolcalls.repairs import REPAIRS, Repair
from extproc.toolcalls.table import Body, Key, Value
from tests.cuts import cuts
from tests.sample_rows import SAMPLES, Row, rows

CALL = '<tool_call>\n{"name": "f", "arguments": %s}\n</tool_call>'
WRITTEN: dict[str, Repair | None] = {
    '{"a": "b"}': None,
    "{}": None,
    "null": None,
    '{"a": true, "b": [1, 2.5e3, null], "c": {"d": []}}': None,
    '{"a": "x\\n\\"y\\" \\u00e9",\n  "b" : "ü"}': None,
    "{'a': 'b'}": "quotes",
    "{“a”: 1}": "quotes",
    '{"a": "it is "x" y"}': "quotes",
    '{"a": """b"""}': "quotes",
    "{a: 1}": "words",
    '{"a": True}': "words",
    '{"a": 007}': "words",
    '{"a": "line\nbreak"}': "escapes",
    '{"a": "\\d+"}': "escapes",
    '{"a": 1,}': "commas",
    '{"a": 1,, "b": 2}': "commas",
    '{"a": 1 "b": 2}': "commas",
    '{"a": 1; "b": 2}': "commas",
    '{"a": [1, 2}': "brackets",
    '{{"a": 1}}': "brackets",
    '{"a": (1, 2)}': "brackets",
    '{"a" = 1}': "signs",
    '{"a" "b"}': "signs",
    '{"a": 1 /* one */}': "comments",
    '"{\\"a\\": 1}"': "encoded",
    "{'a': True,}": "quotes",  # the first one
}


def ends(pieces: list[str], **options: object) -> list[CallEnd]:
    parser = Parser(**options)  # type: ignore[arg-type]
    events = [event for piece in pieces for event in parser.feed(piece)] + parser.close()
    return [event for event in events if isinstance(event, CallEnd)]


@pytest.mark.parametrize("written", WRITTEN)
def test_it_is_told_the_same_in_every_cut(written: str) -> None:
    told = {ends(cut, format="hermes", tools={"f": {}})[0].repair for cut in cuts(CALL % written)}
    assert told == {WRITTEN[written]}


OF_THE_CALL: dict[str, Repair] = {
    '<tool_call>\n{"tool": "f", "args": {"a": 1}}\n</tool_call>': "keys",
    '<tool_call>\n{"tool": "f", "a": 1}\n</tool_call>': "beside",
    '<tool_call>\n{"f": {"a": 1}}\n</tool_call>': "names",
    '{"name": "f", "arguments": {"a": 1}}': "markers",
    '```json\n{"name": "f", "arguments": {"a": 1}}\n```': "markers",
    "{'name': 'f', 'arguments': {'a': 1}}": "quotes",  # in which there are more kinds of faults, the JSON's comes first
}


@pytest.mark.parametrize("written", OF_THE_CALL)
def test_so_is_another_shape_of_the_whole_call(written: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    tools = {"f": {"type": "function", "function": {"name": "f", "parameters": schema}}}
    assert {ends(cut, format="hermes", tools=tools)[0].repair for cut in cuts(written)} == {OF_THE_CALL[written]}


@pytest.mark.parametrize(("format_", "written"), [("json", '{"name": "f", "arguments": {}}'), ("hermes", CALL % "{}")])
def test_a_format_without_markers_misses_none(format_: str, written: str) -> None:
    assert {ends(cut, format=format_, tools={"f": {}})[0].repair for cut in cuts(written)} == {None}


def test_every_kind_is_shown_above() -> None:
    assert {*WRITTEN.values(), *OF_THE_CALL.values()} == {None, *REPAIRS}


@pytest.mark.parametrize(
    ("call", "repair"),
    [
        ("{'name': 'f', \"arguments\": {}}", "quotes"),
        ('{name: "f", "arguments": {}}', "words"),
        ('{{"name": "f", "arguments": {}}}', "brackets"),
        ('{"name": "f", "arguments": {"a": 1}', "brackets"),
        ('{"name": "f", # a comment\n"arguments": {}}', "comments"),
    ],
)
def test_so_is_what_is_wrong_around_the_arguments(call: str, repair: Repair) -> None:
    text = f"<tool_call>\n{call}\n</tool_call>"
    assert {ends(cut, format="hermes", tools={"f": {}})[0].repair for cut in cuts(text)} == {repair}


def is_json(format_: Format) -> bool:
    """All that it writes of calls is JSON."""
    states = format_.states.values()
    bodies = [state for state in states if isinstance(state, Body)]
    return bool(bodies) and all(
        isinstance(state, JsonCall | JsonArguments) for state in states if isinstance(state, Body | Key | Value)
    )


SAMPLE_ROWS: list[Row] = [
    row
    for file in (*sorted((SAMPLES / "formats").glob("*.jsonl")), SAMPLES / "broken_json.jsonl")
    for row in rows(file)
    if is_json(get_format(row["format"]))
]


BESIDE = ["xlam:arguments-beside-the-name-in-a-tag", "gigachat3:the-arguments-beside-name-and-id"]
"""Their arguments are members of the call itself, from among others."""


def test_what_isnt_handed_on_as_it_was_written_was_repaired() -> None:
    told, untold = 0, []
    for row in SAMPLE_ROWS:
        parser = Parser(format=row["format"], tools=row.get("tools"))
        events = parser.feed(row["text"]) + parser.close()
        endings = [event for event in events if isinstance(event, CallEnd)]
        for call, end in zip(collect(events).calls, endings, strict=True):
            if end.whole and call.arguments != "{}" and call.arguments.strip() not in row["text"]:
                told += end.repair is not None
                untold += [row["id"]] if end.repair is None else []
    assert untold == BESIDE
    assert told > 100
