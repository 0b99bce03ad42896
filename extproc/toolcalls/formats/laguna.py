"""Poolside's Laguna: writes what GLM-4.5 writes, and slips in two ways of its own.

It puts a call in the tags of its chat template's user turn instead of `<tool_call>`, or writes a bare JSON object. What
stands in such tags may as well be what they say, and an object an answer: both are calls only if they name a tool.
"""

from __future__ import annotations

import enum
from dataclasses import replace

from extproc.toolcalls.formats.glm import EXAMPLE, ON_LINES, TAGS
from extproc.toolcalls.formats.json import FENCE_AND_BARE, FENCE_OR_BARE_FOR_MARKERS
from extproc.toolcalls.formats.shapes import States, key_value, prose
from extproc.toolcalls.notations.json_arguments import JsonArguments
from extproc.toolcalls.notations.json_call import JsonCall
from extproc.toolcalls.states import State, StateName
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.table import Behind, Body, Format, Gap, Marker, Name, Prose, Transition


class _UserTurn(enum.Enum):
    """A turn of the user, which the model makes up."""

    BLOCK = enum.auto()
    NAME = enum.auto()
    ARGUMENTS = enum.auto()
    JSON_CALL = enum.auto()
    AFTER_JSON = enum.auto()


_CALL = {"<tool_call>": Transition(State.BLOCK)}
_USER = {"<user>": Transition(_UserTurn.BLOCK)}
_ROLES = tuple(f"<{slash}{role}>" for role in ("system", "user", "assistant") for slash in ("", "/"))


def _also(states: States, state: StateName, transitions: dict[str, Transition]) -> States:
    """With more markers in one state."""
    rules = states[state]
    assert not isinstance(rules, Body)
    return {state: replace(rules, transitions={**rules.transitions, **transitions})}


_BLOCKS = key_value("<tool_call>", "</tool_call>", TAGS)

POOLSIDE_V1 = Format(
    name="poolside_v1",
    title="as glm45, or in <user>",
    models=("Poolside Laguna",),
    aliases=("laguna",),
    example=EXAMPLE,
    thinking=State.THINKING,
    syntax=CallSyntax(begin="<tool_call>{name}\n", arguments=ON_LINES, end="</tool_call>", turn_tokens=_ROLES),
    states={
        **prose(_CALL),
        State.PROSE: Prose(
            {
                **FENCE_AND_BARE,
                **_CALL,
                **_USER,
                "<think>": Transition(State.THINKING),
                "</think>": Transition(State.PROSE),
            }
        ),
        **FENCE_OR_BARE_FOR_MARKERS,
        **_BLOCKS,
        **_also(_BLOCKS, State.AFTER_VALUE, {"</user>": Transition(State.AFTER_BLOCK, ends_call=True)}),
        **_also(_BLOCKS, State.AFTER_BLOCK, _USER),
        _UserTurn.BLOCK: Gap({"{": Transition(_UserTurn.JSON_CALL, Marker.KEPT)}, otherwise=_UserTurn.NAME),
        _UserTurn.NAME: Name(
            {"<arg_key>": Transition(State.KEY), "{": Transition(_UserTurn.ARGUMENTS, Marker.KEPT)},
        ),
        _UserTurn.ARGUMENTS: JsonArguments(then=_UserTurn.AFTER_JSON, offered_only=True),
        _UserTurn.JSON_CALL: JsonCall(then=_UserTurn.AFTER_JSON, offered_only=True),
        _UserTurn.AFTER_JSON: Gap({"</user>": Transition(State.PROSE), **_CALL, **_USER}, behind=Behind.CALL),
    },
)

FORMATS = (POOLSIDE_V1,)
