"""Qwen3-Coder and its many kin: `<function=NAME>` with one `<parameter=KEY>` per argument, in a `<tool_call>` block.

One line break after a parameter's opening tag and one before its closing tag are markup, everything else is the
value, verbatim. The block's opening tag may be missing, and so may closing tags. MiMo trims nothing, Seed-OSS only
what its models add now and then: line breaks on both sides.
"""

from __future__ import annotations

from extproc.toolcalls.formats.shapes import States, function_parameter, prose
from extproc.toolcalls.states import State
from extproc.toolcalls.table import Format, Transition
from extproc.toolcalls.tagged import Trim


def _states(opening: str, closing: str, thinking: tuple[str, str], trim: Trim) -> States:
    openers = {opening: Transition(State.BLOCK), "<function=": Transition(State.NAME)}
    return {**prose(openers, thinking), **function_parameter(opening, closing, trim)}


_TOOL_CALL = ("<tool_call>", "</tool_call>")
_THINK = ("<think>", "</think>")
_EXAMPLE = "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>"

QWEN3_CODER = Format(
    name="qwen3_coder",
    title="<function=NAME> with <parameter=KEY> tags, in <tool_call>",
    models=("Qwen3-Coder", "Qwen3.5 to 3.8", "Nemotron 3", "Granite 4.2 thinking", "Nanbeige"),
    aliases=("qwen3_xml", "nemotron_v3", "nanbeige"),
    example=_EXAMPLE,
    thinking=State.THINKING,
    states=_states(*_TOOL_CALL, _THINK, Trim.LINE_BREAKS),
)

STEP3P5 = Format(
    name="step3p5",
    title="as qwen3_coder",
    models=("Step-3.5", "Step-3.7"),
    example=_EXAMPLE,
    thinking=State.THINKING,
    states=QWEN3_CODER.states,
)

STEP5 = Format(
    name="step5",
    title="as qwen3_coder",
    models=("Step-5",),
    example=_EXAMPLE,
    thinking=State.THINKING,
    states=QWEN3_CODER.states,
)

MIMO = Format(
    name="mimo",
    title="as qwen3_coder, values without added line breaks",
    models=("MiMo V2",),
    example="<tool_call><function=get_weather><parameter=city>Paris</parameter></function></tool_call>",
    thinking=State.THINKING,
    states=_states(*_TOOL_CALL, _THINK, Trim.NOTHING),
)

SEED_OSS = Format(
    name="seed_oss",
    title="as qwen3_coder, in <seed:tool_call>",
    models=("Seed-OSS",),
    example=_EXAMPLE.replace("tool_call>", "seed:tool_call>"),
    thinking=State.THINKING,
    states=_states(
        "<seed:tool_call>", "</seed:tool_call>", ("<seed:think>", "</seed:think>"), Trim.WRAPPING_LINE_BREAKS
    ),
)

FORMATS = (
    QWEN3_CODER,
    STEP3P5,
    STEP5,
    MIMO,
    SEED_OSS,
)
