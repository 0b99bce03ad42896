"""Gemma's own notation: `call:NAME{key:value}`, in which strings stand between markers.

Gemma 4 ends a call with a marker and then stops at `<|tool_response>`; it may think in a channel of its own.
FunctionGemma is the same with other markers. Gemma 3 has no notation of its own.
"""

from __future__ import annotations

import re

from extproc.toolcalls.formats.shapes import States
from extproc.toolcalls.loose_object import LooseArguments
from extproc.toolcalls.states import State
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.syntax.literals import BareKeys
from extproc.toolcalls.table import Behind, Format, Gap, Marker, Name, Prose, Sink, Transition, Transitions

# The word before the name may be missing, and the object may stand in brackets.
_NAME = re.compile(r"\s*(?:(?:call\s*)?:\s*)?(?P<name>[^\s{}<>():][^\s{}<>()]{0,255})\s*\(?\s*")
_POSSIBLE_NAME = re.compile(r"\s*(?:call\s*)?(?::\s*)?[^\s{}<>()]*\s*\(?\s*")


def _call(opening: str, closing: str, response: str, delimiter: str) -> States:
    """`OPENING call:NAME{...} CLOSING`, at the end perhaps the marker that asks for the response. Entry: NAME."""
    after: Transitions = {opening: Transition(State.NAME), response: Transition(State.PROSE)}
    return {
        State.NAME: Name(
            {"{": Transition(State.ARGUMENTS, Marker.KEPT), closing: Transition(State.AFTER_BLOCK, ends_call=True)},
            pattern=_NAME,
            possible=_POSSIBLE_NAME,
        ),
        State.ARGUMENTS: LooseArguments(then=State.AFTER_CALL, delimiter=delimiter),
        State.AFTER_CALL: Gap(
            {**after, closing: Transition(State.AFTER_BLOCK)}, junk=re.compile(r"[\s})]*"), behind=Behind.CALL
        ),
        State.AFTER_BLOCK: Gap(after, behind=Behind.CALL),
    }


_CALL: Transitions = {"<|tool_call>": Transition(State.NAME)}
_END_OF_THINKING: Transitions = {"<channel|>": Transition(State.PROSE)}

GEMMA4 = Format(
    name="gemma4",
    title='call:NAME{key:<|"|>text<|"|>} between markers',
    models=("Gemma 4",),
    example='<|tool_call>call:get_weather{city:<|"|>Paris<|"|>}<tool_call|>',
    thinking=State.THINKING,
    syntax=CallSyntax(begin="<|tool_call>call:{name}{", arguments=BareKeys(), end="}<tool_call|>", separator=""),
    states={
        State.PROSE: Prose(
            {
                **_CALL,
                "<|channel>thought\n": Transition(State.THINKING),
                "<|channel>thought": Transition(State.THINKING),
            },
        ),
        State.THINKING: Prose({**_CALL, **_END_OF_THINKING}, Sink.REASONING),
        **_call("<|tool_call>", "<tool_call|>", "<|tool_response>", '<|"|>'),
    },
)

FUNCTIONGEMMA = Format(
    name="functiongemma",
    title="as gemma4, with other markers",
    models=("FunctionGemma",),
    example="<start_function_call>call:get_weather{city:<escape>Paris<escape>}<end_function_call>",
    syntax=CallSyntax(
        begin="<start_function_call>call:{name}{",
        arguments=BareKeys(delimiter="<escape>"),
        end="}<end_function_call>",
        separator="",
        turn_tokens=("<start_of_", "<end_of_", "<start_function_", "<end_function_"),
    ),
    states={
        State.PROSE: Prose({"<start_function_call>": Transition(State.NAME)}),
        **_call("<start_function_call>", "<end_function_call>", "<start_function_response>", "<escape>"),
    },
)

FORMATS = (GEMMA4, FUNCTIONGEMMA)
