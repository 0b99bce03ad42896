"""The configuration of an Envoy that cases are played through: everything over unix sockets, in one directory.

A listener for each `HostSettings`, added when it is first asked for; clients speak HTTP/1.1 or HTTP/2 to it, and Envoy
the same to the upstream.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from extproc.conformance.host.settings import BodyMode, HeaderMode, HostSettings

DETAILS = "x-conformance-details"
"""A header that only Envoy's own answers have: why it answers."""

_EXTENSIONS = "type.googleapis.com/envoy.extensions"
_FILTERS = f"{_EXTENSIONS}.filters.http"
_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_EXT_PROC = "envoy.filters.http.ext_proc"
_LARGEST = 64 << 20


def bootstrap(folder: Path) -> dict[str, Any]:
    """Without listeners, which are in `listeners.json`."""
    upstream = {
        "common_http_protocol_options": {"max_requests_per_connection": 1},
        "use_downstream_protocol_config": {
            "http_protocol_options": {"enable_trailers": True},
            "http2_protocol_options": {},
        },
    }
    processor: dict[str, Any] = {"explicit_http_config": {"http2_protocol_options": {}}}
    clusters = [_cluster("upstream", folder, upstream), _cluster("processor", folder, processor)]
    source = {"path_config_source": {"path": str(folder / "listeners.json")}, "resource_api_version": "V3"}
    return {
        "node": {"id": "conformance", "cluster": "conformance"},
        "admin": {"address": _pipe(folder / "admin")},
        "dynamic_resources": {"lds_config": source},
        "static_resources": {"clusters": clusters},
    }


def _pipe(path: Path) -> dict[str, Any]:
    return {"pipe": {"path": str(path)}}


def _cluster(name: str, folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    endpoint = {"endpoint": {"address": _pipe(folder / name)}}
    return {
        "name": name,
        "type": "STATIC",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]},
        "per_connection_buffer_limit_bytes": _LARGEST,
        "typed_extension_protocol_options": {
            _OPTIONS: {"@type": f"{_EXTENSIONS}.upstreams.http.v3.HttpProtocolOptions", **options}
        },
    }


def listener(name: str, settings: HostSettings, folder: Path, message_timeout: float) -> dict[str, Any]:
    """At the socket `name` in the directory."""
    filters = [{"name": _EXT_PROC, "typed_config": ext_proc(settings, message_timeout)}]
    if settings.attributes:
        entry = {"metadata_namespace": "conformance", "value": {"tenant": "t-1"}}
        config = {"@type": f"{_FILTERS}.set_metadata.v3.Config", "metadata": [entry]}
        filters.insert(0, {"name": "metadata", "typed_config": config})
    filters.append(
        {
            "name": "router",
            "typed_config": {"@type": f"{_FILTERS}.router.v3.Router", "suppress_envoy_headers": True},
        }
    )
    route: dict[str, Any] = {"match": {"prefix": "/"}, "route": {"cluster": "upstream", "timeout": "0s"}}
    if settings.listener is not None:
        overrides = {"processing_mode": _modes(settings, *settings.modes)}
        per_route = {"@type": f"{_FILTERS}.ext_proc.v3.ExtProcPerRoute", "overrides": overrides}
        route["typed_per_filter_config"] = {_EXT_PROC: per_route}
    reason = {"header": {"key": DETAILS, "value": "%RESPONSE_CODE_DETAILS%"}}
    always = {
        "status_code_filter": {"comparison": {"op": "GE", "value": {"default_value": 0, "runtime_key": "conformance"}}}
    }
    manager = {
        "@type": f"{_EXTENSIONS}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": name,
        "http_filters": filters,
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        "local_reply_config": {"mappers": [{"filter": always, "headers_to_add": [reason]}]},
        "http_protocol_options": {"enable_trailers": True},
        "delayed_close_timeout": "0.1s",
        "max_request_headers_kb": 96,
        "preserve_external_request_id": True,
        "server_header_transformation": "PASS_THROUGH",
    }
    return {
        "@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
        "name": name,
        "address": _pipe(folder / name),
        "per_connection_buffer_limit_bytes": settings.buffer_limit or _LARGEST,
        "filter_chains": [{"filters": [{"name": "manager", "typed_config": manager}]}],
    }


def ext_proc(settings: HostSettings, message_timeout: float) -> dict[str, Any]:
    """The filter's configuration."""
    listener_modes = settings.listener or settings.modes
    config: dict[str, Any] = {
        "@type": f"{_FILTERS}.ext_proc.v3.ExternalProcessor",
        "grpc_service": {"envoy_grpc": {"cluster_name": "processor"}},
        "processing_mode": _modes(settings, *listener_modes),
        "allow_mode_override": settings.allow_mode_override,
        "message_timeout": f"{message_timeout}s",
        "max_message_timeout": "60s",
    }
    if settings.allowed_response_modes:
        config["allowed_override_modes"] = [
            _modes(settings, settings.request_body, mode) for mode in settings.allowed_response_modes
        ]
    if settings.send_body_without_waiting:
        config["send_body_without_waiting_for_header_response"] = True
    if settings.observability:
        config["observability_mode"] = True
    if settings.attributes:
        config["request_attributes"] = ["request.path"]
        config["response_attributes"] = ["response.code"]
        config["metadata_options"] = {"forwarding_namespaces": {"untyped": ["conformance"]}}
    if settings.hidden:
        config["forward_rules"] = {"disallowed_headers": {"patterns": [{"exact": name} for name in settings.hidden]}}
    return config


def _modes(settings: HostSettings, request: BodyMode, response: BodyMode) -> dict[str, str]:
    def told(mode: HeaderMode) -> str:
        return mode.name

    return {
        "request_header_mode": told(settings.request_headers),
        "response_header_mode": told(settings.response_headers),
        "request_body_mode": request.name,
        "response_body_mode": response.name,
        "request_trailer_mode": told(settings.request_trailers),
        "response_trailer_mode": told(settings.response_trailers),
    }
