"""Causes in what the model wrote: no call where one was possible, a call that isn't read, one that doesn't fit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Protocol

import jiter

from extproc.contract.arguments import ArgumentChecker
from extproc.diagnosis.finding import Finding, excerpt
from extproc.diagnosis.notation import written_in
from extproc.diagnosis.observed import MOST_READ, Choice, Observed
from extproc.toolcalls import Parsed, Text
from extproc.turn.made_up_call import MadeUpCall
from extproc.turn.spec import ResponseSpec

_NEAR = 48
"""Characters between a tool's name and its arguments, where nothing else marks a call."""
_MANY_TOOLS = 40
_BYTES_PER_TOKEN = 12
"""Of a tool's definition there are fewer: JSON has 3 to 5."""
_HOT = 0.7
_FENCE = re.compile(r"```|~~~")


class Written(Protocol):
    """What a model wrote, and what it was read as."""

    @property
    def spec(self) -> ResponseSpec | None: ...
    @property
    def tools(self) -> Mapping[str, Mapping[str, Any]]: ...
    @property
    def said(self) -> Choice: ...
    @property
    def parsed(self) -> Parsed: ...
    @property
    def follows_result(self) -> bool: ...


def missing_call(seen: Observed) -> Iterator[Finding]:
    """A call was demanded, and none came."""
    spec = seen.spec
    if spec is None or spec.required_tool is None or not _ended_well(seen) or seen.parsed.calls:
        return
    wanted = f"`{spec.required_tool}`" if spec.required_tool else "a call"
    forced = seen.backend is not None and seen.backend.can_force
    change = "The server doesn't hold the model to the grammar that it is sent: `extproc probe` says whether it binds."
    yield Finding(
        "missing_call",
        f"`tool_choice` asks for {wanted}; `structured_outputs` of the backend is {str(forced).lower()}",
        change=change if forced else "",
    )


def hides_tools(tools: Sequence[Mapping[str, Any]], usage: Mapping[str, Any]) -> Finding | None:
    """The tools went along, and the prompt is too short to hold them."""
    tokens = usage.get("prompt_tokens")
    size = sum(len(str(tool)) for tool in tools)
    if not isinstance(tokens, int) or tokens * _BYTES_PER_TOKEN >= size:
        return None
    return Finding("tools_not_shown", f"the prompt has {tokens} tokens, and its tools alone {size} bytes")


def tools_not_shown(seen: Observed) -> Iterator[Finding]:
    """The tools went along, and the prompt is too short to hold them."""
    if seen.spec is None or not seen.spec.tools or seen.parsed.calls:
        return
    if (finding := hides_tools(seen.upstream.get("tools") or (), seen.usage)) is not None:
        yield finding


def invalid_calls(seen: Observed) -> Iterator[Finding]:
    """Calls that don't fit the tools."""
    if seen.spec is None or seen.ended_with == "length":
        return
    checker = ArgumentChecker(seen.tools)
    told: set[str] = set()
    for call in seen.parsed.calls:
        fault = checker.violation(call.name, call.arguments)
        if fault is None or fault.code in told:
            continue
        told.add(fault.code)
        match fault.code:
            case "unknown_tool_call":
                near = get_close_matches(call.name, seen.tools, n=1)
                like = f"; the nearest that was offered is `{near[0]}`" if near else ""
                yield Finding("unknown_tool", f"one of {len(seen.tools)} tools{like}", excerpt(call.name))
            case "malformed_tool_arguments":
                heat = seen.upstream.get("temperature")
                hot = isinstance(heat, int | float) and heat > _HOT
                shown = f"read as `{seen.spec.format}`" + (f", at a temperature of {heat}" if hot else "")
                yield Finding("malformed_arguments", shown, excerpt(f"{call.name} {call.arguments}"))
            case _:
                yield Finding("invalid_arguments", "by the schema that the client sent", excerpt(fault.message))


def no_call_read(seen: Observed) -> Iterator[Finding]:
    """Tools were offered, the model answered to its end, and no call came of it. The first of these that holds:"""
    spec = seen.spec
    if spec is None or not spec.tools or not _ended_well(seen) or seen.parsed.calls:
        return
    if (finding := text_without_calls(seen) or _words(seen)) is not None:
        yield finding


def text_without_calls(seen: Written) -> Finding | None:
    """What can be told of a text in which tools were offered and no call was read. The first of these that holds:"""
    rules = (_other_format, _stripped_markers, _thought_only, _made_up, _spoken_of)
    return next((finding for rule in rules if (finding := rule(seen)) is not None), None)


