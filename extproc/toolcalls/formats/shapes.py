"""The shapes that several formats share, as functions that make their states.

Formats differ in their markers more than in their grammar. Each function here makes the states of one grammar from
the markers; a format's file names the markers, and adds what is its own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from extproc.toolcalls.formats.tag_values import Block, QuotedCall, next_key, value_states, word_between
from extproc.toolcalls.formats.unclosed_values import (
    behind_unclosed_function,
    behind_unclosed_invoke,
    behind_unclosed_name,
)
from extproc.toolcalls.notations.json_arguments import JsonArguments
from extproc.toolcalls.notations.json_call import JsonCall
from extproc.toolcalls.notations.tagged import Trim
from extproc.toolcalls.notations.values import ANY_TYPE, STRING
from extproc.toolcalls.states import State, StateName
from extproc.toolcalls.table import (
    BLANKS,
    Behind,
    Body,
    Gap,
    Key,
    Marker,
    Name,
    Prose,
    Rules,
    Sink,
    Transition,
    Transitions,
    Value,
)

States = dict[StateName, Rules]

THINK = ("<think>", "</think>")

QUOTED = (*",.;:)", *(quote + mark for quote in "`'\"" for mark in ",.;:) "))
"""What stands behind a marker that is only spoken of: no message begins so."""

_BRACKETS = re.compile(r"[\s,;}\]]*")
"""Between and behind objects: closing brackets too many (small models write them), commas."""

_ARGUMENTS = {
    "{": Transition(State.ARGUMENTS, Marker.KEPT),
    **dict.fromkeys(("```json", "```"), Transition(State.PARAMETERS)),
}
"""All of a call's arguments as one object, perhaps in a fence."""

_OBJECT = {
    "{": Transition(State.JSON_CALL, Marker.KEPT),
    "[": Transition(State.JSON_CALL, Marker.KEPT),
    "```json": Transition(State.BLOCK),
    "```": Transition(State.BLOCK),
}


def prose(openers: Transitions, thinking: tuple[str, str] | None = THINK) -> States:
    """Free text that may hold calls, and thinking between a pair of tags. A call ends the thinking, said or not."""
    if thinking is None:
        return {State.PROSE: Prose(openers)}
    opening, closing = thinking
    return {
        # A closing tag that is left over (behind a call that ended the thinking) is markup as well.
        State.PROSE: Prose({**openers, opening: Transition(State.THINKING), closing: Transition(State.PROSE)}),
        State.THINKING: Prose(
            {**openers, opening: Transition(State.THINKING, line_start=True), closing: Transition(State.PROSE)},
            Sink.REASONING,
        ),
    }


def left_over_gap(followers: Transitions, *, line_end: StateName = State.PROSE) -> Gap:
    """What may be left over is markup if one of `followers`, or the end of the line, comes behind it."""
    return Gap({**followers, "\n": Transition(line_end, Marker.KEPT)}, junk=BLANKS, behind=Behind.TEXT)


def _behind_object(state: State, followers: Transitions) -> States:
    """Behind an object there may be brackets too many, and the end of a fence."""
    fence_end = (state, "the end of a fence")
    return {
        state: Gap({"```": Transition(fence_end), **followers}, junk=_BRACKETS, behind=Behind.CALL),
        fence_end: left_over_gap(followers, line_end=state),
    }


def json_block(opening: str, closing: str | None) -> States:
    """`OPENING {"name": ..., "arguments": {...}} CLOSING`, repeated."""
    transitions = {opening: Transition(State.CALL), "{": Transition(State.CALL, Marker.KEPT)}
    if closing is not None:
        transitions[closing] = Transition(State.PROSE)
    return {
        State.CALL: JsonCall(then=State.AFTER_CALL, slips=True),
        **_behind_object(State.AFTER_CALL, transitions),
    }


