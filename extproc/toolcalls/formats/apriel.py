"""Apriel: reasoning up to `[BEGIN FINAL RESPONSE]`, and a JSON array of calls in `<tool_calls>`.

The reasoning has no opening tag but a sentence, which the prompt of 1.6 ends with and 1.5 writes itself. The system
prompt of 1.5 speaks of `<tool_call>` and shows `<tool_calls>`; some of its outputs have reasoning in `<thinking>`.
"""

from __future__ import annotations

import enum

from extproc.toolcalls.formats.shapes import json_array
from extproc.toolcalls.states import State
from extproc.toolcalls.syntax.shapes import array
from extproc.toolcalls.table import Behind, Format, Gap, Prose, Sink, Transition


class _First(enum.Enum):
    WORDS = enum.auto()
    """Behind the sentence that reasoning begins with."""


_TEXT = {
    "<tool_calls>": Transition(State.CALLS),
    "<tool_call>": Transition(State.CALLS),
    "<thinking>": Transition(State.THINKING),
    # Tags that are left over are markup as well.
    **dict.fromkeys(
        ("[BEGIN FINAL RESPONSE]", "[END FINAL RESPONSE]", "</thinking>", "</tool_calls>", "</tool_call>"),
        Transition(State.PROSE),
    ),
}

APRIEL = Format(
    name="apriel",
    title="a JSON array in <tool_calls>, text after [BEGIN FINAL RESPONSE]",
    models=("Apriel 1.5", "Apriel 1.6"),
    example='<tool_calls>[{"name": "get_weather", "arguments": {"city": "Paris"}}]</tool_calls>',
    start=State.BEGIN,
    thinking=State.THINKING,
    syntax=array("<tool_calls>", "</tool_calls>"),
    states={
        State.BEGIN: Gap({"Here are my reasoning steps": Transition(_First.WORDS)}),
        _First.WORDS: Gap({":": Transition(State.THINKING)}, otherwise=State.THINKING, behind=Behind.CALL),
        State.PROSE: Prose(_TEXT),
        State.THINKING: Prose(_TEXT, Sink.REASONING),
        **json_array("<tool_calls>", "</tool_calls>"),
    },
)

FORMATS = (APRIEL,)
