"""The processor: the services that Envoy calls, their health, and the exchanges that are under way."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from extproc.config import Config, Limits
from extproc.exchange.context import ExchangeContext
from extproc.exchange.host import ADVICE, Hosts
from extproc.exchange.machine import Exchange, Inputs
from extproc.names import INNER_LAYOUT, LAYOUT, LAYOUT_METADATA
from extproc.observability.added_metrics import Metrics
from extproc.observability.telemetry import Telemetry
from extproc.server.access_log import Ends, access_log
from extproc.server.exchange_call import ExchangeCall
from extproc.server.idle_timeout import Listening
from extproc.server.workers import Workers
from extproc.transport import Call, Endpoint, Metadata, Receiver, Transport, Turns, serving
from extproc.transport.health import NAME as HEALTH
from extproc.transport.health import Health
from extproc.transport.reflection import reflection
from extproc.transport.serving import Load
from extproc.transport.tls import ServerTls
from extproc.turn.modes import make_ready
from extproc.wire import SERVICE

log = logging.getLogger(__name__)

CONFIG_HEALTH = "extproc.config"
"""The name under which the health service tells whether the files on disk are the ones in force."""

ENVOY_HEALTH = "extproc.envoy"
"""The name under which it tells whether Envoy has taken its part of the configuration that the processor began with."""

HOST_HEALTH = "extproc.host"
"""The name under which it tells whether Envoy follows the overrides by which answers are asked for."""

_BESIDE_BODY = 1024 * 1024
"""Bytes of a message beside a body: headers, metadata and framing."""
PROBE = 64 * 1024
"""Bytes of a message to the health service."""
_MANY = 16
"""Answers that come in pieces, of so many that pieces are left to gather,"""
_GATHER = 0.003
"""and for so many seconds: a model writes a token in ten times as long."""


def largest_body(config: Config) -> int:
    """Bytes of the largest body that a processor takes which begins with this configuration."""
    return max(config.limits.max_body_bytes, Limits().max_body_bytes)


class Processor:
    """The gRPC service `ExternalProcessor`, its health service and reflection, on one address.

    Use `running` to have it served; `drain` to have it finish.
    """

    turns: Turns
    listening: Listening

    def __init__(
        self,
        context: ExchangeContext,
        telemetry: Telemetry,
        record: Callable[[Exchange], Inputs] | None = None,
        ends: Ends | None = None,
        on_hosts: Callable[[bool], None] | None = None,
        trace: Callable[[Inputs, Exchange, Metadata], Inputs] | None = None,
        workers: Workers | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`record`: what stands between the processor and an exchange that begins, if anything; `trace`: what stands
        before that, and is told the call's metadata too.

        `ends` is told what Envoy's access log says, instead of the context's own `concurrency`; `on_hosts`, whether
        hosts follow overrides, when that has changed. `workers` are the processor's own if none are given; by `clock`
        its work is measured.
        """
        self.context = context
        """What exchanges that begin now go by; those that have begun keep what they have."""
        self.largest_body = largest_body(context.config)
        """Bytes of the largest body that is read from Envoy: what is larger is refused without having it in memory. A
        server that runs can't change this: a configuration that allows more needs another one."""
        self.telemetry = telemetry
        self.workers = workers if workers is not None else Workers()
        self._clock = clock
        self._hosts = Hosts(lambda: asyncio.get_running_loop().time())
        self._hosts_follow = True
        self._observed = False
        self._record = record
        self._ends = ends if ends is not None else context.concurrency
        self._on_hosts = on_hosts
        self._trace = trace
        context.steered()  # so that it shows at which steps models are, before the first request
        self._load: Load = lambda: (0, 0, 0)
        telemetry.watch(lambda: self.exchanges, lambda: self._load(), lambda: self.workers.load)
        self._health = Health()
        self._running = set[ExchangeCall]()
        self._idle = asyncio.Event()
        self._idle.set()
        self._draining = False
        self._streams = 0
        self._heard = False  # in this round of the event loop, something that isn't a piece of an answer

    def gather(self) -> float:
        """How many seconds pieces of answers may be left to gather (`loop_lag.Gather`)."""
        heard, self._heard = self._heard, False
        return _GATHER if self._streams >= _MANY and not heard else 0.0

    @property
    def exchanges(self) -> int:
        """How many exchanges are under way that the processor still has a part in."""
        return len(self._running)

    def uses(self, config: Config) -> bool:
        """Whether an exchange is under way that goes by this very configuration."""
        return any(call.exchange.configured is config for call in self._running)

    async def under_way(self) -> int:
        """The same, for whoever may have to ask others for it."""
        return self.exchanges

    async def metrics(self) -> Metrics:
        """All metrics."""
        return await self.telemetry.metrics_in_turns()

    async def page(self, *, openmetrics: bool = False) -> bytes:
        """The page of them."""
        return await self.telemetry.page_in_turns(openmetrics=openmetrics)

    async def go_by(self, context: ExchangeContext) -> None:
        """Have exchanges that begin from now on go by this."""
        context.steered()
        self.context = context

    @asynccontextmanager
    async def running(
        self,
        address: str,
        health_address: str | None = None,
        *,
        healthy: bool = True,
        tls: ServerTls | None = None,
        transport: Transport | None = None,
        listening: socket.socket | None = None,
    ) -> AsyncIterator[int]:
        """Serve on `address` (`host:port` or `unix:/path`) inside the block; yields the port, 1 for a socket.

        `tls` is for `address`; at `health_address` there is none. `transport`: instead of what the configuration says.
        `listening`: a socket that is bound to `address` already.

        At `health_address` there is the health service and nothing else: for probes that come over the network
        while Envoy comes by a socket. Unless `healthy`, exchanges are served, but health says so only after
        `show_health`. Raises OSError when an address can't be had. Leaving the block ends what still
        runs: `drain` first.
        """
        transport = transport or self.context.config.transport
        self.turns, self.listening = Turns(self._clock), Listening()
        for service, serves in (("", healthy), (SERVICE, healthy), (ENVOY_HEALTH, healthy)):
            self._health.set(service, serving=serves)
        for service in (CONFIG_HEALTH, HOST_HEALTH):
            self._health.set(service, serving=True)
        services = {
            f"/{SERVICE}/Process": self._process,
            **access_log(self._ends, self.telemetry.models.logged),
            **self._health.services,
            **reflection((SERVICE, HEALTH)),
        }
        async with AsyncExitStack() as served:
            served.callback(self.workers.close)
            served.callback(self.listening.end)
            # Meanwhile requests are served: one that comes first makes its own model ready.
            self._made_ready = asyncio.create_task(asyncio.to_thread(make_ready, self.context.config.models))
            main = Endpoint(address, services, self.largest_body + _BESIDE_BODY, tls, listening, self._watch)
            port = await served.enter_async_context(serving(transport, main, self.turns))
            if health_address is not None:
                probed = Endpoint(health_address, self._health.services, PROBE)
                await served.enter_async_context(serving(transport, probed, self.turns))
            yield port

    def _watch(self, load: Load) -> None:
        self._load = load

    async def drain(self, grace: float) -> bool:
        """Report not-serving, then wait until every exchange has ended, for at most `grace` seconds.

        New exchanges are still served meanwhile: whoever sends them may not have seen the health change yet.
        Returns whether all of them ended.
        """
        self._draining = True
        for service in ("", SERVICE, ENVOY_HEALTH):
            self._health.set(service, serving=False)
        try:
            await asyncio.wait_for(self.until_idle(), grace)
        except TimeoutError:
            return False
        return True

    async def until_idle(self) -> None:
        """Wait until no exchange is under way."""
        await self._idle.wait()

    def set_health(self, serving: Mapping[str, bool]) -> None:
        """Tell this of each of these services."""
        for service, serves in serving.items():
            self._health.set(service, serving=serves)

    def show_health(self) -> None:
        """Tell that all is in place."""
        for service in ("", SERVICE):
            self._health.set(service, serving=True)

    def show_envoy_health(self) -> None:
        """Tell that Envoy has taken what it was given."""
        self._health.set(ENVOY_HEALTH, serving=not self._draining)

    def show_config_health(self, *, valid: bool) -> None:
        """Tell whether the files on disk are in force, apart from the health of the service: that goes on."""
        self._health.set(CONFIG_HEALTH, serving=valid)

    def _process(self, call: Call) -> Receiver:
        metadata = call.metadata
        inner = (LAYOUT_METADATA, INNER_LAYOUT) in metadata
        ours = inner or (LAYOUT_METADATA, LAYOUT) in metadata
        host = None if ours else self._hosts.of(call.peer)
        exchange = Exchange(self.context, self.telemetry, host, inner=inner)
        inputs = exchange if self._record is None else self._record(exchange)
        if self._trace is not None:
            inputs = self._trace(inputs, exchange, metadata)
        return ExchangeCall(call, exchange, inputs, self)

    # What its calls tell (`exchange_call.Shell`)

    def begun(self, call: ExchangeCall) -> None:
        """It is under way."""
        self._heard = True
        self._running.add(call)
        self._idle.clear()

    def ended(self, call: ExchangeCall) -> None:
        """It isn't any more."""
        self._running.discard(call)
        if not self._running:
            self._idle.set()
        if call.exchange.host is not None:
            self._look_at_hosts(call.exchange)

    def streams(self, change: int) -> None:
        """So many calls more have an answer that comes in pieces."""
        self._streams += change

    def hears(self) -> None:
        """Something has come that isn't a piece of an answer."""
        self._heard = True

    def observed(self) -> None:
        """Envoy only shows what passes."""
        if not self._observed:
            self._observed = True
            log.error(
                "configure Envoy without observability_mode: it takes no notice of any reply, and answers go to "
                "clients as they are"
            )

    def _look_at_hosts(self, exchange: Exchange) -> None:
        """Tell what has turned out about one by an exchange that is over."""
        if exchange.ignored_override:
            self.telemetry.override_ignored()
        if self._hosts_follow is self._hosts.any_ignores:
            self._hosts_follow = not self._hosts_follow
            self.telemetry.show_host(follows=self._hosts_follow)
            self._health.set(HOST_HEALTH, serving=self._hosts_follow)
            if self._on_hosts is not None:
                self._on_hosts(self._hosts_follow)
            if self._hosts_follow:
                log.info("Envoy follows mode_override now")
            else:
                log.error("%s. Until then, requests with tools are refused", ADVICE)
