"""Kimi K3: elements that open and close by name, with typed arguments."""

from __future__ import annotations

import re

from extproc.toolcalls.formats.tag_values import QuotedCall, value_states
from extproc.toolcalls.notations.json_arguments import JsonArguments
from extproc.toolcalls.notations.values import ANY_TYPE, STRING
from extproc.toolcalls.states import State
from extproc.toolcalls.syntax.arguments import Elements
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.table import Behind, Format, Gap, Key, Marker, Name, Prose, Sink, Transition, Value


def _open(element: str) -> str:
    return f"<|open|>{element}"


def _close(element: str) -> str:
    return f"<|close|>{element}<|sep|>"


_PROSE = {
    _open("tools<|sep|>"): Transition(State.SECTION),
    _open("call "): Transition(State.NAME),
    _open("response<|sep|>"): Transition(State.PROSE),
    _open("think<|sep|>"): Transition(State.THINKING),
    # One token each, of an element that never came.
    **{marker: Transition(State.PROSE) for marker in ("<|open|>", "<|close|>", "<|sep|>")},
    **{
        _close(element): Transition(State.PROSE)
        for element in ("response", "think", "message", "tools", "call", "argument", "json")
    },
}
_NEXT_CALL = {
    _close("call"): Transition(State.AFTER_CALL, ends_call=True),
    _open("call "): Transition(State.NAME, ends_call=True),
    _close("tools"): Transition(State.PROSE, ends_call=True),
}
_NEXT_ARGUMENT = {
    _open("argument "): Transition(State.KEY),
    _open("json"): Transition(State.PARAMETERS),
    "{": Transition(State.JSON_CALL, Marker.KEPT),
    **_NEXT_CALL,
}
_AFTER_CALL = {
    _open("call "): Transition(State.NAME),
    **dict.fromkeys(map(_close, ("json", "argument", "call")), Transition(State.AFTER_CALL)),
    _close("tools"): Transition(State.PROSE),
}

_JSON_TYPES = {'"': "string", "{": "object", "[": "array", "t": "boolean", "f": "boolean", "n": "null"}


def _json_type(value: str) -> str:
    return _JSON_TYPES.get(value[0], "number")


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;")


KIMI_K3 = Format(
    name="kimi_k3",
    title="elements between <|open|> and <|close|>, with typed arguments",
    models=("Kimi K3",),
    example=(
        '<|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|>'
        '<|open|>argument key="city" type="string"<|sep|>Paris<|close|>argument<|sep|>'
        "<|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>"
    ),
    thinking=State.THINKING,
    syntax=CallSyntax(
        opening="<|open|>tools<|sep|>",
        begin='<|open|>call tool="{name}" index="{number}"<|sep|>',
        arguments=Elements(
            "kimi_k3_xml",
            '<|open|>argument key="{key}" type="{type}"<|sep|>',
            "<|close|>argument<|sep|>",
            type_word=_json_type,
            spell_key=_attribute,
        ),
        end="<|close|>call<|sep|>",
        separator="",
        closing="<|close|>tools<|sep|>",
    ),
    states={
        State.PROSE: Prose(_PROSE),
        State.THINKING: Prose(_PROSE, Sink.REASONING),
        State.SECTION: Gap(
            {_open("call "): Transition(State.NAME), _close("tools"): Transition(State.AFTER_CALL)}, hides_markers=True
        ),
        State.NAME: Name(
            {"<|sep|>": Transition(State.ARGUMENTS)},
            pattern=re.compile(r'.*?\btool="(?P<name>[^"]{1,256})".*', re.DOTALL),
            possible=re.compile(r'(?:\s*\w+="[^"]*")*\s*(?:\w+(?:=(?:"[^"]*)?)?)?'),
            entities=True,
        ),
        State.ARGUMENTS: Gap(_NEXT_ARGUMENT),
        State.KEY: Key(
            {"<|sep|>": Transition(State.VALUE)},
            pattern=re.compile(r'(?=.*?\bkey="(?P<key>[^"]*)")(?:.*?\btype="(?P<type>\w+)".*|.*)', re.DOTALL),
            types={
                "string": STRING,
                **dict.fromkeys(("number", "integer", "boolean", "object", "array", "null"), ANY_TYPE),
            },
            entities=True,
        ),
        **value_states(
            Value({_close("call"): Transition(State.AFTER_UNCLOSED_VALUE)}),
            _close("argument"),
            {_open("argument "): Transition(State.KEY), **_NEXT_CALL},
            opens=_open("argument "),
            unclosed=_NEXT_CALL,
            quoted=QuotedCall(
                _open("call "),
                "<|sep|>",
                (_open("argument "),),
                _close("call"),
                behind=(_close("tools"),),
                head=re.compile(r"[^<>\n]*"),
            ),
        ),
        # All arguments as one object: `<|open|>json type="object"<|sep|>{...}`.
        State.PARAMETERS: Gap({"<|sep|>": Transition(State.BEFORE_ARGUMENTS)}, junk=re.compile(r"[^<>\n]*")),
        State.BEFORE_ARGUMENTS: Gap({"{": Transition(State.JSON_CALL, Marker.KEPT), **_NEXT_CALL}),
        State.JSON_CALL: JsonArguments(then=State.AFTER_CALL),
        State.AFTER_CALL: Gap(_AFTER_CALL, behind=Behind.CALL),
    },
)

FORMATS = (KIMI_K3,)
