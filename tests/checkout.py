"""Which commit a measurement was made with: `extproc 0.1.0` is every commit since it was written."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent
UNKNOWN = "a commit that wasn't noted"
"""Of what was measured before commits were noted."""
_WHAT = ("extproc", "scripted_vllm", "tests", "bench", "pyproject.toml", "requirements")
"""What a measurement may depend on; pages and results don't count."""
_RESULTS = ("bench/**/results/**", "bench/**/*.json", "tests/judged/results.json")


def commit(root: Path = ROOT) -> str:
    """The checkout's, in twelve digits, and whether what is measured differs from it; UNKNOWN without git."""
    left_out = [f":(exclude,glob){pattern}" for pattern in _RESULTS]
    try:
        name = _git(root, "rev-parse", "--short=12", "HEAD")
        changed = _git(root, "status", "--porcelain", "--", *_WHAT, *left_out)
    except (OSError, subprocess.CalledProcessError):
        return UNKNOWN
    return f"commit {name}{' with changes' if changed else ''}"


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()
