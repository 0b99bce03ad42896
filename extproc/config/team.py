"""What the keys of one team may do together."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from extproc.config.base import Name, Settings

Tokens: TypeAlias = Annotated[int, Field(ge=1, le=4_294_967_295)]
"""As many as envoyproxy/ratelimit can count to."""

TEAM_NAME = r"^[A-Za-z0-9_.@-]{1,64}$"
"""What may stand before the slash of a key's name (`extproc.exchange.api_keys`)."""


class Team(Settings):
    """One entry of `teams`."""

    name: Annotated[str, Field(pattern=TEAM_NAME)]
    """What stands before the slash of its keys' names, or in the claim of its tokens."""
    models: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    """The only models that it may ask, by their names; to it, there are no others. Unless given: all."""
    requests_per_minute: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """How many requests all its keys together may send in a minute, at one Envoy, and at all of them where there is a
    `rate_limit_service`; one more is a 429."""
    concurrent_requests: Annotated[int, Field(ge=1)] | None = None
    """How many requests all its keys together may have under way, at all backends; one more is a 429."""

    tokens_per_minute: Tokens | None = None
    """How many tokens the answers to all its keys may cost in a minute, at all Envoys; what comes then is a 429."""
    tokens_per_day: Tokens | None = None
    """The same in a day, from midnight to midnight by UTC."""
    priority: Literal["interactive", "batch"] = "interactive"
    """Whether somebody waits for the answers. Batch requests may have only a part of a backend (`max_batch_requests`),
    and go behind the others where it knows priorities (`priority_scheduling`)."""

    @property
    def is_batch(self) -> bool:
        """Whether its requests give way to others."""
        return self.priority == "batch"

    @property
    def is_bounded(self) -> bool:
        """Whether there is anything that it may not ask."""
        return self.models is not None

    def may_ask(self, model: str) -> bool:
        """Whether it may ask the model, or the character, that has this name."""
        return self.models is None or model in self.models
