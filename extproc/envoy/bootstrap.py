"""Envoy's bootstrap: all that Envoy is started with."""

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
from extproc.envoy.clusters import processor_cluster
from extproc.envoy.overload import HEAP_BYTES, MAX_CONNECTIONS, overload_manager
from extproc.envoy.plain import plain, yaml_of
from extproc.envoy.resources import Resources
from extproc.envoy.sources import CLUSTERS, LISTENER, Directory, Static

HEAD = """\
# Made by `extproc envoy`: change extproc's configuration instead. Why each setting is as it is: extproc/envoy/.
"""


def bootstrap(
    told: Config | Directory,
    *,
    processor: str,
    workers: int = 1,
    admin: str | None = None,
    connections: int = MAX_CONNECTIONS,
    heap_bytes: int = HEAP_BYTES,
) -> Bootstrap:
    """The bootstrap for an Envoy that is told of this configuration, or of whatever lies in this directory.

    A configuration is all inside, as static resources. For a directory it is the same whatever the configuration:
    Envoy finds clusters, routes and the listener in the files there, which extproc.envoy.dynamic makes.
    `processor` is where the processor listens, with its first of so many `workers`
    (`extproc.names.worker_address`), `admin` where Envoy is to serve its admin interface (`/ready`,
    `/stats`): the path of a unix socket, beginning with a slash, or host:port. Without `admin` there is none.
    `connections` and `heap_bytes` are what Envoy may use at most: see extproc.envoy.overload.
    """
    static = BootstrapStaticResources(clusters=[processor_cluster(processor, workers)])
    made = Bootstrap(
        static_resources=static,
        layered_runtime=_runtime(),
        overload_manager=overload_manager(connections, heap_bytes),
        admin=_admin(admin),
    )
    if isinstance(told, Directory):
        made.node = core.Node(id="extproc", cluster="extproc")  # without it, Envoy refuses all that may change
        made.dynamic_resources = BootstrapDynamicResources(
            cds_config=told.file(CLUSTERS), lds_config=told.file(LISTENER)
        )
    else:
        resources = Resources(told, Static())
        static.listeners = resources.listeners()
        static.clusters += resources.clusters()
        static.secrets = resources.secrets()
    return made


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
