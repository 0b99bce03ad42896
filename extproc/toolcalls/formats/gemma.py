"""Gemma's own notation: `call:NAME{key:value}`, in which strings stand between markers.

Gemma 4 ends a call with a marker and then stops at `<|tool_response>`; it may think in a channel of its own.
FunctionGemma is the same with other markers. Gemma 3 has no notation of its own.
"""

from __future__ import annotations

import re

from extproc.toolcalls.formats.shapes import States
from extproc.toolcalls.loose_object import LooseArguments
from extproc.toolcalls.table import Format, Gap, Name, Prose, Rule, Rules, Sink

# The word before the name may be missing, and the object may stand in brackets.
_NAME = re.compile(r"\s*(?:(?:call\s*)?:\s*)?(?P<name>[^\s{}<>():][^\s{}<>()]{0,255})\s*\(?\s*")
_POSSIBLE_NAME = re.compile(r"\s*(?:call\s*)?(?::\s*)?[^\s{}<>()]*\s*\(?\s*")


def _call(opening: str, closing: str, response: str, delimiter: str) -> States:
    """`OPENING call:NAME{...} CLOSING`, at the end perhaps the marker that asks for the response. Entry: "name"."""
    after: Rules = {opening: Rule("name"), response: Rule("prose")}
    return {
        "name": Name(
            {"{": Rule("arguments", keep=True), closing: Rule("after block", ends_call=True)},
            pattern=_NAME,
            possible=_POSSIBLE_NAME,
        ),
        "arguments": LooseArguments(then="after call", delimiter=delimiter),
        "after call": Gap({**after, closing: Rule("after block")}, junk=re.compile(r"[\s})]*"), trailing=True),
        "after block": Gap(after, trailing=True),
    }


_CALL: Rules = {"<|tool_call>": Rule("name")}
_END_OF_THINKING: Rules = {"<channel|>": Rule("prose")}

GEMMA4 = Format(
    name="gemma4",
    title='call:NAME{key:<|"|>text<|"|>} between markers',
    models=("Gemma 4",),
    example='<|tool_call>call:get_weather{city:<|"|>Paris<|"|>}<tool_call|>',
    thinking="thinking",
    states={
        "prose": Prose(
            {**_CALL, "<|channel>thought\n": Rule("thinking"), "<|channel>thought": Rule("thinking")},
        ),
        "thinking": Prose({**_CALL, **_END_OF_THINKING}, Sink.REASONING),
        **_call("<|tool_call>", "<tool_call|>", "<|tool_response>", '<|"|>'),
    },
)

FUNCTIONGEMMA = Format(
    name="functiongemma",
    title="as gemma4, with other markers",
    models=("FunctionGemma",),
    example="<start_function_call>call:get_weather{city:<escape>Paris<escape>}<end_function_call>",
    states={
        "prose": Prose({"<start_function_call>": Rule("name")}),
        **_call("<start_function_call>", "<end_function_call>", "<start_function_response>", "<escape>"),
    },
)

FORMATS = (GEMMA4, FUNCTIONGEMMA)
