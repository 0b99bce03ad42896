"""What Envoy Gateway and Istio make of the overlays for them, as far as it concerns the processor: Envoy's bootstrap.

Neither controller runs here. Their part is done again, in short, after their sources: for Envoy Gateway its
translation of HTTPRoute, EnvoyExtensionPolicy and ClientTrafficPolicy (internal/xds/translator: extproc.go,
httpfilters.go, route.go; internal/gatewayapi/sort.go), for Istio that of VirtualService, and the patches of an
EnvoyFilter (pilot/pkg/networking/core/envoyfilter). What is left out (TLS, weights, discovery) has no part in what the
tests show: that the layout suits the processor, and that routes follow its choice.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.k8s.rendered import Object, of_kind

_TYPE = "type.googleapis.com/envoy."
_HCM = "envoy.filters.network.http_connection_manager"
_ROUTER = "envoy.filters.http.router"
_UNITS = {"Mi": 1 << 20}


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where everything is on this machine."""

    listen: int
    admin: str
    processor: int
    backends: Mapping[str, int]
    """By the name of the Service."""


def envoy_gateways(objects: Sequence[Object], at: Addresses) -> Object:
    """The bootstrap for the overlay envoy-gateway."""
    (clients,) = (each["spec"] for each in of_kind(objects, "ClientTrafficPolicy"))
    policies = {policy["spec"]["targetRefs"][0]["name"]: policy for policy in of_kind(objects, "EnvoyExtensionPolicy")}
    answers = {each["metadata"]["name"]: each["spec"] for each in of_kind(objects, "HTTPRouteFilter")}
    filters, routes, clusters = [], [], []
    for route in of_kind(objects, "HTTPRoute"):
        name = route["metadata"]["name"]
        filters.append(_gateways_filter(policies[name]))
        for rule in route["spec"]["rules"]:
            names = [backend["name"] for backend in rule.get("backendRefs", [])]
            clusters += [_cluster(name, at.backends[name]) for name in names]
            routes += [_gateways_route(match, rule, filters[-1]["name"], answers) for match in rule["matches"]]
    routes.sort(key=_precedence)
    hosts = of_kind(objects, "HTTPRoute")[0]["spec"]["hostnames"]
    early = [{"remove": header} for header in clients["headers"]["earlyRequestHeaders"]["remove"]]
    window = _bytes(clients["http2"]["initialStreamWindowSize"])
    manager = _manager(
        [*filters, _router()],
        {"virtual_hosts": [{"name": "all", "domains": hosts, "routes": routes}]},
        stream_idle_timeout=_seconds(clients["timeout"]["http"]["streamIdleTimeout"]),
        http2_protocol_options={"initial_stream_window_size": window, "initial_connection_window_size": window},
        early_header_mutation_extensions=[
            {
                "name": "envoy.http.early_header_mutation.header_mutation",
                "typed_config": {
                    "@type": _TYPE + "extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation",
                    "mutations": early,
                },
            }
        ],
    )
    listener = _listener(at.listen, manager)
    listener["per_connection_buffer_limit_bytes"] = _bytes(clients["connection"]["bufferLimit"])
    processor = _cluster("extproc-processor", at.processor, http2=True)
    return _bootstrap(listener, [*{each["name"]: each for each in clusters}.values(), processor], at.admin)


def _gateways_filter(policy: Object) -> Object:
    (settings,) = policy["spec"]["extProc"]
    mode = settings["processingMode"]
    assert mode.keys() <= {"request", "response", "allowModeOverride"}
    return {
        "name": f"envoy.filters.http.ext_proc/{policy['metadata']['name']}",
        "disabled": True,
        "typed_config": {
            "@type": _TYPE + "extensions.filters.http.ext_proc.v3.ExternalProcessor",
            "grpc_service": {"envoy_grpc": {"cluster_name": settings["backendRefs"][0]["name"]}, "timeout": "10s"},
            "processing_mode": {
                "request_header_mode": "SEND" if "request" in mode else "SKIP",
                "request_body_mode": mode.get("request", {}).get("body", "None").upper(),
                "request_trailer_mode": "SKIP",
                "response_header_mode": "SEND" if "response" in mode else "SKIP",
                "response_body_mode": mode.get("response", {}).get("body", "None").upper(),
                "response_trailer_mode": "SKIP",
            },
            "allow_mode_override": mode.get("allowModeOverride", False),
            "failure_mode_allow": settings["failOpen"],
            "message_timeout": settings["messageTimeout"],
            "metadata_options": {"receiving_namespaces": {"untyped": settings["metadata"]["writableNamespaces"]}},
        },
    }


