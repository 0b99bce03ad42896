"""Formats that write a call's name, a separator, and the arguments as a JSON object of their own."""

from __future__ import annotations

import re

from extproc.toolcalls.formats.shapes import json_array, named_json, prose
from extproc.toolcalls.json_arguments import JsonArguments
from extproc.toolcalls.table import Format, Gap, Name, Prose, Rule

_KIMI_SECTIONS = {
    "<|tool_calls_section_begin|>": Rule("section"),
    "<|tool_call_section_begin|>": Rule("section"),
}
_KIMI_ENDS = {"<|tool_calls_section_end|>": Rule("prose"), "<|tool_call_section_end|>": Rule("prose")}
_KIMI_CALL = {"<|tool_call_begin|>": Rule("name")}

KIMI_K2 = Format(
    name="kimi_k2",
    title="functions.NAME:INDEX and a JSON object between markers",
    models=("Kimi K2 to K2.7",),
    example=(
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
        '{"city": "Paris"}<|tool_call_end|><|tool_calls_section_end|>'
    ),
    thinking="thinking",
    states={
        **prose({**_KIMI_SECTIONS, **_KIMI_CALL}),
        "section": Gap({**_KIMI_CALL, **_KIMI_ENDS}),
        **named_json(
            {},
            _KIMI_CALL,
            {"<|tool_call_end|>": Rule("after call"), **_KIMI_ENDS},
            name=Name(
                {"<|tool_call_argument_begin|>": Rule("before arguments")},
                otherwise="broken call",
                # The index counts over the whole conversation; the name is all that stands before it.
                pattern=re.compile(r"\s*(?:functions\.)?(?P<name>[\w.\-]{1,256}?)(?::\d+)?\s*"),
                hides_markers=True,
            ),
        ),
        "after call": Gap({**_KIMI_CALL, **_KIMI_ENDS, **_KIMI_SECTIONS}, trailing=True),
        "broken call": Prose(
            {
                "<|tool_call_argument_begin|>": Rule("broken call"),
                "<|tool_call_end|>": Rule("after call"),
                **_KIMI_ENDS,
                **_KIMI_CALL,
            }
        ),
    },
)

_V3_SECTION = {"<｜tool▁calls▁begin｜>": Rule("section")}
_V3_CALL = {"<｜tool▁call▁begin｜>": Rule("kind")}
_V3_END = {"<｜tool▁calls▁end｜>": Rule("prose")}
_V3_STATES = {
    **prose({**_V3_SECTION, **_V3_CALL}),
    "section": Gap({**_V3_CALL, **_V3_END}),
    # V3 writes `function` before the separator and the name behind it, V3.1 the name before it.
    "kind": Gap({"function<｜tool▁sep｜>": Rule("name")}, otherwise="name before"),
    "name before": Name({"<｜tool▁sep｜>": Rule("before arguments")}),
    **named_json(
        {
            "\n": Rule("before arguments"),
            "```": Rule("before arguments", keep=True),
            "{": Rule("arguments", keep=True),
            "<｜tool▁call▁end｜>": Rule("after call", ends_call=True),
        },
        _V3_CALL,
        {"<｜tool▁call▁end｜>": Rule("after call"), **_V3_END},
    ),
    "after call": Gap({**_V3_CALL, **_V3_END, **_V3_SECTION}, trailing=True),
}

DEEPSEEK_V3 = Format(
    name="deepseek_v3",
    title="a name and a fenced JSON object between markers",
    models=("DeepSeek-V3-0324", "DeepSeek-R1-0528"),
    aliases=("deepseekv3",),
    example=(
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n"
        '```json\n{"city": "Paris"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
    ),
    thinking="thinking",
    states=_V3_STATES,
)

DEEPSEEK_V31 = Format(
    name="deepseek_v31",
    title="a name and a JSON object between markers",
    models=("DeepSeek-V3.1", "DeepSeek-V3.2-Exp"),
    aliases=("deepseekv31",),
    example=(
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"
        '{"city": "Paris"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
    ),
    thinking="thinking",
    states=_V3_STATES,
)

_MISTRAL = {"[TOOL_CALLS]": Rule("call")}

MISTRAL = Format(
    name="mistral",
    title="NAME[ARGS] and a JSON object, or a JSON array, behind [TOOL_CALLS]",
    models=("Mistral", "Magistral", "Devstral", "Ministral 3"),
    example='[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}',
    thinking="thinking",
    states={
        **prose(_MISTRAL, ("[THINK]", "[/THINK]")),
        "call": Gap(
            {"[": Rule("calls"), "{": Rule("array call", keep=True)},
            otherwise="name",
        ),
        **json_array("[TOOL_CALLS]", None),
        **named_json(
            {},
            {},
            _MISTRAL,
            ends_with_output=True,
            name=Name(
                {
                    "[ARGS]": Rule("before arguments"),
                    "[CALL_ID]": Rule("id"),
                    "{": Rule("arguments", keep=True),
                    "[TOOL_CALLS]": Rule("call", ends_call=True),
                },
                ends_with_output=True,
            ),
        ),
        "id": Gap({"[ARGS]": Rule("arguments"), "{": Rule("arguments", keep=True)}, junk=re.compile(r"[\sa-zA-Z0-9]*")),
    },
)

_PLAMO_CALL = {"<|plamo:begin_tool_request:plamo|>": Rule("request"), "<|plamo:begin_tool_name:plamo|>": Rule("name")}
_PLAMO_ENDS = {
    "<|plamo:end_tool_arguments:plamo|>": Rule("after call"),
    "<|plamo:end_tool_request:plamo|>": Rule("after call"),
    "<|plamo:end_tool_requests:plamo|>": Rule("prose"),
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
    thinking="thinking",
    states={
        **prose(
            {"<|plamo:begin_tool_requests:plamo|>": Rule("section"), "<|plamo:end_think:plamo|>": Rule("prose")},
            ("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"),
        ),
        "section": Gap({**_PLAMO_CALL, **_PLAMO_ENDS}),
        "request": Gap(_PLAMO_CALL),
        "name": Name({"<|plamo:end_tool_name:plamo|>": Rule("before arguments")}, ends_with_output=True),
        "before arguments": Gap(
            {
                "<|plamo:begin_tool_arguments:plamo|>": Rule("before arguments"),
                "<|plamo:constrain|>": Rule("before arguments"),
                "json": Rule("before arguments"),
                "<|plamo:msg|>": Rule("before arguments"),
                "{": Rule("arguments", keep=True),
                **{marker: Rule(rule.to, ends_call=True) for marker, rule in _PLAMO_ENDS.items()},
            },
        ),
        "arguments": JsonArguments(then="after call"),
        "after call": Gap({**_PLAMO_CALL, **_PLAMO_ENDS}, junk=re.compile(r"[\s}\]]*"), trailing=True),
    },
)

FORMATS = (
    KIMI_K2,
    DEEPSEEK_V3,
    DEEPSEEK_V31,
    MISTRAL,
    PLAMO3,
)
