"""Formats with channels: every message has a header that says whom it is for, and so what it is.

gpt-oss writes harmony: `<|channel|>analysis<|message|>` is thinking, `final` and `commentary` without a recipient are
for the reader, a recipient (`to=functions.NAME`) makes it a call. The recipient may stand before or behind the channel,
and broken headers are common. The token that ends a call stops the model, so it is missing more often than not.
Muse and Beam have the same frame with other bodies.
"""

from __future__ import annotations

import re

from extproc.toolcalls.formats.shapes import invoke_parameter
from extproc.toolcalls.json_arguments import JsonArguments
from extproc.toolcalls.states import State, StateName
from extproc.toolcalls.syntax.arguments import Elements
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.table import (
    Behind,
    Format,
    Gap,
    Header,
    Key,
    Marker,
    Prose,
    Rules,
    Sink,
    Transition,
    Transitions,
    Value,
)
from extproc.toolcalls.tagged import Trim
from extproc.toolcalls.values import ANY_TYPE

_HEADERS = {"<|start|>": Transition(State.HEADER), "<|channel|>": Transition(State.HEADER)}
_ENDS = {marker: Transition(State.PROSE) for marker in ("<|end|>", "<|call|>", "<|return|>")}
_FIRST_WORDS = ("to=", "commentary to=", "assistant", "––", *(f"{c}<|message|>" for c in ("analysis", "final")))
_THINKING = re.compile(r".*(?:analysis|think).*", re.DOTALL)
_ANYTHING = re.compile(r".*", re.DOTALL)
_WORDS = ("assistant", "analysis", "commentary", "final", "user", "code", "json", "xml")
_BEGUN_WORDS = "|".join(word[:size] for word in _WORDS for size in range(len(word), 0, -1))
# A header as far as it has come. A model that forgets `<|message|>` goes on with what it has to say, and that is text.
_HEADER_SO_FAR = re.compile(
    rf"\s*+(?:(?:(?:{'|'.join(_WORDS)})(?![\w.\-])|to=[\w.\-]++|<\|\w++\|>)\s*+)*+(?:{_BEGUN_WORDS}|to?=?|<\|?\w*\|?)?"
)


def _recipient(namespace: str, but: str = "") -> re.Pattern[str]:
    """A header with a recipient, in any place; `but` are recipients that are no tools."""
    excluded = rf"(?!(?:{but})\b)" if but else ""
    return re.compile(rf".*\bto={excluded}(?:{namespace})?(?P<name>[\w.\-]+).*", re.DOTALL)


def _frame(
    headers: Transitions, ends: Transitions, routes: tuple[tuple[re.Pattern[str], StateName], ...]
) -> dict[StateName, Rules]:
    return {
        # The prompt ends inside the first header: the output may begin with the rest of it.
        State.BEGIN: Gap({**dict.fromkeys(_FIRST_WORDS, Transition(State.HEADER, Marker.KEPT)), **headers}),
        State.PROSE: Prose({**headers, **ends}),
        State.THINKING: Prose({**headers, **ends}, Sink.REASONING),
        State.HEADER: Header({"<|message|>": Transition(State.PROSE)}, routes, possible=_HEADER_SO_FAR),
    }


_HARMONY_CALL_ENDS = {
    **{marker: Transition(State.PROSE, ends_call=True) for marker in _ENDS},
    "<|start|>": Transition(State.HEADER, ends_call=True),
    "<|channel|>": Transition(State.HEADER, ends_call=True),
}

OPENAI = Format(
    name="openai",
    title="harmony: messages with channels and recipients, arguments in JSON",
    models=("gpt-oss-20b", "gpt-oss-120b"),
    aliases=("gpt-oss", "harmony"),
    example=('<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Paris"}<|call|>'),
    start=State.BEGIN,
    thinking=State.THINKING,
    syntax=CallSyntax(
        begin="<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>",
        end="<|call|>",
        separator="<|start|>assistant",
    ),
    states={
        **_frame(
            _HEADERS,
            _ENDS,
            ((_recipient(r"functions\."), State.CALL), (_THINKING, State.THINKING), (_ANYTHING, State.PROSE)),
        ),
        State.CALL: Gap({**_HARMONY_CALL_ENDS, "{": Transition(State.ARGUMENTS, Marker.KEPT)}, ends_with_output=True),
        State.ARGUMENTS: JsonArguments(then=State.AFTER_CALL),
        State.AFTER_CALL: Gap({**_HEADERS, **_ENDS}, junk=re.compile(r"[\s}\]]*"), behind=Behind.CALL),
    },
)