def _gateways_route(match: Object, rule: Object, filter_: str, answers: Mapping[str, Object]) -> Object:
    path = {"Exact": "path", "PathPrefix": "path_separated_prefix"}[match["path"]["type"]]
    headers = [{"name": ":method", "string_match": {"exact": match["method"]}}]
    headers += [_exactly(header["name"], header["value"]) for header in match.get("headers", [])]
    route = {
        "match": {path: match["path"]["value"], "headers": headers},
        "typed_per_filter_config": {filter_: {"@type": _TYPE + "config.route.v3.FilterConfig", "config": {}}},
    }
    for backend in rule.get("backendRefs", []):
        route["route"] = {"cluster": backend["name"], **_timeout(rule.get("timeouts", {}))}
    for change in rule.get("filters", []):
        match change["type"]:
            case "ExtensionRef":
                said = answers[change["extensionRef"]["name"]]["directResponse"]
                body = {"inline_string": said["body"]["inline"]}
                route["direct_response"] = {"status": said["statusCode"], "body": body}
            case "RequestHeaderModifier":
                route["request_headers_to_remove"] = change["requestHeaderModifier"]["remove"]
            case "ResponseHeaderModifier":
                route["response_headers_to_remove"] = change["responseHeaderModifier"]["remove"]
            case other:
                raise AssertionError(f"filters of type {other} are not translated here")
    return route


def _precedence(route: Object) -> tuple[bool, int, int]:
    """Exact paths first, then the longer ones, then those with more conditions."""
    match = route["match"]
    path = match.get("path") or match["path_separated_prefix"]
    return "path" not in match, -len(path), -len(match["headers"])


def istios(objects: Sequence[Object], at: Addresses) -> Object:
    """The bootstrap for the overlay istio."""
    (service,) = (each["spec"] for each in of_kind(objects, "VirtualService"))
    (filter_,) = (each["spec"] for each in of_kind(objects, "EnvoyFilter"))
    (gateway,) = (each["spec"] for each in of_kind(objects, "Gateway"))
    (host,) = service["hosts"]
    port = gateway["servers"][0]["port"]["number"]
    manager = _manager(
        [_router()],
        {
            "virtual_hosts": [
                {
                    "name": f"{host}:{port}",
                    "domains": [host, f"{host}:*"],
                    "routes": [_istios_route(match, route) for route in service["http"] for match in route["match"]],
                }
            ]
        },
    )
    listener = _listener(at.listen, manager)
    for patch in filter_["configPatches"]:
        assert patch["match"]["context"] == "GATEWAY"
        _patched(listener, patch)
    clusters = [
        _cluster(f"outbound|8000||{name}.gateway.svc.cluster.local", port) for name, port in at.backends.items()
    ]
    processor = _cluster("outbound|9000||extproc-processor.gateway.svc.cluster.local", at.processor, http2=True)
    return _bootstrap(listener, [*clusters, processor], at.admin)


def _istios_route(match: Object, route: Object) -> Object:
    """One for each match. All of them have the route's name, and with it its patches."""
    assert "name" not in match
    ((kind, path),) = match["uri"].items()
    headers = [_exactly(":method", match["method"]["exact"])]
    headers += [_exactly(name, value["exact"]) for name, value in match.get("headers", {}).items()]
    made: Object = {
        "name": route["name"],
        "match": {{"exact": "path", "prefix": "prefix"}[kind]: path, "headers": headers},
    }
    if "directResponse" in route:
        made["direct_response"] = route["directResponse"]
    else:
        to = route["route"][0]["destination"]
        made["route"] = {"cluster": f"outbound|{to['port']['number']}||{to['host']}", "timeout": "0s"}
    changes = route.get("headers", {})
    made["request_headers_to_remove"] = changes.get("request", {}).get("remove", [])
    made["response_headers_to_remove"] = changes.get("response", {}).get("remove", [])
    return made


