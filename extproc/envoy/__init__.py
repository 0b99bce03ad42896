"""Envoy's bootstrap, as the configuration implies it.

Built with the typed classes of `envoy-data-plane`, so that a misspelt field or a wrong type is an error here and not
in a cluster. Every setting stands beside its reason; the facts about Envoy were measured with version 1.40.
Importing this package takes over a second: only what makes a bootstrap should do it.
"""

from __future__ import annotations

from envoy_data_plane.envoy.config.bootstrap.v3 import (
    Admin,
    Bootstrap,
    BootstrapDynamicResources,
    BootstrapStaticResources,
    LayeredRuntime,
    RuntimeLayer,
)
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.google.protobuf import Struct

from extproc.config import Address, Config
from extproc.envoy.addresses import listening, unix
from extproc.envoy.betterproto import work_once
from extproc.envoy.clusters import backend_cluster, processor_cluster
from extproc.envoy.dynamic import CLUSTERS, ENVOY_ARGUMENTS, LISTENER, source
from extproc.envoy.listener import listener
from extproc.envoy.overload import HEAP_BYTES, MAX_CONNECTIONS, overload_manager
from extproc.envoy.plain import plain, yaml_of
from extproc.envoy.secrets import secrets

__all__ = ["ENVOY_ARGUMENTS", "HEAP_BYTES", "MAX_CONNECTIONS", "bootstrap", "dynamic_bootstrap", "to_yaml"]

work_once()

HEAD = """\
# Made by `extproc envoy`: change extproc's configuration instead. Why each setting is as it is: extproc/envoy/.
"""


def bootstrap(
    config: Config,
    *,
    processor: str,
    admin: str | None = None,
    connections: int = MAX_CONNECTIONS,
    heap_bytes: int = HEAP_BYTES,
) -> Bootstrap:
    """The whole bootstrap for `config`.

    `processor` is where the processor listens, `admin` where Envoy is to serve its admin interface (`/ready`,
    `/stats`): the path of a unix socket, beginning with a slash, or host:port. Without `admin` there is none.
    `connections` and `heap_bytes` are what Envoy may use at most: see extproc.envoy.overload.
    """
    return Bootstrap(
        static_resources=BootstrapStaticResources(
            listeners=[listener(config)],
            clusters=[processor_cluster(processor), *map(backend_cluster, config.backends)],
            secrets=secrets(config),
        ),
        layered_runtime=_runtime(),
        overload_manager=overload_manager(connections, heap_bytes),
        admin=_admin(admin),
    )


def dynamic_bootstrap(
    directory: str,
    *,
    processor: str,
    admin: str | None = None,
    connections: int = MAX_CONNECTIONS,
    heap_bytes: int = HEAP_BYTES,
) -> Bootstrap:
    """The bootstrap for an Envoy that finds its clusters, its routes and its listener in the files of `directory`.

    It is the same for every configuration; extproc.envoy.dynamic makes the files. Otherwise as `bootstrap`.
    """
    return Bootstrap(
        node=core.Node(id="extproc", cluster="extproc"),  # without it, Envoy refuses all that may change
        static_resources=BootstrapStaticResources(clusters=[processor_cluster(processor)]),
        dynamic_resources=BootstrapDynamicResources(
            cds_config=source(directory, CLUSTERS), lds_config=source(directory, LISTENER)
        ),
        layered_runtime=_runtime(),
        overload_manager=overload_manager(connections, heap_bytes),
        admin=_admin(admin),
    )


def _runtime() -> LayeredRuntime:
    layer = Struct.from_dict(
        {
            # Envoy refuses regular expressions of more than 100 instructions; passing_headers.py has some thousands.
            "re2.max_program_size.error_level": 100_000,
            # Else a connection with 2,000 requests in one piece has them all begun before any other gets its turn.
            "http.max_requests_per_io_cycle": 1,
        }
    )
    return LayeredRuntime(layers=[RuntimeLayer(name="extproc", static_layer=layer)])


def _admin(address: str | None) -> Admin | None:
    if address is None:
        return None
    return Admin(address=unix(address) if address.startswith("/") else listening(Address.parse(address)))


def to_yaml(message: Bootstrap) -> str:
    """The message as Envoy reads it with `-c`."""
    return HEAD + yaml_of(plain(message))
