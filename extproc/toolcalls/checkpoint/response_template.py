"""Compiles a checkpoint's response template into a table.

Hugging Face transformers reads outputs by a grammar that comes with the tokenizer (`response_template` in
tokenizer_config.json): fields with delimiters, and how their inside is to be parsed. It can say more than a table can,
which takes constant time per character and lets text leave as it comes. So only what is surely read in the same way is
compiled. Everything else is refused, by the name of the part: a wrong table would be worse than none.

As in transformers nothing but its own end counts inside thinking, and inside text that has delimiters; where text has
them, what stands outside of all fields is no part of the answer. (It is shown if there is nothing else.) Unlike there,
values between tags are typed by the tool's schema alone, and white space that is trimmed is one line break on each
side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extproc.toolcalls.checkpoint.calls import call_states, open_calls
from extproc.toolcalls.checkpoint.fields import Field, Template, read_template
from extproc.toolcalls.checkpoint.openings import Openings
from extproc.toolcalls.checkpoint.patterns import Kind
from extproc.toolcalls.checkpoint.problems import ResponseTemplateError, in_part
from extproc.toolcalls.states import State, StateName
from extproc.toolcalls.table import Format, Prose, Rules, Sink, Transition

_STOPS = ("</s>", "<eos>", "<|END_OF_TURN_TOKEN|>", "<|content_model_end_sampling|>")
"""Tokens that end a turn, where they are shown at all, and aren't among those of most families (`special_tokens`)."""


def compile_template(grammar: Mapping[str, Any]) -> Format:
    """The format that a response template describes. Raises ResponseTemplateError for what no table can say.

    `grammar` is the template, or the tokenizer_config.json that holds it.
    """
    template = read_template(grammar)
    openings = Openings()
    states: dict[StateName, Rules] = {}
    start: StateName = State.PROSE
    for name, field, state, sink in (
        ("fields.thinking", template.thinking, State.THINKING, Sink.REASONING),
        ("fields.content", template.content, State.ANSWER, Sink.CONTENT),
    ):
        if field is not None and field.opens is not None:
            with in_part(name):
                states[state] = _text(field, state, sink)
                if _open(field, state, openings):
                    start = state
    if template.calls is not None:
        with in_part("fields.tool_calls"):
            states |= open_calls(template.calls, openings)
            states |= call_states(template.calls, openings)
    states |= openings.states()
    states[State.PROSE] = _outside(template, openings)
    thinking: StateName | None = State.THINKING if State.THINKING in states else None
    if template.thinking is not None and template.thinking.opens is None:
        thinking = State.PROSE
    return Format(
        name="hf",
        title="as the checkpoint's response template says",
        models=(),
        example="",
        states=states,
        start=start,
        thinking=thinking,
    )


def _open(field: Field, state: StateName, openings: Openings) -> bool:
    """Adds what opens a field of text; whether the output begins inside it."""
    at_start = False
    with in_part("open_pattern"):
        for row in field.opens or ():
            if any(atom.kind is Kind.START for atom in row):
                if len(row) > 1:
                    raise ResponseTemplateError("something at the output's beginning alone can't be told")
                at_start = True
            else:
                openings.add(row, state, text=True)
    return at_start


def _ends(field: Field) -> list[str]:
    for close in field.closes:
        if len(close) > 1:
            raise ResponseTemplateError(f"close_pattern: white space between {close[0]!r} and {close[1]!r}")
    return [close[0] for close in field.closes]


def _text(field: Field, state: StateName, sink: Sink) -> Prose:
    """Text inside delimiters. The prompt and the model may both write the first one, so another is markup."""
    again = [row[0].literal for row in field.opens or () if len(row) == 1 and row[0].literal]
    ends = _ends(field)
    if not again and not ends:
        raise ResponseTemplateError("nothing ends it")
    return Prose({**dict.fromkeys(again, Transition(state)), **dict.fromkeys(ends, Transition(State.PROSE))}, sink)


def _outside(template: Template, openings: Openings) -> Prose:
    """What stands outside of all delimiters: a field that has none, if there is one."""
    markup = [*_STOPS, *filter(None, map(str.strip, template.anchors))]
    sink = Sink.CONTENT
    for name, field, own in (("thinking", template.thinking, Sink.REASONING), ("content", template.content, sink)):
        if field is not None and field.opens is None:
            sink = own
            with in_part(f"fields.{name}"):
                markup += _ends(field)
    if template.content is not None and template.content.opens is not None and sink is Sink.CONTENT:
        sink = Sink.OUTSIDE
    return Prose({**dict.fromkeys(markup, Transition(State.PROSE)), **openings.root}, sink)
