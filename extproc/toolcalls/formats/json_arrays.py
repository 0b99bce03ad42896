"""Formats whose calls are a JSON array of objects behind one marker."""

from __future__ import annotations

from extproc.toolcalls.formats.json import FENCE_AND_BARE_STATES, FENCE_AND_INLINE
from extproc.toolcalls.formats.left_over import with_fences, with_left_over_tags, with_left_over_tokens
from extproc.toolcalls.formats.shapes import States, json_array, prose
from extproc.toolcalls.notations.json_call import JsonCall
from extproc.toolcalls.states import State
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.syntax.shapes import array, call_object
from extproc.toolcalls.table import Format, Gap, Marker, Prose, Transition, Transitions

_INDENT = "\n    "
_ARRAY = '[{"name": "get_weather", "arguments": {"city": "Paris"}}]'

GRANITE = Format(
    name="granite",
    title="a JSON array after <|tool_call|>",
    models=("Granite 3.0 to 3.3",),
    example=f"<|tool_call|>{_ARRAY}",
    thinking=State.THINKING,
    syntax=array("<|tool_call|>"),
    states=with_fences(
        with_left_over_tags(
            {
                **prose({"<|tool_call|>": Transition(State.CALLS), "<tool_call>": Transition(State.CALLS)}),
                **json_array("<|tool_call|>", "</tool_call>"),
            },
            "</tool_call>",
        )
    ),
)

PHI4_MINI_JSON = Format(
    name="phi4_mini_json",
    title="a JSON array after functools",
    models=("Phi-4-mini", "Firefunction v2"),
    aliases=("phi4_mini", "firefunction_v2"),
    example=f"functools{_ARRAY}",
    syntax=array("functools"),
    states={
        **prose({"functools": Transition(State.LIST, Marker.SHOWN), "<|tool_call|>": Transition(State.CALLS)}, None),
        # A word is one, unless a bracket follows it.
        State.LIST: Gap({"[": Transition(State.CALLS), "{": Transition(State.ARRAY_CALL, Marker.KEPT)}),
        **json_array("functools", "<|/tool_call|>"),
    },
)


def _tool_calls(openers: Transitions, *closing: str) -> States:
    states = {
        **prose({"<tool_calls>": Transition(State.CALLS), **openers}),
        **json_array("<tool_calls>", "</tool_calls>"),
    }
    return with_fences(with_left_over_tags(states, "</tool_calls>", *closing))


HUNYUAN_A13B = Format(
    name="hunyuan_a13b",
    title="a JSON array in <tool_calls>",
    models=("Hunyuan-A13B",),
    example=f"<tool_calls>{_ARRAY}</tool_calls>",
    thinking=State.THINKING,
    syntax=array("<tool_calls>", "</tool_calls>", result_tag=("<tool_response>", "</tool_response>")),
    # The answer has tags of its own.
    states=_tool_calls(
        dict.fromkeys(("<answer>\n", "<answer>"), Transition(State.PROSE, line_start=True)), "\n</answer>", "</answer>"
    ),
)

JAMBA = Format(
    name="jamba",
    title="as hunyuan_a13b, one call a line",
    models=("Jamba 1.5 to 1.7",),
    example=f"<tool_calls>[\n    {_ARRAY[1:-1]}\n]</tool_calls>",
    thinking=State.THINKING,
    syntax=array("<tool_calls>", "</tool_calls>", indent=_INDENT),
    states=_tool_calls({}),
)

_XLAM_MARKERS = {"[TOOL_CALLS]": Transition(State.CALLS), "<tool_call>": Transition(State.CALLS)}

XLAM = Format(
    name="xlam",
    title="a JSON array, bare, in a fence, or after [TOOL_CALLS] or <tool_call>",
    models=("xLAM-2", "Qwen-xLAM"),
    example=_ARRAY,
    thinking=State.THINKING,
    syntax=array(""),
    states=with_left_over_tags(
        {
            **prose(_XLAM_MARKERS),
            # Only what is said may hold calls without markers, not what is thought.
            State.PROSE: Prose(
                {
                    **FENCE_AND_INLINE,
                    **_XLAM_MARKERS,
                    "<think>": Transition(State.THINKING),
                    "</think>": Transition(State.PROSE),
                }
            ),
            **json_array("[TOOL_CALLS]", "</tool_call>"),
            **FENCE_AND_BARE_STATES,
        },
        "</tool_call>",
    ),
)

APERTUS = Format(
    name="apertus",
    title="a JSON array of {NAME: arguments} in <|tools_prefix|>",
    models=("Apertus",),
    aliases=("apertus2509",),
    example='<|tools_prefix|>[{"get_weather": {"city": "Paris"}}]<|tools_suffix|>',
    thinking=State.THINKING,
    syntax=array("<|tools_prefix|>", "<|tools_suffix|>", begin='{"{name}": '),
    states=with_fences(
        with_left_over_tokens(
            {
                **prose({"<|tools_prefix|>": Transition(State.CALLS)}, ("<|inner_prefix|>", "<|inner_suffix|>")),
                **json_array(
                    "<|tools_prefix|>", "<|tools_suffix|>", body=JsonCall(then=State.AFTER_ARRAY_CALL, name_is_key=True)
                ),
            },
            "<|tools_suffix|>",
        )
    ),
)

_LLAMA_ENDS = {marker: Transition(State.PROSE) for marker in ("<|python_end|>", "<|eom_id|>", "<|eot_id|>")}
_LLAMA_CALLS = {"<|python_tag|>": Transition(State.CALLS), "<|python_start|>": Transition(State.CALLS)}

LLAMA3_JSON = Format(
    name="llama3_json",
    title="a bare JSON object, or one after <|python_tag|>",
    models=("Llama 3.1 to 3.3", "Llama 4"),
    aliases=("llama4_json", "llama3"),
    example='{"name": "get_weather", "parameters": {"city": "Paris"}}',
    syntax=CallSyntax(begin=call_object(arguments="parameters"), end="}", separator="; "),
    states=with_left_over_tags(
        {
            **prose({**_LLAMA_CALLS, **_LLAMA_ENDS, **FENCE_AND_INLINE}, None),
            **FENCE_AND_BARE_STATES,
            **json_array("<|python_tag|>", "<|python_end|>"),
        },
        "</tool_call>",
    ),
)

FORMATS = (
    GRANITE,
    PHI4_MINI_JSON,
    HUNYUAN_A13B,
    JAMBA,
    XLAM,
    APERTUS,
    LLAMA3_JSON,
)
