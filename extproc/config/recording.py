"""Which exchanges are recorded, and where to: see docs/recording.md."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from extproc.config.base import AbsolutePath, Name, Settings


class Recording(Settings):
    """The `recording` of a configuration; without one nothing is recorded."""

    directory: AbsolutePath
    """Gets a file for each exchange; made if it isn't there."""
    files: Annotated[int, Field(ge=1, le=10_000)] = 20
    """Nothing more is recorded when so many are in the directory."""
    model: Name | None = None
    """Only exchanges with this one of `models`."""
