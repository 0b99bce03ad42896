"""Questions of BFCL, the Berkeley Function Calling Leaderboard, as cases: `live_*` and some others.

The data set is Apache-2.0 and no part of this package. It is read from the wheel `bfcl-eval` as it was downloaded, or
from a folder in which it is unpacked; nothing of it is run. Definitions are turned into OpenAI's as BFCL itself does it
for models that are asked by OpenAI's API: its names of types become JSON Schema's, dots in names underscores.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from extproc.model_checks.cases import Case, PossibleAnswers, sample
from extproc.model_checks.possible_answers import offered_name

WHEEL = "bfcl-eval==2026.3.23"
WHEEL_SHA256 = "3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a"
CATEGORIES = (
    "live_simple",
    "live_multiple",
    "live_irrelevance",
    "live_parallel",
    "live_parallel_multiple",
    "live_relevance",
)
"""In the order in which they are told. The last three hold 16, 24 and 16 questions, the others more than 100."""
JUDGED = ("simple_python", "multiple", "parallel", "irrelevance")
"""Made up by the leaderboard's authors, 200 or more of each. The words with which the gateway asks were chosen without
them (docs/quality.md)."""
PER_CATEGORY = 100

_TYPES = {"float": "number", "dict": "object", "tuple": "array", "any": "string"}


class BfclError(Exception):
    """The data isn't there, or is none."""


def load(
    place: Path, *, per_category: int = PER_CATEGORY, seed: int = 0, chosen: Sequence[str] = CATEGORIES
) -> list[Case]:
    """So many questions of each category by the seed, or all where there are fewer. BfclError if `place` has none."""
    try:
        if place.is_file():
            with zipfile.ZipFile(place) as wheel:
                return _load(lambda name: wheel.read(name).decode(), per_category, seed, chosen)
        return _load(lambda name: (place / name).read_text(encoding="utf-8"), per_category, seed, chosen)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise BfclError(f"{place} holds no data of {WHEEL}: {error}") from error


def is_pinned(place: Path) -> bool:
    """Whether this is the very wheel that the published results were made with."""
    return place.is_file() and hashlib.sha256(place.read_bytes()).hexdigest() == WHEEL_SHA256


def _load(read: Any, per_category: int, seed: int, chosen: Sequence[str]) -> list[Case]:
    cases = []
    for category in chosen:
        name = f"BFCL_v4_{category}.json"
        questions = _lines(read(f"bfcl_eval/data/{name}"))
        answers: list[Any] = [None] * len(questions)
        if "relevance" not in category:
            # By their order: some ids differ.
            answers = _lines(read(f"bfcl_eval/data/possible_answer/{name}"))
        pairs = list(zip(questions, answers, strict=True))
        cases += [_case(category, question, answer) for question, answer in sample(pairs, per_category, seed)]
    return cases


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.split("\n") if line.strip()]


def _case(category: str, question: Mapping[str, Any], answer: Mapping[str, Any] | None) -> Case:
    functions = question["function"]
    possible = None
    if answer is not None:
        calls = [next(iter(call.items())) for call in answer["ground_truth"]]
        possible = PossibleAnswers(functions, calls)
    return Case(
        id=question["id"],
        feature=category,
        messages=question["question"][0],
        tools=[_tool(function) for function in functions],
        call="irrelevance" not in category,
        names=frozenset(offered_name(name) for name, _ in possible.calls) if possible else frozenset(),
        possible=possible,
    )


def _tool(function: Mapping[str, Any]) -> dict[str, Any]:
    parameters = _schema(function["parameters"])
    told = {"name": offered_name(function["name"]), "description": function.get("description", "")}
    return {"type": "function", "function": {**told, "parameters": parameters}}


def _schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The definition with JSON Schema's types, all the way down."""
    found = dict(schema)
    if isinstance(kind := schema.get("type"), str):
        found["type"] = _TYPES.get(kind, kind)
        if kind == "float":
            found["format"] = "float"
            found["description"] = f"{schema.get('description', '')} This is a float type value."
    if isinstance(properties := schema.get("properties"), Mapping):
        found["properties"] = {name: _property(one) for name, one in properties.items()}
    if isinstance(items := schema.get("items"), Mapping):
        found["items"] = _schema(items)
    return found


def _property(schema: Mapping[str, Any]) -> dict[str, Any]:
    return _schema(schema if "type" in schema else {**schema, "type": "string"})


def categories(cases: Sequence[Case]) -> list[str]:
    """The categories that there are cases of, in the order in which they are told."""
    there = {case.feature for case in cases}
    return [category for category in (*CATEGORIES, *JUDGED) if category in there]
