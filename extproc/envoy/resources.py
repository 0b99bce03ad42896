"""A configuration as Envoy's resources: what the bootstrap holds, and what the files hold, is made here, by one way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envoy_data_plane.envoy.config.cluster.v3 import Cluster
from envoy_data_plane.envoy.config.listener.v3 import Listener
from envoy_data_plane.envoy.config.route.v3 import RouteConfiguration
from envoy_data_plane.envoy.extensions.transport_sockets.tls.v3 import Secret

from extproc.config import Address, Backend, Config
from extproc.envoy.clusters import (
    backend_cluster,
    collector_cluster,
    jwks_cluster,
    rate_limit_cluster,
    runner_cluster,
)
from extproc.envoy.listener import inner_listener, listener
from extproc.envoy.routes import route_configuration
from extproc.envoy.secrets import secrets
from extproc.envoy.sources import Sources


@dataclass(frozen=True, slots=True)
class Resources:
    """Each kind is made when it is asked for, which takes up to 0.2 seconds: not all are needed each time.

    Backends that are `leaving` stay beside those of `config`.
    """

    config: Config
    sources: Sources
    leaving: Sequence[Backend] = ()

    def listeners(self) -> list[Listener]:
        """That for clients, and the inner one if it is needed."""
        inner = [inner_listener(self.config, self.sources)] if self.config.asks_itself else []
        return [listener(self.config, self.sources), *inner]

    def routes(self) -> RouteConfiguration:
        """For where the listener doesn't have them inline."""
        return route_configuration(self.config)

    def clusters(self) -> list[Cluster]:
        """One for each backend, and those of the runner, the collector, an identity provider and the rate limit service
        if they are needed; the processor's is no part of a configuration."""
        tracing, jwt, service = self.config.tracing, self.config.jwt, self.config.rate_limit_service
        runner = [runner_cluster(str(self.config.runner_socket))] if self.config.runs_tools else []
        collector = [collector_cluster(Address.parse(tracing.collector))] if tracing is not None else []
        keys = [jwks_cluster(jwt.jwks.url, self.sources)] if jwt is not None and jwt.jwks.url is not None else []
        counting = [rate_limit_cluster(Address.parse(service.address))] if service is not None else []
        backends = (backend_cluster(backend, self.sources) for backend in self._backends)
        return [*backends, *runner, *collector, *keys, *counting]

    def secrets(self) -> list[Secret]:
        return list(secrets(self.config.tls, self.config.jwt, self._backends))

    @property
    def _backends(self) -> tuple[Backend, ...]:
        return (*self.config.backends, *self.leaving)
