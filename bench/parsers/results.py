"""What came of judging, one file for each contestant: scores of all rows, and why well-formed ones failed.

Formats are judged apart from each other, so that one whose rows have changed can be judged again alone: each has the
digest of the rows that it was judged by, the day, and the commit of this checkout, which has the corpus, the judge and
what drives the parsers.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.parsers.contestants import Judged
from extproc.corpus.reports import Verdict
from extproc.corpus.rows import digest, raw_rows, withdrawn
from tests.checkout import commit

RESULTS = Path(__file__).with_name("results")
_LONGEST = 160
WAYS = ("whole", "streamed", "cut")


def as_json(name: str, judged: Judged) -> dict[str, Any]:
    report = judged.report.as_json()
    run = {"date": datetime.datetime.now(datetime.UTC).date().isoformat(), "commit": commit()}
    return {
        "name": name,
        "versions": dict(judged.versions),
        "judged": {format_: run | {"rows": rows_digest(format_)} for format_ in report["scores"]},
        "formats": {format_: their for format_, their in judged.formats.items() if format_ in report["scores"]},
        "scores": report["scores"],
        "wrong": {verdict.id: reasons(verdict) for verdict in judged.report.failures if verdict.kind == "well_formed"},
    }


def reasons(verdict: Verdict) -> dict[str, str]:
    """Why a row failed, in each way in which it did."""
    return {way: str(reason)[:_LONGEST] for way in WAYS if (reason := getattr(verdict, way))}


def merged(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """`before` with the formats of `now` in place of its own. ValueError where another version was judged then."""
    if before["versions"] != now["versions"]:
        raise ValueError(f"{now['name']}: what is kept is of {before['versions']}, so all formats have to be judged")
    kept = {id_: told for id_, told in before["wrong"].items() if id_.partition(":")[0] not in now["scores"]}
    parts = {part: dict(sorted({**before[part], **now[part]}.items())) for part in ("judged", "formats", "scores")}
    return {**now, **parts, "wrong": dict(sorted({**kept, **now["wrong"]}.items()))}


def rows_digest(format_: str) -> str:
    """Of the rows of this format that count."""
    out = withdrawn()
    return digest(row for row in raw_rows(format_) if row["id"] not in out)[:16]


def write(found: Mapping[str, Any]) -> Path:
    path = RESULTS / f"{found['name']}.json"
    path.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return path


def read() -> dict[str, dict[str, Any]]:
    """By name."""
    found = (json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json")))
    return {one["name"]: one for one in found}
