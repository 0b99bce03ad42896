"""Command A: blocks between <|START_...|> and <|END_...|>, of which the one named ACTION holds an array of calls.

Answers that are grounded in documents have spans between `<co>` and `</co: 0:[1,2]>`, which name their sources. These
tags are markup: a chat completion has no place for them.
"""

from __future__ import annotations

import re

from extproc.toolcalls.formats.shapes import json_array
from extproc.toolcalls.notations.json_call import JsonCall
from extproc.toolcalls.states import State, StateName
from extproc.toolcalls.syntax.shapes import array, call_object
from extproc.toolcalls.table import (
    Behind,
    Format,
    Gap,
    Header,
    Marker,
    Prose,
    Sink,
    Transition,
    Transitions,
    Variant,
)

_NAME_KEYS = frozenset({"tool_name", "name"})
_SAID = tuple(f"<|START_{part}|>" for part in ("RESPONSE", "TEXT"))
_SAID_ENDS = tuple(f"<|END_{part}|>" for part in ("RESPONSE", "TEXT", "ACTION"))
_TURNS = ("<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<EOS_TOKEN>", "<BOS_TOKEN>")
_RESULT = ("<|START_TOOL_RESULT|>",)
_OWN, _OTHERS = "<|CHATBOT_TOKEN|>", ("<|USER_TOKEN|>", "<|SYSTEM_TOKEN|>")
_BLOCKS: Transitions = {
    "<|START_ACTION|>": Transition(State.CALLS),
    **{f"<|START_ACTION|>{nothing}<|END_ACTION|>": Transition(State.PROSE) for nothing in ("", "[]", "[\n]", "[\n\n]")},
    "<|START_THINKING|>": Transition(State.THINKING),
    # The model goes on alone, and makes up what a tool or the user says.
    **dict.fromkeys((*_RESULT, *_OTHERS), Transition(State.OTHERS)),
    _OWN: Transition(State.PROSE),
}


def _text(own: StateName, citation: StateName, sink: Sink, more: Transitions) -> Prose:
    return Prose(
        {
            **_BLOCKS,
            **dict.fromkeys((*_SAID_ENDS, *_TURNS, "<co>"), Transition(own)),
            **dict.fromkeys(("</co: ", "<co: "), Transition(citation)),
            **dict.fromkeys((*_SAID, "<|END_THINKING|>", "<|END_TOOL_RESULT|>"), Transition(State.PROSE)),
            **more,
        },
        sink,
    )


def _citation(to: StateName) -> Header:
    return Header(
        {">": Transition(to)}, possible=re.compile(r"(?P<said>)[\d:,\[\] ]*"), routes=((re.compile(".*"), to),)
    )


# An array that no marker announces.
_BARE: Transitions = {mark: Transition(State.BARE_CALL, Marker.KEPT, line_start=True) for mark in "[{"}

_EXAMPLE = (
    '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "get_weather", "parameters": {"city": "Paris"}}]<|END_ACTION|>'
)
_SYNTAX = array(
    "<|START_ACTION|>",
    "<|END_ACTION|>",
    begin=call_object(name="tool_name", arguments="parameters", before='"tool_call_id": "{index}", '),
    indent="\n    ",
)

COHERE_COMMAND3 = Format(
    name="cohere_command3",
    title="a JSON array in <|START_ACTION|>",
    models=("Command A reasoning",),
    example=_EXAMPLE,
    thinking=State.THINKING,
    syntax=_SYNTAX,
    states={
        State.PROSE: _text(State.PROSE, State.CITATION, Sink.CONTENT, _BARE),
        State.THINKING: _text(State.THINKING, State.CITATION_IN_THINKING, Sink.REASONING, {}),
        State.CITATION: _citation(State.PROSE),
        State.CITATION_IN_THINKING: _citation(State.THINKING),
        State.OTHERS: Prose(
            {
                _OWN: Transition(State.PROSE),
                "<|END_TOOL_RESULT|>": Transition(State.PROSE),
                **dict.fromkeys((*_SAID, *_SAID_ENDS, *_TURNS, *_RESULT, *_OTHERS), Transition(State.OTHERS)),
            },
            Sink.REASONING,
        ),
        **json_array(
            "<|START_ACTION|>",
            "<|END_ACTION|>",
            body=JsonCall(then=State.AFTER_ARRAY_CALL, name_keys=_NAME_KEYS),
        ),
        State.BARE_CALL: JsonCall(
            then=State.AFTER_BARE_CALL,
            offered_only=True,
            name_keys=frozenset({"tool_name"}),
            other_keys=frozenset({"tool_call_id", "id", "type"}),
        ),
        State.AFTER_BARE_CALL: Gap(
            {
                "{": Transition(State.BARE_CALL, Marker.KEPT),
                **dict.fromkeys(("<|END_ACTION|>", *_TURNS), Transition(State.PROSE)),
            },
            junk=re.compile(r"[\s,;}\]]*"),
            behind=Behind.CALL,
        ),
    },
    variants=(
        Variant(
            name="cohere_command4",
            title="as cohere_command3",
            models=("Command A+",),
            example=_EXAMPLE,
            syntax=_SYNTAX,
        ),
    ),
)

FORMATS = (COHERE_COMMAND3,)
