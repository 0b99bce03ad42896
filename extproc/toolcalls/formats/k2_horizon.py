"""K2 Horizon: a name, then keys, perhaps types, and values, in blocks of a section; or JSON in the block.

A block without arguments is a call only when the section goes on or ends behind it: these models also just mention
tools in such tags.
"""

from __future__ import annotations

import re

from extproc.toolcalls.formats.shapes import prose
from extproc.toolcalls.json_arguments import JsonArguments
from extproc.toolcalls.json_call import JsonCall
from extproc.toolcalls.table import Format, Gap, Key, Name, Rule, Value
from extproc.toolcalls.values import ANY_TYPE, STRING

_SECTION_END = "</ifm|tool_calls>"
_END = {"</ifm|tool_call>": Rule("after call", ends_call=True), _SECTION_END: Rule("prose", ends_call=True)}
_NEXT = {"<ifm|arg_key>": Rule("key"), **_END}
_SECTION = {"<ifm|tool_call>": Rule("block"), _SECTION_END: Rule("prose")}
_BEFORE_VALUE = {"<ifm|arg_type>": Rule("type"), "<ifm|arg_value>": Rule("value"), **_NEXT}

K2_HORIZON = Format(
    name="k2_horizon",
    title="a name, keys, types and values in <ifm|tool_call> tags",
    models=("K2 Horizon",),
    example=(
        "<ifm|tool_calls><ifm|tool_call>get_weather<ifm|arg_key>city</ifm|arg_key><ifm|arg_type>string</ifm|arg_type>"
        "<ifm|arg_value>Paris</ifm|arg_value></ifm|tool_call></ifm|tool_calls>"
    ),
    thinking="thinking",
    states={
        **prose({"<ifm|tool_calls>": Rule("section")}),
        "section": Gap(_SECTION),
        "block": Gap({"{": Rule("json call", keep=True)}, otherwise="name"),
        "name": Name(
            {
                "<ifm|arg_key>": Rule("key"),
                "{": Rule("arguments", keep=True),
                "</ifm|tool_call>": Rule("bare name"),
            }
        ),
        "arguments": JsonArguments(then="after json call"),
        "bare name": Gap(
            {
                _SECTION_END: Rule("prose", ends_call=True),
                "<ifm|tool_call>": Rule("block", ends_call=True),
            }
        ),
        "key": Key({"</ifm|arg_key>": Rule("before value")}),
        "before value": Gap(_BEFORE_VALUE),
        "type": Key(
            {"</ifm|arg_type>": Rule("before value")},
            pattern=re.compile(r"\s*(?P<type>\w*)\s*"),
            types={
                "string": STRING,
                **dict.fromkeys(("number", "integer", "boolean", "object", "array", "null"), ANY_TYPE),
            },
        ),
        "value": Value({"</ifm|arg_value>": Rule("after value"), "</ifm|tool_call>": Rule("after unclosed value")}),
        "after value": Gap(_NEXT, otherwise="value", resumes=True),
        "after unclosed value": Gap(
            {_SECTION_END: Rule("prose", ends_call=True), "<ifm|tool_call>": Rule("block", ends_call=True)},
            otherwise="value",
            resumes=True,
        ),
        "after call": Gap(_SECTION, trailing=True),
        "json call": JsonCall(then="after json call"),
        "after json call": Gap(
            {"</ifm|tool_call>": Rule("after call"), **_SECTION}, junk=re.compile(r"[\s}\]]*"), trailing=True
        ),
    },
)

FORMATS = (K2_HORIZON,)
