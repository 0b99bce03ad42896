"""Decoding that is forced to obey: the calls that a request demands, as a grammar.

The grammar is a structural tag, xgrammar's JSON for what a model may write: here the calls of a format, with the names
of the tools, and with arguments by their schemas. vLLM takes one whatever it was started with, and needs no parser for
it. The shapes are those of xgrammar 0.2.8; docs/forced-decoding.md has what was measured.

A call looks as `CallSyntax.write` makes it, so the parser of the format reads all that is written. Arguments come in
the order of the schema's properties. Where calls are numbered, any number will do. A tool whose one parameter is text
with a grammar of its own is written by that grammar, as it stands in the format: inside of a JSON string, or as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from extproc.contract.tool_choice import NamedTool, ToolChoice
from extproc.contract.tool_definitions import TextGrammar
from extproc.prompts.grammar_bare import no_call_behind_name
from extproc.prompts.grammar_schema import ANY_TYPE, simplified
from extproc.toolcalls import CallSyntax, get_format
from extproc.toolcalls.syntax.forcing import READ_AS_BARE_JSON, can_be_forced, marker_of_calls, marker_unwrapped

Json: TypeAlias = dict[str, Any]
Thinking: TypeAlias = Literal["tags", "open"]
Forced: TypeAlias = bool | Literal["begun"]
"""Whether all tools are as good as strict; `begun`: and a call begins no sooner than for the parser, so that JSON which
only has a tool's name in it stays what it is."""

_MOST_SUBSCHEMAS = 6_400
"""Of all tools together: 50 for each, if there are as many as there may be. Compiling them takes some 3 s."""


def structural_tag(
    syntax: CallSyntax,
    tools: Sequence[Json],
    choice: ToolChoice,
    *,
    parallel: bool,
    text_schema: Json | None = None,
    names_only: bool = False,
    thinking: Thinking | None = None,
    texts: Mapping[str, TextGrammar] | None = None,
    forced: Forced = False,
) -> Json | None:
    """What the model may write: the value of `structured_outputs.structural_tag`, which vLLM wants as JSON text.

    A demanded call (`required`, or a tool by name) is the whole answer, and further calls follow it only if `parallel`.
    With `auto` the grammar is there for the strict tools: the text is free until a call begins, and the arguments of
    other tools may be any object. Tools in `texts` are as good as strict, where the format can write such a text
    (`writes_texts`), and where calls are `forced` all are. With `names_only` it is there without strict tools too: the
    model was shown tools that it may not call. With a `text_schema` the model writes calls and nothing else, or JSON by
    that schema (`{}` for any object) and nothing else. None if there is nothing to force, or the format can't be.

    `thinking` lets the model think first: in its tags, or up to the closing one if the chat template has opened them.
    Where calls are forced once they have `begun`, its tags are free with `auto` in any case.
    """
    if not can_be_forced(syntax):
        return None
    content: Json | None = None
    calls = _Calls(syntax, texts or {}, forced)
    match choice:
        case "required" if tools:
            content = _answer(calls, tools, parallel=parallel)
        case NamedTool(name) if named := [tool for tool in tools if _name(tool) == name]:
            content = _answer(calls, named, parallel=False)
        case "auto" if text_schema is not None and tools:
            text = {"type": "json_schema", "json_schema": _text_schema(text_schema)}
            content = {"type": "or", "elements": [_answer(calls, tools, parallel=parallel), text]}
        case "auto":
            if names_only or any(map(calls.is_strict, tools)):
                content = _text_with_calls(calls, tools, parallel=parallel)
                if forced == "begun" and get_format(syntax.format).thinking is not None:
                    thinking = thinking or "tags"
    if content is None:
        return None
    if thinking:
        content = _sequence(_thoughts(syntax.format, thinking), content)
    return {"type": "structural_tag", "format": content}


# Answers


def _answer(calls: _Calls, tools: Sequence[Json], *, parallel: bool) -> Json:
    """Nothing but calls, and what stands around all of them."""
    syntax = calls.syntax
    tags = [calls.tag(tool, _schema(tool, len(tools))) for tool in tools]
    return _sequence(*_constant(syntax.opening), _some(syntax, tags, parallel=parallel), *_constant(syntax.closing))


