"""`python -m bench.attacks.table`: before.json and after.json as the table of docs/security.md, between its markers."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.attacks.kinds import ATTACKS
from bench.attacks.report import total

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/security.md"
BEGIN, END = "<!-- attacks: begin -->", "<!-- attacks: end -->"
_HEAD = """\
| attack | means | before | after |
| --- | --- | --- | --- |
"""

Results = Mapping[str, Mapping[str, Any]]
"""What `--json` writes: results by the name of the attack."""


def main() -> int:
    text = PAGE.read_text()
    PAGE.write_text(replaced(text, render(load("before.json"), load("after.json"))))
    return 0


def load(name: str) -> Results:
    """A file of results beside this one; nothing if it isn't there."""
    path = HERE / name
    return dict(json.loads(path.read_text())) if path.exists() else {}


def replaced(page: str, table: str) -> str:
    """The page with this table between the markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, behind = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE} lacks the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{table}{END}{behind}"


def render(before: Results, after: Results) -> str:
    """The table; a row for each attack that has a result."""
    rows = (
        f"| `{name}` | {attack.means} | {_cell(before.get(name))} | {_cell(after.get(name))} |\n"
        for name, attack in ATTACKS.items()
        if name in before or name in after
    )
    return _HEAD + "".join(rows)


def _cell(result: Mapping[str, Any] | None) -> str:
    if result is None:
        return ""
    during, after = result["during"], result["after"]
    cut, failed = (sum(total(during[what], after[what]).values()) for what in ("cut", "failed"))
    late, without, past = during["late"]["p99"], result["baseline"]["late"]["p99"], during["late_direct"]["p99"]
    said = [
        _harm(cut, failed),
        f"p99 {_ms(late)} ({_ms(without)} without, {_ms(past)} past the gateway)",
        *(_memory(name.capitalize(), process) for name, process in result["processes"].items()),
        _end(result),
    ]
    return "; ".join(said)


def _harm(cut: int, failed: int) -> str:
    said = f"{cut} cut, {failed} failed"
    return f"**{said}**" if cut or failed else said


def _ms(value: float | None) -> str:
    return "no token" if value is None else f"{value:.0f} ms"


def _memory(name: str, process: Mapping[str, Any]) -> str:
    fates = {"limit": f"killed at its limit of {process['limit_mb']} MB", "itself": "died"}
    deaths = [fates[death["how"]] for death in process["deaths"]]
    fate = f", **{deaths[0]}**" + (f" {len(deaths)} times" if len(deaths) > 1 else "") if deaths else ""
    return f"{name} {process['peak_rss_mb']} MB{fate}"


def _end(result: Mapping[str, Any]) -> str:
    if not result["gateway_alive"]:
        return "**everything ended**"
    seconds = result["recovery_seconds"]
    if seconds is None:
        return f"not well after {result['after']['seconds']:.0f} s"
    return f"well after {seconds:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
