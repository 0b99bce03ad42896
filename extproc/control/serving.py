"""What the control process has to do with what serves: one `Processor` in it, or a `Fleet` of them."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from extproc.config import Config
from extproc.exchange.context import ExchangeContext
from extproc.observability.added_metrics import Metrics
from extproc.transport.tls import ServerTls


class Serving(Protocol):
    """See `extproc.server.processor.Processor`."""

    @property
    def context(self) -> ExchangeContext:
        """What exchanges that begin now go by."""

    @property
    def largest_body(self) -> int: ...

    @property
    def exchanges(self) -> int:
        """How many are under way, or were a moment ago."""

    async def under_way(self) -> int:
        """How many are under way."""

    def uses(self, config: Config) -> bool: ...

    async def go_by(self, context: ExchangeContext) -> None:
        """`context` is this at once; when it returns, no exchange begins any more that goes by another."""

    def running(
        self, address: str, health_address: str | None = None, *, healthy: bool = True, tls: ServerTls | None = None
    ) -> AbstractAsyncContextManager[object]: ...

    async def drain(self, grace: float) -> bool: ...

    def show_health(self) -> None: ...

    def show_envoy_health(self) -> None: ...

    def show_config_health(self, *, valid: bool) -> None: ...

    async def metrics(self) -> Metrics:
        """All of them, as they are now."""

    async def page(self, *, openmetrics: bool = False) -> bytes:
        """All metrics in Prometheus' text format."""
