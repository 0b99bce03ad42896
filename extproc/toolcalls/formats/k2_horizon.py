"""K2 Horizon: a name, then keys, perhaps types, and values, in blocks of a section; or JSON in the block.

A block without arguments is a call only when the section goes on or ends behind it: these models also just mention
tools in such tags.
"""

from __future__ import annotations

import re

from extproc.toolcalls.formats.left_over import with_fences, with_left_over_tags
from extproc.toolcalls.formats.shapes import prose
from extproc.toolcalls.formats.tag_values import QuotedCall, value_states
from extproc.toolcalls.notations.json_arguments import JsonArguments
from extproc.toolcalls.notations.json_call import JsonCall
from extproc.toolcalls.notations.values import ANY_TYPE, STRING
from extproc.toolcalls.states import State
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.syntax.shapes import call_object
from extproc.toolcalls.table import Behind, Format, Gap, Key, Marker, Name, Transition, Value

_SECTION_END = "</ifm|tool_calls>"
_END = {
    "</ifm|tool_call>": Transition(State.AFTER_CALL, ends_call=True),
    _SECTION_END: Transition(State.PROSE, ends_call=True),
}
_NEXT = {"<ifm|arg_key>": Transition(State.KEY), **_END}
_SECTION = {"<ifm|tool_call>": Transition(State.BLOCK), _SECTION_END: Transition(State.PROSE)}
_BEFORE_VALUE = {"<ifm|arg_type>": Transition(State.TYPE), "<ifm|arg_value>": Transition(State.VALUE), **_NEXT}

K2_HORIZON = Format(
    name="k2_horizon",
    title="a name, keys, types and values in <ifm|tool_call> tags",
    models=("K2 Horizon",),
    example=(
        "<ifm|tool_calls><ifm|tool_call>get_weather<ifm|arg_key>city</ifm|arg_key><ifm|arg_type>string</ifm|arg_type>"
        "<ifm|arg_value>Paris</ifm|arg_value></ifm|tool_call></ifm|tool_calls>"
    ),
    thinking=State.THINKING,
    # The block may hold tags as well. In JSON a value says what it is, and decoding can be forced.
    syntax=CallSyntax(
        opening="<ifm|tool_calls>",
        begin=f"<ifm|tool_call>{call_object()}",
        end="}</ifm|tool_call>",
        separator="",
        closing="</ifm|tool_calls>",
    ),
    states=with_fences(
        with_left_over_tags(
            {
                **prose({"<ifm|tool_calls>": Transition(State.SECTION)}),
                State.SECTION: Gap(_SECTION),
                State.BLOCK: Gap({"{": Transition(State.JSON_CALL, Marker.KEPT)}, otherwise=State.NAME),
                State.NAME: Name(
                    {
                        "<ifm|arg_key>": Transition(State.KEY),
                        "{": Transition(State.ARGUMENTS, Marker.KEPT),
                        "</ifm|tool_call>": Transition(State.BARE_NAME),
                    }
                ),
                State.ARGUMENTS: JsonArguments(then=State.AFTER_JSON_CALL),
                State.BARE_NAME: Gap(
                    {
                        _SECTION_END: Transition(State.PROSE, ends_call=True),
                        "<ifm|tool_call>": Transition(State.BLOCK, ends_call=True),
                    }
                ),
                State.KEY: Key({"</ifm|arg_key>": Transition(State.BEFORE_VALUE)}),
                State.BEFORE_VALUE: Gap(_BEFORE_VALUE),
                State.TYPE: Key(
                    {"</ifm|arg_type>": Transition(State.BEFORE_VALUE)},
                    pattern=re.compile(r"\s*(?P<type>\w*)\s*"),
                    types={
                        "string": STRING,
                        **dict.fromkeys(("number", "integer", "boolean", "object", "array", "null"), ANY_TYPE),
                    },
                ),
                **value_states(
                    Value({"</ifm|tool_call>": Transition(State.AFTER_UNCLOSED_VALUE)}),
                    "</ifm|arg_value>",
                    _NEXT,
                    opens="<ifm|arg_value>",
                    unclosed={
                        _SECTION_END: Transition(State.PROSE, ends_call=True),
                        "<ifm|tool_call>": Transition(State.BLOCK, ends_call=True),
                    },
                    quoted=QuotedCall(
                        "<ifm|tool_call>", "\n", ("<ifm|arg_key>",), "</ifm|tool_call>", behind=(_SECTION_END,)
                    ),
                ),
                State.AFTER_CALL: Gap(
                    {"</ifm|tool_call>": Transition(State.AFTER_CALL), **_SECTION}, behind=Behind.CALL
                ),
                State.JSON_CALL: JsonCall(then=State.AFTER_JSON_CALL),
                State.AFTER_JSON_CALL: Gap(
                    {"</ifm|tool_call>": Transition(State.AFTER_CALL), **_SECTION},
                    junk=re.compile(r"[\s}\]]*"),
                    behind=Behind.CALL,
                ),
            },
            _SECTION_END,
            "</ifm|tool_call>",
        )
    ),
)

FORMATS = (K2_HORIZON,)
