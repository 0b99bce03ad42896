"""Formats with `<invoke name="N">` and `<parameter name="k">` tags, whose values the schema types."""

from __future__ import annotations

import re

from extproc.toolcalls.formats.shapes import invoke_parameter, prose
from extproc.toolcalls.json_call import JsonCall
from extproc.toolcalls.states import State
from extproc.toolcalls.syntax.arguments import Elements
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.table import Behind, Format, Gap, Marker, Transition
from extproc.toolcalls.tagged import Trim

_MINIMAX = {"<minimax:tool_call>": Transition(State.SECTION), "</minimax:tool_call>": Transition(State.PROSE)}

MINIMAX_M2 = Format(
    name="minimax_m2",
    title="<invoke> and <parameter> tags in <minimax:tool_call>",
    models=("MiniMax M2 to M2.7",),
    aliases=("minimax-m2",),
    example=(
        '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n'
        "</invoke>\n</minimax:tool_call>"
    ),
    thinking=State.THINKING,
    syntax=CallSyntax(
        opening="<minimax:tool_call>\n",
        begin='<invoke name="{name}">\n',
        arguments=Elements("minimax_xml", '<parameter name="{key}">', "</parameter>\n"),
        end="</invoke>\n",
        separator="",
        closing="</minimax:tool_call>",
        result_tag=("<response>", "</response>"),
        turn_tokens=("]~b]", "]~!b[", "[e~[", "]!p~[", "]!d~[", "]<]", "</minimax:", "<minimax:"),
    ),
    states={
        **prose({"<minimax:tool_call>": Transition(State.SECTION)}),
        **invoke_parameter("invoke", "parameter", _MINIMAX),
    },
)

_DOTS = {"<dots_function_call>": Transition(State.SECTION), "</dots_function_call>": Transition(State.PROSE)}

DOTS = Format(
    name="dots",
    title="<invoke> and <parameter> tags, or JSON, in <dots_function_call>",
    models=("dots.llm",),
    example=(
        '<dots_function_call><invoke name="get_weather"><parameter name="city">Paris</parameter>'
        "</invoke></dots_function_call>"
    ),
    thinking=State.THINKING,
    syntax=CallSyntax(
        opening="<dots_function_call>",
        begin='<invoke name="{name}">',
        arguments=Elements("minimax_xml", '<parameter name="{key}">', "</parameter>"),
        end="</invoke>",
        separator="",
        closing="</dots_function_call>",
    ),
    states={
        **prose({"<dots_function_call>": Transition(State.SECTION)}),
        **invoke_parameter("invoke", "parameter", _DOTS),
        State.SECTION: Gap(
            {
                "<invoke name=": Transition(State.NAME),
                **dict.fromkeys("{[", Transition(State.JSON_CALL, Marker.KEPT)),
                **_DOTS,
            }
        ),
        State.JSON_CALL: JsonCall(then=State.AFTER_JSON_CALL),
        State.AFTER_JSON_CALL: Gap(
            {"{": Transition(State.JSON_CALL, Marker.KEPT), "<invoke name=": Transition(State.NAME), **_DOTS},
            junk=re.compile(r"[\s,}\]]*"),
            behind=Behind.CALL,
        ),
    },
)

_STEP3 = {
    "<｜tool_calls_begin｜>": Transition(State.SECTION),
    "<｜tool_call_begin｜>": Transition(State.SECTION),
    "<｜tool_sep｜>": Transition(State.SECTION),
    "<｜tool_call_end｜>": Transition(State.SECTION_END),
    "<｜tool_calls_end｜>": Transition(State.PROSE),
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
    thinking=State.THINKING,
    syntax=CallSyntax(
        opening="<｜tool_calls_begin｜>",
        begin='<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{name}">',
        arguments=Elements(None, '<steptml:parameter name="{key}">', "</steptml:parameter>"),
        end="</steptml:invoke><｜tool_call_end｜>",
        separator="",
        closing="<｜tool_calls_end｜>",
    ),
    states={
        **prose(
            {"<｜tool_calls_begin｜>": Transition(State.SECTION), "<｜tool_call_begin｜>": Transition(State.SECTION)}
        ),
        **invoke_parameter("steptml:invoke", "steptml:parameter", _STEP3),
        State.SECTION: Gap(
            {"<steptml:invoke name=": Transition(State.NAME), "function": Transition(State.SECTION), **_STEP3}
        ),
        State.SECTION_END: Gap(_STEP3, behind=Behind.CALL),
    },
)


def _cdata_if_needed(text: str) -> str:
    """What XML can't hold as it is stands in a CDATA section."""
    return f"<![CDATA[{text}]]>" if set(text) & set("<&\n") else text


MINICPM5 = Format(
    name="minicpm5",
    title="<function> and <param> tags",
    models=("MiniCPM 5",),
    example='<function name="get_weather"><param name="city">Paris</param></function>',
    thinking=State.THINKING,
    syntax=CallSyntax(
        begin='<function name="{name}">',
        arguments=Elements(None, '<param name="{key}">', "</param>", spell_string=_cdata_if_needed),
        end="</function>",
        separator="",
    ),
    states={
        **prose({"<function name=": Transition(State.NAME), "<functionname=": Transition(State.NAME)}),
        **invoke_parameter(
            "function",
            "param",
            {"<functionname=": Transition(State.NAME)},
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
