"""Formats with `<invoke name="N">` and `<parameter name="k">` tags, whose values the schema types."""

from __future__ import annotations

import re

from extproc.toolcalls.formats.shapes import invoke_parameter, prose
from extproc.toolcalls.json_call import JsonCall
from extproc.toolcalls.table import Format, Gap, Rule
from extproc.toolcalls.tagged import Trim

_MINIMAX = {"<minimax:tool_call>": Rule("section"), "</minimax:tool_call>": Rule("prose")}

MINIMAX_M2 = Format(
    name="minimax_m2",
    title="<invoke> and <parameter> tags in <minimax:tool_call>",
    models=("MiniMax M2 to M2.7",),
    aliases=("minimax-m2",),
    example=(
        '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n'
        "</invoke>\n</minimax:tool_call>"
    ),
    thinking="thinking",
    states={
        **prose({"<minimax:tool_call>": Rule("section")}),
        **invoke_parameter("invoke", "parameter", _MINIMAX),
    },
)

_DOTS = {"<dots_function_call>": Rule("section"), "</dots_function_call>": Rule("prose")}

DOTS = Format(
    name="dots",
    title="<invoke> and <parameter> tags, or JSON, in <dots_function_call>",
    models=("dots.llm",),
    example=(
        '<dots_function_call><invoke name="get_weather"><parameter name="city">Paris</parameter>'
        "</invoke></dots_function_call>"
    ),
    thinking="thinking",
    states={
        **prose({"<dots_function_call>": Rule("section")}),
        **invoke_parameter("invoke", "parameter", _DOTS),
        "section": Gap({"<invoke name=": Rule("name"), **dict.fromkeys("{[", Rule("json call", keep=True)), **_DOTS}),
        "json call": JsonCall(then="after json call"),
        "after json call": Gap(
            {"{": Rule("json call", keep=True), "<invoke name=": Rule("name"), **_DOTS},
            junk=re.compile(r"[\s,}\]]*"),
            trailing=True,
        ),
    },
)

_STEP3 = {
    "<｜tool_calls_begin｜>": Rule("section"),
    "<｜tool_call_begin｜>": Rule("section"),
    "<｜tool_sep｜>": Rule("section"),
    "<｜tool_call_end｜>": Rule("section end"),
    "<｜tool_calls_end｜>": Rule("prose"),
}

STEP3 = Format(
    name="step3",
    title="<steptml:invoke> and <steptml:parameter> tags behind `function`",
    models=("Step-3",),
    example=(
        "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>"
        '<steptml:invoke name="get_weather"><steptml:parameter name="city">Paris</steptml:parameter></steptml:invoke>'
        "<｜tool_call_end｜><｜tool_calls_end｜>"
    ),
    thinking="thinking",
    states={
        **prose({"<｜tool_calls_begin｜>": Rule("section"), "<｜tool_call_begin｜>": Rule("section")}),
        **invoke_parameter("steptml:invoke", "steptml:parameter", _STEP3),
        "section": Gap({"<steptml:invoke name=": Rule("name"), "function": Rule("section"), **_STEP3}),
        "section end": Gap(_STEP3, trailing=True),
    },
)

MINICPM5 = Format(
    name="minicpm5",
    title="<function> and <param> tags",
    models=("MiniCPM 5",),
    example='<function name="get_weather"><param name="city">Paris</param></function>',
    thinking="thinking",
    states={
        **prose({"<function name=": Rule("name"), "<functionname=": Rule("name")}),
        **invoke_parameter(
            "function",
            "param",
            {"<functionname=": Rule("name")},
            trim=Trim.CDATA,
            spellings=("<paramname=",),
        ),
    },
)

FORMATS = (
    MINIMAX_M2,
    DOTS,
    STEP3,
    MINICPM5,
)
