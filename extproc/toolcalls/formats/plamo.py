"""PLaMo 3: a name and a JSON object, with a marker before and behind each part."""

from __future__ import annotations

import re

from extproc.toolcalls.notations.json_arguments import JsonArguments
from extproc.toolcalls.states import State
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.table import Behind, Format, Gap, Marker, Name, Prose, Sink, Transition, Transitions

_SECTION, _SECTION_END = "<|plamo:begin_tool_requests:plamo|>", "<|plamo:end_tool_requests:plamo|>"
_OPENERS: Transitions = {
    _SECTION: Transition(State.SECTION),
    "<|plamo:begin_tool_request:plamo|>": Transition(State.BLOCK),
    "<|plamo:begin_tool_name:plamo|>": Transition(State.NAME),
}
_STRAYS = (
    *("<|plamo:end_tool_name:plamo|>", "<|plamo:begin_tool_arguments:plamo|>"),
    *("<|plamo:constrain|>", "<|plamo:msg|>", "<|plamo:tag|>"),
)
_CALL_ENDS: Transitions = {
    "<|plamo:end_tool_arguments:plamo|>": Transition(State.AFTER_CALL),
    "<|plamo:end_tool_request:plamo|>": Transition(State.AFTER_CALL),
    _SECTION_END: Transition(State.PROSE),
}
_NO_CALL: Transitions = {marker: Transition(rule.to, ends_call=True) for marker, rule in _CALL_ENDS.items()}
_TEXT: Transitions = {
    **_OPENERS,
    _SECTION + _SECTION_END: Transition(State.PROSE),
    "<|plamo:begin_think:plamo|>": Transition(State.THINKING),
    "<|plamo:end_think:plamo|>": Transition(State.PROSE),
    "<|plamo:tag|>": Transition(State.PROSE),
}
_BEFORE_ARGUMENTS = (
    *("<|plamo:end_tool_name:plamo|>", "<|plamo:begin_tool_arguments:plamo|>", "<|plamo:constrain|>"),
    *("json", "<|plamo:msg|>", "```json", "```"),
)

PLAMO3 = Format(
    name="plamo3",
    title="a name and a JSON object between markers of their own",
    models=("PLaMo 3",),
    example=(
        "<|plamo:begin_tool_requests:plamo|><|plamo:begin_tool_request:plamo|>"
        "<|plamo:begin_tool_name:plamo|>get_weather<|plamo:end_tool_name:plamo|>"
        '<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>{"city": "Paris"}'
        "<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|><|plamo:end_tool_requests:plamo|>"
    ),
    thinking=State.THINKING,
    syntax=CallSyntax(
        opening="<|plamo:begin_tool_requests:plamo|>",
        begin=(
            "<|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>{name}<|plamo:end_tool_name:plamo|>"
            "<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>"
        ),
        end="<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>",
        separator="",
        closing="<|plamo:end_tool_requests:plamo|>",
    ),
    states={
        # Markers that are left over are none of the text.
        State.PROSE: Prose({**dict.fromkeys((*_STRAYS, *_CALL_ENDS), Transition(State.PROSE)), **_TEXT}),
        State.THINKING: Prose(
            {**dict.fromkeys((*_STRAYS, *_CALL_ENDS), Transition(State.THINKING)), **_TEXT}, Sink.REASONING
        ),
        State.SECTION: Gap({**_OPENERS, **_CALL_ENDS}, hides_markers=True),
        State.BLOCK: Gap(_OPENERS, hides_markers=True),
        State.NAME: Name(
            {
                **dict.fromkeys(_BEFORE_ARGUMENTS[:2], Transition(State.BEFORE_ARGUMENTS)),
                "{": Transition(State.ARGUMENTS, Marker.KEPT),
                **_NO_CALL,
            },
            ends_with_output=True,
        ),
        State.BEFORE_ARGUMENTS: Gap(
            {**dict.fromkeys(_BEFORE_ARGUMENTS, Transition(State.BEFORE_ARGUMENTS)), **_NO_CALL},
            otherwise=State.ARGUMENTS,
        ),
        State.ARGUMENTS: JsonArguments(then=State.AFTER_CALL),
        State.AFTER_CALL: Gap(
            {**_OPENERS, **_CALL_ENDS, "<|plamo:tag|>": Transition(State.PROSE)},
            junk=re.compile(r"[\s}\]`]*"),
            behind=Behind.CALL,
        ),
    },
)

FORMATS = (PLAMO3,)
