"""What one exchange, and one client, may use."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from extproc.config.base import Settings
from extproc.config.team import Tokens


class Limits(Settings):
    """The `limits` of a configuration."""

    max_body_bytes: Annotated[int, Field(ge=1024, le=1 << 30)] = 32 * 1024 * 1024
    """The largest request or response body that is buffered; above it the client gets a 413."""
    requests_per_minute: Annotated[int, Field(ge=1, le=1_000_000)] | None = 1200
    """How many requests one key may send in a minute, at one Envoy, and at all of them where there is a
    `rate_limit_service`; one more is a 429. `null`: as many as it likes."""
    concurrent_requests: Annotated[int, Field(ge=1)] | None = None
    """How many requests of one key may be under way at one backend. Unless given: as many as it has left free."""
    tokens_per_minute: Tokens | None = None
    """How many tokens the answers to one key's requests may cost in a minute, at all Envoys; what comes then is a 429.
    Unless given: any number."""
    tokens_per_day: Tokens | None = None
    """The same in a day, from midnight to midnight by UTC."""
    first_event_seconds: Annotated[float, Field(gt=0, le=1800)] = 900.0
    """How long a backend may take for the first event of a stream with tools: it may have other requests before it."""
    silence_seconds: Annotated[float, Field(gt=0, le=1800)] = 300.0
    """How long a backend may say nothing in the middle of a stream with tools, before it is ended with an error."""
