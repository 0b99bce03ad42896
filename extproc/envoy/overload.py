"""What Envoy does before it runs out of connections or of memory: it lets go of the few that cost much, not of all.

    connections   beyond so many new ones are closed at once; each takes a file descriptor, and may take one more for
                  a backend
    memory        of HEAP_BYTES, as Envoy counts what it has allocated:

      from 65 %   memory that was freed goes back to the system
      from 70 %   the HTTP/2 streams that hold most are reset, the largest first, down to smaller ones the fuller it is:
                  those are stalled uploads and answers that nobody reads. At 71 % it is those of 16 MB and more, at
                  88 % all above SMALL_STREAM; what holds less is never chosen. Of HTTP/1.1 Envoy keeps no such account
      from 95 %   new requests get a 503; what runs goes on
      from 98 %   new connections wait

It is the last of three bounds: the processor lets large requests in (extproc.exchange.concurrency), and each has to
arrive within a minute (listener.py). Without them 75 uploads of 16 MB that stall end Envoy, and with it everybody's
streams. All of this is fixed when Envoy starts. The container's limit has to leave room above HEAP_BYTES for what
isn't on the heap, and for what can arrive between two looks (REFRESH): tests/k8s holds the manifests to that.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from envoy_data_plane.envoy.config.overload.v3 import (
    BufferFactoryConfig,
    OverloadAction,
    OverloadManager,
    ResourceMonitor,
    ScaledTrigger,
    ThresholdTrigger,
    Trigger,
)
from envoy_data_plane.envoy.extensions.resource_monitors.downstream_connections.v3 import DownstreamConnectionsConfig
from envoy_data_plane.envoy.extensions.resource_monitors.fixed_heap.v3 import FixedHeapConfig

from extproc.envoy.extensions import packed

MAX_CONNECTIONS = 50_000
"""Of all clients together, unless Envoy may open fewer files."""

HEAP_BYTES = 768 * 1024 * 1024
"""For a container that may have 1 GiB."""

REFRESH = timedelta(milliseconds=100)

SMALL_STREAM = 17
"""As a power of two, in bytes: 128 KiB. Above it there are eight classes, each twice as large as the one before, of
which the largest go first. A coding agent's request is 50 to 200 kB."""

_HEAP = "envoy.resource_monitors.fixed_heap"


def overload_manager(connections: int, heap_bytes: int) -> OverloadManager:
    """For so many connections of clients, and so many bytes of heap."""
    return OverloadManager(
        refresh_interval=REFRESH,
        resource_monitors=[
            ResourceMonitor(
                name="envoy.resource_monitors.global_downstream_max_connections",
                typed_config=packed(DownstreamConnectionsConfig(max_active_downstream_connections=connections)),
            ),
            ResourceMonitor(name=_HEAP, typed_config=packed(FixedHeapConfig(max_heap_size_bytes=heap_bytes))),
        ],
        actions=list(_actions()),
        buffer_factory_config=BufferFactoryConfig(minimum_account_to_track_power_of_two=SMALL_STREAM),
    )


def _actions() -> Iterator[OverloadAction]:
    yield _action("shrink_heap", Trigger(name=_HEAP, threshold=ThresholdTrigger(value=0.65)))
    largest_first = ScaledTrigger(scaling_threshold=0.70, saturation_threshold=0.88)
    yield _action("reset_high_memory_stream", Trigger(name=_HEAP, scaled=largest_first))
    yield _action("stop_accepting_requests", Trigger(name=_HEAP, threshold=ThresholdTrigger(value=0.95)))
    yield _action("stop_accepting_connections", Trigger(name=_HEAP, threshold=ThresholdTrigger(value=0.98)))


def _action(name: str, trigger: Trigger) -> OverloadAction:
    return OverloadAction(name=f"envoy.overload_actions.{name}", triggers=[trigger])
