"""Where two courses of the same exchange differ first, as a person can read it.

What has to be equal is what Envoy is told, what backends are asked and what the client gets. What may differ is made
equal before: ids of calls, which are random, and the pieces in which a stream leaves. The length of a body is left out,
as it says less than the body; and so is whether there was to be more time, as a conversation that is known takes less.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from extproc.names import METADATA_NAMESPACE, STREAM_ENDED
from extproc.recording.document import Entry, Json, Kind
from extproc.recording.envoy_json import bytes_as_json, bytes_from_json
from extproc.recording.replay import ReplayResult

_MADE_ID = re.compile(r"(call)_([A-Za-z0-9]{24})|([a-z]+)_((?:[0-9a-f]{24}){1,2})")
"""Of calls, and of whatever else Messages (24 digits) and Responses (48) have ids for."""
_SHOWN = 70
"""Characters on each side of the place."""
_NOTHING = "(nothing)"


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place, and what is there."""

    place: str
    recorded: str
    now: str

    def __str__(self) -> str:
        return f"{self.place}\n  recorded  {self.recorded}\n  now       {self.now}"


def first_difference(recorded: ReplayResult, now: ReplayResult) -> Difference | None:
    """None when they are the same; of a recording without an end, when what comes now begins with it."""
    before, after = list(_comparable(recorded)), list(_comparable(now))
    if not recorded.complete:
        _shorten(after, before)
    for number, (then, today) in enumerate(zip_longest(before, after), 1):
        if then != today:
            what = "/".join(sorted(_parts(then) | _parts(today)))
            return _inner(f"step {number}, {what}", then, today)
    return None


def steps_of(outcome: ReplayResult) -> int:
    """How many there are to be compared."""
    return sum(1 for _ in _comparable(outcome))


def to_client(outcome: ReplayResult) -> list[Any]:
    """What a client sees of it: the answer's own headers and body, or the error in their place."""
    seen = ("response_headers", "response_body", "response_trailers", "immediate_response", "stream")
    return [
        {name: value for name, value in step.items() if name in seen}
        for step in _comparable(outcome)
        if any(name in step for name in seen)
    ]


def streamed_piece(step: Entry) -> Json | None:
    """The piece of a stream that a reply carries."""
    if step.kind is not Kind.PROCESSOR:
        return None
    body = step.what.get("response_body", {}).get("response", {}).get("body_mutation", {})
    piece: Json | None = body.get("streamed_response")
    return piece


def _comparable(outcome: ReplayResult) -> Iterator[Json]:
    """The steps with the pieces of a stream as one, and equal names for what is made at random."""
    ids: dict[str, str] = {}
    for step in _joined(outcome):
        yield _renamed(_without_end(step), ids)


def _without_end(step: Json) -> Json:
    """Without what older recordings haven't: that the last event of a stream leaves with it."""
    metadata = step.get("dynamic_metadata", {})
    told = metadata.get(METADATA_NAMESPACE)
    if not isinstance(told, dict):
        return step
    rest = {name: value for name, value in told.items() if name != STREAM_ENDED}
    return {**step, "dynamic_metadata": {**metadata, METADATA_NAMESPACE: rest}}


def _joined(outcome: ReplayResult) -> Iterator[Json]:
    stream: Json | None = None
    data = bytearray()
    for step in outcome.steps:
        if (piece := streamed_piece(step)) is not None:
            stream = {**(stream or {}), **{name: value for name, value in step.what.items() if name != "response_body"}}
            data += bytes_from_json(piece.get("body", ""))
            stream["end_of_stream"] = piece.get("end_of_stream", False)
            continue
        if stream is not None:
            yield {"stream": bytes_as_json(bytes(data)), **stream}
            stream, data = None, bytearray()
        if step.kind is Kind.PROCESSOR and "override_message_timeout" in step.what:
            continue
        yield step.what if step.kind is Kind.PROCESSOR else {step.kind.value: step.what}
    if stream is not None:
        yield {"stream": bytes_as_json(bytes(data)), **stream}


def _renamed(value: Any, ids: dict[str, str]) -> Any:
    match value:
        case str():
            return _MADE_ID.sub(lambda found: ids.setdefault(found[0], _equal_id(found, len(ids) + 1)), value)
        case dict():
            return {name: _renamed(inner, ids) for name, inner in value.items()}
        case list():
            return [_renamed(inner, ids) for inner in value if not _is_length(inner)]
        case _:
            return value


def _equal_id(made: re.Match[str], number: int) -> str:
    """As long as the one that was made, and of the same kind."""
    kind, digits = made[1] or made[3], made[2] or made[4]
    return f"{kind}_{number:0{len(digits)}}"


def _is_length(value: Any) -> bool:
    match value:
        case {"header": {"key": "content-length"}}:
            return True
    return False


def _shorten(after: list[Json], before: list[Json]) -> None:
    """Have `after` end where `before` does, which Envoy, or the room for it, ended there."""
    del after[len(before) :]
    if not after or len(after) < len(before) or "stream" not in before[-1] or "stream" not in after[-1]:
        return
    recorded, now = bytes_from_json(before[-1]["stream"]), bytes_from_json(after[-1]["stream"])
    if len(now) >= len(recorded):
        before[-1] = {"stream": bytes_as_json(recorded)}
        after[-1] = {"stream": bytes_as_json(now[: len(recorded)])}


def _parts(step: Json | None) -> set[str]:
    return {name for name in step or {} if name not in ("dynamic_metadata", "mode_override", "end_of_stream")}


def _inner(place: str, then: Any, today: Any) -> Difference:
    """Go down to the smallest part that differs."""
    match then, today:
        case dict(), dict():
            for name in [*then, *today]:
                if then.get(name) != today.get(name):
                    return _inner(f"{place}, {name}", then.get(name), today.get(name))
        case list(), list():
            for number, (one, other) in enumerate(zip_longest(then, today)):
                if one != other:
                    return _inner(f"{place}[{number}]", one, other)
        case str(), str():
            return _in_text(place, then, today)
    return Difference(place, _told(then), _told(today))


def _in_text(place: str, then: str, today: str) -> Difference:
    at = next((at for at, (one, other) in enumerate(zip(then, today, strict=False)) if one != other), None)
    if at is None:
        at = min(len(then), len(today))
    line = then.count("\n", 0, at)
    if line:
        place = f"{place}, line {line + 1}"
    return Difference(place, _around(then, at), _around(today, at))


def _around(text: str, at: int) -> str:
    """The line with this place in it, or as much of it as can be shown."""
    start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
    end = len(text) if end < 0 else end
    left, right = max(start, at - _SHOWN), min(end, at + _SHOWN)
    shown = ("..." if left > start else "") + text[left:right] + ("..." if right < end else "")
    return shown or (_NOTHING if at >= len(text) else "(an empty line)")


def _told(value: Any) -> str:
    return _NOTHING if value is None else str(value)[: 2 * _SHOWN]
