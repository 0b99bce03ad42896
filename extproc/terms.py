"""What an exchange goes by, from its first message to its last, whatever is reloaded meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field

from extproc.api_keys import ApiKeys
from extproc.catalogue import Reports
from extproc.concurrency import Concurrency
from extproc.config import Config


@dataclass(frozen=True, slots=True)
class Terms:
    """The settings, and what belongs to them that stands in other places."""

    config: Config
    keys: ApiKeys | None = None
    """The keys in the file that the settings name; None lets everybody in."""
    reports: Reports = field(default_factory=dict)
    """What backends have said of their models by now: a view, which changes while they are asked."""
    concurrency: Concurrency = field(default_factory=Concurrency)
    """The requests of all clients that are under way: it changes with each."""
    since: int = 0
    """When the settings were read, in Unix time."""
