"""Muse: messages with recipients (`to=get_weather<|message|>`), and calls in tags in those to a tool.

`to=user` is for the reader and `to=self` is thinking; what goes to anybody else is not for the reader either. A call
that stands in the middle of what is said or thought is only quoted there. One that begins a message to the user is
meant, and so is any in an output that has no headers.
"""

from __future__ import annotations

import re

from extproc.toolcalls.formats.shapes import QUOTED, States, invoke_parameter
from extproc.toolcalls.notations.values import ANY_TYPE
from extproc.toolcalls.states import State, StateName
from extproc.toolcalls.syntax.arguments import Elements
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.table import (
    Behind,
    Format,
    Gap,
    Header,
    Marker,
    Prose,
    Routes,
    Sink,
    Transition,
    Transitions,
)

# A header is `assistant to=NAME`. The prompt ends with its beginning, and models forget parts of it.
_BEGINNINGS = "|".join("assistant"[:size] for size in range(len("assistant"), 0, -1))
_SO_FAR = re.compile(
    rf"""
    (?P<said>(?: \s+ | assistant(?![\w.-]) | to=\s*[\w.-]+ | <\|start\|> | \A [\w.-]+ (?=\s*<\|) )*+)
    (?: <(?:\|(?:s(?:t(?:a(?:r(?:t\|?)?)?)?)?)?)? | to=\s* | \A [\w.-]+ \s* (?:<\|?)? | {_BEGINNINGS} | to? )?
    """,
    re.VERBOSE,
)


def _said(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL)


_ROUTES: Routes = (
    (_said(r".*\bto=\s*(?:user|commentary|final)(?![\w.-]).*"), State.MESSAGE),
    (_said(r".*\bto=\s*(?:self|think\w*|analysis|assistant|developer|system|tool)(?![\w.-]).*"), State.THINKING),
    # Not the assistant says it: the model goes on alone, and makes up what the user or a tool answers.
    (_said(r"\s*(?:user|system|developer|tool)(?![\w.-]).*"), State.THINKING),
    (_said(r".*\bto=.*"), State.SECTION),
    (_said(r"\s*(?:commentary|final|assistant)?\s*"), State.MESSAGE),
    (_said(r"\s*(?:self|think\w*|analysis)\s*"), State.THINKING),
    (_said(r"\s*[\w.-]+\s*"), State.SECTION),
    (_said(r".*"), State.MESSAGE),
)

_CALLS: Transitions = {
    "<atem:function_calls>": Transition(State.SECTION),
    "<atem:invoke name=": Transition(State.NAME),
}
_END, _STOP = "<|eom|>", "<|eot|>"
_BETWEEN_MESSAGES: Transitions = {
    "<|start|>": Transition(State.HEADER),
    "<|message|>": Transition(State.MESSAGE),
    "to=": Transition(State.QUOTED_HEADER, Marker.KEPT),
    "assistant": Transition(State.QUOTED_HEADER, Marker.KEPT),
    **dict.fromkeys((_END, _STOP), Transition(State.BETWEEN_MESSAGES)),
    **_CALLS,
}
_HEADER_ENDS = {
    "<|message|>": Transition(State.MESSAGE),
    **dict.fromkeys((_END, _STOP, *_CALLS), Transition(State.MESSAGE, Marker.KEPT)),
}
_SECTIONS: Transitions = {
    "<atem:function_calls>": Transition(State.SECTION),
    "</atem:function_calls>": Transition(State.AFTER_CALL),
    "<|start|>": Transition(State.HEADER),
    **dict.fromkeys((_END, _STOP), Transition(State.BETWEEN_MESSAGES)),
}


def _text(own: StateName, sink: Sink, more: Transitions) -> Prose:
    return Prose(
        {
            "<|start|>": Transition(State.QUOTED_HEADER),
            "to=": Transition(State.QUOTED_HEADER, Marker.KEPT),
            _END: Transition(State.BETWEEN_MESSAGES),
            **{_END + behind: Transition(own, Marker.SHOWN) for behind in QUOTED},
            # The model stops here. With text behind it, it is only spoken of.
            _STOP: Transition(State.QUOTED_END),
            **more,
        },
        sink,
    )


def _states(calls: States) -> States:
    return {
        **calls,
        # In a message to a tool. What else stands there is not for the reader.
        State.SECTION: Gap(
            {**_SECTIONS, "<atem:invoke name=": Transition(State.NAME)}, otherwise=State.TOLD, hides_markers=True
        ),
        State.TOLD: _text(State.TOLD, Sink.REASONING, _CALLS),
        State.AFTER_CALL: Gap({**_BETWEEN_MESSAGES, **_SECTIONS}, otherwise=State.BEHIND_CALL, behind=Behind.CALL),
        State.BEGIN: Gap(_BETWEEN_MESSAGES, otherwise=State.BEHIND_CALL),
        State.BEHIND_CALL: _text(State.BEHIND_CALL, Sink.CONTENT, _CALLS),
        # A message's first characters. No white space is skipped: it is text.
        State.MESSAGE: Gap(
            {**_CALLS, "\n<atem:function_calls>": Transition(State.SECTION), "<|message|>": Transition(State.MESSAGE)},
            junk=re.compile(""),
            behind=Behind.CALL,
        ),
        State.PROSE: _text(State.PROSE, Sink.CONTENT, {}),
        State.THINKING: _text(State.THINKING, Sink.REASONING, {}),
        State.HEADER: Header(_HEADER_ENDS, _ROUTES, possible=_SO_FAR, unfinished=_ROUTES),
        State.QUOTED_HEADER: Header(_HEADER_ENDS, _ROUTES, possible=_SO_FAR),
        State.BETWEEN_MESSAGES: Gap(_BETWEEN_MESSAGES, behind=Behind.CALL),
        State.QUOTED_END: Gap({**_BETWEEN_MESSAGES, _STOP: Transition(State.QUOTED_END)}),
    }


_EXAMPLE = (
    "<|start|>assistant to=get_weather<|message|><atem:function_calls>\n"
    '<atem:invoke name="get_weather">\n<atem:parameter name="city">Paris</atem:parameter>\n'
    "</atem:invoke>\n</atem:function_calls><|eom|>"
)

_SYNTAX = CallSyntax(
    begin=' to={name}<|message|><atem:function_calls>\n<atem:invoke name="{name}">\n',
    arguments=Elements(None, '<atem:parameter name="{key}">', "</atem:parameter>\n"),
    end="</atem:invoke>\n</atem:function_calls>",
    separator="<|eom|><|start|>assistant",
    result_tag=('<tool_output name="{name}">\n', "\n</tool_output>"),
)

MUSE = Format(
    name="muse",
    title="messages with recipients, arguments in <atem:parameter> tags",
    models=("Muse Spark",),
    aliases=("musespark1x",),
    example=_EXAMPLE,
    start=State.BEGIN,
    thinking=State.THINKING,
    syntax=_SYNTAX,
    states=_states(invoke_parameter("atem:invoke", "atem:parameter", _SECTIONS)),
)

MUSE_GLIMMER = Format(
    name="muse_glimmer",
    title="as muse",
    models=("Muse Glimmer",),
    example=_EXAMPLE,
    start=State.BEGIN,
    thinking=State.THINKING,
    syntax=_SYNTAX,
    # Its values are JSON where they can be, whatever the schema says.
    states=_states(invoke_parameter("atem:invoke", "atem:parameter", _SECTIONS, types={"": ANY_TYPE})),
)

FORMATS = (MUSE, MUSE_GLIMMER)
