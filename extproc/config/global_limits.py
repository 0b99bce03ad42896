"""Limits that all Envoys hold together: of what, whose, in which time, and where the count is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from extproc.config.base import AddressText, Settings
from extproc.config.limits import Limits
from extproc.config.team import Team

Of: TypeAlias = Literal["tokens", "requests"]
Whose: TypeAlias = Literal["client", "team"]
Unit: TypeAlias = Literal["day", "minute"]


class RateLimitService(Settings):
    """The `rate_limit_service` of a configuration, which counts requests and tokens."""

    address: AddressText
    """`host:port` of what speaks Envoy's global rate-limit protocol, such as envoyproxy/ratelimit."""
    timeout_seconds: Annotated[float, Field(gt=0, le=60)] = 0.5
    """How long it may take to answer, before it counts as down. Each request waits for it, up to once for tokens, once
    for its key's requests and once for its team's."""
    when_down: Literal["serve", "refuse"] = "serve"
    """What becomes of requests while it can't be asked: they go on without its limits, or are a 503."""


@dataclass(frozen=True, slots=True)
class GlobalLimit:
    """How many requests one key, or one team, may send in a time, or how many tokens their answers may cost."""

    of: Of
    whose: Whose
    name: str
    """The team's; "" for each key alike."""
    unit: Unit
    most: int

    @property
    def kind(self) -> str:
        """By which name Envoy tells the service of it."""
        return f"{self.whose}_{self.unit}" if self.of == "tokens" else f"{self.whose}_requests_{self.unit}"

    @property
    def setting(self) -> str:
        """As which setting it stands in `limits`, or in an entry of `teams`."""
        return f"{self.of}_per_{self.unit}"


def token_limits(limits: Limits, teams: Iterable[Team]) -> tuple[GlobalLimit, ...]:
    """All that there are: those of keys first, then those of teams in their order."""
    given: list[tuple[Whose, str, Unit, int | None]] = [
        ("client", "", "minute", limits.tokens_per_minute),
        ("client", "", "day", limits.tokens_per_day),
    ]
    for team in teams:
        given += [
            ("team", team.name, "minute", team.tokens_per_minute),
            ("team", team.name, "day", team.tokens_per_day),
        ]
    return tuple(
        GlobalLimit("tokens", whose, name, unit, most) for whose, name, unit, most in given if most is not None
    )


def request_limits(limits: Limits, teams: Iterable[Team]) -> tuple[GlobalLimit, ...]:
    """The same of requests."""
    given: list[tuple[Whose, str, int | None]] = [("client", "", limits.requests_per_minute)]
    given += [("team", team.name, team.requests_per_minute) for team in teams]
    return tuple(
        GlobalLimit("requests", whose, name, "minute", most) for whose, name, most in given if most is not None
    )
