"""MiniMax M3: arguments as nested elements, every tag behind a marker of its own."""

from __future__ import annotations

import re

from extproc.toolcalls.formats.shapes import prose
from extproc.toolcalls.nested_elements import NestedElements
from extproc.toolcalls.states import State
from extproc.toolcalls.syntax import literals
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.table import Behind, Format, Gap, Name, Transition

_MARKER = "]<]minimax[>["
_SECTION = {
    f"{_MARKER}<invoke name=": Transition(State.NAME),
    f"{_MARKER}</tool_call>": Transition(State.PROSE),
    f"{_MARKER}<tool_call>": Transition(State.SECTION),
}

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
        **prose(
            {
                f"{_MARKER}<tool_call>": Transition(State.SECTION),
                f"{_MARKER}<invoke name=": Transition(State.NAME),
                _MARKER: Transition(State.PROSE),  # one token, of a tag that never came
            }
        ),
        State.SECTION: Gap(_SECTION),
        State.NAME: Name(
            {">": Transition(State.ARGUMENTS)},
            pattern=re.compile(r"\s*[\"']?(?P<name>[^\"'<>{}]{1,256}?)[\"']?\s*"),
        ),
        State.ARGUMENTS: NestedElements(then=State.AFTER_INVOKE, marker=_MARKER, closing="invoke"),
        State.AFTER_INVOKE: Gap(_SECTION, behind=Behind.CALL),
    },
)

FORMATS = (MINIMAX_M3,)