def _text_with_calls(calls: _Calls, tools: Sequence[Json], *, parallel: bool) -> Json | None:
    """Free text until a call begins, and again behind it if there may be more. None if no marker begins calls alone."""
    syntax = calls.syntax
    schemas = [(tool, _schema(tool, len(tools)) if calls.is_strict(tool) else _ANY_OBJECT) for tool in tools]
    triggers: list[str] = []
    tags: list[Json] = []
    if marker := marker_of_calls(syntax):
        triggers.append(marker)
        made = [calls.tag(tool, schema) for tool, schema in schemas]
        if syntax.opening:
            made = [_tag(syntax.opening, _some(syntax, made, parallel=parallel), syntax.closing)]
        tags += made
    begun = calls.forced == "begun"
    if begun and (marker_inside := marker_unwrapped(syntax)):
        triggers.append(marker_inside)
        tags += [calls.tag(tool, schema, marker_inside) for tool, schema in schemas]
    if syntax.format in READ_AS_BARE_JSON:
        for tool, schema in schemas:
            call = _sequence(_ARGUMENTS_KEY, calls.json_arguments(tool, schema), _WHITE_SPACE)
            for trigger in (f'"name": "{_name(tool)}"', f'"name":"{_name(tool)}"'):
                triggers.append(trigger)
                tags.append(_call_or_text(trigger, call, marker) if begun else _tag(trigger, call, _ENDS_OF_BARE))
    if not triggers:
        return None
    # A name that begins no call would end the text as well.
    stops = not parallel and not (begun and syntax.format in READ_AS_BARE_JSON)
    return {"type": "triggered_tags", "triggers": triggers, "tags": tags, "stop_after_first": stops}


def _call_or_text(name: str, call: Json, marker: str | None) -> Json:
    """Behind the name of a tool in JSON: the rest of a call, or something that shows that it is none."""
    text = {"type": "regex", "pattern": no_call_behind_name(marker or "")}
    return _tag(name, {"type": "or", "elements": [_sequence(call, *_constant("}")), text]}, "")


_WHITE_SPACE: Json = {"type": "regex", "pattern": r"[ \n\t]*"}
_ARGUMENTS_KEY: Json = {"type": "regex", "pattern": r'[ \n\t]*,[ \n\t]*"(arguments|parameters)"[ \n\t]*:[ \n\t]*'}
_ENDS_OF_BARE = ["}", "}\n```", "}]"]


# Calls


def _name(tool: Json) -> str:
    name: str = tool["function"]["name"]
    return name


_ANY_OBJECT: Json = {"type": "object", "additionalProperties": True}


