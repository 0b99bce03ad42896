"""DeepSeek V3.2 and later, GigaChat 3.5: invocations with typed parameters, in tags of a markup of their own.

`string="true"` says that a value is raw text, `string="false"` that it is JSON. Sections may be misspelt or missing,
and so may closing tags and the attribute; some models pack all arguments into one parameter.
"""

from __future__ import annotations

import re
from dataclasses import replace

from extproc.toolcalls.formats.left_over import with_fences, with_left_over_tokens
from extproc.toolcalls.formats.shapes import States, invoke_parameter, prose
from extproc.toolcalls.states import State
from extproc.toolcalls.syntax.arguments import Elements, Style
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.table import Body, Format, Gap, Rules, Transition, Variant

_PACKED = frozenset({"arguments", "input"})


_SECTIONS = ("function_calls", "tool_calls", "toolcalls", "tool", "calls")


def _states(tag: str) -> States:
    """`tag` stands before every tag's name, with a blank behind it or without."""
    with_blank = _spelled(f"{tag} ")
    return {name: _joined(rules, with_blank[name]) for name, rules in _spelled(tag).items()}


def _joined(rules: Rules, others: Rules) -> Rules:
    """What either spelling leads to."""
    if isinstance(rules, Body) or isinstance(others, Body):
        return rules
    return replace(rules, transitions={**rules.transitions, **others.transitions})


def _spelled(tag: str) -> States:
    openings = {f"<{tag}{section}>": Transition(State.SECTION) for section in _SECTIONS}
    closings = {f"</{tag}{section}>": Transition(State.PROSE) for section in _SECTIONS}
    # Any other tag is markup as well: nobody but these models writes this token.
    others = {f"<{slash}{tag}": Transition(State.OTHER_TAG) for slash in ("", "/")}
    invoke = {f"<{tag}invoke name=": Transition(State.NAME)}
    calls = invoke_parameter(f"{tag}invoke", f"{tag}parameter", {**openings, **closings}, packed_keys=_PACKED)
    after_invoke = calls[State.AFTER_INVOKE]
    assert isinstance(after_invoke, Gap)
    states = {
        **prose({**others, **openings, **invoke}),
        **calls,
        State.SECTION: Gap({**others, **invoke, **openings, **closings}, hides_markers=True),
        State.AFTER_INVOKE: replace(after_invoke, transitions={**others, **after_invoke.transitions}),
        State.OTHER_TAG: Gap(
            {">": Transition(State.LEFT_OVER_TOKEN), " name=": Transition(State.ATTRIBUTES)}, junk=re.compile(r"\w*")
        ),
        State.ATTRIBUTES: Gap({">": Transition(State.LEFT_OVER_TOKEN)}, junk=re.compile(r"[^<>\n]*")),
    }
    return with_fences(with_left_over_tokens(states, *closings))


def _example(tag: str, section: str) -> str:
    return (
        f'<{tag}{section}>\n<{tag}invoke name="get_weather">\n'
        f'<{tag}parameter name="city" string="true">Paris</{tag}parameter>\n'
        f"</{tag}invoke>\n</{tag}{section}>"
    )


_RESULT = ("<tool_result>", "</tool_result>")


def _is_string(value: str) -> str:
    return "true" if value.startswith('"') else "false"


def _syntax(tag: str, section: str, style: Style | None, result_tag: tuple[str, str]) -> CallSyntax:
    return CallSyntax(
        opening=f"<{tag}{section}>\n",
        begin=f'<{tag}invoke name="{{name}}">\n',
        arguments=Elements(
            style, f'<{tag}parameter name="{{key}}" string="{{type}}">', f"</{tag}parameter>\n", type_word=_is_string
        ),
        end=f"</{tag}invoke>\n",
        separator="",
        closing=f"</{tag}{section}>",
        result_tag=result_tag,
        turn_tokens=(tag.strip(), "<dsml:", "</dsml:"),  # one token, whatever tag it is in
    )


_DSML = _states("｜DSML｜")

DEEPSEEK_V32 = Format(
    name="deepseek_v32",
    title="<｜DSML｜invoke> with typed parameters, in <｜DSML｜function_calls>",
    models=("DeepSeek-V3.2",),
    aliases=("deepseekv32",),
    example=_example("｜DSML｜", "function_calls"),
    thinking=State.THINKING,
    syntax=_syntax(
        "｜DSML｜",
        "function_calls",
        "deepseek_xml",
        ("<function_results>\n<result>", "</result>\n</function_results>"),
    ),
    states=_DSML,
    variants=(
        Variant(
            name="deepseek_v4",
            title="as deepseek_v32, in <｜DSML｜tool_calls>",
            models=("DeepSeek-V4",),
            aliases=("deepseekv4",),
            example=_example("｜DSML｜", "tool_calls"),
            syntax=_syntax("｜DSML｜", "tool_calls", "deepseek_xml", _RESULT),
        ),
    ),
)

DEEPSEEK_V41 = Format(
    name="deepseek_v41",
    title="as deepseek_v32 with spaces in the tags, in <｜DSML｜ calls>",
    models=("DeepSeek-V4.1",),
    aliases=("deepseekv41",),
    example=_example("｜DSML｜ ", "calls"),
    thinking=State.THINKING,
    syntax=_syntax("｜DSML｜ ", "calls", "deepseek_v4_1_xml", _RESULT),
    states=_DSML,
)

GIGACHAT35 = Format(
    name="gigachat35",
    title="<｜GCML｜invoke> with typed parameters, in <｜GCML｜tool_calls>",
    models=("GigaChat 3.5",),
    example=_example("｜GCML｜", "tool_calls"),
    thinking=State.THINKING,
    syntax=_syntax("｜GCML｜", "tool_calls", None, ('<function_response name="{name}">', "</function_response>")),
    states=_states("｜GCML｜"),
)

FORMATS = (
    DEEPSEEK_V32,
    DEEPSEEK_V41,
    GIGACHAT35,
)
