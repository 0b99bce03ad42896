"""Writes Grafana's dashboards: `python -m tests.generate_dashboards`.

A test fails when they are stale: what they say of a metric is what docs/observability.md says.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.dashboards import DASHBOARDS

FOLDER = Path(__file__).parents[1] / "deploy" / "k8s" / "components" / "dashboards"


def files() -> dict[str, str]:
    """The text of each, by its name."""
    return {f"{each.uid}.json": json.dumps(each.json(), indent=2, ensure_ascii=False) + "\n" for each in DASHBOARDS}


if __name__ == "__main__":
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print((FOLDER / name).relative_to(Path.cwd()))
