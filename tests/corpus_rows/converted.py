"""Rows that were samples of this project before, but none that come from a parser, a parser's test or somebody else."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from bench.broken_json import TOOLS
from extproc.toolcalls import entry
from tests.corpus_rows.sources import SOURCES
from tests.sample_rows import SAMPLES, Row, reasoning_of, rows

_PARSERS = re.compile(r"vLLM|SGLang|Ollama|llama\.cpp|SMG|melody|parser")
_POLICY = re.compile(r"built-in|not-offered|told-to|made-up|browser|citation|other-kinds|that are no object")
"""What becomes of these is each gateway's own policy."""
MOST_SLIPS = 4
"""So many slips of one format, so that none outweighs the others."""


def samples() -> Iterator[Row]:
    """Rows of tests/samples/formats in the corpus's shape, without `since`."""
    slips: Counter[str] = Counter()
    for file in sorted((SAMPLES / "formats").glob("*.jsonl")):
        for row in rows(file):
            source = row["source"]
            if _PARSERS.search(source) or _POLICY.search(row["id"] + source) or not _says_everything(row):
                continue
            format_ = entry(row["format"]).name
            if "template" not in source and "quotes" not in source:
                slips[format_] += 1
                if slips[format_] > MOST_SLIPS:
                    continue
            yield _converted(row, format_)


def _says_everything(row: Row) -> bool:
    whole = {"args", "names", "content"} <= set(row["asserted"]) and not row.get("content_policy")
    return (
        whole
        and all("arguments" in call for call in row["expect_calls"])
        and not {"sane_outcome", "expect_cut_off"} & row.keys()
    )


def _converted(row: Row, format_: str) -> Row:
    expected: dict[str, Any] = {
        "content": row["expect_content"] or None,
        "reasoning": row.get("expect_reasoning") or None,
        "calls": [{"name": call["name"], "arguments": call["arguments"]} for call in row["expect_calls"]],
    }
    slug = row["id"].partition(":")[2]
    made = {
        "id": f"{format_}:sample:{slug}",
        "format": format_,
        "family": SOURCES[format_].family,
        "source": _source(row, format_),
        "kind": _kind(row),
        "tools": row["tools"],
        "text": row["text"],
        "expected": expected,
        "licence": "Apache-2.0",
    }
    if reasoning_of(row):
        made["prompt_opens_thinking"] = True
    return made


def _source(row: Row, format_: str) -> dict[str, str]:
    template = re.fullmatch(r"(.+): (chat template|system prompt|its system prompt names this tag)", row["source"])
    if template:
        return {"kind": "chat_template", "where": row["source"]}
    if row["source"].startswith("seen in use"):
        return {"kind": "observed", "where": f"an output of a model of this family ({SOURCES[format_].where})"}
    return {"kind": SOURCES[format_].kind, "where": SOURCES[format_].where}


def _kind(row: Row) -> str:
    if "review: a value that quotes" in row["source"]:
        return "adversarial"
    return "well_formed" if "template" in row["source"] and not row.get("malformed") else "malformed"


def broken_json() -> Iterator[Row]:
    """Calls in JSON as models spell it, whose meaning is certain (tests/samples/broken_json.jsonl)."""
    for row in rows(SAMPLES / "broken_json.jsonl"):
        if "means" not in row:
            continue
        format_ = entry(row["format"]).name
        yield {
            "id": f"{format_}:json:{row['id'].partition(':')[2]}",
            "format": format_,
            "family": SOURCES[format_].family,
            "source": {"kind": SOURCES[format_].kind, "where": SOURCES[format_].where},
            "kind": "malformed",
            "tools": TOOLS,
            "text": row["text"],
            "expected": {"content": None, "reasoning": None, "calls": [{"name": "f", "arguments": row["means"]}]},
            "licence": "Apache-2.0",
        }
