"""Legal requests as data: those of real clients, redacted, and those that OpenAI's reference allows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

FOLDER = Path(__file__).parent


def load(kind: str) -> dict[str, Json]:
    """The requests of one kind, `clients` or `reference`, by file name without its ending."""
    return {file.stem: json.loads(file.read_bytes()) for file in sorted((FOLDER / kind).glob("*.json"))}
