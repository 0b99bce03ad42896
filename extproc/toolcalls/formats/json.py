"""A call without any markers: a ```json fence, or an object that stands alone.

This is what small models write when a prompt asks them for a call (measured with Qwen2.5-Coder 0.5B and 1.5B:
every unforced call came in a fence or bare). An object is a call only if it names an offered tool and has
arguments; everything else stays text. The states are shared with the formats that have markers, whose models
fall back to this shape.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from extproc.toolcalls.formats.left_over import with_left_over_tags
from extproc.toolcalls.notations.json_call import JsonCall
from extproc.toolcalls.states import State, StateName
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.syntax.shapes import call_object
from extproc.toolcalls.table import Behind, Format, Gap, Header, Marker, Prose, Rules, Transition, Transitions

_FENCE = "```"
_CALL_FENCE = re.compile(r"\s*(?:json|JSON|tool_call|tool_code|tool)?\s*")

OTHER_TAGS = ("tool_call", "tool_calls", "tools", "tool", "tool_code", "function_call", "function_calls", "functions")
"""What models put around a call when they don't know the right tag."""

_CLOSING_TAGS = [f"</{tag}>" for tag in OTHER_TAGS]

FENCE_AND_BARE: Transitions = {
    _FENCE: Transition(State.FENCE),
    **{f"<{tag}>": Transition(State.OTHER_TAG, Marker.SHOWN, line_start=True) for tag in OTHER_TAGS},
    "{": Transition(State.BARE_CALL, Marker.KEPT, line_start=True),
    "[": Transition(State.BARE_CALL, Marker.KEPT, line_start=True),
}
"""What a prose state needs, besides its own markers, to find unmarked calls."""

FENCE_AND_INLINE: Transitions = {
    **FENCE_AND_BARE,
    "{": Transition(State.BARE_CALL, Marker.KEPT),
    "[": Transition(State.BARE_CALL, Marker.KEPT),
}
"""The same for models that write calls in the middle of a line."""

FENCE_AND_BARE_STATES: Mapping[StateName, Rules] = {
    State.FENCE: Header(
        {
            "\n": Transition(State.CODE),
            "{": Transition(State.CODE, Marker.KEPT),
            "[": Transition(State.CODE, Marker.KEPT),
            _FENCE: Transition(State.PROSE, Marker.SHOWN),
        },
        routes=((_CALL_FENCE, State.FENCED_CALL), (re.compile(r".*", re.DOTALL), State.CODE)),
        hidden=False,
    ),
    # A code block is shown as it is; nothing in it is a call.
    State.CODE: Prose({_FENCE: Transition(State.PROSE, Marker.SHOWN)}),
    State.FENCED_CALL: JsonCall(then=State.AFTER_FENCED_CALL, otherwise=State.CODE, offered_only=True),
    State.AFTER_FENCED_CALL: Gap(
        junk=re.compile(r"[\s,;}\]]*"),
        transitions={
            _FENCE: Transition(State.PROSE),
            **dict.fromkeys("{[", Transition(State.NEXT_FENCED_CALL, Marker.KEPT)),
            **dict.fromkeys(_CLOSING_TAGS, Transition(State.AFTER_FENCED_CALL)),
        },
        otherwise=State.CODE,
        behind=Behind.CALL,
    ),
    State.NEXT_FENCED_CALL: JsonCall(then=State.AFTER_FENCED_CALL, otherwise=State.CODE, offered_only=True),
    State.OTHER_TAG: Gap(dict.fromkeys("{[", Transition(State.BARE_CALL, Marker.KEPT))),
    State.BARE_CALL: JsonCall(then=State.AFTER_BARE_CALL, otherwise=State.PROSE, offered_only=True),
    State.AFTER_BARE_CALL: Gap(
        junk=re.compile(r"[\s,;}\]]*"),
        transitions={
            "{": Transition(State.BARE_CALL, Marker.KEPT),
            **dict.fromkeys(_CLOSING_TAGS, Transition(State.AFTER_BARE_CALL)),
        },
        otherwise=State.PROSE,
        behind=Behind.CALL,
    ),
}

FENCE_OR_BARE_FOR_MARKERS: Mapping[StateName, Rules] = {
    name: replace(rules, slip="markers") if isinstance(rules, JsonCall) else rules
    for name, rules in FENCE_AND_BARE_STATES.items()
}
"""The same for formats whose calls should have had markers."""

FORMAT = Format(
    name="json",
    title="a JSON object, bare or in a ```json fence",
    models=("small models that are prompted for calls",),
    example='```json\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n```',
    syntax=CallSyntax(begin=f"```json\n{call_object()}", end="}\n```"),
    states=with_left_over_tags({State.PROSE: Prose(FENCE_AND_BARE), **FENCE_AND_BARE_STATES}, "</tool_call>"),
)

FORMATS = (FORMAT,)
