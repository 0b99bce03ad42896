"""Harmony: every message has a header that says whom it is for, and so what it is.

gpt-oss writes `<|channel|>analysis<|message|>` before what it thinks; `final` is for the reader, as is `commentary`
without a recipient; a recipient (`to=functions.NAME`), before or behind the channel, makes a message a call. The token
that ends a call stops the model, so it is missing more often than not.

Broken headers are common: a channel named twice, garbage between the words, no `<|message|>`. Where a header can be, it
is markup as far as it goes, and the channel it named last decides what follows. In the middle of a text it is one only
if it is complete: models that think about their own markers write them down.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from extproc.toolcalls.formats.shapes import QUOTED
from extproc.toolcalls.notations.json_arguments import JsonArguments
from extproc.toolcalls.notations.plain_text import PlainTextEnds
from extproc.toolcalls.notations.tagged import Trim
from extproc.toolcalls.states import State, StateName
from extproc.toolcalls.syntax.arguments import Elements
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.table import (
    Behind,
    Format,
    Gap,
    Header,
    Key,
    Marker,
    Prose,
    Routes,
    Rules,
    Sink,
    Transition,
    Transitions,
    Value,
)

# What a header may say

_WORDS = ("assistant", "analysis", "commentary", "final", "thinking", "user", "system", "developer")
_TYPES = ("json", "code", "xml", "text")
_MARKERS = ("channel", "constrain", "start")


def _begun(words: Iterable[str]) -> str:
    """Any of the words, or a beginning of one: the longest that there is."""
    beginnings = {word[:size] for word in words for size in range(1, len(word) + 1)}
    return "|".join(sorted(beginnings, key=len, reverse=True))


# Where any one word may stand: models make channels and types up, and a tool's result begins with its name.
_FREE = r"(?:\A|(?<=<\|channel\|>)|(?<=<\|constrain\|>)|(?<=<\|start\|>))"
_SO_FAR = re.compile(
    rf"""
    (?P<said>(?:
        \s+
      | (?:{"|".join(_WORDS)})+ (?![a-z_.'-])
      | (?:{"|".join(_TYPES)}) (?=\s*(?:<\||\{{)|\s+to=)
      | to=\s*[\w./-]+
      | <\|(?:{"|".join(_MARKERS)})\|>
      | {_FREE} [\w.-]+ (?=\s*(?:<\||\{{)|\s+to=)
      | \d*\?+
      | [–—]+ (?!\s)
    )*+)
    (?:
        <(?:\|(?:(?:{_begun(_MARKERS)})\|?)?)?
      | to=\s*
      | {_FREE} [\w.-]+ (?:\s+to?|\s*(?:<\|?)?)
      | (?:{"|".join(_TYPES)}) (?:\s+to?|\s*(?:<\|?)?)
      | (?:{"|".join(_WORDS)})*+ (?:{_begun((*_WORDS, *_TYPES, "to"))})
      | \d+
      | [–—]+
    )?
    """,
    re.VERBOSE,
)


def _said(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL)


_NO_TOOL = r"(?:assistant|user|system|developer|self|all|functions)(?![\w.-])"
_ROUTES: Routes = (
    (_said(r".*\bto=\s*functions\.(?P<name>[\w.-]+).*"), State.CALL),
    (_said(r".*\bto=\s*(?P<offered>[\w.-]+).*"), State.CALL),
    # The tools that these models know by themselves are none that a client runs, unless it offers them.
    (_said(r".*\bto=\s*(?:python|browser|container)(?![\w-]).*"), State.THINKING),
    # Not the assistant says it: the model goes on alone, and makes up what a tool or the user answers.
    (_said(r"\s*(?:user|system|developer|[\w-]+\.[\w.-]+)(?![\w.-]).*"), State.THINKING),
    (_said(rf".*\bto=\s*(?!{_NO_TOOL})(?P<name>[\w.-]+).*"), State.CALL),
    # The channel that was named last decides.
    (_said(r"(?i:.*(?:analysis|think)(?!.*(?:final|commentary)).*)"), State.THINKING),
    (_said(r".*final(?!.*(?:analysis|commentary)).*"), State.PROSE),
    (_said(r".*\bto=\s*(?:assistant|self|system|developer)(?![\w.-]).*"), State.THINKING),
    (_said(r".*"), State.PROSE),
)

# What stands around messages

_END = "<|end|>"
_STOPS = ("<|call|>", "<|return|>")
_AT_A_BOUNDARY: Transitions = {
    "<|start|>": Transition(State.HEADER),
    "<|channel|>": Transition(State.HEADER),
    "<|message|>": Transition(State.PROSE),
    # The prompt ends inside a header: an output may begin with the rest of it. Models also forget markers elsewhere.
    **{
        words + "to=functions.": Transition(State.HEADER, Marker.KEPT)
        for words in ("", "assistant ", "commentary ", "analysis ")
    },
    **dict.fromkeys((*_WORDS[:4], "to=", "–"), Transition(State.QUOTED_HEADER, Marker.KEPT)),
}
_ENDS = dict.fromkeys((_END, *_STOPS), Transition(State.BETWEEN_MESSAGES))
_NEXT_MESSAGE: Transitions = {
    **{marker: Transition(rule.to, rule.marker, ends_call=True) for marker, rule in _ENDS.items()},
    "<|start|>": Transition(State.HEADER, ends_call=True),
    "<|channel|>": Transition(State.HEADER, ends_call=True),
}
# What belongs into a header stands behind it at times.
_LATE_HEADER = dict.fromkeys(("<|message|>", "<|constrain|>", "json", "xml"), Transition(State.CALL))


def _text(own: StateName, sink: Sink) -> Prose:
    return Prose(
        {
            "<|start|>": Transition(State.QUOTED_HEADER),
            "<|channel|>": Transition(State.QUOTED_HEADER),
            _END: Transition(State.BETWEEN_MESSAGES),
            **{_END + behind: Transition(own, Marker.SHOWN) for behind in QUOTED},
            # The model stops at these. With text behind them they are only spoken of.
            **dict.fromkeys(_STOPS, Transition(State.QUOTED_END)),
        },
        sink,
    )


_HEADER_ENDS = {
    "<|message|>": Transition(State.PROSE),
    **dict.fromkeys((_END, *_STOPS), Transition(State.PROSE, Marker.KEPT)),
}
_FRAME: dict[StateName, Rules] = {
    State.BEGIN: Gap({**_AT_A_BOUNDARY, **_ENDS}),
    State.PROSE: _text(State.PROSE, Sink.CONTENT),
    State.THINKING: _text(State.THINKING, Sink.REASONING),
    State.HEADER: Header(_HEADER_ENDS, _ROUTES, possible=_SO_FAR, unfinished=_ROUTES),
    State.QUOTED_HEADER: Header(_HEADER_ENDS, _ROUTES, possible=_SO_FAR),
    State.BETWEEN_MESSAGES: Gap({**_AT_A_BOUNDARY, **_ENDS}, behind=Behind.CALL),
    State.QUOTED_END: Gap(
        {
            **_AT_A_BOUNDARY,
            _END: Transition(State.BETWEEN_MESSAGES),
            **dict.fromkeys(_STOPS, Transition(State.QUOTED_END)),
        }
    ),
    State.AFTER_CALL: Gap({**_AT_A_BOUNDARY, **_ENDS}, junk=re.compile(r"[\s}\]`]*"), behind=Behind.CALL),
    # What was no arguments of a call was not said to the reader either. Up to the token that ends a call, or the end
    # of the output, it was said to the tool: the client tells the model what is wrong with it.
    State.ARGUMENTS: JsonArguments(
        then=State.AFTER_CALL,
        otherwise=State.THINKING,
        hides_markers=True,
        plain=PlainTextEnds("<|call|>", (_END, "<|return|>", "<|start|>", "<|channel|>")),
    ),
}

OPENAI = Format(
    name="openai",
    title="harmony: messages with channels and recipients, arguments in JSON",
    models=("gpt-oss-20b", "gpt-oss-120b"),
    aliases=("gpt-oss", "harmony"),
    example=('<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Paris"}<|call|>'),
    start=State.BEGIN,
    thinking=State.THINKING,
    syntax=CallSyntax(
        begin="<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>",
        end="<|call|>",
        separator="<|start|>assistant",
    ),
    states={
        **_FRAME,
        State.CALL: Gap(
            {**_NEXT_MESSAGE, **_LATE_HEADER, "```json": Transition(State.CALL), "```": Transition(State.CALL)},
            otherwise=State.ARGUMENTS,
            ends_with_output=True,
        ),
    },
)

_BEAM_PARAMETER = "<rfl:parameter name="
_BEAM_NEXT = {_BEAM_PARAMETER: Transition(State.KEY), **_NEXT_MESSAGE}
_BEAM_HEADER_ENDS = {**_HEADER_ENDS, _BEAM_PARAMETER: Transition(State.PROSE, Marker.KEPT)}

BEAM = Format(
    name="beam",
    title="harmony with arguments in <rfl:parameter> tags",
    models=("Beam",),
    example=(
        "<|start|>assistant to=get_weather<|channel|>analysis <|constrain|>xml<|message|>"
        '<rfl:parameter name="city">\nParis\n</rfl:parameter><|end|>'
    ),
    start=State.BEGIN,
    thinking=State.THINKING,
    syntax=CallSyntax(
        begin=" to={name}<|channel|>analysis <|constrain|>xml<|message|>",
        arguments=Elements(None, '<rfl:parameter name="{key}">\n', "\n</rfl:parameter>"),
        end="<|end|>",
        separator="<|start|>assistant",
    ),
    states={
        **_FRAME,
        State.HEADER: Header(_BEAM_HEADER_ENDS, _ROUTES, possible=_SO_FAR, unfinished=_ROUTES),
        State.CALL: Gap(
            {**_BEAM_NEXT, **_LATE_HEADER, "{": Transition(State.ARGUMENTS, Marker.KEPT)},
            otherwise=State.THINKING,
            hides_markers=True,
            ends_with_output=True,
        ),
        State.KEY: Key({">": Transition(State.VALUE)}),
        State.VALUE: Value(
            {
                "</rfl:parameter>": Transition(State.AFTER_VALUE),
                **dict.fromkeys(_ENDS, Transition(State.AFTER_UNCLOSED_VALUE)),
            },
            Trim.LINE_BREAKS,
        ),
        State.AFTER_VALUE: Gap(_BEAM_NEXT, otherwise=State.VALUE, behind=Behind.VALUE),
        State.AFTER_UNCLOSED_VALUE: Gap(_NEXT_MESSAGE, otherwise=State.VALUE, behind=Behind.VALUE),
    },
)

FORMATS = (OPENAI, BEAM)
