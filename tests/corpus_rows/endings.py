"""Outputs that end too early, and outputs with slips: made of what was written, so that what was meant is known.

A cut-off row expects the calls that are complete, and names the one that was begun; where the text ends in what may or
may not have become a marker, both are right.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.corpus_rows.material import Material, offered
from tests.corpus_rows.situations import Situation, calling, fits, opening_markup
from tests.format_writers import Call, Output, Place, Writer


class Ending(NamedTuple):
    """A text that isn't what its writer wrote, and what it means all the same."""

    slug: str
    text: str
    tools: list[dict[str, Any]]
    expected: dict[str, Any]
    also: tuple[dict[str, Any], ...] = ()
    notes: str = ""
    opened: bool = False


def expected(
    content: str | None = None,
    reasoning: str | None = None,
    calls: tuple[Call, ...] = (),
    begun: Call | None = None,
) -> dict[str, Any]:
    row: dict[str, Any] = {"content": content or None, "reasoning": reasoning or None, "calls": list(map(_call, calls))}
    return row | {"begun": _call(begun)} if begun else row


def _call(call: Call) -> dict[str, Any]:
    return {"name": call.name, "arguments": call.arguments}


# Cut off


def cut_off(writer: Writer, made: Material) -> Iterator[Ending]:
    """One output with two calls, or as many as the format has, cut where it hurts."""
    before = made.before() if Place.BEFORE in writer.places else ""
    one, two = made.file(made.clause()), made.message(made.clause())
    situation = calling(one, two, before=before)
    if writer.most_calls < 2:
        situation = calling(one, before=before)
    if not fits(writer, situation):
        return
    output, tools = situation.output, situation.tools
    first, *others = output.calls
    text = writer.write(output)
    start = _start_of_calls(writer, situation)
    value = str(first.arguments["text"])
    if value in text:
        cut = text.index(value) + len(value) // 2
        yield Ending("cut-in-a-string", text[:cut], tools, expected(before, calls=(), begun=first))
    cut = text.index(first.name, start) + 4
    yield Ending("cut-in-the-name", text[:cut], tools, expected(before), _as_text(writer, text[:cut]))
    if len(text[start:]) > 3 and not writer.offered_only and "\n" not in text[start : start + 3]:
        also = tuple(expected(before + gap + text[start : start + 2]) for gap in ("\n", ""))
        yield Ending("cut-in-a-marker", text[: start + 2], tools, expected(before), also)
    if others:
        yield from _cut_behind_the_first(writer, situation, text)
    yield from _cut_in_thinking(writer, made)


def _cut_behind_the_first(writer: Writer, situation: Situation, text: str) -> Iterator[Ending]:
    output, tools = situation.output, situation.tools
    first, second = output.calls
    fewer = writer.write(dataclasses.replace(output, calls=(first,)))
    end = next((at for at, (one, other) in enumerate(zip(fewer, text, strict=False)) if one != other), len(fewer))
    cut = min(end + 3, text.index(second.name, end))
    rest = text[end:cut].strip()
    said = [rest] if any(marker.startswith(rest) for marker in writer.markup) else []
    if writer.offered_only:
        said = [rest, rest.lstrip(",; ")]
    also = tuple(
        expected(f"{output.before} {text}", calls=(first,), begun=second) for text in dict.fromkeys(said) if text
    )
    yield Ending("cut-between-calls", text[:cut], tools, expected(output.before, calls=(first,), begun=second), also)
    value = str(second.arguments["text"])
    if value in text[end:]:
        cut = text.index(value, end) + len(value) // 2
        what = expected(output.before, calls=(first,), begun=second)
        yield Ending("cut-in-the-second-call", text[:cut], tools, what)


