"""The cases as data: `cases.jsonl`, whose fields `case.schema.json` defines.

Cases are never changed and never taken away, so that results of different days mean the same: `versions.json` holds a
digest of what each released version added.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, TypeVar

_FOLDER = files("extproc.model_checks")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PossibleAnswers:
    """What BFCL takes for right: the calls, each with a list of possible values for each parameter."""

    functions: Sequence[Mapping[str, Any]]
    """As the data set defines them, with its own names of types."""
    calls: Sequence[tuple[str, Mapping[str, Sequence[Any]]]]


@dataclass(frozen=True, slots=True)
class Case:
    """A request, and whether a tool should be called for it."""

    id: str
    feature: str
    """What it is about; of BFCL's questions the category."""
    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]]
    call: bool
    tool_choice: Any = None
    names: frozenset[str] = frozenset()
    """The tools that would be right to call; empty where nothing says so."""
    possible: PossibleAnswers | None = None
    """Where the values are judged too."""

    def request(self, model: str, *, stream: bool, max_tokens: int) -> dict[str, Any]:
        """The body of the request: greedy, so that both ways of asking and both runs can be compared."""
        body: dict[str, Any] = {
            "model": model,
            "messages": list(self.messages),
            "temperature": 0,
            "seed": 0,
            "max_tokens": max_tokens,
            "stream": stream,
        }
        if self.tools:
            body["tools"] = list(self.tools)
        if self.tool_choice is not None:
            body["tool_choice"] = self.tool_choice
        if stream:
            body["stream_options"] = {"include_usage": True}
        return body

    @property
    def is_named(self) -> bool:
        """Whether `tool_choice` names the tool: OpenAI's own answers then end with `stop`, others with `tool_calls`."""
        return isinstance(self.tool_choice, Mapping)


def load() -> list[Case]:
    """All cases, in the order of the file."""
    return [_case(data) for data in raw_cases()]


def raw_cases() -> list[dict[str, Any]]:
    """The cases as they stand in the file."""
    text = (_FOLDER / "cases.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


def schema() -> dict[str, Any]:
    """The JSON Schema of a case."""
    found: dict[str, Any] = json.loads((_FOLDER / "case.schema.json").read_text(encoding="utf-8"))
    return found


def versions() -> dict[int, str]:
    """The released versions, with the digest of the cases that each of them added."""
    found = json.loads((_FOLDER / "versions.json").read_text(encoding="utf-8"))
    return {int(version): digest for version, digest in found.items()}


def digest(cases: Iterable[Mapping[str, Any]]) -> str:
    """SHA-256 over these cases, sorted by id, each as JSON with sorted keys."""
    ordered = sorted(cases, key=lambda case: str(case["id"]))
    lines = (json.dumps(case, ensure_ascii=False, sort_keys=True, separators=(",", ":")) for case in ordered)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def sample(items: Sequence[_T], limit: int | None, seed: int) -> list[_T]:
    """So many of them by the seed, in their own order; all where there are no more. A larger sample of the same seed
    holds the smaller one."""
    if limit is None or limit >= len(items):
        return list(items)
    order = list(range(len(items)))
    random.Random(seed).shuffle(order)  # noqa: S311 - a sample, and no secret
    return [items[at] for at in sorted(order[:limit])]


def _case(data: Mapping[str, Any]) -> Case:
    expected = data["expected"]
    return Case(
        id=data["id"],
        feature=data["feature"],
        messages=data["messages"],
        tools=data["tools"],
        call=expected["call"],
        tool_choice=data.get("tool_choice"),
        names=frozenset(call["name"] for call in expected["example"]),
    )
