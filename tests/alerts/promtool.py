"""Prometheus' own test of rules, on made-up series: hours in a second, where a real run has a minute or two."""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from tests.alerts.setup import prometheus

Fired: TypeAlias = tuple[str, str, str]
"""An alert, its objective, and its model."""


def check(
    folder: Path, groups: Sequence[Any], series: Mapping[str, str], firing: Mapping[str, Collection[Fired]]
) -> None:
    """These and no others fire, at each of the times, such as `70m`.

    `series` are samples of every minute, in promtool's notation: `0+60x10` begins at 0, and rises by 60 ten times.
    """
    program = prometheus()
    assert program is not None, "no Prometheus: run `python -m tests.alerts.setup`"
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": list(groups)}))
    written = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [
                    {
                        "expr": 'count by (alertname, objective, model) (ALERTS{alertstate="firing"})',
                        "eval_time": at,
                        "exp_samples": [
                            {"labels": f'{{alertname="{alert}",objective="{objective}",model="{model}"}}', "value": 1}
                            for alert, objective, model in fired
                        ],
                    }
                    for at, fired in firing.items()
                ],
            }
        ],
    }
    (folder / "tests.yaml").write_text(yaml.safe_dump(written))
    command = [str(program.with_name("promtool")), "test", "rules", str(folder / "tests.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
