"""The answer that agents are asked for where they have a type for it."""

from __future__ import annotations

from pydantic import BaseModel


class Report(BaseModel):
    """What came of the task."""

    path: str
    words: int
    first_line: str
