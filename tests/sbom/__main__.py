"""What cyclonedx-py leaves out: `make sbom` and `make image` call it.

    python -m tests.sbom build/sbom.cdx.json build/image
    python -m tests.sbom build/sbom.cdx.json build/image build/extproc.oci.tar

The first completes the SBOM of the Python packages of an environment; the second also writes that of the image, beside
the image's archive.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.pinned import found
from tests.sbom.bom import of_image, with_licences, written


def main(sbom: Path, environment: Path, archive: Path | None = None) -> None:
    """Write them."""
    (packages,) = environment.glob("lib/python3*/site-packages")
    bom = with_licences(json.loads(sbom.read_text(encoding="utf-8")), found(packages))
    sbom.write_text(written(bom), encoding="utf-8")
    if archive is not None:
        beside = archive.with_name(f"{archive.name.partition('.')[0]}.cdx.json")
        beside.write_text(written(of_image(bom, archive)), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
