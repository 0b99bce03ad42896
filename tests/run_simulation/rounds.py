"""What the model says in a round, and how it comes."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field

import orjson

from extproc.contract.errors import ApiError
from tests.run_simulation.chance import LET_GO, OTHERS, RUN, Chance, Json


@dataclass(slots=True)
class Told:
    """A round as the model means it, as far as it comes."""

    number: int
    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[list[str]] = field(default_factory=list)
    """Names and arguments."""
    reason: str | None = None
    usage: Json | None = None
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    """What comes of it, and how long after what was before."""
    fails: ApiError | Exception | None = None
    """Instead of any piece."""
    breaks: bool = False
    """Behind its pieces the connection breaks; else it ends."""
    lingers: float = 0.0
    """Before it ends."""
    lets_go: float = 0.0
    """What it takes to be cancelled."""
    whole: bool = False
    """The finish reason comes, and nothing that can't be read before it."""

    @property
    def ours(self) -> list[list[str]]:
        return [call for call in self.calls if call[0] in RUN]

    @property
    def theirs(self) -> list[list[str]]:
        return [call for call in self.calls if call[0] not in RUN]

    @property
    def goes_on(self) -> bool:
        return self.whole and self.reason == "tool_calls" and not self.theirs


_WORDS = ["I", " look.", "\n", "\n\n", " ", "Sunny", "é", "…", "\nThere", " it is\n", "x" * 40]
_BROKEN = ['{"n": %d', "[%d]", "{'n': %d}", "%d}", '{"n": %d} {']


def draw_round(chance: Chance, number: int) -> Told:
    """What the model says next, and how it comes."""
    draw = chance.random
    told = Told(number)
    wrong = draw.random() < chance.temper * 0.25
    told.lingers, told.lets_go = draw.choice([0.0, 0.0, 0.0, 0.2, 5.0]), draw.choice([0.0, 0.0, LET_GO - 0.01])
    if wrong and draw.random() < 0.4:
        told.fails = draw.choice([ApiError(503, "Busy.", "server_error", code="busy"), ZeroDivisionError("a bug")])
        return told
    deltas = _says(chance, told)
    events: list[Json | bytes] = [{"choices": [_choice(delta)]} for delta in deltas]
    if events and isinstance(events[0], dict) and draw.random() < 0.9:
        events[0]["choices"][0]["delta"]["role"] = "assistant"
    calls = "tool_calls" if draw.random() < 0.8 else "stop"
    told.reason = draw.choice(["length", "content_filter"]) if draw.random() < 0.12 else None
    if told.reason is not None and told.calls and draw.random() < 0.7:
        _cut_off(told, events, draw)
    said = told.reason or (calls if told.calls else "stop")
    if draw.random() < 0.5 or not events:
        events.append({"choices": [_choice({})]})
    last = events[-1]
    assert isinstance(last, dict)
    last["choices"][0]["finish_reason"] = said
    told.reason = told.reason or ("tool_calls" if told.calls else "stop")
    told.whole = True
    if draw.random() < 0.85:
        told.usage = _usage(draw)
        events.append({"choices": [], "usage": told.usage})
    if draw.random() < 0.9:
        events.append(b"data: [DONE]\n\n")
    for _ in range(draw.randint(0, 2)):
        events.insert(draw.randint(0, len(events)), b": still there\n\n")
    if wrong:
        _spoil(told, events, draw)
    _send(chance, told, events)
    return told


