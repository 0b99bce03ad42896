"""Formats whose calls are JSON objects between two markers, with name and arguments inside."""

from __future__ import annotations

import re

from extproc.toolcalls.formats.left_over import with_fences, with_left_over_tags, with_left_over_tokens
from extproc.toolcalls.formats.shapes import function_parameter, json_block, prose
from extproc.toolcalls.notations.json_call import JsonCall
from extproc.toolcalls.states import State
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.syntax.shapes import TOOL_RESPONSE, call_object, object_in_tags
from extproc.toolcalls.table import Behind, Format, Gap, Marker, Transition

_OBJECT = '{"name": "get_weather", "arguments": {"city": "Paris"}}'


GRANITE4 = Format(
    name="granite4",
    title="a JSON object in <tool_call> tags",
    models=("Granite 4.0",),
    example=f"<tool_call>\n{_OBJECT}\n</tool_call>",
    thinking=State.THINKING,
    syntax=object_in_tags("tool_call", result_tag=TOOL_RESPONSE),
    states=with_fences(
        with_left_over_tags(
            {**prose({"<tool_call>": Transition(State.BLOCK)}), **function_parameter("<tool_call>", "</tool_call>")},
            "</tool_call>",
        )
    ),
)

ERNIE45 = Format(
    name="ernie45",
    title="a JSON object in <tool_call> tags, text in <response>",
    models=("ERNIE 4.5", "ERNIE X1"),
    example=f"<tool_call>\n{_OBJECT}\n</tool_call>\n",
    thinking=State.THINKING,
    syntax=CallSyntax(
        begin=f"<tool_call>\n{call_object()}", end="}\n</tool_call>\n", separator="", turn_tokens=("<mask:",)
    ),
    states=with_fences(
        with_left_over_tags(
            {
                **prose(
                    {
                        "<tool_call>": Transition(State.BLOCK),
                        "<response>\n": Transition(State.PROSE),
                        "<response>": Transition(State.PROSE),
                        "\n</response>": Transition(State.PROSE),
                        "</response>": Transition(State.PROSE),
                    }
                ),
                **function_parameter("<tool_call>", "</tool_call>"),
            },
            "</tool_call>",
        )
    ),
)

GRANITE_20B_FC = Format(
    name="granite-20b-fc",
    title="JSON objects, each after <function_call>",
    models=("Granite 20B function calling",),
    aliases=("granite_20b_fc",),
    example=f"<function_call> {_OBJECT}",
    syntax=CallSyntax(begin=f"<function_call> {call_object()}", end="}", result_tag=("<function_response> ", "")),
    states={**prose({"<function_call>": Transition(State.CALL)}, None), **json_block("<function_call>", None)},
)

INTERNLM = Format(
    name="internlm",
    title="a JSON object between <|action_start|><|plugin|> and <|action_end|>",
    models=("InternLM 2.5", "Intern-S1"),
    aliases=("internlm2", "interns1"),
    example=f"<|action_start|><|plugin|>{_OBJECT.replace('arguments', 'parameters')}<|action_end|>",
    thinking=State.THINKING,
    syntax=CallSyntax(
        begin=f"<|action_start|><|plugin|>\n{call_object(arguments='parameters')}", end="}<|action_end|>", separator=""
    ),
    states=with_left_over_tokens(
        {
            **prose({"<|action_start|>": Transition(State.BLOCK)}),
            State.BLOCK: Gap(
                {
                    "<|plugin|>": Transition(State.CALL),
                    "{": Transition(State.CALL, Marker.KEPT),
                    "<|action_end|>": Transition(State.PROSE),
                }
            ),
            State.CALL: JsonCall(then=State.AFTER_CALL),
            State.AFTER_CALL: Gap(
                {"<|action_end|>": Transition(State.PROSE), "<|action_start|>": Transition(State.BLOCK)},
                junk=re.compile(r"[\s}\]]*"),
                behind=Behind.CALL,
            ),
        },
        "<|action_end|>",
    ),
)

_GIGACHAT_OPENERS = {
    "<|function_call|>": Transition(State.CALL),
    "<|message_sep|>\n\nfunction call<|role_sep|>": Transition(State.CALL),
    "function call<|role_sep|>": Transition(State.CALL),
}

GIGACHAT3 = Format(
    name="gigachat3",
    title="a JSON object after <|function_call|>, or in a message of its own",
    models=("GigaChat 3",),
    example=f"<|function_call|>{_OBJECT}",
    syntax=CallSyntax(begin=f"<|function_call|>{call_object()}", end="}"),
    states={
        **prose(
            {**_GIGACHAT_OPENERS, "<|message_sep|>": Transition(State.PROSE), "</s>": Transition(State.PROSE)}, None
        ),
        State.CALL: JsonCall(then=State.AFTER_CALL),
        State.AFTER_CALL: Gap(
            {**_GIGACHAT_OPENERS, "</s>": Transition(State.PROSE), "<|message_sep|>": Transition(State.PROSE)},
            junk=re.compile(r"[\s}\]]*"),
            behind=Behind.CALL,
        ),
    },
)

FORMATS = (
    GRANITE4,
    ERNIE45,
    GRANITE_20B_FC,
    INTERNLM,
    GIGACHAT3,
)
