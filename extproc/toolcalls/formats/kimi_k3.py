"""Kimi K3: elements that open and close by name, with typed arguments."""

from __future__ import annotations

import re

from extproc.toolcalls.table import Format, Gap, Key, Name, Prose, Rule, Sink, Value
from extproc.toolcalls.values import ANY_TYPE, STRING


def _open(element: str) -> str:
    return f"<|open|>{element}"


def _close(element: str) -> str:
    return f"<|close|>{element}<|sep|>"


_PROSE = {
    _open("tools<|sep|>"): Rule("tools"),
    _open("call "): Rule("name"),
    _open("response<|sep|>"): Rule("prose"),
    _open("think<|sep|>"): Rule("thinking"),
    # One token each, of an element that never came.
    **{marker: Rule("prose") for marker in ("<|open|>", "<|close|>", "<|sep|>")},
    **{_close(element): Rule("prose") for element in ("response", "think", "message", "tools", "call", "argument")},
}
_NEXT_CALL = {
    _close("call"): Rule("after call", ends_call=True),
    _open("call "): Rule("name", ends_call=True),
    _close("tools"): Rule("prose", ends_call=True),
}
_NEXT_ARGUMENT = {_open("argument "): Rule("key"), **_NEXT_CALL}

KIMI_K3 = Format(
    name="kimi_k3",
    title="elements between <|open|> and <|close|>, with typed arguments",
    models=("Kimi K3",),
    example=(
        '<|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|>'
        '<|open|>argument key="city" type="string"<|sep|>Paris<|close|>argument<|sep|>'
        "<|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>"
    ),
    thinking="thinking",
    states={
        "prose": Prose(_PROSE),
        "thinking": Prose(_PROSE, Sink.REASONING),
        "tools": Gap({_open("call "): Rule("name"), _close("tools"): Rule("prose")}),
        "name": Name(
            {"<|sep|>": Rule("arguments")},
            pattern=re.compile(r'.*?\btool="(?P<name>[^"]{1,256})".*', re.DOTALL),
            possible=re.compile(r".*", re.DOTALL),
            entities=True,
        ),
        "arguments": Gap(_NEXT_ARGUMENT),
        "key": Key(
            {"<|sep|>": Rule("value")},
            pattern=re.compile(r'(?=.*?\bkey="(?P<key>[^"]*)")(?:.*?\btype="(?P<type>\w+)".*|.*)', re.DOTALL),
            types={
                "string": STRING,
                **dict.fromkeys(("number", "integer", "boolean", "object", "array", "null"), ANY_TYPE),
            },
            entities=True,
        ),
        "value": Value({_close("argument"): Rule("after value"), _close("call"): Rule("after unclosed value")}),
        "after value": Gap(_NEXT_ARGUMENT, otherwise="value", resumes=True),
        "after unclosed value": Gap(_NEXT_CALL, otherwise="value", resumes=True),
        "after call": Gap({_open("call "): Rule("name"), _close("tools"): Rule("prose")}, trailing=True),
    },
)

FORMATS = (KIMI_K3,)