def _schema(tool: Json, tools: int) -> Json:
    """The schema of the arguments of a tool that is one of so many."""
    parameters = tool["function"].get("parameters")
    if not parameters:  # OpenAI: a function without any has an empty parameter list
        return {"type": "object", "additionalProperties": False}
    return simplified(parameters, most=_MOST_SUBSCHEMAS // tools)


def _text_schema(schema: Json) -> Json:
    return simplified(schema, types=ANY_TYPE) if schema else _ANY_OBJECT


_NUMBER = re.compile(r"\{index\}|\{number\}")
_ANY_NUMBER: Json = {"type": "regex", "pattern": "[0-9]{1,4}"}


@dataclass(frozen=True, slots=True)
class _Calls:
    """How the calls of one request are written."""

    syntax: CallSyntax
    texts: Mapping[str, TextGrammar]
    forced: Forced

    def is_strict(self, tool: Json) -> bool:
        strict = bool(self.forced) or tool["function"].get("strict") is True
        return strict or (_name(tool) in self.texts and writes_texts(self.syntax))

    def tag(self, tool: Json, schema: Json, first: str = "") -> Json:
        """`first` is the marker that it begins with, if that isn't the format's own."""
        whole = self.syntax.begin[self.syntax.begin.index(first) :]
        begin, *others = _NUMBER.split(whole.replace("{name}", _name(tool)))
        numbers = [element for text in others for element in (_ANY_NUMBER, *_constant(text))]
        return _tag(begin, _sequence(*numbers, self.arguments(tool, schema)), self.syntax.end)

    def json_arguments(self, tool: Json, schema: Json) -> Json:
        """As they stand in a bare object, whatever the format writes."""
        grammar = self.texts.get(_name(tool))
        if grammar is None:
            return _arguments(schema)
        text = {"type": "grammar", "grammar": _ebnf(grammar, in_json_string=True)}
        return _sequence(*_constant(f'{{"{grammar.parameter}": "'), text, *_constant('"}'))

    def arguments(self, tool: Json, schema: Json) -> Json:
        grammar = self.texts.get(_name(tool))
        around = _around_text(self.syntax, grammar.parameter) if grammar is not None else None
        if grammar is None or around is None:
            return _arguments(schema, self.syntax.style)
        before, behind, in_json = around
        text = {"type": "grammar", "grammar": _ebnf(grammar, in_json_string=in_json)}
        return _sequence(*_constant(before), text, *_constant(behind))


# A client sends the same grammars with every request of a conversation.
_MOST_REMEMBERED = 64


@lru_cache(_MOST_REMEMBERED)
def is_enforceable(grammar: TextGrammar) -> bool:
    """Whether xgrammar can be told of it."""
    from extproc.prompts.text_grammar import UnsupportedGrammarError  # as below

    try:
        for in_json_string in (True, False):
            _ebnf(grammar, in_json_string=in_json_string)
    except UnsupportedGrammarError:
        return False
    return True


@lru_cache(2 * _MOST_REMEMBERED)
def _ebnf(grammar: TextGrammar, *, in_json_string: bool) -> str:
    from extproc.prompts.text_grammar import ebnf  # A compiler, for the few clients that bring grammars.

    return ebnf(grammar.syntax, grammar.definition, in_json_string=in_json_string)


_TEXT = '\na"\nb\n'  # some formats wrap what begins or ends with a line break


def writes_texts(syntax: CallSyntax) -> bool:
    """Whether the format can be forced to write a text by a grammar of its own."""
    return can_be_forced(syntax) and _around_text(syntax, "input") is not None


def _around_text(syntax: CallSyntax, parameter: str) -> tuple[str, str, bool] | None:
    """What stands before and behind the text of the one parameter of a call, and whether it is written as in JSON. None
    if it is neither that, nor as it is."""
    written = syntax.arguments.write(json.dumps({parameter: _TEXT}), str)
    for spelled, in_json in ((_TEXT, False), (json.dumps(_TEXT)[1:-1], True)):
        before, found, behind = written.partition(spelled)
        if found:
            return before, behind, in_json
    return None


def _some(syntax: CallSyntax, calls: list[Json], *, parallel: bool) -> Json:
    """One of the calls, or several."""
    return {
        "type": "tags_with_separator",
        "tags": calls,
        "separator": syntax.separator,
        "at_least_one": True,
        "stop_after_first": not parallel,
    }


# Thinking

_THINKING_TAGS = {
    "apriel": ("Here are my reasoning steps", "[BEGIN FINAL RESPONSE]"),
    "apertus": ("<|inner_prefix|>", "<|inner_suffix|>"),
    "cohere_command3": ("<|START_THINKING|>", "<|END_THINKING|>"),
    "cohere_command4": ("<|START_THINKING|>", "<|END_THINKING|>"),
    "inkling": ("<|content_thinking|>", "<|end_message|>"),
    "kimi_k3": ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    "longcat": ("<longcat_think>", "</longcat_think>"),
    "minimax_m3": ("<mm:think>", "</mm:think>"),
    "mistral": ("[THINK]", "[/THINK]"),
    "plamo3": ("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"),
    "seed_oss": ("<seed:think>", "</seed:think>"),
    "solar_open": ("<|think|>", "<|end|>"),
}
_USUAL_TAGS = ("<think>", "</think>")


def _thoughts(format_: str, thinking: Thinking) -> Json:
    """What the model may write before everything else."""
    opening, closing = _THINKING_TAGS.get(format_, _USUAL_TAGS)
    begin = "" if thinking == "open" else opening
    thoughts = _sequence(_tag(begin, {"type": "any_text"}, closing), {"type": "regex", "pattern": r"[ \n]{0,4}"})
    return thoughts if thinking == "open" else {"type": "optional", "content": thoughts}


# xgrammar's formats


def _arguments(schema: Json, style: str | None = "json") -> Json:
    arguments: Json = {"type": "json_schema", "json_schema": schema}
    return arguments if style == "json" else {**arguments, "style": style}


def _tag(begin: str, content: Json, end: str | list[str]) -> Json:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def _sequence(*elements: Json) -> Json:
    return elements[0] if len(elements) == 1 else {"type": "sequence", "elements": list(elements)}


def _constant(text: str) -> list[Json]:
    """As elements of a sequence: no text is none."""
    return [{"type": "const_string", "value": text}] if text else []
