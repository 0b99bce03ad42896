"""Formats whose calls are JSON objects between two markers, with name and arguments inside."""

from __future__ import annotations

import re

from extproc.toolcalls.formats.shapes import function_parameter, json_block, prose
from extproc.toolcalls.json_call import JsonCall
from extproc.toolcalls.table import Format, Gap, Prose, Rule, Sink

_OBJECT = '{"name": "get_weather", "arguments": {"city": "Paris"}}'


LONGCAT = Format(
    name="longcat",
    title="a JSON object in <longcat_tool_call> tags",
    models=("LongCat-Flash",),
    example=f"<longcat_tool_call>\n{_OBJECT}\n</longcat_tool_call>",
    thinking="thinking",
    states={
        **prose({"<longcat_tool_call>": Rule("block")}, ("<longcat_think>", "</longcat_think>")),
        **function_parameter("<longcat_tool_call>", "</longcat_tool_call>"),
    },
)

GRANITE4 = Format(
    name="granite4",
    title="a JSON object in <tool_call> tags",
    models=("Granite 4.0",),
    example=f"<tool_call>\n{_OBJECT}\n</tool_call>",
    thinking="thinking",
    states={**prose({"<tool_call>": Rule("block")}), **function_parameter("<tool_call>", "</tool_call>")},
)

ERNIE45 = Format(
    name="ernie45",
    title="a JSON object in <tool_call> tags, text in <response>",
    models=("ERNIE 4.5", "ERNIE X1"),
    example=f"<tool_call>\n{_OBJECT}\n</tool_call>\n",
    thinking="thinking",
    states={
        **prose(
            {
                "<tool_call>": Rule("block"),
                "<response>\n": Rule("prose"),
                "<response>": Rule("prose"),
                "\n</response>": Rule("prose"),
                "</response>": Rule("prose"),
            }
        ),
        **function_parameter("<tool_call>", "</tool_call>"),
    },
)

GRANITE_20B_FC = Format(
    name="granite-20b-fc",
    title="JSON objects, each behind <function_call>",
    models=("Granite 20B function calling",),
    aliases=("granite_20b_fc",),
    example=f"<function_call> {_OBJECT}",
    states={**prose({"<function_call>": Rule("call")}, None), **json_block("<function_call>", None)},
)

INTERNLM = Format(
    name="internlm",
    title="a JSON object between <|action_start|><|plugin|> and <|action_end|>",
    models=("InternLM 2.5", "Intern-S1"),
    aliases=("internlm2", "interns1"),
    example=f"<|action_start|><|plugin|>{_OBJECT.replace('arguments', 'parameters')}<|action_end|>",
    thinking="thinking",
    states={
        **prose({"<|action_start|>": Rule("action")}),
        "action": Gap({"<|plugin|>": Rule("call"), "{": Rule("call", keep=True)}),
        "call": JsonCall(then="after call"),
        "after call": Gap(
            {"<|action_end|>": Rule("prose"), "<|action_start|>": Rule("action")},
            junk=re.compile(r"[\s}\]]*"),
            trailing=True,
        ),
    },
)

_GIGACHAT_OPENERS = {
    "<|function_call|>": Rule("call"),
    "<|message_sep|>\n\nfunction call<|role_sep|>": Rule("call"),
    "function call<|role_sep|>": Rule("call"),
}

GIGACHAT3 = Format(
    name="gigachat3",
    title="a JSON object behind <|function_call|>, or in a message of its own",
    models=("GigaChat 3",),
    example=f"<|function_call|>{_OBJECT}",
    states={
        **prose({**_GIGACHAT_OPENERS, "<|message_sep|>": Rule("prose"), "</s>": Rule("prose")}, None),
        "call": JsonCall(then="after call"),
        "after call": Gap(
            {**_GIGACHAT_OPENERS, "</s>": Rule("prose"), "<|message_sep|>": Rule("prose")},
            junk=re.compile(r"[\s}\]]*"),
            trailing=True,
        ),
    },
)

_INKLING = {
    "<|content_invoke_tool_json|>": Rule("call"),
    "<|message_model|>": Rule("recipient"),
    "<|content_text|>": Rule("prose"),
    "<|content_thinking|>": Rule("thinking"),
    "<|end_message|>": Rule("prose"),
}

INKLING = Format(
    name="inkling",
    title="messages, of which those behind <|content_invoke_tool_json|> hold a JSON object",
    models=("Inkling",),
    example=(
        "<|message_model|>get_weather<|content_invoke_tool_json|>"
        '{"name": "get_weather", "args": {"city": "Paris"}}<|end_message|>'
    ),
    thinking="thinking",
    states={
        "prose": Prose(_INKLING),
        "thinking": Prose(_INKLING, Sink.REASONING),
        # The recipient stands in the object again.
        "recipient": Gap(_INKLING, junk=re.compile(r"[^<]*"), trailing=True),
        "call": JsonCall(
            then="after call",
            arguments_keys=frozenset({"args", "arguments", "parameters"}),
            hides_markers=True,
        ),
        "after call": Gap(_INKLING, junk=re.compile(r"[\s}\]]*"), trailing=True),
    },
)

FORMATS = (
    LONGCAT,
    GRANITE4,
    ERNIE45,
    GRANITE_20B_FC,
    INTERNLM,
    GIGACHAT3,
    INKLING,
)