def _cut_in_thinking(writer: Writer, made: Material) -> Iterator[Ending]:
    if not writer.thinks:
        return
    for opened in (False, True):
        thought = made.thought()
        situation = calling(made.weather(), reasoning=thought, thinking_is_open=opened)
        text = writer.write(situation.output)
        half = thought[: len(thought) * 2 // 3].rstrip()
        if not fits(writer, situation) or half not in text:
            continue
        slug = "cut-in-opened-thinking" if opened else "cut-in-thinking"
        yield Ending(
            slug, text[: text.index(half) + len(half)], situation.tools, expected(reasoning=half), opened=opened
        )


def _as_text(writer: Writer, text: str) -> tuple[dict[str, Any], ...]:
    """Where only an offered tool's name shows that something is a call, its beginning may be text."""
    return (expected(text),) if writer.offered_only else ()


def _start_of_calls(writer: Writer, situation: Situation) -> int:
    """Where the first call's markup begins."""
    bare = writer.write(dataclasses.replace(situation.output, calls=()))
    text = writer.write(situation.output)
    at = next((at for at, (one, other) in enumerate(zip(bare, text, strict=False)) if one != other), len(bare))
    return at + len(text[at:]) - len(text[at:].lstrip())


# Slips


def _single_quotes(text: str) -> str:
    return text.replace('"', "'")


def _bare_keys(text: str) -> str:
    return re.sub(r'"(\w+)":', r"\1:", text)


JSON_SLIPS: dict[str, Callable[[str], str]] = {
    "a-trailing-comma": lambda text: text[:-1] + ",}",
    "single-quotes": _single_quotes,
    "keys-without-quotes": _bare_keys,
    "pythons-words": lambda text: text.replace("true", "True").replace("null", "None"),
    "a-comment": lambda text: text.replace("{", "{ // the arguments\n", 1),
    "a-line-break-in-a-string": lambda text: text.replace("\\n", "\n"),
    "a-missing-comma": lambda text: text.replace(", ", " ", 1),
    "arguments-as-a-string": lambda text: json.dumps(text),
}


def json_slips(writer: Writer, made: Material, most: int) -> Iterator[Ending]:
    """Some of the slips that JSON sees; what was meant is the object that was written before the slip."""
    names = list(JSON_SLIPS)
    made.source.shuffle(names)
    for slug in names[:most]:
        arguments = {"text": f"one {made.noun()}\nfor {made.city()}", "note": None, "repeat": True}
        situation = calling(("set_reminder", arguments))
        text = writer.write(situation.output)
        written = situation.output.json(arguments)
        if text.count(written) == 1:
            broken = text.replace(written, JSON_SLIPS[slug](written))
            yield Ending(slug, broken, situation.tools, expected(calls=situation.output.calls))


def duplicate_keys(writer: Writer, made: Material) -> Iterator[Ending]:
    """RFC 8259 leaves open which of two equal keys counts, but not that the call is there, with one of both values."""
    one, other = made.city(), made.city()
    situation = calling(("send_message", {"to": one, "text": "t"}))
    text, written = writer.write(situation.output), f'"to": "{one}"'
    if one == other or text.count(written) != 1:
        return
    call = situation.output.calls[0]
    last = dataclasses.replace(call, arguments={"to": other, "text": "t"})
    yield Ending(
        "a-key-twice",
        text.replace(written, f'{written}, "to": "{other}"'),
        situation.tools,
        expected(calls=(last,)),
        (expected(calls=(call,)),),
        "RFC 8259, section 4: names should be unique; which of two counts is left open.",
    )


def tag_slips(writer: Writer, made: Material) -> Iterator[Ending]:
    """The last marker missing, as where it is a stop token, or there twice."""
    situation = calling(made.weather())
    text = writer.write(situation.output)
    last = max((marker for marker in writer.markup if text.rstrip().endswith(marker)), key=len, default="")
    if last and any(marker in text.rstrip().removesuffix(last) for marker in writer.markup):
        what = expected(calls=situation.output.calls)
        yield Ending("without-the-last-marker", text.rstrip().removesuffix(last), situation.tools, what)
    if last:
        situation = calling(made.weather())
        text = writer.write(situation.output).rstrip()
        what = expected(calls=situation.output.calls)
        yield Ending("the-last-marker-twice", f"{text}\n{last}", situation.tools, what)


def unknown_tool(writer: Writer, made: Material) -> Iterator[Ending]:
    """A call of a tool that wasn't offered: handed on as it is, taken for text, or dropped; never somebody else's."""
    situation = calling(made.weather())
    text, tools = writer.write(situation.output), offered("search")
    nothing, all_text = expected(), expected(text)
    if writer.offered_only:
        yield Ending("a-tool-that-was-not-offered", text, tools, all_text, (nothing,))
        return
    call = expected(calls=situation.output.calls)
    notes = "No specification says what becomes of it."
    # Without a schema, a value that isn't JSON has no type.
    words = {key: str(value) for key, value in situation.output.calls[0].arguments.items()}
    untyped = expected(calls=(dataclasses.replace(situation.output.calls[0], arguments=words),))
    yield Ending("a-tool-that-was-not-offered", text, tools, call, (untyped, nothing, all_text), notes)


def call_in_thinking(writer: Writer, made: Material) -> Iterator[Ending]:
    """Thinking that is never closed, and a call in it, with which the output ends."""
    thought = made.thought()
    thinking = writer.write(Output(reasoning=thought)) if writer.thinks else ""
    if not thinking.startswith("<think>") or "</think>" not in thinking:
        return
    situation = calling(made.weather())
    begun = thinking[: thinking.index(thought) + len(thought)]
    call = writer.write(situation.output)
    only_thought = expected(reasoning=f"{thought}\n{call}")
    what = expected(reasoning=thought, calls=situation.output.calls)
    notes = "No template says it; most models that do so mean the call. To take all of it for thinking loses nothing."
    yield Ending("a-call-in-thinking", f"{begun}\n{call}", situation.tools, what, (only_thought,), notes)


def spoken_of(writer: Writer, made: Material) -> Iterator[Ending]:
    """A marker in inline code, with no call behind it."""
    if not writer.markup or not opening_markup(writer) or writer.offered_only or Place.BEFORE not in writer.places:
        return
    text = f"The tag `{opening_markup(writer)[0]}` begins a call, says {made.person()} in {made.city()}."
    yield Ending("a-marker-in-inline-code", text, offered("get_weather"), expected(text))
