"""What of the contract depends on the model, and on what clients are trusted with."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from extproc.contract.history import ArgumentReader, History
from extproc.contract.media_urls import MediaUrls


@dataclass(frozen=True, slots=True)
class Rules:
    """For the requests for one model."""

    malformed_history: History = "repair"
    withheld: Set[str] = frozenset()
    """What the backend doesn't get (`extproc.contract.withheld`)."""
    media_urls: MediaUrls = "any"
    patience: int | None = None
    """Characters of malformed arguments that may be repaired; beyond them TakesTimeError is raised."""

    def argument_reader(self) -> ArgumentReader:
        """For one request."""
        return ArgumentReader(self.malformed_history, self.patience)
