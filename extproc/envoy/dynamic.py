"""Envoy's configuration in parts that Envoy reads again when they change, for the bootstrap that names them.

    clusters.yaml   the backends. A cluster that goes, or that changes, lets its running exchanges end
    routes.yaml     the routes. They hold from the next request on, on connections that are open too
    listener.yaml   all else about the listener. A change makes a new listener; the old one keeps its connections, and
                    closes each behind its next answer, or when DRAIN_SECONDS are over

Beside them lie the files by which Envoy finds keys and certificates (extproc.envoy.secrets). So what changes most
(models: not in any of them; backends, routes) touches no connection. A file is replaced by renaming, and Envoy watches
the directory: it takes the new one within milliseconds, and shows its version among its statistics. What it refuses, it
takes in part where it can, and says so in its log. Measured with Envoy 1.40.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any

from betterproto2 import Message
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.listener.v3 import Listener
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager import v3 as hcm

from extproc.config import Backend, Config
from extproc.envoy.clusters import backend_cluster
from extproc.envoy.extensions import packed
from extproc.envoy.listener import listener
from extproc.envoy.plain import plain, yaml_of
from extproc.envoy.routes import route_configuration
from extproc.envoy.secrets import secret_files

CLUSTERS, ROUTES, LISTENER = "clusters.yaml", "routes.yaml", "listener.yaml"

VERSIONED = frozenset({CLUSTERS, ROUTES, LISTENER})
"""Those of which Envoy shows the version that it has taken."""

DRAIN_SECONDS = 24 * 60 * 60
"""How long a listener that was changed keeps its connections. Then it cuts them, with all that runs on them: this must
be longer than any stream. It costs 80 kB for each change."""

ENVOY_ARGUMENTS = ("--drain-time-s", str(DRAIN_SECONDS), "--drain-strategy", "immediate")
"""What Envoy has to be started with. `immediate` is said of connections: the next answer on one that a changed listener
has left closes it. By default they would be closed little by little, over the whole time."""

_TYPE = "type.googleapis.com/envoy.config."


def files(config: Config, leaving: Sequence[Backend], directory: str) -> dict[str, str]:
    """The texts of all files, in the order in which Envoy needs them.

    Backends that are `leaving` stay beside those of `config`. `directory` is where Envoy finds the files.
    """
    # Of what changes most, models and backends, these two know the name of the first backend at most.
    settings = config.model_dump_json(exclude={"models", "backends"})
    return {
        **backend_files(config, leaving, directory),
        ROUTES: _made(ROUTES, f"{settings}\n{config.backends[0].name}", lambda: _routes(config)),
        LISTENER: _made(LISTENER, f"{settings}\n{directory}", lambda: _listener(config, directory)),
    }


_last_made: dict[str, tuple[str, str]] = {}
"""Of a file, what it was made for the last time, and its text: to make both again takes 0.4 seconds."""


def _made(name: str, purpose: str, make: Callable[[], str]) -> str:
    last, text = _last_made.get(name, ("", ""))
    if last != purpose:
        text = make()
        _last_made[name] = purpose, text
    return text


def _routes(config: Config) -> str:
    return _file("route.v3.RouteConfiguration", [route_configuration(config)])


def _listener(config: Config, directory: str) -> str:
    made = listener(config, directory)
    _take_routes_from(made, source(directory, ROUTES), route_configuration(config).name)
    return _file("listener.v3.Listener", [made])


def backend_files(config: Config, leaving: Sequence[Backend], directory: str) -> dict[str, str]:
    """Those of `files` that change when some of `leaving` have left."""
    backends = (*config.backends, *leaving)
    return {
        **secret_files(config.model_copy(update={"backends": backends})),
        CLUSTERS: _file("cluster.v3.Cluster", (backend_cluster(backend, directory) for backend in backends)),
    }


def source(directory: str, name: str) -> core.ConfigSource:
    """Where Envoy finds one of the files, and that it is to watch it."""
    return core.ConfigSource(
        path_config_source=core.PathConfigSource(
            path=f"{directory}/{name}", watched_directory=core.WatchedDirectory(path=directory)
        ),
        resource_api_version=core.ApiVersion.V3,
    )


def version_of(text: str) -> str:
    """The version that the text of one of the three names: Envoy shows it when it has taken the file."""
    return text.partition("\n")[0].removeprefix("version_info: ")


def _take_routes_from(made: Listener, source: core.ConfigSource, name: str) -> None:
    for filter_ in (each for chain in made.filter_chains for each in chain.filters):
        settings = filter_.typed_config.unpack() if filter_.typed_config else None
        if isinstance(settings, hcm.HttpConnectionManager):
            settings.route_config = None
            settings.rds = hcm.Rds(route_config_name=name, config_source=source)
            filter_.typed_config = packed(settings)


def _file(kind: str, resources: Iterable[Message]) -> str:
    told: list[dict[str, Any]] = [{"@type": _TYPE + kind, **plain(resource)} for resource in resources]
    text = yaml_of({"resources": told})
    # With a letter before it, for a version of digits alone would be a number.
    return f"version_info: v{sha256(text.encode()).hexdigest()[:16]}\n{text}"
