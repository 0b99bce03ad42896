"""GLM and its kin: a name, then `<arg_key>` and `<arg_value>` in turn, in a `<tool_call>` block.

GLM-4.5 and 4.6 put line breaks between the tags, 4.7 and 5 don't; both are read. A missing `<arg_value>` or closing
tag does no harm. Hunyuan 3 has the same between `<tool_calls>`, with a separator behind the name and, in some models,
a suffix in every tag.
"""

from __future__ import annotations

from extproc.toolcalls.formats.shapes import States, key_value, prose, with_suffixes
from extproc.toolcalls.states import State
from extproc.toolcalls.table import Behind, Format, Gap, Transition

_TAGS = ("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")
_EXAMPLE = "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>"


def _states(opening: str, closing: str) -> States:
    return {**prose({opening: Transition(State.BLOCK)}), **key_value(opening, closing, _TAGS)}


_TOOL_CALL = _states("<tool_call>", "</tool_call>")

GLM45 = Format(
    name="glm45",
    title="NAME, <arg_key> and <arg_value> in <tool_call>",
    models=("GLM-4.5", "GLM-4.6", "GLM-4.7", "GLM-5", "Spark 2.5"),
    aliases=("glm47", "glm", "spark25"),
    example=_EXAMPLE,
    thinking=State.THINKING,
    states=_TOOL_CALL,
)

LING3 = Format(
    name="ling3",
    title="as glm45",
    models=("Ling 3",),
    example=_EXAMPLE.replace("\n", ""),
    thinking=State.THINKING,
    states=_TOOL_CALL,
)

POOLSIDE_V1 = Format(
    name="poolside_v1",
    title="as glm45",
    models=("Poolside Laguna",),
    example=_EXAMPLE,
    thinking=State.THINKING,
    states=_TOOL_CALL,
)

IQUEST_Q1 = Format(
    name="iquest_q1",
    title="as glm45, in <iquest_tool_call>",
    models=("IQuest",),
    example=_EXAMPLE.replace("tool_call>", "iquest_tool_call>"),
    thinking=State.THINKING,
    states=_states("<iquest_tool_call>", "</iquest_tool_call>"),
)

_HY_STATES = with_suffixes(
    {
        **prose({"<tool_calls>": Transition(State.SECTION), "<tool_call>": Transition(State.BLOCK)}),
        State.SECTION: Gap({"<tool_call>": Transition(State.BLOCK), "</tool_calls>": Transition(State.PROSE)}),
        **key_value("<tool_call>", "</tool_call>", _TAGS, separator="<tool_sep>"),
        State.AFTER_BLOCK: Gap(
            {
                "<tool_call>": Transition(State.BLOCK),
                "</tool_calls>": Transition(State.PROSE),
                "<tool_calls>": Transition(State.SECTION),
            },
            behind=Behind.CALL,
        ),
    }
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
    states=_HY_STATES,
)

HY_V4 = Format(
    name="hy_v4",
    title="as hy_v3",
    models=("Hunyuan 4 (Hy4)",),
    example=_HY_EXAMPLE,
    thinking=State.THINKING,
    states=_HY_STATES,
)

FORMATS = (
    GLM45,
    LING3,
    POOLSIDE_V1,
    IQUEST_Q1,
    HY_V3,
    HY_V4,
)
