"""docs/conformance-envoys.md, measured anew: some minutes. `python -m tests.generate_envoys_page`."""

from __future__ import annotations

import asyncio
import datetime
import sys
from pathlib import Path

from extproc.conformance.envoys.lab import measure
from extproc.conformance.envoys.page import SIMULATED, page
from extproc.conformance.envoys.releases import RELEASES, binary
from extproc.conformance.runner import run
from tests import conformance_ours
from tests.checkout import commit
from tests.test_conformance_envoys import SMALL, reference_server

PAGE = Path(__file__).parents[1] / "docs" / "conformance-envoys.md"
COMMAND = "python -m tests.generate_envoys_page"


def main() -> int:
    when = f"{datetime.date.today().isoformat()} with {commit()}"
    lab, reference, ours = {}, {}, {}
    for release in (SIMULATED, *RELEASES):
        envoy = None if release == SIMULATED else release
        print(release, flush=True)
        if envoy is not None:
            lab[release] = asyncio.run(measure(binary(envoy)))
        with reference_server() as target:
            reference[release] = asyncio.run(run(target, SMALL, envoy=envoy))
        ours[release] = conformance_ours.judged(envoy)
    PAGE.write_text(
        page(when, COMMAND, lab, reference, {"extproc": ours}, conformance_ours.TOLD),
        encoding="utf-8",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
