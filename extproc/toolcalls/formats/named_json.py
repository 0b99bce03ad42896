"""Formats that write a call's name, a separator, and the arguments as a JSON object of their own."""

from __future__ import annotations

import re

from extproc.toolcalls.formats.left_over import with_fences, with_left_over_tokens
from extproc.toolcalls.formats.shapes import named_json, prose
from extproc.toolcalls.states import State
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.table import Behind, Format, Gap, Marker, Name, Prose, Transition, Variant

_KIMI_SECTIONS = {
    "<|tool_calls_section_begin|>": Transition(State.SECTION),
    "<|tool_call_section_begin|>": Transition(State.SECTION),
}
_KIMI_ENDS = {
    "<|tool_calls_section_end|>": Transition(State.PROSE),
    "<|tool_call_section_end|>": Transition(State.PROSE),
}
_KIMI_CALL = {"<|tool_call_begin|>": Transition(State.NAME)}
_KIMI_ARGUMENTS = {"<|tool_call_argument_begin|>": Transition(State.TAG_SAID, Marker.SHOWN)}
_KIMI_TEXT = {
    **_KIMI_SECTIONS,
    **_KIMI_CALL,
    "<think>": Transition(State.THINKING),
    "</think>": Transition(State.PROSE),
}

KIMI_K2 = Format(
    name="kimi_k2",
    title="functions.NAME:INDEX and a JSON object between markers",
    models=("Kimi K2 to K2.7",),
    example=(
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
        '{"city": "Paris"}<|tool_call_end|><|tool_calls_section_end|>'
    ),
    thinking=State.THINKING,
    syntax=CallSyntax(
        opening="<|tool_calls_section_begin|>",
        begin="<|tool_call_begin|>functions.{name}:{index}<|tool_call_argument_begin|>",
        end="<|tool_call_end|>",
        separator="",
        closing="<|tool_calls_section_end|>",
        result_tag=("## Return of functions.{name}:{index}\n", ""),
    ),
    states=with_fences(
        with_left_over_tokens(
            {
                **prose({**_KIMI_SECTIONS, **_KIMI_CALL}),
                State.PROSE: Prose({**_KIMI_TEXT, **_KIMI_ARGUMENTS}),
                # Of a call whose beginning never came all is text.
                State.TAG_SAID: Prose(
                    {
                        **_KIMI_TEXT,
                        **_KIMI_ARGUMENTS,
                        "<|tool_call_end|>": Transition(State.TAG_SAID, Marker.SHOWN),
                        **dict.fromkeys(_KIMI_ENDS, Transition(State.PROSE, Marker.SHOWN)),
                    }
                ),
                State.SECTION: Gap({**_KIMI_CALL, **_KIMI_SECTIONS, **_KIMI_ENDS}, hides_markers=True),
                **named_json(
                    {},
                    _KIMI_CALL,
                    {"<|tool_call_end|>": Transition(State.AFTER_CALL), **_KIMI_ENDS},
                    name=Name(
                        {"<|tool_call_argument_begin|>": Transition(State.BEFORE_ARGUMENTS)},
                        otherwise=State.BROKEN_CALL,
                        # The index counts over the whole conversation; the name is all that stands before it.
                        pattern=re.compile(r"\s*(?:functions\.)?(?P<name>[\w.\-]{1,256}?)(?::\d+)?\s*"),
                        hides_markers=True,
                    ),
                ),
                State.AFTER_CALL: Gap({**_KIMI_CALL, **_KIMI_ENDS, **_KIMI_SECTIONS}, behind=Behind.CALL),
                State.BROKEN_CALL: Prose(
                    {
                        "<|tool_call_argument_begin|>": Transition(State.BROKEN_CALL),
                        "<|tool_call_end|>": Transition(State.AFTER_CALL),
                        **_KIMI_ENDS,
                        **_KIMI_CALL,
                    }
                ),
            },
            *_KIMI_ENDS,
            "<|tool_call_end|>",
        )
    ),
)

_V3_SECTION = {"<｜tool▁calls▁begin｜>": Transition(State.SECTION)}
_V3_CALL = {"<｜tool▁call▁begin｜>": Transition(State.KIND)}
_V3_END = {"<｜tool▁calls▁end｜>": Transition(State.PROSE)}
_V3_STATES = with_fences(
    with_left_over_tokens(
        {
            **prose({**_V3_SECTION, **_V3_CALL}),
            State.SECTION: Gap({**_V3_CALL, **_V3_SECTION, **_V3_END}, hides_markers=True),
            # V3 writes `function` before the separator and the name behind it, V3.1 the name before it.
            State.KIND: Gap({"function<｜tool▁sep｜>": Transition(State.NAME)}, otherwise=State.NAME_BEFORE),
            State.NAME_BEFORE: Name({"<｜tool▁sep｜>": Transition(State.BEFORE_ARGUMENTS)}),
            **named_json(
                {
                    "\n": Transition(State.BEFORE_ARGUMENTS),
                    "```": Transition(State.BEFORE_ARGUMENTS, Marker.KEPT),
                    "{": Transition(State.ARGUMENTS, Marker.KEPT),
                    "<｜tool▁call▁end｜>": Transition(State.AFTER_CALL, ends_call=True),
                },
                _V3_CALL,
                {"<｜tool▁call▁end｜>": Transition(State.AFTER_CALL), **_V3_END},
            ),
            State.AFTER_CALL: Gap({**_V3_CALL, **_V3_END, **_V3_SECTION}, behind=Behind.CALL),
        },
        *_V3_END,
        "<｜tool▁call▁end｜>",
    )
)

DEEPSEEK_V3 = Format(
    name="deepseek_v3",
    title="a name and a fenced JSON object between markers",
    models=("DeepSeek-V3-0324", "DeepSeek-R1-0528", "Cogito v2 671B"),
    aliases=("deepseekv3", "cogito"),
    example=(
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n"
        '```json\n{"city": "Paris"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
    ),
    thinking=State.THINKING,
    syntax=CallSyntax(
        opening="<｜tool▁calls▁begin｜>",
        begin="<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n",
        end="\n```<｜tool▁call▁end｜>",
        closing="<｜tool▁calls▁end｜>",
    ),
    states=_V3_STATES,
    variants=(
        Variant(
            name="deepseek_v31",
            title="a name and a JSON object between markers",
            models=("DeepSeek-V3.1", "DeepSeek-V3.2-Exp"),
            aliases=("deepseekv31",),
            example=(
                "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"
                '{"city": "Paris"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
            ),
            syntax=CallSyntax(
                opening="<｜tool▁calls▁begin｜>",
                begin="<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>",
                end="<｜tool▁call▁end｜>",
                separator="",
                closing="<｜tool▁calls▁end｜>",
            ),
        ),
    ),
)

FORMATS = (
    KIMI_K2,
    DEEPSEEK_V3,
)
