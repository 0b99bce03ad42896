"""The tools of the programs in Python: plain functions that work in the current folder."""

from __future__ import annotations

import subprocess
from pathlib import Path


def write_file(path: str, content: str) -> str:
    """Write a text to a file."""
    Path(path).write_text(content, encoding="utf-8")
    return "written"


def run_command(command: str) -> str:
    """Run a command in a shell."""
    return subprocess.run(command, shell=True, check=True, capture_output=True, text=True).stdout


def read_file(path: str) -> str:
    """Read a file."""
    return Path(path).read_text(encoding="utf-8")


TOOLS = (write_file, run_command, read_file)
