"""Command R and R+: `Action:`, and a JSON array of calls in a fence.

A model that wants to answer without a tool calls one that is none, `directly-answer`, and may answer behind it: that
is markup. Command R7B and Command A write the tokens of cohere_command3.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from extproc.toolcalls.formats.json import FENCE_AND_BARE, FENCE_AND_BARE_STATES
from extproc.toolcalls.formats.shapes import States
from extproc.toolcalls.notations.json_call import JsonCall
from extproc.toolcalls.states import State
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.syntax.shapes import call_object
from extproc.toolcalls.table import Behind, Format, Gap, Marker, Prose, Reader, Transition, Verdict, left_by


class _Action(enum.Enum):
    """What stands behind `Action:`."""

    BEGIN = enum.auto()
    LIST = enum.auto()
    """The list, without a fence."""


_NO_TOOL = frozenset({"directly-answer", "directly_answer"})


class ActionCall(JsonCall):
    """An object such as `{"tool_name": "f", "parameters": {...}}`, which may be no call."""

    def reader(self, tools: Mapping[str, Any], name: str | None) -> Reader:
        reader = super().reader(tools, name)
        return reader if _NO_TOOL & tools.keys() else _ActionReader(reader)


class _ActionReader:
    """Follows another reader; see `table.Reader`."""

    __slots__ = ("_reader", "done", "left", "verdict", "whole")

    def __init__(self, reader: Reader) -> None:
        self.verdict = Verdict.UNDECIDED
        self.done = False
        self.whole = False
        self.left = ""
        self._reader = reader

    @property
    def name(self) -> str | None:
        name = self._reader.name
        return None if name in _NO_TOOL else name

    def scan(self, text: str, position: int) -> int:
        end = self._reader.scan(text, position)
        self._follow()
        return end

    def end_of_input(self) -> None:
        self._reader.end_of_input()
        self._follow()

    def take(self) -> str:
        return self._reader.take()

    def _follow(self) -> None:
        reader = self._reader
        self.done, self.whole, self.left = reader.done, reader.whole, left_by(reader)
        if reader.name not in _NO_TOOL:
            self.verdict = reader.verdict
        elif reader.done:
            self.verdict = Verdict.MARKUP


_NAME_KEYS = frozenset({"tool_name", "name"})
_OTHER_KEYS = frozenset({"tool_call_id", "id", "type"})
_NEXT = {"{": Transition(State.ARRAY_CALL, Marker.KEPT)}
_BEHIND_FENCE = {"```": Transition(State.PROSE)}


def _with_tool_names(states: Mapping[Any, Any]) -> States:
    return {
        state: replace(rules, name_keys=_NAME_KEYS, other_keys=_OTHER_KEYS) if isinstance(rules, JsonCall) else rules
        for state, rules in states.items()
    }


COMMAND_R = Format(
    name="command_r",
    title="a JSON array in a fence after Action:",
    models=("Command R", "Aya Expanse"),
    aliases=("command_r_plus",),
    example='Action: ```json\n[\n    {"tool_name": "get_weather", "parameters": {"city": "Paris"}}\n]\n```',
    syntax=CallSyntax(
        opening="Action: ```json\n[\n",
        begin="    " + call_object(name="tool_name", arguments="parameters"),
        end="}",
        separator=",\n",
        closing="\n]\n```",
    ),
    states={
        **_with_tool_names(FENCE_AND_BARE_STATES),
        State.PROSE: Prose(
            {**FENCE_AND_BARE, **dict.fromkeys(("Action:", "Action :"), Transition(_Action.BEGIN, line_start=True))}
        ),
        _Action.BEGIN: Gap(
            {
                **dict.fromkeys(("```json", "```"), Transition(State.CALLS)),
                "[": Transition(_Action.LIST, Marker.KEPT),
                **_NEXT,
            }
        ),
        _Action.LIST: Gap(_NEXT, junk=re.compile(r"[\s\[,]*")),
        State.CALLS: Gap(_NEXT, junk=re.compile(r"[\s\[,]*"), otherwise=State.CODE),
        State.ARRAY_CALL: ActionCall(then=State.AFTER_ARRAY_CALL, name_keys=_NAME_KEYS, other_keys=_OTHER_KEYS),
        State.AFTER_ARRAY_CALL: Gap({**_NEXT, **_BEHIND_FENCE}, junk=re.compile(r"[\s,;}\]]*"), behind=Behind.CALL),
    },
)

FORMATS = (COMMAND_R,)
