"""The four lanes of an exchange as styled text. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from extproc.watch.lanes import Lanes
from extproc.watch.spans import Span
from extproc.watch.tui.words import FAINT, HEADING, Part, count, pretty
from extproc.watch.viewed import Viewed
from extproc.watch.written import Written

TITLES = ("The client asked", "The model was shown", "The model wrote", "The client got")
MOST = 100_000
"""Characters of a lane that are drawn."""

STYLES = {
    "marker": "bold $warning",
    "content": "",
    "reasoning": "italic $foreground-muted",
    "name": "bold $accent",
    "arguments": "$success",
}
"""Of the spans of a model's text, by their kind."""
_WRONG, _RIGHT = "underline $error", "bold $success"


def lane(view: Viewed, number: int) -> list[Part]:
    """One of them, by its place in TITLES; of what is too long its beginning."""
    make = (_asked, _shown, _wrote, _got)[number]
    return list(_bounded(make(view)))


def _bounded(parts: Iterator[Part]) -> Iterator[Part]:
    left = MOST
    for text, style in parts:
        if left > 0:
            yield text[:left], style
        left -= len(text)
    if left < 0:
        yield f"\n… {count(-left, 'character')} more: `e` saves all of it", FAINT


def _note(text: str) -> Part:
    return f"{text}\n", FAINT


# What was asked


def _asked(view: Viewed) -> Iterator[Part]:
    yield from _request(view.lanes.asked, None)


def _shown(view: Viewed) -> Iterator[Part]:
    lanes = view.lanes
    if lanes.shown is None and view.ended:
        yield _note("It was answered without asking a model.")
        return
    told = (
        f"backend {lanes.backend}" if lanes.backend else "",
        f"{lanes.mode} mode" if lanes.mode else "",
        lanes.format or "",
    )
    if any(told):
        yield _note(" · ".join(filter(None, told)))
    if lanes.same:
        yield _note("The same, byte for byte.")
    else:
        yield from _request(lanes.shown, lanes.asked)


_OWN_PLACE = ("messages", "input", "tools", "system", "instructions")


def _request(body: Any, like: Any) -> Iterator[Part]:
    """What a request says, in whichever dialect. `like`: the client's own, to tell what is the same."""
    if body is None:
        yield _note("nothing yet")
        return
    if not isinstance(body, dict):
        yield (body if isinstance(body, str) else _json(body)), ""
        return
    known = like.get("messages") if isinstance(like, dict) else None
    if system := body.get("system") or body.get("instructions"):
        yield from _message({"role": "system", "content": system}, None)
    said = body.get("messages") or body.get("input")
    for each in [{"role": "user", "content": said}] if isinstance(said, str) else _list(said):
        yield from _message(each, known)
    if tools := _list(body.get("tools")):
        yield from _tools(tools)
    if rest := [(name, value) for name, value in body.items() if name not in _OWN_PLACE]:
        yield "parameters\n", HEADING
        for name, value in rest:
            yield f"{name} ", FAINT
            yield f"{value if isinstance(value, str) else _json(value, indent=None)}\n", ""


def _message(message: Any, known: Any) -> Iterator[Part]:
    if not isinstance(message, dict):
        yield f"{_json(message)}\n", ""
        return
    same = isinstance(known, list) and message in known
    yield str(message.get("role") or message.get("type") or "message"), HEADING
    yield (" · as the client sent it\n" if same else "\n"), FAINT
    if thought := message.get("reasoning_content") or message.get("reasoning"):
        yield f"{_words(thought)}\n", STYLES["reasoning"]
    if text := _words(message.get("content") or message.get("output") or message.get("arguments")):
        yield f"{text}\n", FAINT if same else ""
    for call in _list(message.get("tool_calls")):
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            yield from _call(str(function.get("name", "")), str(function.get("arguments", "")), str(call.get("id", "")))
    yield "\n", ""


def _list(value: Any) -> list[Any]:
    """A client may have sent anything."""
    return value if isinstance(value, list) else []


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return _json(content) if content else ""
    return "\n".join(_part(part) for part in content)


def _part(part: Any) -> str:
    if isinstance(part, dict):
        for name in ("text", "thinking"):
            if isinstance(part.get(name), str):
                return str(part[name])
        if part.get("type") == "tool_result":
            return _words(part.get("content"))
    return _json(part)


