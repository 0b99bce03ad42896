"""Calls in Python's syntax: `[get_weather(city='Paris'), search(query='x')]`.

Llama 4 and its kin write the list bare, wherever a call may stand; it is one only if it names an offered tool and its
arguments look the part, and never in code. Olmo writes one call a line between tags, without the list, and LFM2 the
list between markers.
"""

from __future__ import annotations

import re

from extproc.toolcalls.formats.shapes import States, prose
from extproc.toolcalls.json_call import JsonCall
from extproc.toolcalls.python_call import PythonCall
from extproc.toolcalls.table import Format, Gap, Header, Name, Prose, Rule, Rules

_BETWEEN_CALLS = re.compile(r"[\s,;]*")
_EXAMPLE = "[get_weather(city='Paris')]"


def _bare_list(openers: Rules, closers: Rules) -> States:
    """The list as it stands, or behind one of `openers`."""
    return {
        "prose": Prose(
            {
                **openers,
                "[": Rule("bare call", keep=True),
                "`[": Rule("prose", shown=True),
                "```": Rule("code", shown=True),
            }
        ),
        "code": Prose({"```": Rule("prose", shown=True)}),
        "list": Gap({"[": Rule("call")}, otherwise="bare call"),
        "bare call": PythonCall(then="after call", offered_only=True),
        "call": PythonCall(then="after call"),
        "after call": Gap(
            {"]": Rule("after list"), **closers}, junk=_BETWEEN_CALLS, otherwise="next call", trailing=True
        ),
        "next call": PythonCall(then="after call", offered_only=True),
        "after list": Gap({**openers, **closers}, trailing=True),
    }


PYTHONIC = Format(
    name="pythonic",
    title="a list of calls in Python's syntax",
    models=("Llama 3.2", "ToolACE", "Gemma 3"),
    example=_EXAMPLE,
    states=_bare_list(
        {"<|python_start|>": Rule("list"), "<|python_tag|>": Rule("list")}, {"<|python_end|>": Rule("prose")}
    ),
)

LLAMA4_PYTHONIC = Format(
    name="llama4_pythonic",
    title="as pythonic, between <|python_start|> and <|python_end|> or bare",
    models=("Llama 4",),
    example=f"<|python_start|>{_EXAMPLE}<|python_end|>",
    states=_bare_list({"<|python_start|>": Rule("list")}, {"<|python_end|>": Rule("prose")}),
)

OLMO3 = Format(
    name="olmo3",
    title="calls in Python's syntax, one a line, in <function_calls>",
    models=("Olmo 3",),
    example="<function_calls>get_weather(city='Paris')</function_calls>",
    thinking="thinking",
    states={
        **prose({"<function_calls>": Rule("calls")}),
        "calls": Gap({"</function_calls>": Rule("prose")}, otherwise="call"),
        "call": PythonCall(then="after call", lines=True),
        "after call": Gap(
            {"</function_calls>": Rule("prose"), "<function_calls>": Rule("calls")},
            junk=re.compile(r"[\s,;\]]*"),
            otherwise="next call",
            trailing=True,
        ),
        "next call": PythonCall(then="after call", otherwise="broken calls", lines=True),
        "broken calls": Prose({"</function_calls>": Rule("prose"), "<function_calls>": Rule("calls")}),
    },
)

_LFM2_OPENING, _LFM2_CLOSING = "<|tool_call_start|>", "<|tool_call_end|>"
_LFM2_IN_LIST: Rules = {
    "]": Rule("after list"),
    "{": Rule("json call", keep=True),
    _LFM2_CLOSING: Rule("after block"),
    _LFM2_OPENING: Rule("calls"),
}

LFM2 = Format(
    name="lfm2",
    title="a list of calls, in Python's syntax or in JSON, between markers",
    models=("LFM2", "LFM2.5"),
    example=f"{_LFM2_OPENING}{_EXAMPLE}{_LFM2_CLOSING}",
    thinking="thinking",
    states={
        **prose({_LFM2_OPENING: Rule("calls")}),
        "calls": Gap({"{": Rule("json call", keep=True)}, junk=re.compile(r"[\s\[]*"), otherwise="call"),
        "call": PythonCall(then="in list"),
        "json call": JsonCall(then="in list"),
        "in list": Gap(_LFM2_IN_LIST, junk=_BETWEEN_CALLS, otherwise="next call", trailing=True),
        "next call": PythonCall(then="in list", otherwise="answer"),
        "after list": Gap(_LFM2_IN_LIST, otherwise="answer", trailing=True),
        # These models sometimes write a block's list once more behind its end, with an end of its own but no start.
        # It is the same calls again: made twice they could do harm, so up to that end they are markup.
        "after block": Gap({"[": Rule("echo"), _LFM2_OPENING: Rule("calls")}, otherwise="answer", trailing=True),
        "echo": Name(
            {"(": Rule("echoed arguments")},
            otherwise="answer",
            pattern=re.compile(r"(?P<name>[\w.\-]+)"),
            possible=re.compile(r"[\w.\-]*"),
        ),
        "echoed arguments": Header({_LFM2_CLOSING: Rule("answer")}, routes=((re.compile(r".*", re.DOTALL), "answer"),)),
        "answer": Prose({_LFM2_OPENING: Rule("calls"), _LFM2_CLOSING: Rule("answer")}),
    },
)

FORMATS = (PYTHONIC, LLAMA4_PYTHONIC, OLMO3, LFM2)
