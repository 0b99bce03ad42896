"""LongCat: a JSON object in `<longcat_tool_call>`, or a name with keys and values in tags, as GLM writes it.

Which of them it is shows behind the opening tag. The tags of qwen3_coder are read there too.
"""

from __future__ import annotations

from dataclasses import replace

from extproc.toolcalls.formats.left_over import with_left_over_tags
from extproc.toolcalls.formats.shapes import States, apart, function_parameter, key_value, prose
from extproc.toolcalls.states import State, StateName
from extproc.toolcalls.syntax.shapes import object_in_tags
from extproc.toolcalls.table import Format, Gap, Transition

_OPENING, _CLOSING = "<longcat_tool_call>", "</longcat_tool_call>"
_TAGS = ("<longcat_arg_key>", "</longcat_arg_key>", "<longcat_arg_value>", "</longcat_arg_value>")

_KEYS = "keys and values"
_SHARED = (State.PROSE, State.BLOCK, State.JSON_CALL, State.AFTER_JSON_CALL)


def _states() -> States:
    functions = function_parameter(_OPENING, _CLOSING)
    block = functions[State.BLOCK]
    assert isinstance(block, Gap)
    name: StateName = (State.NAME, _KEYS)
    return {
        **apart(key_value(_OPENING, _CLOSING, _TAGS), _KEYS, _SHARED),
        **functions,
        State.BLOCK: replace(block, otherwise=name),
    }


LONGCAT = Format(
    name="longcat",
    title="a JSON object, or keys and values, in <longcat_tool_call> tags",
    models=("LongCat-Flash",),
    example=f'{_OPENING}\n{{"name": "get_weather", "arguments": {{"city": "Paris"}}}}\n{_CLOSING}',
    thinking=State.THINKING,
    syntax=object_in_tags(
        "longcat_tool_call",
        result_tag=("<longcat_tool_response>\n", "\n</longcat_tool_response>"),
        turn_tokens=("<longcat_", "</longcat_", "[Round "),
    ),
    states=with_left_over_tags(
        {
            **prose({_OPENING: Transition(State.BLOCK)}, ("<longcat_think>", "</longcat_think>")),
            **_states(),
        },
        _CLOSING,
    ),
)

FORMATS = (LONGCAT,)