def _says(chance: Chance, told: Told) -> list[Json]:
    draw = chance.random
    deltas: list[Json] = []
    if draw.random() < 0.3:
        for _ in range(draw.randint(1, 3)):
            told.thoughts.append(draw.choice(["Hm", "… ", "so\n"]))
            deltas.append({draw.choice(["reasoning", "reasoning_content"]): told.thoughts[-1]})
    _says_words(draw, told, deltas)
    kind = draw.random()
    names = RUN if kind < 0.55 else [*RUN, *OTHERS] if kind < 0.68 else OTHERS if kind < 0.75 else []
    many = draw.choice([1, 1, 2, 3, 6, 30 if draw.random() < 0.1 else 4]) if names else 0
    ids = [draw.choice(["same", f"call_{told.number}_{place}", "", None]) for place in range(many)]
    for place, call_id in enumerate(ids):
        if draw.random() < 0.1:
            _says_words(draw, told, deltas)
        name, unique = draw.choice(names), next(chance.numbers)
        arguments = draw.choice(_BROKEN) % unique if draw.random() < 0.1 else f'{{"n": {unique}, "of": "é"}}'
        told.calls.append([name, arguments])
        begins: Json = {"index": place, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
        deltas.append({"tool_calls": [begins]})
        pieces = _cut(arguments, draw)
        deltas += [{"tool_calls": [{"index": place, "function": {"arguments": piece}}]} for piece in pieces]
    if draw.random() < 0.2:
        _says_words(draw, told, deltas)
    return deltas


def _says_words(draw: random.Random, told: Told, deltas: list[Json]) -> None:
    for _ in range(draw.choice([0, 0, 1, 3, 8])):
        told.texts.append(draw.choice(_WORDS))
        deltas.append({"content": told.texts[-1]})


def _cut_off(told: Told, events: list[Json | bytes], draw: random.Random) -> None:
    """The last call, and whatever came behind it."""
    name, arguments = told.calls[-1]
    place = max(at for at, event in enumerate(events) if b'"name"' in _encoded(event))
    behind = [event["choices"][0]["delta"] for event in events[place + 1 :] if isinstance(event, dict)]
    for delta in behind:
        if "content" in delta:
            told.texts.pop()
    del events[place + 1 :]
    kept = arguments[: draw.randint(0, len(arguments) - 1)]
    told.calls[-1] = [name, kept]
    if kept:
        index = len(told.calls) - 1
        events.append({"choices": [_choice({"tool_calls": [{"index": index, "function": {"arguments": kept}}]})]})


def _spoil(told: Told, events: list[Json | bytes], draw: random.Random) -> None:
    """Something ends the stream before its time."""
    told.whole, told.usage = False, None
    finishes = next(at for at, event in enumerate(events) if b'"finish_reason":"' in _encoded(event))
    del events[draw.randint(0, finishes) :]
    kind = draw.random()
    if kind < 0.3:
        told.breaks = True
    elif kind < 0.5:
        events.append(b'data: {"error": {"message": "It failed.", "code": 503}}\n\n')
    elif kind < 0.7:
        events.append(draw.choice([b"data: <html>\n\n", b"data: []\n\n", b'data: {"choices": [3]}\n\n']))
        events.append({"choices": [{**_choice({}), "finish_reason": "stop"}]})
    elif kind < 0.8:
        events.append(b"data: [DONE]\n\n")


def _send(chance: Chance, told: Told, events: list[Json | bytes]) -> None:
    """In pieces that have nothing to do with the events, with time between some of them."""
    draw = chance.random
    together = b""
    for event in events:
        together += _encoded(event)
        delay = chance.delay()
        if delay or draw.random() < 0.2:
            cut = draw.randint(0, len(together))
            told.pieces.append((delay, together[:cut]))
            together = together[cut:]
    told.pieces.append((0.0, together))


def _encoded(event: Json | bytes) -> bytes:
    if isinstance(event, bytes):
        return event
    return b"data: " + orjson.dumps({"id": "chatcmpl-1", "object": "chat.completion.chunk", **event}) + b"\n\n"


def _choice(delta: Json) -> Json:
    return {"index": 0, "delta": delta, "finish_reason": None}


def _cut(text: str, draw: random.Random) -> list[str]:
    ends = sorted(draw.randint(0, len(text)) for _ in range(draw.choice([0, 1, 3])))
    return [text[start:end] for start, end in itertools.pairwise([0, *ends, len(text)])]


def _usage(draw: random.Random) -> Json:
    prompt, completion = draw.randint(1, 50), draw.randint(1, 50)
    usage: Json = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    if draw.random() < 0.5:
        usage["prompt_tokens_details"] = {"cached_tokens": draw.randint(0, prompt)}
    return usage
