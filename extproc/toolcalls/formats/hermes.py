"""Hermes: a JSON object between `<tool_call>` and `</tool_call>`.

What Qwen2.5, Qwen3 and the Hermes models were trained on. The object's end decides, not the closing tag: the tag
may be missing at the end of the output, and may stand literally inside a string. Without tags a fence or a bare
object is understood too, because the small ones of these models write that instead.
"""

from __future__ import annotations

from extproc.toolcalls.formats.json import FENCE_AND_BARE, FENCE_OR_BARE_FOR_MARKERS
from extproc.toolcalls.formats.left_over import with_fences, with_left_over_tags
from extproc.toolcalls.formats.shapes import function_parameter, prose
from extproc.toolcalls.states import State
from extproc.toolcalls.syntax.shapes import TOOL_RESPONSE, object_in_tags
from extproc.toolcalls.table import Format, Prose, Transition

_CALL = {"<tool_call>": Transition(State.BLOCK)}

FORMAT = Format(
    name="hermes",
    title="a JSON object in <tool_call> tags",
    models=("Qwen2.5", "Qwen3", "QwQ", "Hermes 2 to 4", "Trinity", "MiMo-VL", "Reka Edge"),
    aliases=("qwen", "qwen25", "qwen3_json", "trinity", "mimo_vl", "reka_edge"),
    example='<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>',
    thinking=State.THINKING,
    syntax=object_in_tags("tool_call", result_tag=TOOL_RESPONSE),
    states=with_fences(
        with_left_over_tags(
            {
                **prose(_CALL),
                State.PROSE: Prose(
                    {
                        **FENCE_AND_BARE,
                        **_CALL,
                        "<think>": Transition(State.THINKING),
                        "</think>": Transition(State.PROSE),
                    }
                ),
                # In the same block models write the tags of qwen3_coder now and then.
                **function_parameter("<tool_call>", "</tool_call>"),
                **FENCE_OR_BARE_FOR_MARKERS,
            },
            "</tool_call>",
        )
    ),
)

FORMATS = (FORMAT,)
