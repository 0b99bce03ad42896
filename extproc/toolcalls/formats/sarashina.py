"""Sarashina: a list of calls in Python's spelling. Where special tokens don't show it is bare."""

from __future__ import annotations

from extproc.toolcalls.formats.json import FENCE_AND_BARE, FENCE_OR_BARE_FOR_MARKERS
from extproc.toolcalls.formats.shapes import json_array
from extproc.toolcalls.states import State
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.syntax.literals import PythonDictionary
from extproc.toolcalls.table import Format, Prose, Transition

_OPENING = "<|tool_calls|>"

SARASHINA = Format(
    name="sarashina",
    title="a list of dictionaries, as Python writes them, after <|tool_calls|>",
    models=("Sarashina 2.2",),
    example=f"{_OPENING}[{{'name': 'get_weather', 'arguments': {{'city': 'Paris'}}}}]",
    syntax=CallSyntax(
        opening=f"{_OPENING}[",
        begin="{'name': '{name}', 'arguments': ",
        arguments=PythonDictionary(),
        end="}",
        separator=", ",
        closing="]",
    ),
    states={
        State.PROSE: Prose({_OPENING: Transition(State.CALLS), **FENCE_AND_BARE}),
        **json_array(_OPENING, None),
        **FENCE_OR_BARE_FOR_MARKERS,
    },
)

FORMATS = (SARASHINA,)
