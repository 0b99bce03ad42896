"""DeepSeek V3.2 and later, GigaChat 3.5: invocations with typed parameters, in tags of a markup of their own.

`string="true"` says that a value is raw text, `string="false"` that it is JSON. Sections may be misspelt or missing,
and so may closing tags and the attribute; some models pack all arguments into one parameter.
"""

from __future__ import annotations

from extproc.toolcalls.formats.shapes import States, invoke_parameter, prose
from extproc.toolcalls.states import State
from extproc.toolcalls.table import Format, Transition

_PACKED = frozenset({"arguments", "input"})


def _states(tag: str, sections: tuple[str, ...]) -> States:
    """`tag` stands before every tag's name, a blank of its own included."""
    openings = {f"<{tag}{section}>": Transition(State.SECTION) for section in sections}
    closings = {f"</{tag}{section}>": Transition(State.PROSE) for section in sections}
    invoke = f"<{tag}invoke name="
    return {
        **prose({**openings, invoke: Transition(State.NAME)}),
        **invoke_parameter(f"{tag}invoke", f"{tag}parameter", {**openings, **closings}, packed_keys=_PACKED),
    }


def _example(tag: str, section: str) -> str:
    return (
        f'<{tag}{section}>\n<{tag}invoke name="get_weather">\n'
        f'<{tag}parameter name="city" string="true">Paris</{tag}parameter>\n'
        f"</{tag}invoke>\n</{tag}{section}>"
    )


_SECTIONS = ("function_calls", "tool_calls", "toolcalls", "tool")
_DSML = _states("｜DSML｜", _SECTIONS)

DEEPSEEK_V32 = Format(
    name="deepseek_v32",
    title="<｜DSML｜invoke> with typed parameters, in <｜DSML｜function_calls>",
    models=("DeepSeek-V3.2",),
    aliases=("deepseekv32",),
    example=_example("｜DSML｜", "function_calls"),
    thinking=State.THINKING,
    states=_DSML,
)

DEEPSEEK_V4 = Format(
    name="deepseek_v4",
    title="as deepseek_v32, in <｜DSML｜tool_calls>",
    models=("DeepSeek-V4",),
    aliases=("deepseekv4",),
    example=_example("｜DSML｜", "tool_calls"),
    thinking=State.THINKING,
    states=_DSML,
)

DEEPSEEK_V41 = Format(
    name="deepseek_v41",
    title="as deepseek_v32 with blanks in the tags, in <｜DSML｜ calls>",
    models=("DeepSeek-V4.1",),
    aliases=("deepseekv41",),
    example=_example("｜DSML｜ ", "calls"),
    thinking=State.THINKING,
    states=_states("｜DSML｜ ", ("calls", *_SECTIONS)),
)

GIGACHAT35 = Format(
    name="gigachat35",
    title="<｜GCML｜invoke> with typed parameters, in <｜GCML｜tool_calls>",
    models=("GigaChat 3.5",),
    example=_example("｜GCML｜", "tool_calls"),
    thinking=State.THINKING,
    states=_states("｜GCML｜", _SECTIONS),
)

FORMATS = (
    DEEPSEEK_V32,
    DEEPSEEK_V4,
    DEEPSEEK_V41,
    GIGACHAT35,
)
