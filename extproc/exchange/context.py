"""What an exchange goes by, from its first message to its last, whatever is reloaded meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from extproc.config import Config, Why
from extproc.exchange.api_keys import ApiKeys
from extproc.exchange.catalogue import ModelInfos
from extproc.exchange.concurrency import Concurrency
from extproc.exchange.outages import Outages
from extproc.turn.asked import Asked
from extproc.turn.call_quality import CallQuality
from extproc.turn.memory import Memory
from extproc.turn.spec import ResponseSpec
from extproc.turn.steering import Steering
from extproc.turn.tally import Tally


class Advice(Protocol):
    """Whoever finds out why models don't call (`extproc.diagnosis.live`)."""

    def answered(self, model: str, asked: Asked, spec: ResponseSpec, tally: Tally, usage: Mapping[str, Any]) -> None:
        """An answer to a request with tools has come to this."""


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
    outages: Outages = field(default_factory=Outages)
    """Which backends don't answer, or are full: it changes with some answers."""
    memory: Memory | None = None
    """What is known of clients' conversations: it changes with each request."""
    quality: CallQuality = field(default_factory=CallQuality)
    """How well models call lately: it changes with each answer."""
    steering: Steering = field(default_factory=Steering)
    """At which steps models are asked that are steered: it changes with some answers."""
    advice: Advice | None = None
    since: int = 0
    """When the settings were read, in Unix time."""

    _steered: _Steered = field(default_factory=lambda: _Steered(), init=False, repr=False, compare=False)

    def out(self) -> Mapping[str, Why]:
        """The backends that aren't asked now by those who have others to ask."""
        backends = self.config.backends_with_fallback
        if not backends:
            return {}
        full: dict[str, Why] = {
            backend.name: "full" for backend in backends if self.concurrency.is_full(backend.name, backend.max_requests)
        }
        return {**full, **self.outages.out()}

    def steered(self) -> ExchangeContext:
        """What an exchange goes by that begins now: with the models in the settings at their steps."""
        config = self.steering.at(self.config)
        if config is self.config:
            return self
        kept = self._steered
        if kept.context is None or kept.context.config is not config:
            kept.context = replace(self, config=config)
        return kept.context


@dataclass(slots=True)
class _Steered:
    """The last one that was made of a context: to make one takes longer than all else that steering costs."""

    context: ExchangeContext | None = None
