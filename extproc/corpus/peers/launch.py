"""The program that runs in another project's environment: `PYTHON -I launch.py MODULE`.

It makes this package importable there, and nothing of the environment that it came from: no search path is added.
"""

from __future__ import annotations

import importlib
import os
import sys
import types
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent.parent


def main(module: str) -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # What a library prints is no answer.
    package = types.ModuleType("extproc")
    package.__path__ = [str(_PACKAGE)]
    sys.modules["extproc"] = package
    importlib.import_module("extproc.corpus.peers.worker").serve(
        importlib.import_module(f"extproc.corpus.peers.{module}"), sys.stdin, answers
    )


if __name__ == "__main__":
    main(sys.argv[1])