def _ended_well(seen: Observed) -> bool:
    return seen.status == "200" and seen.ended_with not in (None, "length", "content_filter")


def _written(seen: Written) -> str:
    """All that the model wrote, thinking too."""
    return f"{seen.said.reasoning}\n{seen.said.content}"[:MOST_READ].strip()


def _thought_only(seen: Written) -> Finding | None:
    """All of it is thinking, though the model ended by itself."""
    parsed = seen.parsed
    if (parsed.content or "").strip() or not (parsed.reasoning or "").strip():
        return None
    setting = " `thinking` is `open`" if seen.spec is not None and seen.spec.thinking == "open" else ""
    return Finding("unclosed_thinking", f"there is nothing behind it.{setting}", excerpt(parsed.reasoning or ""))


def _other_format(seen: Written) -> Finding | None:
    """Another format's parser reads calls of offered tools in it."""
    assert seen.spec is not None  # else nothing would be read
    text, own = _written(seen), seen.spec.format
    places = [at for name in seen.tools if (at := text.find(name)) >= 0]
    found = written_in(text, seen.tools) if places else None
    if found is None or (found == own and not seen.spec.native):
        return None
    if seen.spec.native:
        change = "Set `repair: true` for this model, or start the server with the tool parser of its own format."
    else:
        change = f"Set `format: {found}` for this model; it is `{own}` now."
    return Finding("other_format", f"`{found}` has calls as they stand in the text", excerpt(text, min(places)), change)


def _stripped_markers(seen: Written) -> Finding | None:
    """A tool's name right before an object with its parameters, and nothing that marks a call."""
    assert seen.spec is not None  # else nothing would be read
    text = _written(seen)
    for name, tool in seen.tools.items():
        known = (tool["function"].get("parameters") or {}).get("properties") or {}
        for found in re.finditer(rf"{re.escape(name)}(?!\w)", text):
            start = text.find("{", found.end(), found.end() + _NEAR)
            value = _object_at(text, start) if start >= 0 else None
            if value and value.keys() <= known.keys():
                shown = f"`{name}` stands before an object of its parameters, and `format` is `{seen.spec.format}`"
                return Finding("stripped_markers", shown, excerpt(text, found.start()))
    return None


def _object_at(text: str, start: int) -> dict[str, Any] | None:
    """The object that begins here, if it is one."""
    depth, in_string, escaped = 0, False, False
    for at in range(start, len(text)):
        sign = text[at]
        if in_string:
            in_string = escaped or sign != '"'
            escaped = sign == "\\" and not escaped
            continue
        in_string = sign == '"'
        depth += (sign == "{") - (sign == "}")
        if not depth:
            return _as_object(text[start : at + 1])
    return None


def _as_object(text: str) -> dict[str, Any] | None:
    try:
        value = jiter.from_json(text.encode(errors="replace"))
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _made_up(seen: Written) -> Finding | None:
    """It begins with a call of no tool, and isn't asked for again."""
    if seen.spec is not None and seen.spec.finds_made_up:
        return None
    text = seen.parsed.content or ""
    call = MadeUpCall(seen.tools)
    call.take([Text(text)])
    return Finding("made_up_tool", f"one of {len(seen.tools)} tools", excerpt(text)) if call.name is not None else None


def _spoken_of(seen: Written) -> Finding | None:
    """It speaks of a tool, or has a block of code with one, and not because it has a result to speak of."""
    if seen.follows_result:
        return None
    text = seen.parsed.content or ""
    # As a word: who does some research speaks of no tool `search`. In Chinese or Japanese no blank stands around it.
    words = ((re.search(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])", text), name) for name in seen.tools)
    named = [(found.start(), name) for found, name in words if found is not None]
    if not named:
        return None
    at, name = min(named)
    in_code = len(_FENCE.findall(text[:at])) % 2 == 1
    cause, where = ("call_in_code", ", in a block of code") if in_code else ("call_as_prose", "")
    return Finding(cause, f"it names `{name}`{where}", excerpt(text, at))


def _words(seen: Observed) -> Finding | None:
    """It speaks of no tool at all."""
    if seen.follows_result or not (seen.parsed.content or "").strip():
        return None
    cause = "many_tools" if len(seen.tools) > _MANY_TOOLS else "answered_in_words"
    return Finding(cause, f"{len(seen.tools)} offered, none named")
