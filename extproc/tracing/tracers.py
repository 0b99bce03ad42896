"""What stands between a processor and its exchanges: nothing, until the configuration asks for traces. Most never do,
so the SDK is imported then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from extproc.config import Config
from extproc.config.tracing import Tracing
from extproc.exchange.machine import Exchange, Inputs
from extproc.observability.open_telemetry import is_installed
from extproc.tracing.context import TRACEPARENT, Parent
from extproc.transport import Metadata

if TYPE_CHECKING:
    from extproc.tracing.run import TracedRun
    from extproc.tracing.spans import Spans

log = logging.getLogger(__name__)


def make_ready(config: Config) -> None:
    """Import what exchanges with this configuration would else wait for: some 0.1 s."""
    if config.tracing is not None and is_installed():
        import_module("extproc.tracing.exchange")


class Tracers:
    """Of one process."""

    def __init__(self, service: str, spans: Spans | None = None) -> None:
        """`service`: what the process is called in traces; `spans`: what it begins with."""
        self._service = service
        self._spans = spans

    def spans(self, settings: Tracing | None) -> Spans | None:
        """By these settings; those of before are sent, and end."""
        if self._spans is not None and self._spans.settings == settings:
            return self._spans
        left, self._spans = self._spans, None
        if left is not None:
            _close_later(left)
        if settings is not None:
            from extproc.tracing.spans import Spans

            log.info("traces go to %s%s", settings.collector, ", with what is said in them" * settings.content)
            self._spans = Spans(settings, self._service)
        return self._spans

    def over(self, inputs: Inputs, exchange: Exchange, metadata: Metadata) -> Inputs:
        """What takes the inputs of an exchange whose call came with this metadata."""
        settings = exchange.context.config.tracing
        if settings is None and self._spans is None:
            return inputs
        spans = self.spans(settings)
        if spans is None:
            return inputs
        told = next((value for name, value in metadata if name == TRACEPARENT), "")
        parent = Parent.read(told) if isinstance(told, str) else None
        if parent is not None and not parent.sampled:
            return inputs
        from extproc.tracing.exchange import TracedExchange

        return TracedExchange(inputs, exchange, spans, parent)

    def run(self, config: Config, headers: Mapping[str, str], agent: str) -> TracedRun | None:
        """The run that a request with these header fields begins; None if it isn't traced."""
        if (spans := self.spans(config.tracing)) is None:
            return None
        parent = Parent.read(headers.get(TRACEPARENT, ""))
        if not spans.wants(parent, decided=True):
            return None
        from extproc.tracing.run import TracedRun

        return TracedRun(spans, parent, agent)

    async def close(self) -> None:
        """Send what is left."""
        if self._spans is not None:
            await asyncio.to_thread(self._spans.close)


def _close_later(spans: Spans) -> None:
    """Beside the loop: a collector may be slow to take the last of them."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        spans.close()
    else:
        loop.run_in_executor(None, spans.close)
