"""Compiles `protos/` into `extproc/wire/`: what `make protos` runs.

Only message code is generated. The gRPC side needs none: the server registers one generic handler.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROTOS = ROOT / "protos"


def generate(target: Path) -> list[Path]:
    """Write the Python modules and their type stubs below `target`, and return their paths."""
    sources = sorted(path.relative_to(PROTOS) for path in PROTOS.rglob("*.proto"))
    arguments = [f"--proto_path={PROTOS}", f"--python_out={target}", f"--pyi_out={target}"]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *arguments, *map(str, sources)], check=True)
    return [target / source.with_name(source.stem + suffix) for source in sources for suffix in ("_pb2.py", "_pb2.pyi")]


if __name__ == "__main__":
    for written in generate(ROOT):
        print(written.relative_to(ROOT))
