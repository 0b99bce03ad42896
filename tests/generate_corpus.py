"""Writes rows that the corpus doesn't have yet: `python -m tests.generate_corpus`.

Rows that are there are never touched; a new one gets the version after the last released one. With `--release` that
version becomes a released one: its digest goes into versions.json, and its rows are held from then on. The table of
docs/corpus.md is written anew each time.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from extproc.corpus.rows import KINDS, digest, file_names, raw_rows, versions, withdrawals, withdrawn
from tests.corpus_rows.generate import made_rows

FOLDER = Path(__file__).parent.parent / "extproc" / "corpus"
PAGE = FOLDER.parent.parent / "docs" / "corpus.md"
BEGIN, END = "<!-- counts -->\n", "<!-- end of counts -->\n"
BEGIN_WITHDRAWN, END_WITHDRAWN = "<!-- withdrawn -->\n", "<!-- end of withdrawn -->\n"

Row = dict[str, Any]


def main() -> None:
    """Add what is missing, and write the page's table."""
    existing = [row for name in file_names() for row in raw_rows(name)]
    version = max(versions(), default=0) + 1
    ids = {row["id"] for row in existing}
    keys = {(row["text"], json.dumps(row["tools"])) for row in existing}
    new = [row for row in made_rows() if row["id"] not in ids]
    new = [row for row in new if (row["text"], json.dumps(row["tools"])) not in keys]
    for format_ in sorted({row["format"] for row in new}):
        with (FOLDER / "formats" / f"{format_}.jsonl").open("a", encoding="utf-8") as file:
            file.writelines(line(row | {"since": version}) for row in new if row["format"] == format_)
    if "--release" in sys.argv:
        added = [row for name in file_names() for row in raw_rows(name) if row["since"] == version]
        known = {str(number): sha for number, sha in versions().items()} | {str(version): digest(added)}
        (FOLDER / "versions.json").write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")
    PAGE.write_text(with_counts(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"{len(new)} new rows in version {version}")


def line(row: Row) -> str:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n"


def with_counts(page: str) -> str:
    """The page with its table made of the rows that are there, and its list of the withdrawn ones."""
    page = _between(page, BEGIN, END, counts())
    return _between(page, BEGIN_WITHDRAWN, END_WITHDRAWN, withdrawn_lines())


def _between(page: str, begin: str, end: str, lines: Iterable[str]) -> str:
    before, _, rest = page.partition(begin)
    behind = rest.partition(end)[2]
    return before + begin + "\n".join(lines) + "\n" + end + behind


def withdrawn_lines() -> Iterable[str]:
    for group in withdrawals():
        yield f"- {group['reason']} {', '.join(f'`{row}`' for row in group['rows'])}"


def counts() -> Iterable[str]:
    out = withdrawn()
    rows = [row for name in file_names() for row in raw_rows(name) if row["id"] not in out]
    by_kind = Counter((row["format"], row["kind"]) for row in rows)
    yield f"| format | {' | '.join(KINDS)} | all |"
    yield "| --- |" + " --: |" * (len(KINDS) + 1)
    for format_ in file_names():
        cells = [by_kind[format_, kind] for kind in KINDS]
        yield f"| `{format_}` | {' | '.join(map(str, cells))} | {sum(cells)} |"
    sums = [sum(number for (_, one), number in by_kind.items() if one == kind) for kind in KINDS]
    yield f"| all | {' | '.join(map(str, sums))} | {sum(sums)} |"


if __name__ == "__main__":
    main()
