"""Formats that write a call's name, a separator, and the arguments as a JSON object of their own."""

from __future__ import annotations

import re

from extproc.toolcalls.formats.shapes import json_array, named_json, prose
from extproc.toolcalls.json_arguments import JsonArguments
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
    states={
        **prose({**_KIMI_SECTIONS, **_KIMI_CALL}),
        State.SECTION: Gap({**_KIMI_CALL, **_KIMI_ENDS}),
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
)

_V3_SECTION = {"<｜tool▁calls▁begin｜>": Transition(State.SECTION)}
_V3_CALL = {"<｜tool▁call▁begin｜>": Transition(State.KIND)}
_V3_END = {"<｜tool▁calls▁end｜>": Transition(State.PROSE)}
_V3_STATES = {
    **prose({**_V3_SECTION, **_V3_CALL}),
    State.SECTION: Gap({**_V3_CALL, **_V3_END}),
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
}

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

_MISTRAL = {"[TOOL_CALLS]": Transition(State.CALL)}

_MISTRAL_TOKENS = tuple(
    f"[{slash}{word}]"
    for word in ("INST", "AVAILABLE_TOOLS", "TOOL_RESULTS", "SYSTEM_PROMPT", "MODEL_SETTINGS", "THINK")
    for slash in ("", "/")
) + tuple(
    f"[{word}]"
    for word in (
        *("TOOL_CALLS", "TOOL_CONTENT", "ARGS", "CALL_ID", "PREFIX", "MIDDLE", "SUFFIX"),
        *("IMG", "IMG_BREAK", "IMG_END", "AUDIO", "BEGIN_AUDIO", "TRANSCRIBE"),
    )
)

MISTRAL = Format(
    name="mistral",
    title="NAME[ARGS] and a JSON object, or a JSON array, behind [TOOL_CALLS]",
    models=("Mistral", "Magistral", "Devstral", "Ministral 3"),
    example='[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}',
    thinking=State.THINKING,
    # As its tokenizers write it from v13 on; v11 has an id before the arguments, older ones an array.
    syntax=CallSyntax(begin="[TOOL_CALLS]{name}[ARGS]", end="", separator="", turn_tokens=_MISTRAL_TOKENS),
    states={
        **prose(_MISTRAL, ("[THINK]", "[/THINK]")),
        State.CALL: Gap(
            {"[": Transition(State.CALLS), "{": Transition(State.ARRAY_CALL, Marker.KEPT)},
            otherwise=State.NAME,
        ),
        **json_array("[TOOL_CALLS]", None),
        **named_json(
            {},
            {},
            _MISTRAL,
            ends_with_output=True,
            name=Name(
                {
                    "[ARGS]": Transition(State.BEFORE_ARGUMENTS),
                    "[CALL_ID]": Transition(State.ID),
                    "{": Transition(State.ARGUMENTS, Marker.KEPT),
                    "[TOOL_CALLS]": Transition(State.CALL, ends_call=True),
                },
                ends_with_output=True,
            ),
        ),
        State.ID: Gap(
            {"[ARGS]": Transition(State.ARGUMENTS), "{": Transition(State.ARGUMENTS, Marker.KEPT)},
            junk=re.compile(r"[\sa-zA-Z0-9]*"),
        ),
    },
)

_PLAMO_CALL = {
    "<|plamo:begin_tool_request:plamo|>": Transition(State.BLOCK),
    "<|plamo:begin_tool_name:plamo|>": Transition(State.NAME),
}
_PLAMO_ENDS = {
    "<|plamo:end_tool_arguments:plamo|>": Transition(State.AFTER_CALL),
    "<|plamo:end_tool_request:plamo|>": Transition(State.AFTER_CALL),
    "<|plamo:end_tool_requests:plamo|>": Transition(State.PROSE),
}

PLAMO3 = Format(
    name="plamo3",
    title="a name and a JSON object between markers of their own",
    models=("PLaMo 3",),
    example=(
        "<|plamo:begin_tool_requests:plamo|><|plamo:begin_tool_request:plamo|>"
        "<|plamo:begin_tool_name:plamo|>get_weather<|plamo:end_tool_name:plamo|>"
        '<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>{"city": "Paris"}'
        "<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|><|plamo:end_tool_requests:plamo|>"
    ),
    thinking=State.THINKING,
    syntax=CallSyntax(
        opening="<|plamo:begin_tool_requests:plamo|>",
        begin=(
            "<|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>{name}<|plamo:end_tool_name:plamo|>"
            "<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>"
        ),
        end="<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>",
        separator="",
        closing="<|plamo:end_tool_requests:plamo|>",
    ),
    states={
        **prose(
            {
                "<|plamo:begin_tool_requests:plamo|>": Transition(State.SECTION),
                "<|plamo:end_think:plamo|>": Transition(State.PROSE),
            },
            ("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"),
        ),
        State.SECTION: Gap({**_PLAMO_CALL, **_PLAMO_ENDS}),
        State.BLOCK: Gap(_PLAMO_CALL),
        State.NAME: Name({"<|plamo:end_tool_name:plamo|>": Transition(State.BEFORE_ARGUMENTS)}, ends_with_output=True),
        State.BEFORE_ARGUMENTS: Gap(
            {
                "<|plamo:begin_tool_arguments:plamo|>": Transition(State.BEFORE_ARGUMENTS),
                "<|plamo:constrain|>": Transition(State.BEFORE_ARGUMENTS),
                "json": Transition(State.BEFORE_ARGUMENTS),
                "<|plamo:msg|>": Transition(State.BEFORE_ARGUMENTS),
                "{": Transition(State.ARGUMENTS, Marker.KEPT),
                **{marker: Transition(rule.to, ends_call=True) for marker, rule in _PLAMO_ENDS.items()},
            },
            otherwise=State.ARGUMENTS,
        ),
        State.ARGUMENTS: JsonArguments(then=State.AFTER_CALL),
        State.AFTER_CALL: Gap({**_PLAMO_CALL, **_PLAMO_ENDS}, junk=re.compile(r"[\s}\]]*"), behind=Behind.CALL),
    },
)

FORMATS = (
    KIMI_K2,
    DEEPSEEK_V3,
    MISTRAL,
    PLAMO3,
)
