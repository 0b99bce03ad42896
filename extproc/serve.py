"""The processor as a process of its own: from its address to its last exchange."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack

from extproc.config import Config
from extproc.metrics_page import metrics_served
from extproc.server import Processor
from extproc.stopping import StopSignals, completes
from extproc.telemetry import Telemetry

log = logging.getLogger(__name__)


async def serve(
    config: Config,
    address: str,
    grace: float,
    health_address: str | None = None,
    metrics_address: str | None = None,
) -> int:
    """Serve on `address` (`host:port` or `unix:/path`) until a signal comes; returns the exit status.

    The health service is served there and, if given, at `health_address`; the metrics, if given, at
    `metrics_address`, until the very end.

    Then health turns to not-serving and exchanges under way get `grace` seconds to finish. A second signal ends
    them at once. Raises OSError when an address can't be had.
    """
    telemetry = Telemetry(config)
    processor = Processor(config, telemetry)
    with StopSignals() as signals:
        async with AsyncExitStack() as served:
            if metrics_address is not None:
                await served.enter_async_context(metrics_served(metrics_address, telemetry.page))
            await served.enter_async_context(processor.running(address, health_address))
            print(f"extproc: the processor is ready on {address}", flush=True)
            await signals.asked()
            if processor.exchanges:
                log.info("stopping; exchanges still running: %d", processor.exchanges)

            async def drain() -> None:
                if not await processor.drain(grace):
                    log.warning("exchanges cut off after %g seconds: %d", grace, processor.exchanges)

            return 0 if await completes(drain(), unless=signals.insisted()) else 1
