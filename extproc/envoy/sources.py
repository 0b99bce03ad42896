"""Where Envoy finds what its listener and its clusters refer to: routes, secrets, the check of clients' keys.

    Static      in the bootstrap, as static resources: routes stand in the listener, secrets beside it. Envoy reads them
                once, so clients' keys, which change, have no place there
    Directory   each in a file of its own (RDS, SDS, ECDS), of which Envoy takes notice when it is replaced

That is all that differs between the two ways to tell Envoy of a configuration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.route.v3 import RouteConfiguration
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager.v3 import Rds
from envoy_data_plane.envoy.extensions.transport_sockets.tls.v3 import SdsSecretConfig

from extproc.config import Config
from extproc.envoy.key_check import FILE as KEYS
from extproc.envoy.routes import NAME, route_configuration

CLUSTERS, ROUTES, LISTENER = "clusters.yaml", "routes.yaml", "listener.yaml"


RouteSource: TypeAlias = RouteConfiguration | Rds
"""A listener's routes: they themselves, inline, or where they are."""


class Sources(Protocol):
    def routes(self, config: Config) -> RouteSource:
        """The routes of the listener."""

    def secret(self, name: str) -> SdsSecretConfig:
        """The secret of that name (extproc.envoy.secrets)."""

    def keys(self) -> core.ConfigSource | None:
        """The check of clients' keys; None where Envoy doesn't check them, and leaves it to the processor."""


@dataclass(frozen=True, slots=True)
class Static:
    """The bootstrap itself."""

    def routes(self, config: Config) -> RouteSource:
        return route_configuration(config)

    def secret(self, name: str) -> SdsSecretConfig:
        return SdsSecretConfig(name=name)

    def keys(self) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Directory:
    """The files of a directory, as Envoy names it."""

    path: str

    def routes(self, config: Config) -> RouteSource:  # noqa: ARG002 - they are elsewhere
        return Rds(route_config_name=NAME, config_source=self.file(ROUTES))

    def secret(self, name: str) -> SdsSecretConfig:
        source = core.PathConfigSource(path=f"{self.path}/{secret_file(name)}")
        return SdsSecretConfig(name=name, sds_config=_source(source))

    def keys(self) -> core.ConfigSource:
        return self.file(KEYS)

    def file(self, name: str) -> core.ConfigSource:
        """The file of that name, for whose replacement Envoy is to watch the directory."""
        watched = core.WatchedDirectory(path=self.path)
        return _source(core.PathConfigSource(path=f"{self.path}/{name}", watched_directory=watched))


def secret_file(name: str) -> str:
    """The name of the file that says where the secret is."""
    return f"secret-{name}.yaml"


def _source(path: core.PathConfigSource) -> core.ConfigSource:
    return core.ConfigSource(path_config_source=path, resource_api_version=core.ApiVersion.V3)
