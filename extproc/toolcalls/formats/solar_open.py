"""Solar Open: an id, a name and a JSON object, each behind a token of its own.

An output is a row of turns of the assistant, `<|begin|>assistant` between them: reasoning behind `<|think|>`, text
behind `<|content|>`, calls behind `<|tool_calls|>`. The tokens that end the output, `<|flush|>` and `<|calls|>`, are
stop tokens.
"""

from __future__ import annotations

import re

from extproc.toolcalls.formats.shapes import named_json
from extproc.toolcalls.states import State
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.table import Behind, Format, Gap, Name, Prose, Sink, Transition

_CALL = {"<|tool_call:begin|>": Transition(State.ID), "<|tool_call:name|>": Transition(State.NAME)}
_TURNS = {
    "<|think|>": Transition(State.THINKING),
    "<|tool_calls|>": Transition(State.SECTION),
    **dict.fromkeys(
        ("<|content|>", "<|end|>", "<|begin|>", "<|begin|>assistant", "<|flush|>", "<|calls|>"), Transition(State.PROSE)
    ),
}
_END = {"<|tool_call:end|>": Transition(State.AFTER_CALL)}

SOLAR_OPEN = Format(
    name="solar_open",
    title="an id, a name and a JSON object between markers",
    models=("Solar Open",),
    aliases=("solar",),
    example=(
        "<|tool_calls|><|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>get_weather"
        '<|tool_call:args|>{"city": "Paris"}<|tool_call:end|>'
    ),
    thinking=State.THINKING,
    syntax=CallSyntax(
        opening="<|tool_calls|>",
        begin="<|tool_call:begin|>call{index}<|tool_call:name|>{name}<|tool_call:args|>",
        end="<|tool_call:end|>",
        separator="",
    ),
    states={
        State.PROSE: Prose({**_CALL, **_TURNS}),
        State.THINKING: Prose({**_CALL, **_TURNS}, Sink.REASONING),
        State.SECTION: Gap({**_CALL, **_TURNS}, behind=Behind.CALL),
        State.ID: Gap({"<|tool_call:name|>": Transition(State.NAME)}, junk=re.compile(r"[\s\w.:\-]*")),
        **named_json(
            {},
            {},
            {**_END, "<|calls|>": Transition(State.PROSE)},
            name=Name(
                {
                    "<|tool_call:args|>": Transition(State.BEFORE_ARGUMENTS),
                    "<|tool_call:end|>": Transition(State.AFTER_CALL, ends_call=True),
                }
            ),
        ),
        State.AFTER_ARGUMENTS: Gap({**_END, **_CALL, **_TURNS}, junk=re.compile(r"[\s}\]]*"), behind=Behind.CALL),
        # The end of a call may come twice.
        State.AFTER_CALL: Gap({**_END, **_CALL, **_TURNS}, behind=Behind.CALL),
    },
)

FORMATS = (SOLAR_OPEN,)
