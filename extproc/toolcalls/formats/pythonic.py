"""Calls in Python's syntax: `[get_weather(city='Paris'), search(query='x')]`.

Llama 4 and its kin write the list bare, wherever a call may stand; it is one only if it names an offered tool and its
arguments look the part, and never in code. Olmo writes one call a line between tags, without the list, and LFM2 the
list between markers.
"""

from __future__ import annotations

import re
from dataclasses import replace

from extproc.toolcalls.formats.shapes import States, prose
from extproc.toolcalls.notations.json_call import JsonCall
from extproc.toolcalls.notations.lenient_notation import Place
from extproc.toolcalls.notations.python_call import PythonCall
from extproc.toolcalls.states import State
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.syntax.literals import PythonKeywords
from extproc.toolcalls.table import Behind, Format, Gap, Header, Marker, Prose, Transition, Transitions

_BETWEEN_CALLS = re.compile(r"[\s,;)]*")
_FENCE = "```"
_CALL_FENCE = re.compile(r"\s*tool_(?:code|call)\s*")
_EXAMPLE = "[get_weather(city='Paris')]"


def _bare_list(openers: Transitions, closers: Transitions) -> States:
    """The list as it stands, or behind one of `openers`."""
    return {
        State.PROSE: Prose(
            {
                **openers,
                "[": Transition(State.BARE_CALL, Marker.KEPT),
                "`[": Transition(State.PROSE, Marker.SHOWN),
                _FENCE: Transition(State.FENCE),
            }
        ),
        State.CODE: Prose({_FENCE: Transition(State.PROSE, Marker.SHOWN)}),
        State.FENCE: Header(
            {"\n": Transition(State.CODE), _FENCE: Transition(State.PROSE, Marker.SHOWN)},
            routes=((_CALL_FENCE, State.FENCED_CALL), (re.compile(r".*", re.DOTALL), State.CODE)),
            hidden=False,
        ),
        # Gemma 3 learned to call tools in a code block of its own. Other code in it is shown.
        State.FENCED_CALL: PythonCall(then=State.AFTER_FENCED_CALL, otherwise=State.CODE, place=Place.FENCE),
        State.AFTER_FENCED_CALL: Gap(
            {_FENCE: Transition(State.PROSE)},
            junk=re.compile(r"[\s,;)\]]*"),
            otherwise=State.NEXT_FENCED_CALL,
            behind=Behind.CALL,
        ),
        State.NEXT_FENCED_CALL: PythonCall(then=State.AFTER_FENCED_CALL, otherwise=State.CODE, place=Place.FENCE),
        State.LIST: Gap({"[": Transition(State.CALL)}, otherwise=State.BARE_CALL),
        State.BARE_CALL: PythonCall(then=State.AFTER_CALL, place=Place.BARE_LIST),
        State.CALL: PythonCall(then=State.AFTER_CALL),
        State.AFTER_CALL: Gap(
            {"]": Transition(State.AFTER_LIST), **closers},
            junk=_BETWEEN_CALLS,
            otherwise=State.NEXT_CALL,
            behind=Behind.CALL,
        ),
        State.NEXT_CALL: PythonCall(then=State.AFTER_CALL, place=Place.BARE_LIST),
        State.AFTER_LIST: Gap({**openers, **closers}, behind=Behind.CALL),
    }


_SYNTAX = CallSyntax(opening="[", begin="{name}(", arguments=PythonKeywords(), end=")", separator=", ", closing="]")

PYTHONIC = Format(
    name="pythonic",
    title="a list of calls in Python's syntax",
    models=("Llama 3.2", "ToolACE", "Gemma 3"),
    example=_EXAMPLE,
    syntax=_SYNTAX,
    states=_bare_list(
        {"<|python_start|>": Transition(State.LIST), "<|python_tag|>": Transition(State.LIST)},
        {"<|python_end|>": Transition(State.PROSE)},
    ),
)

LLAMA4_PYTHONIC = Format(
    name="llama4_pythonic",
    title="as pythonic, between <|python_start|> and <|python_end|> or bare",
    models=("Llama 4",),
    example=f"<|python_start|>{_EXAMPLE}<|python_end|>",
    syntax=replace(_SYNTAX, opening="<|python_start|>[", closing="]<|python_end|>"),
    states=_bare_list({"<|python_start|>": Transition(State.LIST)}, {"<|python_end|>": Transition(State.PROSE)}),
)

