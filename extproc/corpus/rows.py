"""The corpus as data: rows of `formats/FORMAT.jsonl`, whose fields `row.schema.json` defines.

A row's expectation follows from its format's specification, never from what some parser makes of it. Rows are never
changed and never taken away: `versions.json` holds a digest of what each released version added. Those that turned out
to be unjust are named in `withdrawn.json`, with the reason, and aren't judged by.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

KINDS = ("well_formed", "cut_off", "malformed", "adversarial")

_FOLDER = files("extproc.corpus")


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call as the model meant it; `arguments` is the JSON value, not its spelling."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Expected:
    """What a text means. None as content or reasoning says that there is none."""

    content: str | None
    reasoning: str | None
    calls: tuple[WrittenCall, ...]
    begun: WrittenCall | None = None
    """The call in which the text ends, as it would have become: it may be reported as far as it came, or left out."""


@dataclass(frozen=True, slots=True)
class Row:
    """One output of a model."""

    id: str
    format: str
    """The format's name in docs/formats.md."""
    family: str
    kind: str
    """One of KINDS."""
    tools: Sequence[Mapping[str, Any]]
    """OpenAI's tool definitions, as the request offered them."""
    text: str
    expected: Expected
    also: tuple[Expected, ...]
    """What else is right, where the format's specification leaves it open."""
    since: int
    """The version of the corpus in which the row came."""
    prompt_opens_thinking: bool = False
    """The prompt ends inside thinking, so the text begins there."""
    notes: str = ""


def load(formats: Iterable[str] = ()) -> list[Row]:
    """The rows of these formats, or of all of them, in the order of the files, without those that were withdrawn.

    KeyError for a format without rows.
    """
    names = sorted(formats) or file_names()
    known = set(file_names())
    if unknown := [name for name in names if name not in known]:
        raise KeyError(f"no rows for {', '.join(unknown)}")
    out = withdrawn()
    return [_row(data) for name in names for data in raw_rows(name) if data["id"] not in out]


def file_names() -> list[str]:
    """The formats that have rows, sorted."""
    names = (entry.name for entry in (_FOLDER / "formats").iterdir())
    return sorted(name.removesuffix(".jsonl") for name in names if name.endswith(".jsonl"))


def raw_rows(format_: str) -> list[dict[str, Any]]:
    """The rows of one format as they stand in its file."""
    text = (_FOLDER / "formats" / f"{format_}.jsonl").read_text(encoding="utf-8")
    # Not `splitlines`: a text may hold what that takes for the end of a line.
    return [json.loads(line) for line in text.split("\n") if line]


def withdrawn() -> dict[str, str]:
    """The rows that nobody is judged by any more, with the reason."""
    return {row: group["reason"] for group in withdrawals() for row in group["rows"]}


def withdrawals() -> list[dict[str, Any]]:
    """Groups of withdrawn rows: a reason, the version since which it holds, the ids."""
    found: list[dict[str, Any]] = json.loads((_FOLDER / "withdrawn.json").read_text(encoding="utf-8"))
    return found


def schema() -> dict[str, Any]:
    """The JSON Schema of a row."""
    found: dict[str, Any] = json.loads((_FOLDER / "row.schema.json").read_text(encoding="utf-8"))
    return found


def versions() -> dict[int, str]:
    """The released versions, with the digest of the rows that each of them added."""
    found = json.loads((_FOLDER / "versions.json").read_text(encoding="utf-8"))
    return {int(version): digest for version, digest in found.items()}


def digest(rows: Iterable[Mapping[str, Any]]) -> str:
    """SHA-256 over these rows, sorted by id, each as JSON with sorted keys."""
    ordered = sorted(rows, key=lambda row: str(row["id"]))
    lines = (json.dumps(row, ensure_ascii=False, sort_keys=True, separators=(",", ":")) for row in ordered)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _row(data: Mapping[str, Any]) -> Row:
    return Row(
        id=data["id"],
        format=data["format"],
        family=data["family"],
        kind=data["kind"],
        tools=data["tools"],
        text=data["text"],
        expected=_expected(data["expected"]),
        also=tuple(map(_expected, data.get("also", ()))),
        since=data["since"],
        prompt_opens_thinking=data.get("prompt_opens_thinking", False),
        notes=data.get("notes", ""),
    )


def _expected(data: Mapping[str, Any]) -> Expected:
    begun = data.get("begun")
    return Expected(
        data["content"],
        data["reasoning"],
        tuple(WrittenCall(call["name"], call["arguments"]) for call in data["calls"]),
        WrittenCall(begun["name"], begun["arguments"]) if begun else None,
    )
