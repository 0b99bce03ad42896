"""The shapes that several formats share, as functions that make their states.

Formats differ in their markers more than in their grammar. Each function here makes the states of one grammar from
the markers; a format's file names the markers, and adds what is its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from extproc.toolcalls.json_arguments import JsonArguments
from extproc.toolcalls.json_call import JsonCall
from extproc.toolcalls.table import Body, Gap, Key, Name, Prose, Rule, Rules, Sink, State, Value
from extproc.toolcalls.tagged import Trim
from extproc.toolcalls.values import ANY_TYPE, STRING

States = dict[str, State]

THINK = ("<think>", "</think>")

_BRACKETS = re.compile(r"[\s,;`}\]]*")
"""Between and behind objects: closing brackets too many (small models write them), commas, the end of a fence."""

_OBJECT = {
    "{": Rule("json call", keep=True),
    "[": Rule("json call", keep=True),
    "```json": Rule("block"),
    "```": Rule("block"),
}


def prose(openers: Rules, thinking: tuple[str, str] | None = THINK) -> States:
    """Free text that may hold calls, and thinking between a pair of tags. A call ends the thinking, said or not."""
    if thinking is None:
        return {"prose": Prose(openers)}
    opening, closing = thinking
    return {
        # A closing tag that is left over (behind a call that ended the thinking) is markup as well.
        "prose": Prose({**openers, opening: Rule("thinking"), closing: Rule("prose")}),
        "thinking": Prose({**openers, closing: Rule("prose")}, Sink.REASONING),
    }


def json_block(opening: str, closing: str | None, *, name: str = "call") -> States:
    """`OPENING {"name": ..., "arguments": {...}} CLOSING`, repeated."""
    rules = {opening: Rule(name), "{": Rule(name, keep=True)}
    if closing is not None:
        rules[closing] = Rule("prose")
    return {
        name: JsonCall(then=f"after {name}"),
        f"after {name}": Gap(rules, junk=_BRACKETS, trailing=True),
    }


def json_array(opening: str, closing: str | None, *, body: JsonCall | None = None) -> States:
    """`OPENING [{"name": ..., "arguments": {...}}, ...] CLOSING`; the brackets may be missing. Entry: "calls"."""
    rules = {"{": Rule("array call", keep=True), opening: Rule("calls")}
    if closing is not None:
        rules[closing] = Rule("prose")
    return {
        "calls": Gap({"{": Rule("array call", keep=True)}, junk=re.compile(r"[\s\[,]*")),
        "array call": body or JsonCall(then="after array call"),
        "after array call": Gap(rules, junk=re.compile(r"[\s,;}\]]*"), trailing=True),
    }


def named_json(
    separator: Rules, after: Rules, ends: Rules, *, name: Name | None = None, ends_with_output: bool = False
) -> States:
    """A name, then its arguments as a JSON object, perhaps in a fence. Entries: "name", "before arguments".

    `ends` are the markers behind a call, which may have no arguments at all; `after` is what may follow it.
    """
    return {
        "name": name or Name(separator),
        "before arguments": Gap(
            {
                "{": Rule("arguments", keep=True),
                "```json": Rule("before arguments"),
                "```": Rule("before arguments"),
                **{marker: Rule(rule.to, ends_call=True) for marker, rule in ends.items()},
            },
            ends_with_output=ends_with_output,
        ),
        "arguments": JsonArguments(then="after arguments"),
        "after arguments": Gap({**ends, **after}, junk=_BRACKETS, trailing=True),
    }


def function_parameter(opening: str, closing: str, trim: Trim = Trim.LINE_BREAKS) -> States:
    """`OPENING<function=NAME><parameter=KEY>VALUE</parameter></function>CLOSING`. Entry: "block".

    The function may come without its block. The closing tag of a value counts only if one of the tags follows that
    may follow; otherwise it is part of the value, as in a file that holds such tags.
    """
    next_call = {
        "<function=": Rule("name", ends_call=True),
        opening: Rule("block", ends_call=True),
        closing: Rule("prose", ends_call=True),
    }
    next_parameter = {
        "<parameter=": Rule("key"),
        "</function>": Rule("after function", ends_call=True),
        **next_call,
    }
    return {
        "block": Gap({"<function=": Rule("name"), **_OBJECT, closing: Rule("prose")}),
        "name": Name({">": Rule("parameters"), "<parameter=": Rule("key"), **_ends(["</function>"], "after function")}),
        "parameters": Gap(next_parameter),
        "key": Key({">": Rule("value")}),
        "value": Value(
            {
                "</parameter>": Rule("after value"),
                "\n<parameter=": Rule("key"),
                "</function>": Rule("after unclosed value"),
                closing: Rule("after unclosed value"),
            },
            trim,
        ),
        "after value": Gap(next_parameter, otherwise="value", resumes=True),
        "after unclosed value": Gap(next_call, otherwise="value", resumes=True),
        "after function": Gap(
            {"<function=": Rule("name"), opening: Rule("block"), closing: Rule("prose"), "</function>": Rule("prose")},
            trailing=True,
        ),
        **_json_calls(opening, closing),
    }


def key_value(opening: str, closing: str, tags: tuple[str, str, str, str], *, separator: str | None = None) -> States:
    """`OPENING NAME [SEPARATOR] <key>KEY</key><value>VALUE</value> CLOSING`. Entry: "block"."""
    open_key, close_key, open_value, close_value = tags
    end = {closing: Rule("after block", ends_call=True), opening: Rule("block", ends_call=True)}
    next_parameter = {open_key: Rule("key"), **end}
    name_ends = {open_key: Rule("key"), "{": Rule("arguments", keep=True), **end}
    if separator is not None:
        name_ends[separator] = Rule("parameters")
    return {
        "block": Gap({"{": Rule("json call", keep=True), "[": Rule("json call", keep=True)}, otherwise="name"),
        "name": Name(name_ends),
        "arguments": JsonArguments(then="after json call"),
        "parameters": Gap(next_parameter),
        "key": Key({close_key: Rule("after key"), open_value: Rule("value")}),
        "after key": Gap({open_value: Rule("value"), **next_parameter}, otherwise="value"),
        "value": Value(
            {close_value: Rule("after value"), closing: Rule("after unclosed value"), open_key: Rule("key")},
        ),
        "after value": Gap(next_parameter, otherwise="value", resumes=True),
        "after unclosed value": Gap({opening: Rule("block", ends_call=True)}, otherwise="value", resumes=True),
        "after block": Gap({opening: Rule("block")}, trailing=True),
        **_json_calls(opening, closing),
    }


def _json_calls(opening: str, closing: str) -> States:
    return {
        "json call": JsonCall(then="after json call"),
        "after json call": Gap(
            {"{": Rule("json call", keep=True), opening: Rule("block"), closing: Rule("prose")},
            junk=_BRACKETS,
            trailing=True,
        ),
    }


def _ends(markers: list[str], to: str) -> Rules:
    return {marker: Rule(to, ends_call=True) for marker in markers}


_ATTRIBUTES = re.compile(
    r"\s*[\"']?(?P<key>[^\"'>]*?)[\"']?(?:\s*(?:string|type)\s*=\s*[\"']?(?P<type>\w+)[\"']?)?\s*", re.DOTALL
)
_SAID_TYPES: Mapping[str, frozenset[str]] = {"true": STRING, "false": ANY_TYPE}
_TOOL_NAME_ATTRIBUTE = re.compile(r"\s*[\"']?[^\"'<>]*[\"']?\s*")


def invoke_parameter(
    invoke: str,
    parameter: str,
    sections: Rules,
    *,
    name_attribute: str = " name=",
    trim: Trim = Trim.NOTHING,
    packed_keys: frozenset[str] = frozenset(),
    types: Mapping[str, frozenset[str]] = _SAID_TYPES,
    spellings: tuple[str, ...] = (),
) -> States:
    """`<INVOKE name="N"><PARAMETER name="k">v</PARAMETER></INVOKE>`, in sections. Entries: "section", "name".

    `invoke` and `parameter` are the tags' names; `sections` are the markers of sections, and where they lead;
    `types` is what the words of a type attribute mean;
    `spellings` are other ways in which a parameter may open.
    """
    open_invoke, close_invoke = f"<{invoke}{name_attribute}", f"</{invoke}>"
    open_parameter, close_parameter = f"<{parameter}{name_attribute}", f"</{parameter}>"
    next_call = {
        open_invoke: Rule("name", ends_call=True),
        **{marker: Rule(rule.to, ends_call=True) for marker, rule in sections.items()},
    }
    next_parameter = {
        **dict.fromkeys((open_parameter, *spellings), Rule("key")),
        close_invoke: Rule("after invoke", ends_call=True),
        **next_call,
    }
    return {
        "section": Gap({open_invoke: Rule("name"), **sections}),
        "name": Name(
            {">": Rule("parameters"), "/>": Rule("after invoke", ends_call=True)},
            pattern=re.compile(r"\s*[\"']?(?P<name>[^\"'<>{}]{1,256}?)[\"']?\s*"),
            possible=_TOOL_NAME_ATTRIBUTE,
        ),
        "parameters": Gap(next_parameter),
        "key": Key({">": Rule("value")}, pattern=_ATTRIBUTES, types=types),
        "value": Value(
            {
                close_parameter: Rule("after value"),
                close_invoke: Rule("after unclosed value"),
                "\n" + open_parameter: Rule("key"),
            },
            trim,
            packed_keys,
        ),
        "after value": Gap(next_parameter, otherwise="value", resumes=True),
        "after unclosed value": Gap(next_call, otherwise="value", resumes=True),
        "after invoke": Gap({open_invoke: Rule("name"), **sections}, trailing=True),
    }


_SUFFIX = re.compile(r"[^<>]*")


def with_suffixes(states: States) -> States:
    """The same states for models whose tags may carry a suffix: `<tool_call:xyz>` for `<tool_call>`."""
    made: States = {}
    for name, state in states.items():
        if isinstance(state, Body):
            made[name] = state
            continue
        rules = dict(state.rules)
        for marker, rule in state.rules.items():
            if not marker.endswith(">"):
                continue
            behind = states[rule.to]
            closes_value = isinstance(state, Value) and isinstance(behind, Gap) and behind.resumes
            # The suffix itself already tells the tag from text: what follows needn't do it again.
            rule_behind = replace(rule, to="parameters") if closes_value else rule
            made[f"{name} {marker}"] = Gap(
                {">": rule_behind},
                junk=_SUFFIX,
                otherwise=name if closes_value else "prose",
                resumes=closes_value,
                trailing=isinstance(behind, Prose) or (isinstance(behind, Gap) and behind.trailing),
            )
            rules[marker[:-1] + ":"] = Rule(f"{name} {marker}")
        made[name] = replace(state, rules=rules)
    return made
