"""Envoy's own spans: of each request, of the processor's call for it, and of each try of a backend.

Measured with Envoy 1.40: it tells the processor of its span by gRPC metadata, and the backend by a header, both as
W3C's `traceparent`, whether the span is sampled or not. `random_sampling` without a sampler decides for clients with a
`traceparent` too, but for those whose own says that nothing is to be recorded.
"""

from __future__ import annotations

from datetime import timedelta

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.trace.v3 import OpenTelemetryConfig, TracingHttp
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager import v3 as hcm
from envoy_data_plane.envoy.extensions.tracers.opentelemetry.samplers.v3 import (
    ParentBasedSamplerConfig,
    TraceIdRatioBasedSamplerConfig,
)
from envoy_data_plane.envoy.type.tracing.v3 import CustomTag
from envoy_data_plane.envoy.type.v3 import FractionalPercent, FractionalPercentDenominatorType, Percent

from extproc.config.tracing import Tracing
from extproc.envoy.clusters import COLLECTOR
from extproc.envoy.extensions import extension, packed
from extproc.names import TRACES_PATH

_SEND = timedelta(seconds=1)
"""For a batch of spans."""
_PATH = "%PATH(NQ:PATH):200%"


def tracing(settings: Tracing, *, inner: bool) -> hcm.HttpConnectionManagerTracing:
    """Of a listener. What comes by the `inner` one belongs to a trace that is sampled already, or isn't."""
    follow = settings.follow_clients or inner
    url = f"http://{settings.collector}{TRACES_PATH}"
    told = OpenTelemetryConfig(
        http_service=core.HttpService(http_uri=core.HttpUri(uri=url, cluster=COLLECTOR, timeout=_SEND)),
        service_name="envoy",
        sampler=_sampler(settings.sampling) if follow else None,
    )
    return hcm.HttpConnectionManagerTracing(
        random_sampling=Percent(value=100.0 if follow else 100 * settings.sampling),
        # In the place of the URL that Envoy would tell, with its query: that may hold a key.
        custom_tags=[CustomTag(tag="http.url", value=_PATH)],
        provider=TracingHttp(name="envoy.tracers.opentelemetry", typed_config=packed(told)),
        spawn_upstream_span=True,
    )


def _sampler(share: float) -> core.TypedExtensionConfig:
    """By the parent, and where there is none by lot."""
    millionths = FractionalPercent(
        numerator=round(share * 1_000_000), denominator=FractionalPercentDenominatorType.MILLION
    )
    by_lot = extension(
        "envoy.tracers.opentelemetry.samplers.trace_id_ratio_based",
        TraceIdRatioBasedSamplerConfig(sampling_percentage=millionths),
    )
    return extension(
        "envoy.tracers.opentelemetry.samplers.parent_based", ParentBasedSamplerConfig(wrapped_sampler=by_lot)
    )
