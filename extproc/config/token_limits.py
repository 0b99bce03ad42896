"""Limits in tokens, which all Envoys count together: by whom, in which time, and where the count is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from extproc.config.base import AddressText, Settings
from extproc.config.team import Team, Tokens

Whose: TypeAlias = Literal["client", "team"]
Unit: TypeAlias = Literal["minute", "day"]


class RateLimitService(Settings):
    """The `rate_limit_service` of a configuration, which counts tokens."""

    address: AddressText
    """`host:port` of what speaks Envoy's global rate-limit protocol, such as envoyproxy/ratelimit."""
    timeout_seconds: Annotated[float, Field(gt=0, le=60)] = 0.5
    """How long it may take to answer, before it counts as down. Each request waits for it."""
    when_down: Literal["serve", "refuse"] = "serve"
    """What becomes of requests while it can't be asked: they go on without a limit in tokens, or are a 503."""


@dataclass(frozen=True, slots=True)
class TokenLimit:
    """How many tokens the answers to the requests of one key, or of one team, may cost in a time."""

    whose: Whose
    name: str
    """The team's; "" for each key alike."""
    unit: Unit
    tokens: int

    @property
    def kind(self) -> str:
        """By which name Envoy tells the service of it."""
        return f"{self.whose}_{self.unit}"


def token_limits(
    key_per_minute: Tokens | None, key_per_day: Tokens | None, teams: Iterable[Team]
) -> tuple[TokenLimit, ...]:
    """All that there are: those of keys first, then those of teams in their order."""
    given: list[tuple[Whose, str, Unit, Tokens | None]] = [
        ("client", "", "minute", key_per_minute),
        ("client", "", "day", key_per_day),
    ]
    for team in teams:
        given += [
            ("team", team.name, "minute", team.tokens_per_minute),
            ("team", team.name, "day", team.tokens_per_day),
        ]
    return tuple(TokenLimit(whose, name, unit, tokens) for whose, name, unit, tokens in given if tokens is not None)
