"""Mistral: what stands behind [TOOL_CALLS] is a name and a JSON object, or an array of objects with both.

The tokenizers differ: up to v7 an array, in v11 an id between name and arguments, from v13 on none. Thinking stands
between [THINK] and [/THINK], in the first Magistral between <think> and </think>.
"""

from __future__ import annotations

import re

from extproc.toolcalls.formats.shapes import json_array, named_json
from extproc.toolcalls.states import State
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.table import Behind, Format, Gap, Marker, Name, Prose, Sink, Transition, Transitions

_TOKENS = tuple(
    f"[{slash}{word}]"
    for word in ("INST", "AVAILABLE_TOOLS", "TOOL_RESULTS", "SYSTEM_PROMPT", "MODEL_SETTINGS", "THINK")
    for slash in ("", "/")
) + tuple(
    f"[{word}]"
    for word in (
        *("TOOL_CALLS", "TOOL_CONTENT", "ARGS", "CALL_ID", "PREFIX", "MIDDLE", "SUFFIX"),
        *("IMG", "IMG_BREAK", "IMG_END", "AUDIO", "BEGIN_AUDIO", "TRANSCRIBE"),
    )
)

_CALL = {"[TOOL_CALLS]": Transition(State.CALL)}
_TEXT: Transitions = {
    **_CALL,
    **dict.fromkeys(("[THINK]", "<think>"), Transition(State.THINKING)),
    **dict.fromkeys(("[/THINK]", "</think>"), Transition(State.PROSE)),
    # The token that ends a turn is HTML as well.
    "</s>": Transition(State.QUOTED_END),
}
_ARGUMENTS: Transitions = {
    "[ARGS]": Transition(State.BEFORE_ARGUMENTS),
    "[CALL_ID]": Transition(State.ID),
    "{": Transition(State.ARGUMENTS, Marker.KEPT),
    "[TOOL_CALLS]": Transition(State.CALL, ends_call=True),
    "</s>": Transition(State.BETWEEN_MESSAGES, ends_call=True),
}
_BEHIND: Transitions = {
    **_CALL,
    # A made-up result is not for the reader.
    "[TOOL_RESULTS]": Transition(State.TOLD),
    **dict.fromkeys(("[ARGS]", "</s>"), Transition(State.BETWEEN_MESSAGES)),
}
_STATES = named_json(
    {},
    {**_BEHIND, "```": Transition(State.AFTER_ARGUMENTS)},
    _CALL,
    ends_with_output=True,
    name=Name(_ARGUMENTS, ends_with_output=True),
)
_ARRAY_STATES = json_array("[TOOL_CALLS]", None)

MISTRAL = Format(
    name="mistral",
    title="NAME[ARGS] and a JSON object, or a JSON array, after [TOOL_CALLS]",
    models=("Mistral", "Magistral", "Devstral", "Ministral 3"),
    example='[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}',
    thinking=State.THINKING,
    # As its tokenizers write it from v13 on; v11 has an id before the arguments, older ones an array.
    syntax=CallSyntax(begin="[TOOL_CALLS]{name}[ARGS]", end="", separator="", turn_tokens=_TOKENS),
    states={
        State.PROSE: Prose(_TEXT),
        State.THINKING: Prose(_TEXT, Sink.REASONING),
        State.CALL: Gap(
            {
                "[": Transition(State.CALLS),
                "{": Transition(State.ARRAY_CALL, Marker.KEPT),
                "[TOOL_CALLS]": Transition(State.CALL),
            },
            otherwise=State.NAME,
        ),
        **_ARRAY_STATES,
        State.AFTER_ARRAY_CALL: Gap(
            {**_BEHIND, "{": Transition(State.ARRAY_CALL, Marker.KEPT)},
            junk=re.compile(r"[\s,;}\]`]*"),
            behind=Behind.CALL,
        ),
        **_STATES,
        State.BEFORE_ARGUMENTS: Gap(
            {
                **_ARGUMENTS,
                "```json": Transition(State.BEFORE_ARGUMENTS),
                "```": Transition(State.BEFORE_ARGUMENTS),
            },
            otherwise=State.ARGUMENTS,
            ends_with_output=True,
        ),
        State.ID: Gap(_ARGUMENTS, junk=re.compile(r"[\s\w-]*"), otherwise=State.ARGUMENTS, ends_with_output=True),
        State.QUOTED_END: Gap({**_CALL, "</s>": Transition(State.QUOTED_END)}),
        State.BETWEEN_MESSAGES: Gap(_BEHIND, behind=Behind.CALL),
        State.TOLD: Prose({**_CALL, "[/TOOL_RESULTS]": Transition(State.PROSE)}, Sink.REASONING),
    },
)

FORMATS = (MISTRAL,)
