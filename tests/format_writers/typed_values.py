"""Writers for the formats that say a value's type, and for those that put tagged values into messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial

from tests.format_writers.output import (
    TAGS,
    Call,
    Output,
    Types,
    Writer,
    closing,
    is_word,
    laid_out,
    last,
    lines_with,
    quoted,
    raw,
    thought,
    without,
)
from tests.format_writers.tagged_values import invoke_element

# Arguments whose type the output says


def json_type(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
        case float():
            return "number"
        case list():
            return "array"
        case _:
            return "object"


def _k2(output: Output, *, types: bool) -> str:
    def block(call: Call) -> str:
        pairs = "".join(
            f"<ifm|arg_key>{key}</ifm|arg_key>"
            + (f"<ifm|arg_type>{json_type(value)}</ifm|arg_type>" if types else "")
            + f"<ifm|arg_value>{raw(output, value)}</ifm|arg_value>"
            for key, value in call.arguments.items()
        )
        return f"<ifm|tool_call>{call.name}{pairs}</ifm|tool_call>"

    def section(calls: Sequence[Call]) -> str:
        return f"<ifm|tool_calls>{''.join(map(block, calls))}</ifm|tool_calls>"

    return laid_out(output, section)


def _k2_json(output: Output) -> str:
    def section(calls: Sequence[Call]) -> str:
        blocks = (
            f'<ifm|tool_call>{{"name": {output.json(call.name)}, "arguments": {output.json(call.arguments)}}}'
            "</ifm|tool_call>"
            for call in calls
        )
        return f"<ifm|tool_calls>{''.join(blocks)}</ifm|tool_calls>"

    return laid_out(output, section)


_K2_SECTION = ("<ifm|tool_calls>", "</ifm|tool_calls>")
_K2_MARKUP = (
    *_K2_SECTION,
    "<ifm|tool_call>",
    "</ifm|tool_call>",
    "<ifm|arg_key>",
    "</ifm|arg_key>",
    "<ifm|arg_type>",
    "</ifm|arg_type>",
    "<ifm|arg_value>",
    "</ifm|arg_value>",
    *TAGS,
)
_K2_HOLDS = without(
    closing("</ifm|arg_value>", "<ifm|arg_key>", "</ifm|tool_call>", "</ifm|tool_calls>"),
    last("</ifm|arg_value>"),
    closing("</ifm|tool_call>", "<ifm|tool_call>", "</ifm|tool_calls>"),
    quoted("<ifm|tool_call>", r"[^\s<>{}]*", "<ifm|arg_key>", "</ifm|tool_call>"),
)


def _element(name: str, inside: str, attributes: str = "") -> str:
    return f"<|open|>{name}{attributes}<|sep|>{inside}<|close|>{name}<|sep|>"


def _attribute(name: str, text: object) -> str:
    escaped = str(text).replace("&", "&amp;").replace('"', "&quot;")
    return f' {name}="{escaped}"'


def _kimi_k3(output: Output) -> str:
    def call_element(call: Call) -> str:
        arguments = (
            _element("argument", raw(output, value), _attribute("key", key) + _attribute("type", json_type(value)))
            for key, value in call.arguments.items()
        )
        attributes = _attribute("tool", call.name) + _attribute("index", call.number + 1)
        return _element("call", "".join(arguments), attributes)

    def section(calls: Sequence[Call]) -> str:
        return _element("tools", "".join(map(call_element, calls)))

    thinking = ("<|open|>think<|sep|>", "<|close|>think<|sep|>")
    text = laid_out(output, section, thinking=thinking, gap="", say=lambda said: _element("response", said))
    return f"{text}<|close|>message<|sep|>"


_TYPED = (
    Writer(
        "k2_horizon",
        partial(_k2, types=True),
        _K2_MARKUP,
        variant="typed",
        names=is_word,
        holds=_K2_HOLDS,
    ),
    Writer(
        "k2_horizon",
        partial(_k2, types=False),
        _K2_MARKUP,
        variant="untyped",
        types=Types.SCHEMA,
        names=is_word,
        holds=_K2_HOLDS,
    ),
    Writer("k2_horizon", _k2_json, _K2_MARKUP, variant="JSON", verbatim=True),
    Writer(
        "kimi_k3",
        _kimi_k3,
        ("<|open|>", "<|close|>", "<|sep|>"),
        names=lambda key: bool(key),
        holds=without(
            closing("<|close|>argument<|sep|>", "<|open|>argument key=", "<|open|>call tool=", "<|close|>"),
            last("<|close|>argument<|sep|>"),
            closing("<|close|>call<|sep|>", "<|open|>call tool=", "<|close|>"),
            quoted("<|open|>call ", r"[^<>\n]*(?:<\|sep\|>)?", "<|open|>argument ", "<|close|>call"),
        ),
    ),
)


# In messages with recipients


def _messages(output: Output, start: str, say: Callable[[str], str], call: Callable[[Call], str], end: str) -> str:
    messages = [say(output.before)] if output.before else []
    for number, one in enumerate(output.calls):
        if number and output.between:
            messages.append(say(output.between))
        messages.append(call(one))
    if output.after:
        messages.append(say(output.after))
    return "".join(f"{start}{message}{end}" for message in messages)


def _muse(output: Output) -> str:
    def call_message(call: Call) -> str:
        invoke = invoke_element(output, call, invoke="atem:invoke", parameter="atem:parameter")
        return f"{call.name}<|message|><atem:function_calls>\n{invoke}\n</atem:function_calls>"

    start = "<|start|>assistant to="
    thinking = thought(output, (f"{start}thinking<|message|>", "<|eom|>"))
    return thinking + _messages(output, start, lambda text: f"user<|message|>{text}", call_message, "<|eom|>")


def _beam(output: Output) -> str:
    def call_message(call: Call) -> str:
        parameters = "".join(
            f'<rfl:parameter name="{key}">\n{raw(output, value)}\n</rfl:parameter>'
            for key, value in call.arguments.items()
        )
        return f" to={call.name}<|channel|>analysis <|constrain|>xml<|message|>{parameters}"

    start = "<|start|>assistant"
    thinking = thought(output, ("<|channel|>analysis<|message|>", "<|end|>"))
    text = _messages(output, start, lambda said: f"<|channel|>final<|message|>{said}", call_message, "<|end|>")
    # The prompt ends with the first message's start.
    return thinking + text if thinking else text.removeprefix(start)


def _is_no_literal(text: str) -> bool:
    """A string that can't be taken for JSON, where JSON comes first: also in capitals, as models write constants."""
    stripped = text.strip()
    if stripped.lower() in ("true", "false", "null") or stripped == "None" or stripped[:1] in ("[", "{"):
        return False
    try:
        json.loads(text)
    except ValueError:
        return True
    return False