def json_array(opening: str, closing: str | None, *, body: JsonCall | None = None) -> States:
    """`OPENING [{"name": ..., "arguments": {...}}, ...] CLOSING`; the brackets may be missing. Entry: CALLS."""
    transitions = {"{": Transition(State.ARRAY_CALL, Marker.KEPT), opening: Transition(State.CALLS)}
    if closing is not None:
        transitions[closing] = Transition(State.PROSE)
    if body is not None and body.name_is_key:
        # The same object may hold another call.
        transitions |= {quote: Transition(State.ARRAY_CALL, Marker.KEPT) for quote in "\"'"}
    return {
        State.CALLS: Gap(transitions, junk=re.compile(r"[\s\[,\]]*")),
        State.ARRAY_CALL: body or JsonCall(then=State.AFTER_ARRAY_CALL, slips=True),
        State.AFTER_ARRAY_CALL: Gap(transitions, junk=re.compile(r"[\s,;}\]]*"), behind=Behind.CALL),
    }


def named_json(
    separator: Transitions,
    after: Transitions,
    ends: Transitions,
    *,
    name: Name | None = None,
    ends_with_output: bool = False,
) -> States:
    """A name, then its arguments as a JSON object, perhaps in a fence. Entries: NAME, BEFORE_ARGUMENTS.

    `ends` are the markers behind a call, which may have no arguments at all; `after` is what may follow it.
    """
    return {
        State.NAME: name or Name(separator),
        State.BEFORE_ARGUMENTS: Gap(
            {
                "{": Transition(State.ARGUMENTS, Marker.KEPT),
                "```json": Transition(State.BEFORE_ARGUMENTS),
                "```": Transition(State.BEFORE_ARGUMENTS),
                **{marker: Transition(rule.to, ends_call=True) for marker, rule in ends.items()},
            },
            otherwise=State.ARGUMENTS,
            ends_with_output=ends_with_output,
        ),
        State.ARGUMENTS: JsonArguments(then=State.AFTER_ARGUMENTS),
        **_behind_object(State.AFTER_ARGUMENTS, {**ends, **after}),
    }


def function_parameter(opening: str, closing: str, trim: Trim = Trim.LINE_BREAKS) -> States:
    """`OPENING<function=NAME><parameter=KEY>VALUE</parameter></function>CLOSING`. Entries: BLOCK, UNWRAPPED_NAME.

    The function may come without its block, and may hold a JSON object instead of parameters. What of a value's tags
    belongs to it `tag_values.py` tells.
    """
    next_call = {
        "<function=": Transition(State.NAME, ends_call=True),
        opening: Transition(State.BLOCK, ends_call=True),
        closing: Transition(State.PROSE, ends_call=True),
    }
    next_parameter = {
        "<parameter=": Transition(State.KEY),
        "</function>": Transition(State.AFTER_FUNCTION, ends_call=True),
        **next_call,
    }
    name_ends = {
        ">": Transition(State.PARAMETERS),
        "<parameter=": Transition(State.KEY),
        "</function>": Transition(State.AFTER_FUNCTION, ends_call=True),
    }
    return {
        State.BLOCK: Gap(
            {
                "<function=": Transition(State.NAME),
                **_OBJECT,
                opening: Transition(State.BLOCK),
                closing: Transition(State.PROSE),
            }
        ),
        State.UNWRAPPED_NAME: Name(name_ends, offered_only=True),
        State.NAME: Name(name_ends),
        State.PARAMETERS: Gap({**next_parameter, **_ARGUMENTS}),
        State.KEY: Key({">": Transition(State.VALUE)}),
        **value_states(
            Value(
                {
                    "\n<parameter=": Transition(State.KEY),
                    "</function>": Transition(State.AFTER_UNCLOSED_VALUE),
                    closing: Transition(State.AFTER_UNCLOSED_VALUE),
                },
                trim,
            ),
            "</parameter>",
            next_parameter,
            opens="<parameter",
            unclosed={
                **next_call,
                opening: Transition(State.UNCLOSED_BLOCK),
                "<function=": Transition(State.UNCLOSED_NAME),
            },
            quoted=QuotedCall("<function=", ">", ("<parameter=",), "</function>", behind=(closing,)),
            block=Block(opening, closing),
        ),
        **behind_unclosed_function("<function=", (">", "<parameter="), then=State.AFTER_FUNCTION),
        State.ARGUMENTS: JsonArguments(then=State.AFTER_ARGUMENTS),
        State.AFTER_FUNCTION: Gap(
            {
                "<function=": Transition(State.NAME),
                opening: Transition(State.BLOCK),
                closing: Transition(State.PROSE),
                **dict.fromkeys(("</function>", "</parameter>"), Transition(State.AFTER_FUNCTION)),
            },
            behind=Behind.CALL,
        ),
        **_behind_object(
            State.AFTER_ARGUMENTS,
            {
                "<function=": Transition(State.NAME),
                "</function>": Transition(State.AFTER_FUNCTION),
                opening: Transition(State.BLOCK),
                closing: Transition(State.PROSE),
            },
        ),
        **_json_calls(opening, closing),
    }


