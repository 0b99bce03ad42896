"""A call without any markers: a ```json fence, or an object that stands alone.

This is what small models write when a prompt asks them for a call (measured with Qwen2.5-Coder 0.5B and 1.5B:
every unforced call came in a fence or bare). An object is a call only if it names an offered tool and has
arguments; everything else stays text. The states are shared with the formats that have markers, whose models
fall back to this shape.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from extproc.toolcalls.json_call import JsonCall
from extproc.toolcalls.table import Format, Gap, Header, Prose, Rule, State

_FENCE = "```"
_CALL_FENCE = re.compile(r"\s*(?:json|JSON|tool_call|tool_code|tool)?\s*")

FENCE_AND_BARE_RULES: Mapping[str, Rule] = {
    _FENCE: Rule("fence"),
    "{": Rule("bare call", line_start=True, keep=True),
    "[": Rule("bare call", line_start=True, keep=True),
}
"""What a prose state needs, besides its own markers, to find unmarked calls."""

FENCE_AND_INLINE_RULES: Mapping[str, Rule] = {
    **FENCE_AND_BARE_RULES,
    "{": Rule("bare call", keep=True),
    "[": Rule("bare call", keep=True),
}
"""The same for models that write calls in the middle of a line."""

FENCE_AND_BARE_STATES: Mapping[str, State] = {
    "fence": Header(
        {
            "\n": Rule("code"),
            "{": Rule("code", keep=True),
            "[": Rule("code", keep=True),
            _FENCE: Rule("prose", shown=True),
        },
        routes=((_CALL_FENCE, "fenced call"), (re.compile(r".*", re.DOTALL), "code")),
        hidden=False,
    ),
    # A code block is shown as it is; nothing in it is a call.
    "code": Prose({_FENCE: Rule("prose", shown=True)}),
    "fenced call": JsonCall(then="after fenced call", otherwise="code", offered_only=True),
    "after fenced call": Gap(
        junk=re.compile(r"[\s,}\]]*"),
        rules={_FENCE: Rule("prose"), "{": Rule("next fenced call", keep=True)},
        otherwise="code",
        trailing=True,
    ),
    "next fenced call": JsonCall(then="after fenced call", otherwise="code", offered_only=True),
    "bare call": JsonCall(then="after bare call", otherwise="prose", offered_only=True),
    "after bare call": Gap(
        junk=re.compile(r"[\s,;}\]]*"),
        rules={"{": Rule("bare call", keep=True)},
        otherwise="prose",
        trailing=True,
    ),
}

FORMAT = Format(
    name="json",
    title="a JSON object, bare or in a ```json fence",
    models=("small models that are prompted for calls",),
    example='```json\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n```',
    states={"prose": Prose(FENCE_AND_BARE_RULES), **FENCE_AND_BARE_STATES},
)

FORMATS = (FORMAT,)
