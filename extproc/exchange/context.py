"""What an exchange goes by, from its first message to its last, whatever is reloaded meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field

from extproc.config import Config
from extproc.exchange.api_keys import ApiKeys
from extproc.exchange.catalogue import ModelInfos
from extproc.exchange.concurrency import Concurrency
from extproc.turn.call_quality import CallQuality
from extproc.turn.memory import Memory


@dataclass(frozen=True, slots=True)
class ExchangeContext:
    """The settings, and what belongs to them that stands in other places."""

    config: Config
    keys: ApiKeys | None = None
    """The keys in the file that the settings name; None lets everybody in."""
    reports: ModelInfos = field(default_factory=dict)
    """What backends have said of their models by now: a view, which changes while they are asked."""
    concurrency: Concurrency = field(default_factory=Concurrency)
    """The requests of all clients that are under way: it changes with each."""
    memory: Memory | None = None
    """What is known of clients' conversations: it changes with each request."""
    quality: CallQuality = field(default_factory=CallQuality)
    """How well models call lately: it changes with each answer."""
    since: int = 0
    """When the settings were read, in Unix time."""