def key_value(opening: str, closing: str, tags: tuple[str, str, str, str], *, separator: str | None = None) -> States:
    """`OPENING NAME [SEPARATOR] <key>KEY</key><value>VALUE</value> CLOSING`. Entry: BLOCK."""
    open_key, close_key, open_value, close_value = tags
    end = {closing: Transition(State.AFTER_BLOCK, ends_call=True), opening: Transition(State.BLOCK, ends_call=True)}
    next_parameter = {open_key: Transition(State.KEY), **end}
    name_ends = {open_key: Transition(State.KEY), "{": Transition(State.ARGUMENTS, Marker.KEPT), **end}
    keys, behind_keys = next_key(open_key, close_key, open_value)
    if separator is not None:
        name_ends[separator] = Transition(State.PARAMETERS)
    return {
        State.BLOCK: Gap(
            {**_OBJECT, opening: Transition(State.BLOCK), closing: Transition(State.PROSE)}, otherwise=State.NAME
        ),
        State.NAME: Name(name_ends),
        State.ARGUMENTS: JsonArguments(then=State.AFTER_JSON_CALL),
        State.PARAMETERS: Gap(next_parameter),
        State.KEY: Key({close_key: Transition(State.AFTER_KEY), open_value: Transition(State.VALUE)}),
        State.AFTER_KEY: Gap({open_value: Transition(State.VALUE), **next_parameter}, otherwise=State.VALUE),
        **value_states(
            Value({closing: Transition(State.AFTER_UNCLOSED_VALUE), **keys}),
            close_value,
            {**next_parameter, open_key: Transition(State.BEHIND_KEY), f"{open_key}\n": Transition(State.KEY)},
            opens=open_value,
            unclosed=dict.fromkeys((opening, f"{opening}\n"), Transition(State.UNCLOSED_BLOCK)),
            quoted=QuotedCall(opening, "\n", (open_key,), closing, head=word_between((opening, closing, *tags))),
            block=Block(opening, closing),
        ),
        **behind_unclosed_name((open_key, closing, *([separator] if separator else [])), then=State.AFTER_BLOCK),
        **behind_keys,
        State.AFTER_BLOCK: Gap(
            {opening: Transition(State.BLOCK), closing: Transition(State.PROSE)}, behind=Behind.CALL
        ),
        **_json_calls(opening, closing),
    }


def _json_calls(opening: str, closing: str) -> States:
    return {
        State.JSON_CALL: JsonCall(then=State.AFTER_JSON_CALL, slips=True),
        **_behind_object(
            State.AFTER_JSON_CALL,
            {
                "{": Transition(State.JSON_CALL, Marker.KEPT),
                opening: Transition(State.BLOCK),
                closing: Transition(State.PROSE),
            },
        ),
    }


_ATTRIBUTES = re.compile(
    r"\s*[\"']?(?P<key>[^\"'>]*?)[\"']?(?:\s*(?:string|type)\s*=\s*[\"']?(?P<type>\w+)[\"']?)?\s*", re.DOTALL
)
_SAID_TYPES: Mapping[str, frozenset[str]] = {"true": STRING, "false": ANY_TYPE}
_TOOL_NAME_ATTRIBUTE = re.compile(r"\s*[\"']?[^\"'<>]*[\"']?\s*")


