"""What came of judging, one file for each contestant: scores of all rows, and why well-formed ones failed."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.parsers.contestants import Judged
from extproc.corpus.reports import Verdict
from extproc.corpus.rows import digest, file_names, raw_rows, withdrawn

RESULTS = Path(__file__).with_name("results")
_LONGEST = 160
WAYS = ("whole", "streamed", "cut")


def as_json(name: str, judged: Judged) -> dict[str, Any]:
    report = judged.report.as_json()
    return {
        "name": name,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": dict(judged.versions),
        "corpus": corpus_digest(),
        "formats": {format_: their for format_, their in judged.formats.items() if format_ in report["scores"]},
        "scores": report["scores"],
        "wrong": {verdict.id: reasons(verdict) for verdict in judged.report.failures if verdict.kind == "well_formed"},
    }


def reasons(verdict: Verdict) -> dict[str, str]:
    """Why a row failed, in each way in which it did."""
    return {way: str(reason)[:_LONGEST] for way in WAYS if (reason := getattr(verdict, way))}


def corpus_digest() -> str:
    """Of the rows that were judged by."""
    out = withdrawn()
    return digest(row for name in file_names() for row in raw_rows(name) if row["id"] not in out)[:16]


def write(found: Mapping[str, Any]) -> Path:
    path = RESULTS / f"{found['name']}.json"
    path.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return path


def read() -> dict[str, dict[str, Any]]:
    """By name."""
    found = (json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json")))
    return {one["name"]: one for one in found}
