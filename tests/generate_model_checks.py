"""Writes cases that the set of model checks doesn't have yet: `python -m tests.generate_model_checks`.

Cases that are there are never touched; a new one gets the version after the last released one. With `--release` that
version becomes a released one: its digest goes into versions.json, and its cases are held from then on.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.model_check_cases.conversations import cases

FOLDER = Path(__file__).parent.parent / "extproc" / "model_checks"


def main() -> None:
    """Add what is missing."""
    if not (FOLDER / "versions.json").exists():
        (FOLDER / "versions.json").write_text("{}\n", encoding="utf-8")
    (FOLDER / "cases.jsonl").touch()
    from extproc.model_checks.cases import digest, raw_cases, versions

    existing = raw_cases()
    version = max(versions(), default=0) + 1
    ids = {case["id"] for case in existing}
    new = [case | {"licence": "CC0-1.0", "since": version} for case in cases() if case["id"] not in ids]
    with (FOLDER / "cases.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(case, ensure_ascii=False, separators=(",", ":")) + "\n" for case in new)
    if "--release" in sys.argv:
        known = {str(number): sha for number, sha in versions().items()}
        known[str(version)] = digest(case for case in raw_cases() if case["since"] == version)
        (FOLDER / "versions.json").write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")
    print(f"{len(new)} new cases in version {version}")


if __name__ == "__main__":
    main()