_OLMO3_TAGS: Transitions = {
    "<function_calls>": Transition(State.CALLS),
    "</function_calls>": Transition(State.PROSE),
}

OLMO3 = Format(
    name="olmo3",
    title="calls in Python's syntax, one a line, in <function_calls>",
    models=("Olmo 3",),
    example="<function_calls>get_weather(city='Paris')</function_calls>",
    thinking=State.THINKING,
    syntax=replace(
        _SYNTAX,
        opening="<function_calls>\n",
        arguments=PythonKeywords(json_values=True),
        separator="\n",
        closing="\n</function_calls>",
    ),
    states={
        **prose(_OLMO3_TAGS),
        State.CALLS: Gap({"</function_calls>": Transition(State.PROSE)}, otherwise=State.CALL),
        State.CALL: PythonCall(then=State.AFTER_CALL, place=Place.LINES),
        State.AFTER_CALL: Gap(
            _OLMO3_TAGS,
            junk=re.compile(r"[\s,;)\]]*"),
            otherwise=State.NEXT_CALL,
            behind=Behind.CALL,
        ),
        State.NEXT_CALL: PythonCall(then=State.AFTER_CALL, otherwise=State.BROKEN_CALL, place=Place.LINES),
        State.BROKEN_CALL: Prose(_OLMO3_TAGS),
    },
)

_LFM2_OPENING, _LFM2_CLOSING = "<|tool_call_start|>", "<|tool_call_end|>"
_LFM2_BLOCKS: Transitions = {
    _LFM2_CLOSING: Transition(State.AFTER_BLOCK),
    _LFM2_OPENING: Transition(State.CALLS),
}
_LFM2_BEHIND_ECHO: Transitions = {**_LFM2_BLOCKS, _LFM2_CLOSING: Transition(State.ANSWER)}
_LFM2_IN_LIST: Transitions = {
    "]": Transition(State.AFTER_LIST),
    "{": Transition(State.JSON_CALL, Marker.KEPT),
    **_LFM2_BLOCKS,
}

LFM2 = Format(
    name="lfm2",
    title="a list of calls, in Python's syntax or in JSON, between markers",
    models=("LFM2", "LFM2.5"),
    example=f"{_LFM2_OPENING}{_EXAMPLE}{_LFM2_CLOSING}",
    thinking=State.THINKING,
    syntax=replace(_SYNTAX, opening="<|tool_call_start|>[", closing="]<|tool_call_end|>"),
    repeats=True,
    states={
        **prose({_LFM2_OPENING: Transition(State.CALLS), _LFM2_CLOSING: Transition(State.PROSE)}),
        State.CALLS: Gap(
            {"{": Transition(State.JSON_CALL, Marker.KEPT)}, junk=re.compile(r"[\s\[]*"), otherwise=State.CALL
        ),
        State.CALL: PythonCall(then=State.IN_LIST),
        State.JSON_CALL: JsonCall(then=State.IN_LIST),
        State.IN_LIST: Gap(_LFM2_IN_LIST, junk=_BETWEEN_CALLS, otherwise=State.NEXT_CALL, behind=Behind.CALL),
        State.NEXT_CALL: PythonCall(then=State.IN_LIST, otherwise=State.ANSWER),
        State.AFTER_LIST: Gap(_LFM2_IN_LIST, otherwise=State.ANSWER, behind=Behind.CALL),
        # These models sometimes write a block's list once more behind its end, with an end of its own but no start.
        State.AFTER_BLOCK: Gap(
            {"[": Transition(State.ECHO, Marker.KEPT), **_LFM2_BLOCKS},
            otherwise=State.ANSWER,
            behind=Behind.CALL,
        ),
        State.ECHO: PythonCall(then=State.IN_ECHO, otherwise=State.ANSWER, may_repeat=True),
        State.IN_ECHO: Gap(
            {"]": Transition(State.AFTER_ECHO), **_LFM2_BEHIND_ECHO},
            junk=_BETWEEN_CALLS,
            otherwise=State.ECHO,
            behind=Behind.CALL,
        ),
        State.AFTER_ECHO: Gap(_LFM2_BEHIND_ECHO, otherwise=State.ANSWER, behind=Behind.CALL),
        State.ANSWER: Prose({_LFM2_OPENING: Transition(State.CALLS), _LFM2_CLOSING: Transition(State.ANSWER)}),
    },
)

FORMATS = (PYTHONIC, LLAMA4_PYTHONIC, OLMO3, LFM2)
