"""Gemma's own notation: `call:NAME{key:value}`, in which strings stand between markers.

Gemma 4 ends a call with a marker and then stops at `<|tool_response>`; it may think in a channel of its own.
FunctionGemma is the same with other markers. Gemma 3 has no notation of its own.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable

from extproc.toolcalls.formats.shapes import States
from extproc.toolcalls.notations.delimited_text import StringMarkers
from extproc.toolcalls.notations.lenient_object import LenientArguments
from extproc.toolcalls.states import State
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.syntax.literals import BareKeys
from extproc.toolcalls.table import Behind, Format, Gap, Marker, Name, Prose, Sink, Transition, Transitions

# The word before the name may be missing, or the colon behind it.
_NAME = re.compile(r"\s*(?:(?:call\s*)?:\s*|call\s+)?(?P<name>[^\s{}<>():][^\s{}<>()]{0,255})(?<!:)\s*")
_POSSIBLE_NAME = re.compile(r"\s*(?:call\s*)?(?::\s*)?[^\s{}<>()]*\s*")
_POSSIBLE_NEXT_NAME = re.compile(r"call(?:\s*(?::\s*[^\s{}<>()]*\s*)?)?|cal?|")


class Part(enum.Enum):
    """States of these formats alone."""

    BEGIN = enum.auto()
    """Of the output."""
    BEGIN_THINKING = enum.auto()
    """The same, where the opening of a channel is the prompt's end."""
    NEXT_NAME = enum.auto()
    """The name of another call, which the word for a call introduces and no marker."""


def _call(opening: str, closing: str, response: str, delimiter: str) -> States:
    """`OPENING call:NAME{...} CLOSING`, at the end perhaps the marker that asks for the response. Entry: NAME.

    The block may hold several calls, and the next one may come without its opening marker.
    """
    after: Transitions = {
        opening: Transition(State.NAME),
        closing: Transition(State.AFTER_BLOCK),
        response: Transition(State.PROSE),
        "call": Transition(Part.NEXT_NAME, Marker.KEPT),
    }
    behind_name: Transitions = {
        "{": Transition(State.ARGUMENTS, Marker.KEPT),
        "(": Transition(State.ARGUMENTS, Marker.KEPT),
        closing: Transition(State.AFTER_BLOCK, ends_call=True),
    }
    return {
        State.NAME: Name(behind_name, pattern=_NAME, possible=_POSSIBLE_NAME),
        Part.NEXT_NAME: Name(behind_name, pattern=_NAME, possible=_POSSIBLE_NEXT_NAME),
        State.ARGUMENTS: LenientArguments(then=State.AFTER_CALL, markers=StringMarkers(delimiter, opening, closing)),
        State.AFTER_CALL: Gap(
            after,
            junk=re.compile(r"[\s})\],;]*"),
            behind=Behind.CALL,
        ),
        State.AFTER_BLOCK: Gap(after, behind=Behind.CALL),
    }


_THOUGHT = "thought\n"
_NOTHING = re.compile("")


def _channels(names: Iterable[str], to: State) -> Transitions:
    """The openings of channels of these names."""
    blanks = ("", " ", "\n")
    return {
        f"<|channel>{before}{name}{after}\n": Transition(to) for name in names for before in blanks for after in blanks
    }


_CALL: Transitions = {"<|tool_call>": Transition(State.NAME)}
# Only `thought` is trained. What has no name, or that of another model's thinking, is thinking as well.
_CHANNELS: Transitions = {
    **_channels(("final", "answer", "response"), State.PROSE),
    **_channels(("thought", "thoughts", "thinking", "analysis", "reasoning", "commentary"), State.THINKING),
    "<|channel>thought": Transition(State.THINKING),
    "<|channel>": Transition(State.THINKING),
    "<channel|>": Transition(State.PROSE),
}


def _stray(to: State) -> Transitions:
    """Tokens that are no text wherever they stand."""
    tokens = ("<tool_call|>", "<|tool_response>", "<tool_response|>", "<turn|>", "<|turn>")
    turns = ("<|turn>model\n", "<|turn>model")
    return {**dict.fromkeys(tokens, Transition(to)), **dict.fromkeys(turns, Transition(State.PROSE))}


GEMMA4 = Format(
    name="gemma4",
    title='call:NAME{key:<|"|>text<|"|>} between markers',
    models=("Gemma 4",),
    example='<|tool_call>call:get_weather{city:<|"|>Paris<|"|>}<tool_call|>',
    start=Part.BEGIN,
    thinking=Part.BEGIN_THINKING,
    syntax=CallSyntax(begin="<|tool_call>call:{name}{", arguments=BareKeys(), end="}<tool_call|>", separator=""),
    states={
        # The opening of the channel may be part of the prompt, or lost.
        Part.BEGIN: Gap({_THOUGHT: Transition(State.THINKING)}, junk=_NOTHING),
        Part.BEGIN_THINKING: Gap({_THOUGHT: Transition(State.THINKING)}, junk=_NOTHING, otherwise=State.THINKING),
        State.PROSE: Prose({**_CALL, **_CHANNELS, **_stray(State.PROSE)}),
        State.THINKING: Prose({**_CALL, **_CHANNELS, **_stray(State.THINKING)}, Sink.REASONING),
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
        State.PROSE: Prose(
            {
                "<start_function_call>": Transition(State.NAME),
                "<end_function_call>": Transition(State.PROSE),
                "<start_function_response>": Transition(State.PROSE),
            }
        ),
        **_call("<start_function_call>", "<end_function_call>", "<start_function_response>", "<escape>"),
    },
)

FORMATS = (GEMMA4, FUNCTIONGEMMA)
