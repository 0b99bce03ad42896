"""Qwen3-Coder and its many kin: `<function=NAME>` with one `<parameter=KEY>` per argument, in a `<tool_call>` block.

One line break after a parameter's opening tag and one before its closing tag are markup, everything else is the
value, verbatim. The block's opening tag may be missing, and so may closing tags. MiMo trims nothing, Seed-OSS only
what its models add now and then: line breaks on both sides.
"""

from __future__ import annotations

from dataclasses import replace

from extproc.toolcalls.formats.left_over import with_fences, with_left_over_tags
from extproc.toolcalls.formats.shapes import States, function_parameter, prose
from extproc.toolcalls.notations.tagged import Trim
from extproc.toolcalls.states import State
from extproc.toolcalls.syntax.arguments import Elements
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.syntax.shapes import TOOL_RESPONSE
from extproc.toolcalls.table import Format, Transition, Variant


def _states(opening: str, closing: str, thinking: tuple[str, str], trim: Trim) -> States:
    openers = {opening: Transition(State.BLOCK), "<function=": Transition(State.UNWRAPPED_NAME)}
    states = {**prose(openers, thinking), **function_parameter(opening, closing, trim)}
    return with_fences(with_left_over_tags(states, closing))


_TOOL_CALL = ("<tool_call>", "</tool_call>")
_THINK = ("<think>", "</think>")
_EXAMPLE = "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>"

_SYNTAX = CallSyntax(
    begin="<tool_call>\n<function={name}>\n",
    arguments=Elements("qwen_xml", "<parameter={key}>\n", "\n</parameter>\n"),
    end="</function>\n</tool_call>",
    result_tag=TOOL_RESPONSE,
)

QWEN3_CODER = Format(
    name="qwen3_coder",
    title="<function=NAME> with <parameter=KEY> tags, in <tool_call>",
    models=("Qwen3-Coder", "Qwen3.5 to 3.8", "Nemotron 3", "Granite 4.2 thinking", "Nanbeige"),
    aliases=("qwen3_xml", "nemotron_v3", "nanbeige"),
    example=_EXAMPLE,
    thinking=State.THINKING,
    syntax=_SYNTAX,
    states=_states(*_TOOL_CALL, _THINK, Trim.LINE_BREAKS),
    variants=(
        Variant(
            name="step3p5",
            title="as qwen3_coder",
            models=("Step-3.5", "Step-3.7", "Step-5"),
            aliases=("step5",),
            example=_EXAMPLE,
            syntax=replace(_SYNTAX, result_tag=("<tool_response>", "</tool_response>")),
        ),
    ),
)

MIMO = Format(
    name="mimo",
    title="as qwen3_coder, values without added line breaks",
    models=("MiMo V2",),
    example="<tool_call><function=get_weather><parameter=city>Paris</parameter></function></tool_call>",
    thinking=State.THINKING,
    syntax=CallSyntax(
        begin="<tool_call><function={name}>",
        arguments=Elements("qwen_xml", "<parameter={key}>", "</parameter>"),
        end="</function></tool_call>",
        separator="",
        result_tag=_SYNTAX.result_tag,
    ),
    states=_states(*_TOOL_CALL, _THINK, Trim.NOTHING),
)


def _wrapped_if_needed(text: str) -> str:
    """A value that begins with a line break, where readers take the first one for markup."""
    return f"\n{text}\n" if text.startswith("\n") else text


SEED_OSS = Format(
    name="seed_oss",
    title="as qwen3_coder, in <seed:tool_call>",
    models=("Seed-OSS",),
    example=_EXAMPLE.replace("tool_call>", "seed:tool_call>"),
    thinking=State.THINKING,
    syntax=CallSyntax(
        begin="<seed:tool_call>\n<function={name}>\n",
        arguments=Elements("qwen_xml", "<parameter={key}>", "</parameter>\n", spell_string=_wrapped_if_needed),
        end="</function>\n</seed:tool_call>",
        turn_tokens=("<seed:", "</seed:"),
    ),
    states=_states(
        "<seed:tool_call>", "</seed:tool_call>", ("<seed:think>", "</seed:think>"), Trim.WRAPPING_LINE_BREAKS
    ),
)

FORMATS = (
    QWEN3_CODER,
    MIMO,
    SEED_OSS,
)