def _patched(listener: Object, patch: Object) -> None:
    """Apply one of an EnvoyFilter's patches. Every one has to apply to something."""
    value = patch["patch"]["value"]
    (filter_,) = listener["filter_chains"][0]["filters"]
    manager = filter_["typed_config"]
    match patch["applyTo"], patch["patch"]["operation"]:
        case "HTTP_FILTER", "INSERT_BEFORE":
            found = patch["match"]["listener"]["filterChain"]["filter"]
            assert found["name"] == filter_["name"]
            names = [each["name"] for each in manager["http_filters"]]
            manager["http_filters"].insert(names.index(found["subFilter"]["name"]), value)
        case "LISTENER", "MERGE":
            _merge(listener, value)
        case "NETWORK_FILTER", "MERGE":
            assert patch["match"]["listener"]["filterChain"]["filter"]["name"] == filter_["name"]
            _merge(filter_, value)
        case "VIRTUAL_HOST" | "HTTP_ROUTE", "MERGE":
            matching = list(_matching(manager["route_config"], patch["match"]["routeConfiguration"]["vhost"]))
            assert matching, f"nothing is named so: {patch['match']}"
            for each in matching:
                _merge(each, value)
        case other:
            raise AssertionError(f"patches of this kind are not applied here: {other}")


def _matching(routes: Object, wanted: Object) -> Iterator[Object]:
    for host in routes["virtual_hosts"]:
        if host["name"] == wanted["name"]:
            if "route" not in wanted:
                yield host
            else:
                yield from (route for route in host["routes"] if route["name"] == wanted["route"]["name"])


def _merge(into: Object, value: Object) -> None:
    """As protobuf merges: messages field by field, lists one behind the other."""
    for name, new in value.items():
        match into.get(name), new:
            case dict() as old, dict() if "@type" not in new or old.get("@type") == new["@type"]:
                _merge(old, new)
            case list() as old, list():
                old.extend(copy.deepcopy(new))
            case _:
                into[name] = copy.deepcopy(new)


# What both have in common


def _manager(filters: list[Object], routes: Object, **more: Any) -> Object:
    return {
        "@type": _TYPE + "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "foreign",
        "http_filters": filters,
        "route_config": routes,
        "use_remote_address": True,
        **more,
    }


def _router() -> Object:
    return {"name": _ROUTER, "typed_config": {"@type": _TYPE + "extensions.filters.http.router.v3.Router"}}


def _listener(port: int, manager: Object) -> Object:
    address = {"socket_address": {"address": "127.0.0.1", "port_value": port}}
    return {
        "name": "foreign",
        "address": address,
        "filter_chains": [{"filters": [{"name": _HCM, "typed_config": manager}]}],
    }


def _cluster(name: str, port: int, *, http2: bool = False) -> Object:
    endpoint = {"address": {"socket_address": {"address": "127.0.0.1", "port_value": port}}}
    cluster: Object = {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [{"endpoint": endpoint}]}]},
    }
    if http2:
        cluster["typed_extension_protocol_options"] = {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": _TYPE + "extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}},
            }
        }
    return cluster


def _bootstrap(listener: Object, clusters: list[Object], admin: str) -> Object:
    return {
        "static_resources": {"listeners": [listener], "clusters": clusters},
        "admin": {"address": {"pipe": {"path": admin}}},
    }


def _exactly(name: str, value: str) -> Object:
    return {"name": name, "string_match": {"exact": value}}


def _timeout(timeouts: Object) -> Object:
    return {"timeout": timeouts["request"]} if "request" in timeouts else {}


def _seconds(duration: str) -> str:
    number, unit = duration[:-1], duration[-1]
    return f"{int(number) * {'s': 1, 'm': 60}[unit]}s"


def _bytes(quantity: str) -> int:
    return int(quantity[:-2]) * _UNITS[quantity[-2:]]
