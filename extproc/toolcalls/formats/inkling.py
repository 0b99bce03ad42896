"""Inkling: messages, each with a token that says what it holds.

`<|message_model|>RECIPIENT<|content_...|>TEXT<|end_message|>`: the recipient of a call stands in its object again. The
prompt ends behind the first `<|message_model|>`. Text that goes on without a kind is what the model has to say.
"""

from __future__ import annotations

import re

from extproc.toolcalls.notations.json_call import JsonCall
from extproc.toolcalls.states import State
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.syntax.shapes import call_object
from extproc.toolcalls.table import Behind, Format, Gap, Header, Marker, Prose, Sink, Transition, Transitions

_CALLS = ("<|content_invoke_tool_json|>", "<|content_invoke_tool|>")
_SAID = tuple(
    f"<|content_{kind}|>" for kind in ("text", "invoke_tool_text", "tool_error", "xml", "image", "audio_input")
)
_THOUGHT = "<|content_thinking|>"
_OTHERS = tuple(f"<|message_{author}|>" for author in ("user", "system", "tool"))
_ENDS = (
    *("<|end_message|>", "<|content_model_end_sampling|>", "<|model_trigger_generation|>"),
    *("<|audio_end|>", "<|endoftext|>"),
)

_KINDS: Transitions = {
    **dict.fromkeys(_CALLS, Transition(State.CALL)),
    **dict.fromkeys(_SAID, Transition(State.PROSE)),
    _THOUGHT: Transition(State.THINKING),
}
_MESSAGES: Transitions = {
    "<|message_model|>": Transition(State.RECIPIENT),
    **dict.fromkeys(_OTHERS, Transition(State.OTHERS)),
    **dict.fromkeys(_ENDS, Transition(State.BETWEEN_MESSAGES)),
}
_OVER = {marker: Transition(State.PROSE, Marker.KEPT) for marker in _MESSAGES}
_ALL = {**_KINDS, **_MESSAGES}

# One word, while it is being written: more are text.
_WORD = re.compile(r"(?P<said>)\s*[\w./:-]*\s*")
_ANYTHING = re.compile("")

INKLING = Format(
    name="inkling",
    title="messages; those after <|content_invoke_tool_json|> hold a JSON object",
    models=("Inkling",),
    example=(
        "<|message_model|>get_weather<|content_invoke_tool_json|>"
        '{"name": "get_weather", "args": {"city": "Paris"}}<|end_message|>'
    ),
    start=State.RECIPIENT,
    thinking=State.THINKING,
    syntax=CallSyntax(
        begin=f"<|message_model|>{{name}}<|content_invoke_tool_json|>{call_object(arguments='args')}",
        end="}<|end_message|>",
        separator="",
    ),
    states={
        State.RECIPIENT: Header({**_KINDS, **_OVER}, possible=_WORD, unfinished=((_ANYTHING, State.PROSE),)),
        # The model goes on alone, and makes up what the user or a tool says.
        State.OTHERS: Header(
            {**dict.fromkeys(_KINDS, Transition(State.THINKING)), **_OVER},
            possible=_WORD,
            unfinished=((_ANYTHING, State.THINKING),),
        ),
        State.PROSE: Prose(_ALL),
        State.THINKING: Prose(_ALL, Sink.REASONING),
        State.CALL: JsonCall(
            then=State.AFTER_CALL,
            arguments_keys=frozenset({"args", "arguments", "parameters"}),
            hides_markers=True,
        ),
        State.AFTER_CALL: Gap(_ALL, junk=re.compile(r"[\s}\]]*"), behind=Behind.CALL),
        State.BETWEEN_MESSAGES: Gap(_ALL, otherwise=State.RECIPIENT, behind=Behind.CALL),
    },
)

FORMATS = (INKLING,)
