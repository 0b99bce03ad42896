"""Nemotron of 2025: a JSON array of calls in `<TOOLCALL>`. Nemotron 3 writes the tags of qwen3_coder."""

from __future__ import annotations

from extproc.toolcalls.formats.left_over import with_left_over_tags
from extproc.toolcalls.formats.shapes import json_array, prose
from extproc.toolcalls.states import State
from extproc.toolcalls.syntax.shapes import array
from extproc.toolcalls.table import Format, Transition

_OPENING, _CLOSING = "<TOOLCALL>", "</TOOLCALL>"
_TAGS = ("<TOOL_RESPONSE>", "</TOOL_RESPONSE>", "<AVAILABLE_TOOLS>", "</AVAILABLE_TOOLS>")

NEMOTRON_JSON = Format(
    name="nemotron_json",
    title="a JSON array in <TOOLCALL>",
    models=("Nemotron Nano v2", "Llama Nemotron Super v1.5"),
    aliases=("nemotron_v2", "llama_nemotron_json"),
    example=f'{_OPENING}[{{"name": "get_weather", "arguments": {{"city": "Paris"}}}}]{_CLOSING}',
    thinking=State.THINKING,
    syntax=array(_OPENING, _CLOSING, result_tag=("<TOOL_RESPONSE>[", "]</TOOL_RESPONSE>"), turn_tokens=_TAGS),
    states=with_left_over_tags(
        {**prose({_OPENING: Transition(State.CALLS)}), **json_array(_OPENING, _CLOSING)}, _CLOSING
    ),
)

FORMATS = (NEMOTRON_JSON,)
