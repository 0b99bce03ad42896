"""This project's own server for the conformance suite: how it is started, its recipe, and how it is judged by it."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

from extproc.conformance.recipe import PROFILES, load
from extproc.conformance.runner import chosen, run
from extproc.conformance.verdicts import Report
from tests.gateway import EXTPROC, free_port, until_healthy

FOLDER = Path(__file__).with_name("conformance")
RECIPE = load(FOLDER / "recipe.yaml")
APART = (("OAI-03", "OAI-04"), ("OAI-23", "OAI-24"))
"""The host ignores overrides, and shows the heads of answers or doesn't. Each has a processor of its own, to which a
host is known by what others did from the same address."""
TOLD = (
    "Each row is three fresh servers, two of them for hosts that ignore overrides "
    f"({'; '.join(map(', '.join, APART))}):\n"
    "a server remembers what a host did, and knows it by its address."
)
"""On the page of what was measured."""


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of the server, as `extproc serve` runs it."""
    config, address = FOLDER / "extproc.yaml", f"127.0.0.1:{free_port()}"
    command = [*EXTPROC, "serve", "--config", str(config), "--listen", address, "--sockets", str(folder)]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            until_healthy(address, process)
            yield address
        finally:
            process.terminate()


def judged(envoy: str | None) -> Report:
    """All cases, through this Envoy too if there is one, by fresh servers: one remembers what its hosts did."""
    order = [case.id for case in chosen(PROFILES)]
    apart = [*chain(*APART)]
    reports = []
    for cases in ([id_ for id_ in order if id_ not in apart], *APART):
        with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as target:
            reports.append(asyncio.run(run(target, RECIPE, envoy=envoy, patterns=cases)))
    results = sorted((result for report in reports for result in report.results), key=lambda one: order.index(one.id))
    return replace(reports[0], results=tuple(results))