_BEAM_NEXT = {"<rfl:parameter name=": Transition(State.KEY), **_HARMONY_CALL_ENDS}

BEAM = Format(
    name="beam",
    title="harmony with arguments in <rfl:parameter> tags",
    models=("Beam",),
    example=(
        "<|start|>assistant to=get_weather<|channel|>analysis <|constrain|>xml<|message|>"
        '<rfl:parameter name="city">\nParis\n</rfl:parameter><|end|>'
    ),
    start=State.BEGIN,
    thinking=State.THINKING,
    syntax=CallSyntax(
        begin=" to={name}<|channel|>analysis <|constrain|>xml<|message|>",
        arguments=Elements(None, '<rfl:parameter name="{key}">\n', "\n</rfl:parameter>"),
        end="<|end|>",
        separator="<|start|>assistant",
    ),
    states={
        **_frame(
            _HEADERS,
            _ENDS,
            ((_recipient(r"functions\."), State.CALL), (_THINKING, State.THINKING), (_ANYTHING, State.PROSE)),
        ),
        State.CALL: Gap(_BEAM_NEXT, ends_with_output=True),
        State.KEY: Key({">": Transition(State.VALUE)}),
        State.VALUE: Value(
            {
                "</rfl:parameter>": Transition(State.AFTER_VALUE),
                **dict.fromkeys(_ENDS, Transition(State.AFTER_UNCLOSED_VALUE)),
            },
            Trim.LINE_BREAKS,
        ),
        State.AFTER_VALUE: Gap(_BEAM_NEXT, otherwise=State.VALUE, behind=Behind.VALUE),
        State.AFTER_UNCLOSED_VALUE: Gap(_HARMONY_CALL_ENDS, otherwise=State.VALUE, behind=Behind.VALUE),
    },
)

_MUSE_ENDS = {marker: Transition(State.PROSE) for marker in ("<|eom|>", "<|eot|>")}
_MUSE_HEADERS = {"<|start|>": Transition(State.HEADER)}
_MUSE_SECTIONS = {
    "<atem:function_calls>": Transition(State.SECTION),
    "</atem:function_calls>": Transition(State.BETWEEN_MESSAGES),
    **_MUSE_ENDS,
}
# Glimmer's values are JSON where they can be, whatever the schema says.
_JSON_FIRST = {"": ANY_TYPE}
_MUSE_STATES: dict[StateName, Rules] = {
    **invoke_parameter("atem:invoke", "atem:parameter", _MUSE_SECTIONS),
    **_frame(
        {**_MUSE_HEADERS, "<atem:function_calls>": Transition(State.SECTION)},
        _MUSE_ENDS,
        (
            (re.compile(r"(?:.*\bto=)?(?:user|commentary|final)\b.*", re.DOTALL), State.PROSE),
            (_THINKING, State.THINKING),
            (re.compile(r"(?:assistant\s+to=)?[\w.\-]+\s*", re.DOTALL), State.SECTION),
            (_ANYTHING, State.PROSE),
        ),
    ),
    State.BETWEEN_MESSAGES: Gap({**_MUSE_HEADERS, **_MUSE_ENDS}, behind=Behind.CALL),
}
_MUSE_EXAMPLE = (
    "<|start|>assistant to=get_weather<|message|><atem:function_calls>\n"
    '<atem:invoke name="get_weather">\n<atem:parameter name="city">Paris</atem:parameter>\n'
    "</atem:invoke>\n</atem:function_calls><|eom|>"
)

_MUSE_SYNTAX = CallSyntax(
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
    example=_MUSE_EXAMPLE,
    start=State.BEGIN,
    thinking=State.THINKING,
    syntax=_MUSE_SYNTAX,
    states=_MUSE_STATES,
)

MUSE_GLIMMER = Format(
    name="muse_glimmer",
    title="as muse",
    models=("Muse Glimmer",),
    example=_MUSE_EXAMPLE,
    start=State.BEGIN,
    thinking=State.THINKING,
    syntax=_MUSE_SYNTAX,
    states={**_MUSE_STATES, **invoke_parameter("atem:invoke", "atem:parameter", _MUSE_SECTIONS, types=_JSON_FIRST)},
)

FORMATS = (
    OPENAI,
    BEAM,
    MUSE,
    MUSE_GLIMMER,
)
