"""GLM and its kin: a name, then `<arg_key>` and `<arg_value>` in turn, in a `<tool_call>` block.

GLM-4.5 and 4.6 put line breaks between the tags, 4.7 and 5 don't; both are read. A missing `<arg_value>` or closing
tag does no harm. Hunyuan 3 has the same between `<tool_calls>`, with a separator behind the name and, in some models,
a suffix in every tag.
"""

from __future__ import annotations

import re
from dataclasses import replace

from extproc.toolcalls.formats.left_over import with_fences, with_left_over_tags
from extproc.toolcalls.formats.shapes import States, key_value, prose
from extproc.toolcalls.formats.tag_values import is_quoted
from extproc.toolcalls.states import State
from extproc.toolcalls.syntax.arguments import Elements
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.table import Behind, Body, Format, Gap, Prose, Transition, Value, Variant

TAGS = ("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")
EXAMPLE = "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>"


def _states(opening: str, closing: str) -> States:
    states = {**prose({opening: Transition(State.BLOCK)}), **key_value(opening, closing, TAGS)}
    return with_fences(with_left_over_tags(states, closing))


_TOOL_CALL = _states("<tool_call>", "</tool_call>")

ON_LINES = Elements("glm_xml", "<arg_key>{key}</arg_key>\n<arg_value>", "</arg_value>\n")
_IN_A_ROW = Elements("glm_xml", "<arg_key>{key}</arg_key><arg_value>", "</arg_value>")
_SYNTAX = CallSyntax(
    begin="<tool_call>{name}\n",
    arguments=ON_LINES,
    end="</tool_call>",
    result_tag=("<tool_response>\n", "\n</tool_response>"),
    turn_tokens=("<sop>", "<eop>"),
)
_SYNTAX_IN_A_ROW = CallSyntax(
    begin="<tool_call>{name}",
    arguments=_IN_A_ROW,
    end="</tool_call>",
    separator="",
    result_tag=("<tool_response>", "</tool_response>"),
)

GLM45 = Format(
    name="glm45",
    title="NAME, <arg_key> and <arg_value> in <tool_call>",
    models=("GLM-4.5", "GLM-4.6", "Spark 2.5"),
    aliases=("glm", "spark25"),
    example=EXAMPLE,
    thinking=State.THINKING,
    syntax=_SYNTAX,
    states=_TOOL_CALL,
    variants=(
        Variant(
            name="glm47",
            title="as glm45, without line breaks",
            models=("GLM-4.7", "GLM-5"),
            example=EXAMPLE.replace("\n", ""),
            syntax=_SYNTAX_IN_A_ROW,
        ),
        Variant(
            name="ling3",
            title="as glm45, without line breaks",
            models=("Ling 3",),
            example=EXAMPLE.replace("\n", ""),
            syntax=replace(_SYNTAX_IN_A_ROW, result_tag=None, turn_tokens=("<role>", "</role>")),
        ),
    ),
)

IQUEST_Q1 = Format(
    name="iquest_q1",
    title="as glm45, in <iquest_tool_call>",
    models=("IQuest",),
    example=EXAMPLE.replace("tool_call>", "iquest_tool_call>"),
    thinking=State.THINKING,
    syntax=CallSyntax(begin="<iquest_tool_call>{name}", arguments=_IN_A_ROW, end="</iquest_tool_call>", separator=""),
    states=_states("<iquest_tool_call>", "</iquest_tool_call>"),
)


_SUFFIX = re.compile(r"[^\s<>]*")


def _with_suffixes(states: States) -> States:
    """The same states for models whose tags may carry a suffix: `<tool_call:xyz>` for `<tool_call>`."""
    made: States = {}
    for name, rules in states.items():
        in_value = isinstance(rules, Value) or (isinstance(rules, Gap) and rules.in_value)
        if isinstance(rules, Body) or (isinstance(name, tuple) and not in_value):
            made[name] = rules
            continue
        transitions = dict(rules.transitions)
        for marker, transition in rules.transitions.items():
            if not marker.endswith(">"):
                continue
            target = states[transition.to]
            in_tag = (name, marker)
            if isinstance(rules, Value):
                may_end_value = isinstance(target, Gap) and target.in_value
                # The suffix itself already tells a closing tag from text: what follows needn't do it again.
                known = may_end_value and marker.startswith("</") and not is_quoted(transition.to)
                after = replace(transition, to=State.PARAMETERS) if known else transition
                behind = target.behind if isinstance(target, Gap) and target.in_value else Behind.QUOTE
                made[in_tag] = Gap({">": after}, junk=_SUFFIX, otherwise=name, behind=behind)
            elif isinstance(rules, Gap) and rules.in_value:
                made[in_tag] = replace(rules, transitions={">": transition}, junk=_SUFFIX)
            else:
                ends = isinstance(target, Prose) or (isinstance(target, Gap) and target.behind is Behind.CALL)
                made[in_tag] = Gap({">": transition}, junk=_SUFFIX, behind=Behind.CALL if ends else Behind.PART)
            transitions[marker[:-1] + ":"] = Transition(in_tag)
        made[name] = replace(rules, transitions=transitions)
    return made


_HY_STATES = with_fences(
    with_left_over_tags(
        _with_suffixes(
            {
                **prose({"<tool_calls>": Transition(State.SECTION), "<tool_call>": Transition(State.BLOCK)}),
                State.SECTION: Gap({"<tool_call>": Transition(State.BLOCK), "</tool_calls>": Transition(State.PROSE)}),
                **key_value("<tool_call>", "</tool_call>", TAGS, separator="<tool_sep>"),
                State.AFTER_BLOCK: Gap(
                    {
                        "<tool_call>": Transition(State.BLOCK),
                        "</tool_call>": Transition(State.AFTER_BLOCK),
                        "</tool_calls>": Transition(State.PROSE),
                        "<tool_calls>": Transition(State.SECTION),
                    },
                    behind=Behind.CALL,
                ),
            }
        ),
        "</tool_calls>",
        "</tool_call>",
    )
)
_HY_EXAMPLE = (
    "<tool_calls>\n<tool_call>get_weather<tool_sep>\n"
    "<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>\n</tool_calls>"
)

HY_V3 = Format(
    name="hy_v3",
    title="as glm45 with <tool_sep>, in <tool_calls>",
    models=("Hunyuan 3 (Hy3)",),
    aliases=("hunyuan",),
    example=_HY_EXAMPLE,
    thinking=State.THINKING,
    syntax=CallSyntax(
        opening="<tool_calls>\n",
        begin="<tool_call>{name}<tool_sep>\n",
        arguments=ON_LINES,
        end="</tool_call>\n",
        separator="",
        closing="</tool_calls>",
    ),
    states=_HY_STATES,
    variants=(
        Variant(
            name="hy_v4",
            title="as hy_v3, without line breaks",
            models=("Hunyuan 4 (Hy4)",),
            example=_HY_EXAMPLE.replace("\n", ""),
            syntax=CallSyntax(
                opening="<tool_calls>",
                begin="<tool_call>{name}<tool_sep>",
                arguments=_IN_A_ROW,
                end="</tool_call>",
                separator="",
                closing="</tool_calls>",
            ),
        ),
    ),
)

FORMATS = (
    GLM45,
    IQUEST_Q1,
    HY_V3,
)
