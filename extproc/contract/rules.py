"""What of the contract depends on the model, and on what clients are trusted with."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from extproc.contract.history import History
from extproc.contract.media_urls import MediaUrls


@dataclass(frozen=True, slots=True)
class Rules:
    """For the requests for one model."""

    malformed_history: History = "repair"
    withheld: Set[str] = frozenset()
    """What the backend doesn't get (`extproc.contract.withheld`)."""
    media_urls: MediaUrls = "any"
