"""Files of what is taken along: where the command was started, for their owner alone."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path


def save(folder: Path, name: str, suffix: str, data: bytes) -> Path:
    """Write a new file, and never over another one; where it is. Raises OSError."""
    for number in count(1):
        path = folder / f"{name}{f'-{number}' if number > 1 else ''}{suffix}"
        try:
            opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        with os.fdopen(opened, "wb") as file:
            file.write(data)
        return path
    raise AssertionError("there is always one more number")
