"""Formats with channels: every message has a header that says whom it is for, and so what it is.

gpt-oss writes harmony: `<|channel|>analysis<|message|>` is thinking, `final` and `commentary` without a recipient are
for the reader, a recipient (`to=functions.NAME`) makes it a call. The recipient may stand before or behind the channel,
and broken headers are common. The token that ends a call stops the model, so it is missing more often than not.
Muse and Beam have the same frame with other bodies.
"""

from __future__ import annotations

import re

from extproc.toolcalls.formats.shapes import invoke_parameter
from extproc.toolcalls.json_arguments import JsonArguments
from extproc.toolcalls.table import Format, Gap, Header, Key, Prose, Rule, Rules, Sink, State, Value
from extproc.toolcalls.tagged import Trim
from extproc.toolcalls.values import ANY_TYPE

_HEADERS = {"<|start|>": Rule("header"), "<|channel|>": Rule("header")}
_ENDS = {marker: Rule("prose") for marker in ("<|end|>", "<|call|>", "<|return|>")}
_FIRST_WORDS = ("to=", "commentary to=", "assistant", "––", *(f"{c}<|message|>" for c in ("analysis", "final")))
_THINKING = re.compile(r".*(?:analysis|think).*", re.DOTALL)
_ANYTHING = re.compile(r".*", re.DOTALL)
_WORDS = ("assistant", "analysis", "commentary", "final", "user", "code", "json", "xml")
_BEGUN_WORDS = "|".join(word[:size] for word in _WORDS for size in range(len(word), 0, -1))
# A header as far as it has come. A model that forgets `<|message|>` goes on with what it has to say, and that is text.
_HEADER_SO_FAR = re.compile(
    rf"\s*+(?:(?:(?:{'|'.join(_WORDS)})(?![\w.\-])|to=[\w.\-]++|<\|\w++\|>)\s*+)*+(?:{_BEGUN_WORDS}|to?=?|<\|?\w*\|?)?"
)


def _recipient(namespace: str, but: str = "") -> re.Pattern[str]:
    """A header with a recipient, in any place; `but` are recipients that are no tools."""
    excluded = rf"(?!(?:{but})\b)" if but else ""
    return re.compile(rf".*\bto={excluded}(?:{namespace})?(?P<name>[\w.\-]+).*", re.DOTALL)


def _frame(headers: Rules, ends: Rules, routes: tuple[tuple[re.Pattern[str], str], ...]) -> dict[str, State]:
    return {
        # The prompt ends inside the first header: the output may begin with the rest of it.
        "begin": Gap({**dict.fromkeys(_FIRST_WORDS, Rule("header", keep=True)), **headers}),
        "prose": Prose({**headers, **ends}),
        "thinking": Prose({**headers, **ends}, Sink.REASONING),
        "header": Header({"<|message|>": Rule("prose")}, routes, possible=_HEADER_SO_FAR),
    }


_HARMONY_CALL_ENDS = {
    **{marker: Rule("prose", ends_call=True) for marker in _ENDS},
    "<|start|>": Rule("header", ends_call=True),
    "<|channel|>": Rule("header", ends_call=True),
}

OPENAI = Format(
    name="openai",
    title="harmony: messages with channels and recipients, arguments in JSON",
    models=("gpt-oss-20b", "gpt-oss-120b"),
    aliases=("gpt-oss", "harmony"),
    example=('<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Paris"}<|call|>'),
    start="begin",
    thinking="thinking",
    states={
        **_frame(
            _HEADERS, _ENDS, ((_recipient(r"functions\."), "call"), (_THINKING, "thinking"), (_ANYTHING, "prose"))
        ),
        "call": Gap({**_HARMONY_CALL_ENDS, "{": Rule("arguments", keep=True)}, ends_with_output=True),
        "arguments": JsonArguments(then="after call"),
        "after call": Gap({**_HEADERS, **_ENDS}, junk=re.compile(r"[\s}\]]*"), trailing=True),
    },
)

_BEAM_NEXT = {"<rfl:parameter name=": Rule("key"), **_HARMONY_CALL_ENDS}

BEAM = Format(
    name="beam",
    title="harmony with arguments in <rfl:parameter> tags",
    models=("Beam",),
    example=(
        "<|start|>assistant to=get_weather<|channel|>analysis <|constrain|>xml<|message|>"
        '<rfl:parameter name="city">\nParis\n</rfl:parameter><|end|>'
    ),
    start="begin",
    thinking="thinking",
    states={
        **_frame(
            _HEADERS, _ENDS, ((_recipient(r"functions\."), "call"), (_THINKING, "thinking"), (_ANYTHING, "prose"))
        ),
        "call": Gap(_BEAM_NEXT, ends_with_output=True),
        "key": Key({">": Rule("value")}),
        "value": Value(
            {"</rfl:parameter>": Rule("after value"), **dict.fromkeys(_ENDS, Rule("after unclosed value"))},
            Trim.LINE_BREAKS,
        ),
        "after value": Gap(_BEAM_NEXT, otherwise="value", resumes=True),
        "after unclosed value": Gap(_HARMONY_CALL_ENDS, otherwise="value", resumes=True),
    },
)

_MUSE_ENDS = {marker: Rule("prose") for marker in ("<|eom|>", "<|eot|>")}
_MUSE_HEADERS = {"<|start|>": Rule("header")}
_MUSE_SECTIONS = {
    "<atem:function_calls>": Rule("section"),
    "</atem:function_calls>": Rule("between messages"),
    **_MUSE_ENDS,
}
# Glimmer's values are JSON where they can be, whatever the schema says.
_JSON_FIRST = {"": ANY_TYPE}
_MUSE_STATES: dict[str, State] = {
    **invoke_parameter("atem:invoke", "atem:parameter", _MUSE_SECTIONS),
    **_frame(
        {**_MUSE_HEADERS, "<atem:function_calls>": Rule("section")},
        _MUSE_ENDS,
        (
            (re.compile(r"(?:.*\bto=)?(?:user|commentary|final)\b.*", re.DOTALL), "prose"),
            (_THINKING, "thinking"),
            (re.compile(r"(?:assistant\s+to=)?[\w.\-]+\s*", re.DOTALL), "section"),
            (_ANYTHING, "prose"),
        ),
    ),
    "between messages": Gap({**_MUSE_HEADERS, **_MUSE_ENDS}, trailing=True),
}
_MUSE_EXAMPLE = (
    "<|start|>assistant to=get_weather<|message|><atem:function_calls>\n"
    '<atem:invoke name="get_weather">\n<atem:parameter name="city">Paris</atem:parameter>\n'
    "</atem:invoke>\n</atem:function_calls><|eom|>"
)

MUSE = Format(
    name="muse",
    title="messages with recipients, arguments in <atem:parameter> tags",
    models=("Muse Spark",),
    aliases=("musespark1x",),
    example=_MUSE_EXAMPLE,
    start="begin",
    thinking="thinking",
    states=_MUSE_STATES,
)

MUSE_GLIMMER = Format(
    name="muse_glimmer",
    title="as muse",
    models=("Muse Glimmer",),
    example=_MUSE_EXAMPLE,
    start="begin",
    thinking="thinking",
    states={**_MUSE_STATES, **invoke_parameter("atem:invoke", "atem:parameter", _MUSE_SECTIONS, types=_JSON_FIRST)},
)

FORMATS = (
    OPENAI,
    BEAM,
    MUSE,
    MUSE_GLIMMER,
)
