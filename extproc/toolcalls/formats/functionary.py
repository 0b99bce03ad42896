"""Functionary: `<function=NAME>{...}</function>` in 3.1, and in 3.2 a name on a line of its own, then the object.

In 3.2 every part of an output has a recipient behind `>>>`, of which the prompt has written the first: `all` is the
reader, any other is a tool. Python's prompt looks the same, so a name counts only with an object on the line below.
"""

from __future__ import annotations

import enum
import re

from extproc.toolcalls.formats.left_over import with_left_over_tags
from extproc.toolcalls.formats.shapes import named_json, prose
from extproc.toolcalls.notations.json_arguments import JsonArguments
from extproc.toolcalls.states import State
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.table import Format, Gap, Marker, Name, Prose, Transition

_FUNCTION = {"<function=": Transition(State.NAME)}
_END = {"</function>": Transition(State.PROSE)}

FUNCTIONARY_V31 = Format(
    name="functionary_v31",
    title="a JSON object in <function=NAME>",
    models=("Functionary 3.1",),
    example='<function=get_weather>{"city": "Paris"}</function>',
    syntax=CallSyntax(begin="<function={name}>", end="</function>", separator=""),
    states=with_left_over_tags(
        {
            # Behind <|python_tag|> comes code for an interpreter, which no tool is.
            **prose({**_FUNCTION, "<|python_tag|>": Transition(State.PROSE)}, None),
            **named_json(
                {},
                _FUNCTION,
                _END,
                name=Name(
                    {
                        ">": Transition(State.BEFORE_ARGUMENTS),
                        "</function>": Transition(State.PROSE, ends_call=True),
                    }
                ),
            ),
        },
        "</function>",
    ),
)


class _First(enum.Enum):
    """The first part of an output, whose `>>>` is in the prompt."""

    NAME = enum.auto()
    BEFORE_ARGUMENTS = enum.auto()
    ARGUMENTS = enum.auto()


_RECIPIENTS = {">>>": Transition(State.NAME), ">>>all\n": Transition(State.PROSE)}
_OBJECT = ("{", '"{')  # in a string it is still the arguments
_WORD = re.compile(r"[\w.\-]*")
_NAME = re.compile(r"(?P<name>[\w.\-]+)")

FUNCTIONARY_V32 = Format(
    name="functionary_v32",
    title="a name, and below it a JSON object, after >>>",
    models=("Functionary 3.2",),
    aliases=("functionary",),
    example='>>>get_weather\n{"city": "Paris"}',
    start=State.BEGIN,
    syntax=CallSyntax(begin=">>>{name}\n", end="", separator=""),
    states={
        State.BEGIN: Gap({"all\n": Transition(State.PROSE), **_RECIPIENTS}, otherwise=_First.NAME),
        # A word on the first line, and an object below it, may still be an answer.
        _First.NAME: Name({"\n": Transition(_First.BEFORE_ARGUMENTS)}, pattern=_NAME, possible=_WORD),
        _First.BEFORE_ARGUMENTS: Gap(dict.fromkeys(_OBJECT, Transition(_First.ARGUMENTS, Marker.KEPT))),
        _First.ARGUMENTS: JsonArguments(then=State.AFTER_ARGUMENTS, offered_only=True),
        State.PROSE: Prose(_RECIPIENTS),
        **named_json(
            {},
            _RECIPIENTS,
            {},
            name=Name({"\n": Transition(State.BEFORE_ARGUMENTS)}, pattern=_NAME, possible=_WORD),
        ),
        State.BEFORE_ARGUMENTS: Gap(dict.fromkeys(_OBJECT, Transition(State.ARGUMENTS, Marker.KEPT))),
    },
)

FORMATS = (FUNCTIONARY_V31, FUNCTIONARY_V32)
