"""MiniMax M3: arguments as nested elements, every tag behind a marker of its own.

It thinks in `<mm:think>`; the tags of the models before it are read as well.
"""

from __future__ import annotations

import re

from extproc.toolcalls.notations.nested_elements import NestedElements
from extproc.toolcalls.states import State
from extproc.toolcalls.syntax import literals
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.table import Behind, Format, Gap, Name, Prose, Sink, Transition

_MARKER = "]<]minimax[>["
_SECTION = {
    f"{_MARKER}<invoke name=": Transition(State.NAME),
    f"{_MARKER}</tool_call>": Transition(State.PROSE),
    f"{_MARKER}<tool_call>": Transition(State.SECTION),
}
_CALLS = {
    f"{_MARKER}<tool_call>": Transition(State.SECTION),
    f"{_MARKER}<invoke name=": Transition(State.NAME),
}
# One token, of a tag that never came; and the end of what has ended already.
_STRAY = (_MARKER, f"{_MARKER}</tool_call>", f"{_MARKER}</invoke>")
# The prompt may have opened the thinking. What a call has ended already may be closed once more.
_END_OF_THINKING = {"</mm:think>": Transition(State.PROSE), "</think>": Transition(State.PROSE)}
_ATTRIBUTES = r"(?:\s++[\w:.\-]++\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'))*+"

MINIMAX_M3 = Format(
    name="minimax_m3",
    title="nested elements in ]<]minimax[>[<invoke>",
    models=("MiniMax M3",),
    aliases=("minimax-m3",),
    example=(
        f'{_MARKER}<tool_call>{_MARKER}<invoke name="get_weather">{_MARKER}<city>Paris{_MARKER}</city>'
        f"{_MARKER}</invoke>{_MARKER}</tool_call>"
    ),
    thinking=State.THINKING,
    syntax=CallSyntax(
        opening=f"{_MARKER}<tool_call>\n",
        begin=f'{_MARKER}<invoke name="{{name}}">',
        arguments=literals.NestedElements("minimax_m3_xml", _MARKER),
        end=f"{_MARKER}</invoke>\n",
        separator="",
        closing=f"{_MARKER}</tool_call>",
    ),
    states={
        State.PROSE: Prose(
            {
                **_CALLS,
                **dict.fromkeys(_STRAY, Transition(State.PROSE)),
                "<mm:think>": Transition(State.THINKING),
                "<think>": Transition(State.THINKING),
                **_END_OF_THINKING,
            }
        ),
        State.THINKING: Prose(
            {**_CALLS, **dict.fromkeys(_STRAY, Transition(State.THINKING)), **_END_OF_THINKING}, Sink.REASONING
        ),
        State.SECTION: Gap(_SECTION),
        State.NAME: Name(
            {">": Transition(State.ARGUMENTS), "/>": Transition(State.AFTER_INVOKE, ends_call=True)},
            pattern=re.compile(rf"\s*[\"']?(?P<name>[^\"'<>{{}}]{{1,256}}?)[\"']?{_ATTRIBUTES}\s*"),
            possible=re.compile(r"[^<>{}]*"),
        ),
        State.ARGUMENTS: NestedElements(then=State.AFTER_INVOKE, marker=_MARKER, call="invoke", section="tool_call"),
        State.AFTER_INVOKE: Gap(_SECTION, behind=Behind.CALL),
    },
)

FORMATS = (MINIMAX_M3,)