def _tools(tools: list[Any]) -> Iterator[Part]:
    yield f"{count(len(tools), 'tool')}\n", HEADING
    for tool in tools:
        of = tool.get("function", tool) if isinstance(tool, dict) else {}
        of = of if isinstance(of, dict) else {}
        yield str(of.get("name") or of.get("type") or "?"), STYLES["name"]
        yield f" {of.get('description') or ''}\n", FAINT
        if schema := of.get("parameters") or of.get("input_schema"):
            yield f"  {_json(schema, indent=None)}\n", ""
    yield "\n", ""


def _call(name: str, arguments: str, identity: str) -> Iterator[Part]:
    yield name or "…", STYLES["name"]
    yield f" {identity}\n", FAINT
    yield f"{pretty(arguments)}\n", STYLES["arguments"]


def _json(value: Any, indent: int | None = 2) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False)


# What was answered


def _wrote(view: Viewed) -> Iterator[Part]:
    lanes = view.lanes
    if view.summary.is_run:
        yield _note("Each round is an exchange of its own.")
    elif lanes.passed:
        yield _note("The answer went past the processor, so it isn't here.")
    elif not lanes.written:
        failed = lanes.received is not None and any(item.kind == "error" for item in lanes.received.items)
        yield _note("nothing that could be read" if failed else "nothing" if view.ended else "nothing yet")
    for written in lanes.written:
        if len(lanes.written) > 1:
            yield f"choice {written.index}\n", HEADING
        yield from _output(written)
    if lanes.retry is not None and lanes.written:
        yield from _asked_again(lanes)


def _asked_again(lanes: Lanes) -> Iterator[Part]:
    assert lanes.retry is not None
    yield "asked once more\n", HEADING
    if not lanes.retry.written:
        yield _note(f"It answered {lanes.retry.status}." if lanes.retry.status else "No answer came.")
    for written in lanes.retry.written:
        yield from _output(written)


def _output(written: Written) -> Iterator[Part]:
    yield from spans_text(written.spans)
    if written.finish_reason:
        yield _note(f"\nfinish_reason: {written.finish_reason}")


def spans_text(spans: Sequence[Span]) -> Iterator[Part]:
    """Each stretch of a model's text, what it became if that is something else, and behind it the parser's events."""
    events: dict[str, int] = {}
    for place, span in enumerate(spans):
        changed = span.out is not None and span.out != span.text and span.kind != "marker"
        yield span.text.replace("\n", "↵\n"), _WRONG if changed else STYLES[span.kind]
        if changed:
            yield f"→{span.out or '(left out)'}", _RIGHT
        for name, times in span.events.items():
            events[name] = events.get(name, 0) + times
        following = spans[place + 1] if place + 1 < len(spans) else None
        if events and (following is None or not _of_one_call(span, following)):
            told = ", ".join(f"{name} ×{times}" if times > 1 else name for name, times in events.items())
            yield f" ⟨{told}⟩ ", FAINT
            events = {}


def _of_one_call(span: Span, other: Span) -> bool:
    """Whether both are parts of the arguments of one call: their events are told together."""
    return span.call is not None and span.call == other.call and span.kind == other.kind == "arguments"


def _got(view: Viewed) -> Iterator[Part]:
    got = view.lanes.received
    if view.lanes.passed:
        yield _note(f"the {'runner' if view.summary.is_run else 'backend'}'s answer, as it is")
        return
    if got is None:
        yield _note("nothing" if view.ended else "nothing yet")
        return
    for item in got.items:
        if item.kind == "call":
            yield from _call(item.name, item.text, item.id)
        elif item.kind == "error":
            yield f"{item.name} ", "bold $error"
            yield f"{item.text}\n", "$error"
        elif item.text:
            yield (f"{item.kind}: " if item.kind != "content" else ""), FAINT
            yield f"{item.text}\n", STYLES.get(item.kind, "")
    ends = (
        f"status {got.status}" if got.status else "",
        f"finish_reason: {got.finish_reason}" if got.finish_reason else "",
        count(got.events, "event") if got.stream else "",
    )
    yield _note("\n" + " · ".join(filter(None, ends)))
