"""MiniMax M3: arguments as nested elements, every tag behind a marker of its own."""

from __future__ import annotations

import re

from extproc.toolcalls.formats.shapes import prose
from extproc.toolcalls.nested_elements import NestedElements
from extproc.toolcalls.table import Format, Gap, Name, Rule

_MARKER = "]<]minimax[>["
_SECTION = {
    f"{_MARKER}<invoke name=": Rule("name"),
    f"{_MARKER}</tool_call>": Rule("prose"),
    f"{_MARKER}<tool_call>": Rule("section"),
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
    thinking="thinking",
    states={
        **prose(
            {
                f"{_MARKER}<tool_call>": Rule("section"),
                f"{_MARKER}<invoke name=": Rule("name"),
                _MARKER: Rule("prose"),  # one token, of a tag that never came
            }
        ),
        "section": Gap(_SECTION),
        "name": Name(
            {">": Rule("arguments")},
            pattern=re.compile(r"\s*[\"']?(?P<name>[^\"'<>{}]{1,256}?)[\"']?\s*"),
        ),
        "arguments": NestedElements(then="after invoke", marker=_MARKER, closing="invoke"),
        "after invoke": Gap(_SECTION, trailing=True),
    },
)

FORMATS = (MINIMAX_M3,)
