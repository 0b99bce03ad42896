"""What is counted, and logged, of aliases with several models: which are asked, and which backends aren't now."""

from __future__ import annotations

import logging
from typing import Protocol

from extproc.config import Choice, Config
from extproc.observability.series import Counter, Series

log = logging.getLogger(__name__)

REASONS = ("failing", "full")


class Change(Protocol):
    """A backend is out from now on, or asked again (`extproc.exchange.outages.Change`)."""

    @property
    def backend(self) -> str: ...
    @property
    def why(self) -> str | None: ...


class ChoiceMetrics:
    """Of one processor."""

    def __init__(self) -> None:
        self._split = Counter(
            "extproc_split_requests", "Requests for an alias of several models, by which was asked.", "alias", "model"
        )
        self._fallbacks = Counter(
            "extproc_fallbacks",
            "Requests for an alias that went to another model than their conversation's, by why.",
            "alias",
            "model",
            "reason",
        )
        self._with_fallback: frozenset[str] = frozenset()

    @property
    def series(self) -> list[Series]:
        """All of them."""
        return [self._split, self._fallbacks]

    def configured(self, config: Config) -> None:
        """These aliases are there from now on, besides those that were."""
        self._with_fallback = frozenset(backend.name for backend in config.backends_with_fallback)
        for name, alias in config.splits.items():
            for model in alias.models:
                self._split.add(name, model, count=0)
            for share in alias.split if alias.fallback else ():
                for reason in REASONS:
                    self._fallbacks.add(name, share.model, reason, count=0)

    def chosen(self, choice: Choice) -> None:
        """A request goes to one of its alias's models."""
        self._split.add(choice.alias, choice.model)
        if choice.instead_of is not None and choice.why is not None:
            self._fallbacks.add(choice.alias, choice.instead_of, choice.why)

    def changed(self, change: Change) -> None:
        """A backend is found failing or full, or well again."""
        if change.backend not in self._with_fallback:
            return
        if change.why is None:
            log.info("the backend %r answers again: models that have it are asked again", change.backend)
        else:
            log.warning("the backend %r is %s: for a time, fallbacks are asked instead", change.backend, change.why)