def invoke_parameter(
    invoke: str,
    parameter: str,
    sections: Transitions,
    *,
    name_attribute: str = " name=",
    trim: Trim = Trim.NOTHING,
    packed_keys: frozenset[str] = frozenset(),
    types: Mapping[str, frozenset[str]] = _SAID_TYPES,
    spellings: tuple[str, ...] = (),
) -> States:
    """`<INVOKE name="N"><PARAMETER name="k">v</PARAMETER></INVOKE>`, in sections.

    Entries: SECTION, NAME, UNWRAPPED_NAME.
    `invoke` and `parameter` are the tags' names; `sections` are the markers of sections, and where they lead;
    `types` is what the words of a type attribute mean;
    `spellings` are other ways in which a parameter may open.
    """
    open_invoke, close_invoke = f"<{invoke}{name_attribute}", f"</{invoke}>"
    open_parameter, close_parameter = f"<{parameter}{name_attribute}", f"</{parameter}>"
    next_call = {
        open_invoke: Transition(State.NAME, ends_call=True),
        **{marker: Transition(rule.to, ends_call=True) for marker, rule in sections.items()},
    }
    next_parameter = {
        **dict.fromkeys((open_parameter, *spellings), Transition(State.KEY)),
        close_invoke: Transition(State.AFTER_INVOKE, ends_call=True),
        **next_call,
    }
    name = Name(
        {">": Transition(State.PARAMETERS), "/>": Transition(State.AFTER_INVOKE, ends_call=True)},
        pattern=re.compile(r"\s*[\"']?(?P<name>[^\"'<>{}]{1,256}?)[\"']?\s*"),
        possible=_TOOL_NAME_ATTRIBUTE,
    )
    return {
        State.SECTION: Gap({open_invoke: Transition(State.NAME), **sections}),
        State.NAME: name,
        State.UNWRAPPED_NAME: replace(name, offered_only=True),
        State.PARAMETERS: Gap({**next_parameter, **_ARGUMENTS}),
        State.KEY: Key({">": Transition(State.VALUE)}, pattern=_ATTRIBUTES, types=types),
        **value_states(
            Value(
                {
                    close_invoke: Transition(State.AFTER_UNCLOSED_VALUE),
                    "\n" + open_parameter: Transition(State.KEY),
                },
                trim,
                packed_keys,
            ),
            close_parameter,
            next_parameter,
            opens=f"<{parameter}",
            unclosed={**next_call, open_invoke: Transition(State.UNCLOSED_NAME)},
            quoted=QuotedCall(
                open_invoke,
                ">",
                (open_parameter,),
                close_invoke,
                behind=tuple(marker for marker in sections if marker.startswith("</")),
                head=re.compile(r"[^<>\n]*"),
            ),
        ),
        State.UNCLOSED_NAME: behind_unclosed_invoke(open_invoke, then=State.AFTER_INVOKE),
        State.ARGUMENTS: JsonArguments(then=State.AFTER_ARGUMENTS),
        State.AFTER_INVOKE: Gap(
            {
                open_invoke: Transition(State.NAME),
                **dict.fromkeys((close_invoke, close_parameter), Transition(State.AFTER_INVOKE)),
                **sections,
            },
            behind=Behind.CALL,
        ),
        **_behind_object(
            State.AFTER_ARGUMENTS,
            {open_invoke: Transition(State.NAME), close_invoke: Transition(State.AFTER_INVOKE), **sections},
        ),
    }


def apart(states: States, word: str, shared: Collection[StateName]) -> States:
    """The same states under names of their own, all but the `shared`: so a format may have two shapes side by side."""

    def own(name: StateName) -> StateName:
        return name if name in shared else (name, word)

    made: States = {}
    for name, rules in states.items():
        if isinstance(rules, Body):
            made[own(name)] = replace(rules, then=own(rules.then), otherwise=own(rules.otherwise))
            continue
        transitions = {marker: replace(one, to=own(one.to)) for marker, one in rules.transitions.items()}
        if isinstance(rules, Gap | Name):
            made[own(name)] = replace(rules, transitions=transitions, otherwise=own(rules.otherwise))
        else:
            made[own(name)] = replace(rules, transitions=transitions)
    return made
