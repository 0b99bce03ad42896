"""What the scripted server is told to say: one `Reply` per answer, from code or from a JSONL file.

A reply is the model's text and the manner of its delivery; what surrounds it on the wire is `shapes`' business.
`generate` then does to the text what vLLM does to any model's output: it ends at a stop string or at `max_tokens`.
"""

from __future__ import annotations

import bisect
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Any, Literal

from scripted_vllm import tokens
from scripted_vllm.troubles import KINDS, ErrorBody, Nonsense, Trouble

Pieces = int | Sequence[str] | Literal["tokens"]
"""How a text streams: n characters at a time, in the given parts, or token by token."""

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts to report, where the approximate ones won't do."""

    prompt: int
    completion: int


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of the model. A text may be left out when `pieces` spells it."""

    text: str = ""
    pieces: Pieces = "tokens"
    pace: float = 0.0
    """Seconds between two events of a stream; a unary answer comes at once."""
    finish_reason: FinishReason = "stop"
    """`length`: the text is all there is because `max_tokens` was reached; its last piece rides in the last chunk."""
    trouble: Trouble | None = None
    usage: Usage | None = None
    """When given, `max_tokens` no longer shortens the text: these counts say that it fits."""
    logprobs: Sequence[Mapping[str, Any]] | None = None
    """One entry per token, end of text included, for requests that ask; made up otherwise."""
    calls: Sequence[tuple[str, str]] = ()
    """What a tool parser of the server found behind the text: names, and arguments as JSON. Whole, or not at all."""
    wire_cut: int | Sequence[int] | None = None
    """Cut the body's bytes anew for HTTP chunks and TCP writes: every n bytes, or at these sizes and then the rest."""

    def __post_init__(self) -> None:
        if isinstance(self.pieces, int):
            if self.pieces < 1:
                raise ValueError("pieces must be at least 1 character long")
        elif not isinstance(self.pieces, str):
            joined = "".join(self.pieces)
            if self.text and self.text != joined:
                raise ValueError("pieces don't join to text")
            object.__setattr__(self, "text", joined)
        if self.wire_cut is not None:
            sizes = [self.wire_cut] if isinstance(self.wire_cut, int) else self.wire_cut
            if any(size < 1 for size in sizes):
                raise ValueError("wire_cut sizes must be at least 1 byte")


@dataclass(frozen=True, slots=True)
class Generation:
    """The output of the model for one choice, as the engine hands it to the API layer."""

    pieces: tuple[str, ...]
    counts: tuple[int, ...]
    """Completion tokens once the piece of the same index is out."""
    finish_reason: FinishReason
    stop_reason: str | None
    completion_tokens: int
    logprobs: tuple[Mapping[str, Any], ...] | None
    calls: tuple[tuple[str, str], ...] = ()
    """Names, and arguments as JSON."""

    @property
    def text(self) -> str:
        return "".join(self.pieces)


def generate(reply: Reply, *, max_tokens: int, stop: Sequence[str] = ()) -> Generation:
    """Apply stop strings and `max_tokens`. A model that ends by itself spends one more token, the end of text."""
    text, finish, stop_reason = reply.text, reply.finish_reason, None
    found = [(at, one) for one in stop if one and (at := text.find(one)) >= 0]
    if found:
        at, stop_reason = min(found)
        text, finish = text[:at], "stop"
    given = None if isinstance(reply.pieces, int | str) else reply.pieces
    # Given parts are taken for the model's tokens: that is what recorded streams consist of.
    parts = tokens.split(text) if given is None else _shorten(given, len(text))
    if reply.usage is None and len(parts) >= max_tokens:
        parts, finish, stop_reason = parts[:max_tokens], "length", None
        text = "".join(parts)
    if isinstance(reply.pieces, int):
        size = reply.pieces
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
    else:
        pieces = parts
    total = len(parts) + (finish == "stop") if reply.usage is None else reply.usage.completion
    # The end that `length` or a stop string makes comes before any call.
    calls = tuple(reply.calls) if (finish, stop_reason) == ("stop", None) else ()
    if reply.usage is None:
        total += sum(1 + tokens.count(arguments) for _, arguments in calls)  # a name comes in one piece
    ends = list(itertools.accumulate(len(part) for part in parts))
    counts = [min(bisect.bisect_left(ends, end) + 1, total) for end in itertools.accumulate(map(len, pieces))]
    return Generation(
        pieces=tuple(pieces),
        counts=tuple(counts),
        finish_reason=finish,
        stop_reason=stop_reason,
        completion_tokens=total,
        logprobs=None if reply.logprobs is None else tuple(reply.logprobs),
        calls=calls,
    )


def _shorten(parts: Sequence[str], length: int) -> list[str]:
    """The parts that make up the first `length` characters."""
    starts = itertools.accumulate(map(len, parts), initial=0)
    return [part[: length - start] for part, start in zip(parts, starts, strict=False) if start < length or not part]


def load(path: Path) -> list[Reply]:
    """Read replies from a JSONL file: one object per line with the fields of `Reply`.

    `usage` is an object; `trouble` is one too, with its `kind` ("stall", "cut", ...) and that kind's fields. Raises
    ValueError with the line's number.
    """
    replies = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            replies.append(from_json(json.loads(line)))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}:{number}: {error}") from error
    return replies


def from_json(data: Mapping[str, Any]) -> Reply:
    """The reply that a line of a file describes. Raises ValueError for an unknown field or kind."""
    _expect_known(data, (field.name for field in fields(Reply)))
    given = dict(data)
    if isinstance(given.get("usage"), Mapping):
        given["usage"] = Usage(**given["usage"])
    if isinstance(given.get("trouble"), Mapping):
        given["trouble"] = _trouble(given["trouble"])
    return Reply(**given)


_ENUMS: Mapping[str, type[Enum]] = {"body": ErrorBody, "what": Nonsense}


def _trouble(data: Mapping[str, Any]) -> Trouble:
    given = dict(data)
    name = given.pop("kind", None)
    if name not in KINDS:
        raise ValueError(f"no trouble is called {name!r}; there are: {', '.join(KINDS)}")
    _expect_known(given, (field.name for field in fields(KINDS[name])))
    make: Callable[..., Trouble] = KINDS[name]
    return make(**{field: _ENUMS[field](value) if field in _ENUMS else value for field, value in given.items()})


def _expect_known(data: Mapping[str, Any], known: Iterable[str]) -> None:
    names = list(known)
    for name in data:
        if name not in names:
            raise ValueError(f"no field is called {name!r}; there are: {', '.join(names)}")