_MUSE_SECTIONS = ("<atem:function_calls>", "</atem:function_calls>", "<|eom|>", "<|eot|>")
_MUSE_HOLDS = without(
    closing("</atem:parameter>", "<atem:parameter name=", "</atem:invoke>", "<atem:invoke name=", *_MUSE_SECTIONS),
    last("</atem:parameter>"),
    closing("</atem:invoke>", "<atem:invoke name=", *_MUSE_SECTIONS),
    quoted("<atem:invoke name=", r"[^<>\n]*>?", "<atem:parameter name=", "</atem:invoke>"),
    lines_with("<atem:parameter name="),
)
_MUSE_MARKUP = (
    *_MUSE_SECTIONS,
    "<|start|>",
    "<|message|>",
    "<atem:invoke name=",
    "</atem:invoke>",
    "<atem:parameter name=",
    "</atem:parameter>",
)
_BEAM_ENDS = ("<|end|>", "<|call|>", "<|return|>")
_BEAM_NEXT = (*_BEAM_ENDS, "<|start|>", "<|channel|>")
_MESSAGES = (
    Writer(
        "muse",
        _muse,
        _MUSE_MARKUP,
        types=Types.SCHEMA,
        names=is_word,
        holds=_MUSE_HOLDS,
        says=without(r"(?:^|\n)\s*to="),
    ),
    Writer(
        "muse_glimmer",
        _muse,
        _MUSE_MARKUP,
        names=is_word,
        holds=lambda text: _MUSE_HOLDS(text) and _is_no_literal(text),
        says=without(r"(?:^|\n)\s*to="),
    ),
    Writer(
        "beam",
        _beam,
        (*_BEAM_NEXT, "<|message|>", "<|constrain|>", "<rfl:parameter name=", "</rfl:parameter>"),
        types=Types.SCHEMA,
        names=is_word,
        holds=without(
            closing("</rfl:parameter>", "<rfl:parameter name=", *_BEAM_NEXT),
            *(closing(end, *_BEAM_NEXT) for end in _BEAM_ENDS),
        ),
    ),
)

WRITERS = (*_TYPED, *_MESSAGES)
