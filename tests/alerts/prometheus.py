"""A real Prometheus that goes by the manifests' rules, only faster: what they have a minute for takes it a second."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.alerts.setup import prometheus
from tests.gateway import free_port, wait_until

FASTER = 60
"""How many times."""
_INTERVAL = 30
"""Seconds between two looks at a pod, as the manifests' PodMonitor has it, and the rules of the Prometheus Operator."""
_LOOKBACK = 300
"""Prometheus' own, after which a value that doesn't come again is forgotten."""
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True)
class Target:
    """What is watched, under the labels that the Prometheus Operator gives it."""

    address: str
    namespace: str
    pod: str


class Prometheus:
    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=10)

    def ready(self) -> bool:
        try:
            return self._http.get("/-/ready").status_code == 200
        except httpx.TransportError:
            return False

    def firing(self) -> set[tuple[str, str]]:
        """The alerts that fire now, each with its namespace."""
        alerts = self._http.get("/api/v1/alerts").raise_for_status().json()["data"]["alerts"]
        return {
            (alert["labels"]["alertname"], alert["labels"].get("namespace", ""))
            for alert in alerts
            if alert["state"] == "firing"
        }

    def value(self, query: str) -> float:
        """Of a query with one result; 0 when it has none."""
        found = self._http.get("/api/v1/query", params={"query": query}).raise_for_status().json()["data"]["result"]
        return float(found[0]["value"][1]) if found else 0.0

    def range(self, query: str, begin: float, end: float) -> list[tuple[dict[str, str], list[tuple[float, float]]]]:
        """Each series of the result, with its values of each second. Times are seconds since 1970."""
        found = self._get("query_range", query=query, start=begin, end=end, step=1)["result"]
        return [(each["metric"], [(float(time), float(value)) for time, value in each["values"]]) for each in found]

    def exemplars(self, query: str, begin: float, end: float) -> list[tuple[dict[str, str], float, float]]:
        """Those of the query's series: their labels, time and value."""
        found = self._get("query_exemplars", query=query, start=begin, end=end)
        return [
            (dot["labels"], float(dot["timestamp"]), float(dot["value"])) for each in found for dot in each["exemplars"]
        ]

    def _get(self, what: str, **parameters: Any) -> Any:
        return self._http.get(f"/api/v1/{what}", params=parameters).raise_for_status().json()["data"]

    def close(self) -> None:
        self._http.close()


@contextmanager
def watching(folder: Path, groups: Sequence[Mapping[str, Any]], targets: Sequence[Target]) -> Iterator[Prometheus]:
    """It has seen each of these once, and watches them by these groups of rules."""
    program = prometheus()
    assert program is not None, "no Prometheus: run `python -m tests.alerts.setup`"
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": [_faster(group) for group in groups]}))
    often = _scaled(f"{_INTERVAL}s")
    watched = [
        {
            "targets": [target.address],
            "labels": {
                "job": f"{target.namespace}/extproc",
                "namespace": target.namespace,
                "pod": target.pod,
            },
        }
        for target in targets
    ]
    settings = {
        "global": {"scrape_interval": often, "scrape_timeout": often, "evaluation_interval": often},
        "storage": {"exemplars": {"max_exemplars": 10_000}},
        "rule_files": [str(folder / "rules.yaml")],
        "scrape_configs": [{"job_name": "pods", "static_configs": watched}],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(settings))
    address = f"127.0.0.1:{free_port()}"
    command = [
        str(program),
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'prometheus'}",
        f"--web.listen-address={address}",
        f"--query.lookback-delta={_scaled(f'{_LOOKBACK}s')}",
        "--enable-feature=exemplar-storage",
        "--log.level=warn",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    made = Prometheus(f"http://{address}")
    try:
        wait_until(lambda: made.ready() or process.poll() is not None, 30)
        assert process.poll() is None, (folder / "prometheus.log").read_text()
        wait_until(lambda: made.value("count(up == 1)") == len(targets))  # it takes five seconds to find them
        yield made
    finally:
        made.close()
        process.terminate()
        process.wait(30)


def _faster(group: Mapping[str, Any]) -> dict[str, Any]:
    rules = [
        {
            **rule,
            "expr": re.sub(r"(?<=\[)\w+(?=\])", lambda found: _scaled(found[0]), rule["expr"]),
            **({"for": _scaled(rule["for"])} if "for" in rule else {}),
        }
        for rule in group["rules"]
    ]
    often = {"interval": _scaled(group["interval"])} if "interval" in group else {}
    return {**group, **often, "rules": rules}


def _scaled(duration: str) -> str:
    return f"{int(duration[:-1]) * _SECONDS[duration[-1]] * 1000 // FASTER}ms"
