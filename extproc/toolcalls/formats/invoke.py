"""Formats with `<invoke name="N">` and `<parameter name="k">` tags, whose values the schema types."""

from __future__ import annotations

import re

from extproc.toolcalls.formats.left_over import with_fences, with_left_over_tags, with_left_over_tokens
from extproc.toolcalls.formats.shapes import States, invoke_parameter, prose
from extproc.toolcalls.notations.json_call import JsonCall
from extproc.toolcalls.notations.tagged import Trim
from extproc.toolcalls.states import State
from extproc.toolcalls.syntax.arguments import Elements
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.table import Behind, Format, Gap, Marker, Transition


def _states(opening: str, closing: str) -> States:
    """Invocations, or JSON, in a section. Without one only those of offered tools: such tags may stand in any text."""
    sections = {opening: Transition(State.SECTION), closing: Transition(State.PROSE)}
    invoke = {"<invoke name=": Transition(State.NAME)}
    states = {
        **prose({opening: Transition(State.SECTION), "<invoke name=": Transition(State.UNWRAPPED_NAME)}),
        **invoke_parameter("invoke", "parameter", sections),
        State.SECTION: Gap({**invoke, **dict.fromkeys("{[", Transition(State.JSON_CALL, Marker.KEPT)), **sections}),
        State.JSON_CALL: JsonCall(then=State.AFTER_JSON_CALL),
        State.AFTER_JSON_CALL: Gap(
            {"{": Transition(State.JSON_CALL, Marker.KEPT), **invoke, **sections},
            junk=re.compile(r"[\s,}\]]*"),
            behind=Behind.CALL,
        ),
    }
    return with_fences(with_left_over_tags(states, closing))


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
    states=_states("<minimax:tool_call>", "</minimax:tool_call>"),
)

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
    states=_states("<dots_function_call>", "</dots_function_call>"),
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
    title="<steptml:invoke> and <steptml:parameter> tags after `function`",
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
    states=with_fences(
        with_left_over_tokens(
            {
                **prose(
                    {
                        "<｜tool_calls_begin｜>": Transition(State.SECTION),
                        "<｜tool_call_begin｜>": Transition(State.SECTION),
                        "<steptml:invoke name=": Transition(State.NAME),
                    }
                ),
                **invoke_parameter("steptml:invoke", "steptml:parameter", _STEP3),
                State.SECTION: Gap(
                    {"<steptml:invoke name=": Transition(State.NAME), "function": Transition(State.SECTION), **_STEP3},
                    hides_markers=True,
                ),
                State.SECTION_END: Gap(_STEP3, behind=Behind.CALL),
            },
            "<｜tool_calls_end｜>",
            "<｜tool_call_end｜>",
        )
    ),
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
