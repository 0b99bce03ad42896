"""The bootstrap that a configuration implies: accepted by the real Envoy, and what its settings promise."""

from __future__ import annotations

import re
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from envoy_data_plane.envoy.config.bootstrap.v3 import Bootstrap
from envoy_data_plane.envoy.config.cluster.v3 import Cluster, ClusterDiscoveryType, ClusterLbPolicy
from envoy_data_plane.envoy.config.core.v3 import Address
from envoy_data_plane.envoy.config.route.v3 import Route
from envoy_data_plane.envoy.extensions.filters.http.buffer.v3 import Buffer, BufferPerRoute
from envoy_data_plane.envoy.extensions.filters.http.ext_proc.v3 import (
    ExternalProcessor,
    ProcessingMode,
    ProcessingModeBodySendMode,
    ProcessingModeHeaderSendMode,
)
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager.v3 import HttpConnectionManager
from envoy_data_plane.envoy.extensions.load_balancing_policies.least_request.v3 import (
    LeastRequest,
    LeastRequestSelectionMethod,
)
from envoy_data_plane.envoy.extensions.upstreams.http.v3 import HttpProtocolOptions
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from extproc.config import Backend, Config, ConfigError, load, parse
from extproc.config.listener_tls import ListenerTls
from extproc.config.paths import OTHER_PATHS
from extproc.envoy.bootstrap import bootstrap, to_yaml
from extproc.envoy.clusters import PROCESSOR
from extproc.envoy.passing_headers import all_but
from extproc.envoy.plain import plain
from extproc.names import ANSWERED_PATHS, worker_address
from extproc.surfaces import ROUTES
from tests.gateway import ENVOY
from tests.tls_ends import write_certificate

SAMPLE = Path(__file__).parent.parent / "envoy"
SOCKET = "/run/extproc/processor.sock"
ADMIN = "/run/extproc/admin.sock"


def config(
    *addresses: str | list[str], listen: str = "127.0.0.1:10000", max_body_bytes: int = 1 << 25, **settings: Any
) -> Config:
    """One backend at each address, or list of them, with these settings; and a model at each backend."""
    backends = [{"name": f"backend-{index}", "address": address, **settings} for index, address in enumerate(addresses)]
    models = [{"name": f"model/{b['name']}", "backend": b["name"], "tools": "prompt"} for b in backends]
    limits = {"max_body_bytes": max_body_bytes}
    return parse(yaml.safe_dump({"listen": listen, "models": models, "backends": backends, "limits": limits}))


def made_of(configuration: Config) -> Bootstrap:
    return bootstrap(configuration, processor=SOCKET, admin=ADMIN)


def manager_of(made: Bootstrap) -> HttpConnectionManager:
    assert made.static_resources is not None
    settings = made.static_resources.listeners[0].filter_chains[0].filters[0].typed_config
    manager = settings.unpack() if settings else None
    assert isinstance(manager, HttpConnectionManager)
    return manager


def filters_of(made: Bootstrap) -> dict[str, Any]:
    """The settings of the HTTP filters, packed, by their names."""
    return {each.name: each.typed_config for each in manager_of(made).http_filters}


def routes_of(made: Bootstrap) -> list[Route]:
    table = manager_of(made).route_config
    assert table is not None
    return table.virtual_hosts[0].routes


def clusters_of(made: Bootstrap) -> dict[str, Cluster]:
    assert made.static_resources is not None
    return {cluster.name: cluster for cluster in made.static_resources.clusters}


def address_of(cluster: Cluster) -> Address:
    assert cluster.load_assignment is not None
    server = cluster.load_assignment.endpoints[0].lb_endpoints[0].endpoint
    assert server is not None
    assert server.address is not None
    return server.address


# ---- accepted by Envoy


@pytest.mark.parametrize(
    "configuration",
    [
        config("127.0.0.1:8000"),
        config("vllm.models.svc.cluster.local:8000", listen="0.0.0.0:80"),
        config("[::1]:8000", listen="[::]:10000"),
        config("127.0.0.1:8000", "vllm-a:8000", "[fd00::1]:8000", "vllm-b:80"),
        config("127.0.0.1:8000", max_body_bytes=1024),
        config("127.0.0.1:8000", max_body_bytes=1 << 30),
        config(["127.0.0.1:8000", "vllm-a:8000", "[fd00::1]:8000"]),
        config(["127.0.0.1:8000", "127.0.0.1:8001"], affinity=True),
        config("127.0.0.1:8000", health_check=False, max_requests=1),
    ],
    ids=[
        *("IPv4", "DNS name", "IPv6", "several backends", "smallest body limit", "largest body limit"),
        *("several replicas", "affinity", "no health checks"),
    ],
)
def test_envoy_accepts_it(configuration: Config, tmp_path: Path) -> None:
    assert_accepted(configuration, tmp_path)


def test_envoy_accepts_keys_and_certificates(tmp_path: Path) -> None:
    authority = trustme.CA()
    write_certificate(tmp_path, authority.issue_cert("127.0.0.1"))
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    (tmp_path / "key").write_text("sk-backend")
    for tls in ({"ca": tmp_path / "ca.pem"}, {"ca": tmp_path / "ca.pem", "sni": "models.example"}):
        for address in ("192.0.2.1:443", ["vllm:443", "192.0.2.1:443"]):
            made = config(address, tls={name: str(value) for name, value in tls.items()}, api_key=str(tmp_path / "key"))
            listener = ListenerTls(
                certificate=tmp_path / "tls.crt", key=tmp_path / "tls.key", client_ca=tmp_path / "ca.pem"
            )
            assert_accepted(made.model_copy(update={"tls": listener}), tmp_path)


def assert_accepted(configuration: Config, folder: Path) -> None:
    file = folder / "envoy.yaml"
    file.write_text(to_yaml(made_of(configuration)))
    command = (ENVOY, "--mode", "validate", "-c", file, "--use-dynamic-base-id", "-l", "warning")
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stderr == "", "Envoy warns of something"


def test_the_yaml_says_all_that_the_object_says() -> None:
    made = made_of(config("127.0.0.1:8000", "vllm:8000"))
    assert yaml.safe_load(to_yaml(made)) == plain(made)


def test_the_sample_is_what_its_configuration_implies() -> None:
    made = to_yaml(made_of(load(SAMPLE / "extproc.yaml")))
    assert (SAMPLE / "envoy.yaml").read_text() == made, "make it again with the command in envoy/extproc.yaml"


# ---- the processor


def test_the_filter_has_the_layout_that_the_processor_is_made_for() -> None:
    settings = filters_of(made_of(config("127.0.0.1:8000")))["envoy.filters.http.ext_proc"].unpack()
    assert isinstance(settings, ExternalProcessor)
    send, skip = ProcessingModeHeaderSendMode.SEND, ProcessingModeHeaderSendMode.SKIP
    assert settings.processing_mode == ProcessingMode(
        request_header_mode=send,
        request_body_mode=ProcessingModeBodySendMode.BUFFERED,
        request_trailer_mode=skip,
        # Envoy's own answers before the processor has asked for more are none of its business.
        response_header_mode=skip,
        response_body_mode=ProcessingModeBodySendMode.NONE,
        response_trailer_mode=skip,
    )
    assert settings.allow_mode_override
    assert not settings.failure_mode_allow, "without the processor, tools would silently not work"
    assert settings.max_message_timeout == timedelta(minutes=5), "what it may ask for when it asks a model again"


def test_what_one_backend_knows_by_its_name_goes_past_the_processor() -> None:
    made = made_of(config("127.0.0.1:8000"))
    _mark, _cors, buffer, ext_proc, _router = manager_of(made).http_filters
    assert buffer.disabled
    assert ext_proc.disabled
    processed = [route for route in routes_of(made) if ext_proc.name in route.typed_per_filter_config]
    by_models = [answered.name for answered in ROUTES.values() for _ in ("small", "large")]
    own = [*by_models, "health", "models", "models"]
    assert [route.name for route in processed] == own
    several = routes_of(made_of(config("127.0.0.1:8000", "127.0.0.1:8001")))
    processed = [route for route in several if ext_proc.name in route.typed_per_filter_config]
    # Small ones and all others; the paths as they are listed, and without their version.
    assert [route.name for route in processed] == [*own, *["other-path-by-model"] * 4]


def test_no_other_path_may_be_one_that_is_answered() -> None:
    assert set(ROUTES) == set(ANSWERED_PATHS)


def test_where_there_are_keys_to_check_no_backend_is_asked_past_the_processor() -> None:
    keyed = config("127.0.0.1:8000").model_copy(update={"api_keys": Path("/etc/extproc/keys")})
    to_backends = [route for route in routes_of(made_of(keyed)) if route.route and route.name != "chat-preflight"]
    assert to_backends
    assert all(route.typed_per_filter_config for route in to_backends)


def test_the_processor_names_the_backend_of_chat_completions() -> None:
    chat = [route for route in routes_of(made_of(config("127.0.0.1:8000"))) if route.name == "chat-completions"]
    paths = [route.match.safe_regex.regex for route in chat if route.match and route.match.safe_regex]
    assert len(paths) == 2  # small ones, and all others
    for spelled in ("/v1/chat/completions", "/v1/chat/completions/", "/chat/completions"):
        assert all(re.fullmatch(path, spelled) for path in paths)
    for route in chat:
        assert route.route is not None
        assert route.route.cluster_header == "x-extproc-backend"
        assert route.route.prefix_rewrite == "/v1/chat/completions"


def test_there_are_routes_for_the_other_paths_that_are_listed_and_no_more() -> None:
    configured = config("127.0.0.1:8000", "127.0.0.1:8001")
    for paths in (OTHER_PATHS, ("/classify",), ()):
        routes = routes_of(made_of(configured.model_copy(update={"other_paths": paths})))
        others = [route for route in routes if route.name == "other-path"]
        listed = [route.match.safe_regex.regex for route in others if route.match and route.match.safe_regex]
        unversioned = [path.removeprefix("/v1") for path in paths if path.startswith("/v1/")]
        groups = [paths, [path for path in unversioned if path not in paths]]
        assert listed == ["|".join(map(re.escape, group)) for group in groups if group]
        assert {route.route.cluster for route in others if route.route} <= {"backend-0"}  # what has no body
        assert all(route.match and route.match.prefix is None for route in routes if route.route)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "v1/score",
        "/v1/score/",
        "/v1//score",
        "/v1/*",
        "/v1/score?x",
        "/v1%2Fscore",
        "/v1/../score",
        "/.",
    ],
)
def test_another_path_is_written_as_envoy_compares_it(path: str) -> None:
    settings = config("127.0.0.1:8000").model_dump(mode="json", include={"models", "backends"}, exclude_unset=True)
    with pytest.raises(ConfigError, match=r"other_paths\[1\]: expected one exact path such as /v1/embeddings"):
        parse(yaml.safe_dump({**settings, "other_paths": ["/tokenize", path]}))


def test_the_processor_may_listen_at_a_unix_socket() -> None:
    cluster = clusters_of(bootstrap(config("127.0.0.1:8000"), processor=SOCKET))[PROCESSOR]
    assert cluster.type == ClusterDiscoveryType.STATIC
    pipe = address_of(cluster).pipe
    assert pipe is not None
    assert pipe.path == SOCKET


@pytest.mark.parametrize(
    ("host", "discovery"), [("127.0.0.1", ClusterDiscoveryType.STATIC), ("extproc", ClusterDiscoveryType.STRICT_DNS)]
)
def test_the_processor_may_listen_at_a_port(host: str, discovery: ClusterDiscoveryType) -> None:
    cluster = clusters_of(bootstrap(config("127.0.0.1:8000"), processor=f"{host}:9000"))[PROCESSOR]
    assert cluster.type == discovery
    endpoint = address_of(cluster).socket_address
    assert endpoint is not None
    assert (endpoint.address, endpoint.port_value) == (host, 9000)


def test_the_worker_with_the_fewest_calls_gets_the_next_and_a_call_that_it_loses_at_once_goes_to_another() -> None:
    alone = config("127.0.0.1:8000")
    several = bootstrap(alone.model_copy(update={"workers": 3}), processor=SOCKET, workers=3)
    cluster = clusters_of(several)[PROCESSOR]
    assert cluster.load_assignment is not None
    [locality] = cluster.load_assignment.endpoints
    addresses = [each.endpoint.address for each in locality.lb_endpoints if each.endpoint is not None]
    assert [each.pipe.path for each in addresses if each is not None and each.pipe is not None] == [
        worker_address(SOCKET, number) for number in range(3)
    ]
    assert cluster.load_balancing_policy is not None
    [policy] = cluster.load_balancing_policy.policies
    assert policy.typed_extension_config is not None
    assert policy.typed_extension_config.typed_config is not None
    settings = policy.typed_extension_config.typed_config.unpack()
    assert isinstance(settings, LeastRequest)
    assert settings.selection_method == LeastRequestSelectionMethod.FULL_SCAN
    retries = [
        filters_of(made)["envoy.filters.http.ext_proc"].unpack().grpc_service.retry_policy
        for made in (several, made_of(alone))
    ]
    assert retries[0].retry_on == "connect-failure,reset"
    assert retries[1] is None


def test_no_backend_can_have_the_processors_name() -> None:
    with pytest.raises(ValidationError):
        Backend(name=PROCESSOR, address=("127.0.0.1:8000",))


# ---- backends


@pytest.mark.parametrize(
    ("address", "host", "discovery"),
    [
        ("192.0.2.1:8000", "192.0.2.1", ClusterDiscoveryType.STATIC),
        ("[2001:db8::1]:8000", "2001:db8::1", ClusterDiscoveryType.STATIC),
        ("vllm:8000", "vllm", ClusterDiscoveryType.STRICT_DNS),
    ],
)
def test_a_backend_is_a_cluster_of_its_name(address: str, host: str, discovery: ClusterDiscoveryType) -> None:
    cluster = clusters_of(made_of(config(address)))["backend-0"]
    assert cluster.type == discovery
    endpoint = address_of(cluster).socket_address
    assert endpoint is not None
    assert (endpoint.address, endpoint.port_value) == (host, 8000)


def test_answers_may_take_as_long_as_they_like() -> None:
    made = made_of(config("127.0.0.1:8000"))
    to_nobody = ("chat-preflight", "health", "models")
    actions = [route.route for route in routes_of(made) if route.route is not None and route.name not in to_nobody]
    assert len(actions) == 2 * len(ROUTES) + 2
    for action in actions:
        assert action.timeout == timedelta(0)
        assert action.idle_timeout == timedelta(minutes=30)
    assert manager_of(made).stream_idle_timeout == timedelta(minutes=30)


def cluster_of(*addresses: str, **settings: Any) -> Cluster:
    """The cluster of a backend with replicas at these addresses."""
    return clusters_of(made_of(config(list(addresses), **settings)))["backend-0"]


def protocol_of(cluster: Cluster) -> HttpProtocolOptions:
    [settings] = cluster.typed_extension_protocol_options.values()
    protocol = settings.unpack()
    assert isinstance(protocol, HttpProtocolOptions)
    return protocol


def test_replicas_may_be_named_or_numbered() -> None:
    cluster = cluster_of("192.0.2.1:8000", "vllm:8000", "[2001:db8::1]:8000")
    assert cluster.type == ClusterDiscoveryType.STRICT_DNS
    assert cluster.load_assignment is not None
    servers = [server.endpoint for server in cluster.load_assignment.endpoints[0].lb_endpoints]
    assert [server.hostname for server in servers if server] == ["192.0.2.1", "vllm", "2001:db8::1"]


def test_a_503_is_tried_again_only_where_somebody_else_may_answer() -> None:
    def retried(*addresses: str) -> bool:
        policy = protocol_of(cluster_of(*addresses)).retry_policy
        assert policy is not None
        assert "connect-failure" in policy.retry_on
        return 503 in policy.retriable_status_codes

    assert retried("192.0.2.1:8000", "192.0.2.2:8000")
    assert retried("vllm:8000"), "a name may stand for several servers"
    assert not retried("192.0.2.1:8000")


def test_health_is_asked_for_unless_settings_say_otherwise() -> None:
    [check] = cluster_of("192.0.2.1:8000").health_checks
    assert check.http_health_check is not None
    assert check.http_health_check.path == "/health"
    assert check.timeout is not None
    assert check.timeout <= timedelta(seconds=3), "a server that says nothing holds Envoy's start up for so long"
    assert cluster_of("192.0.2.1:8000", health_check=False).health_checks == []


def test_what_may_be_under_way_at_a_backend_is_limited_by_its_settings_alone() -> None:
    breakers = cluster_of("192.0.2.1:8000", max_requests=2000).circuit_breakers
    assert breakers is not None
    [limits] = breakers.thresholds
    assert (limits.max_requests, limits.max_pending_requests, limits.max_retries) == (2000, 2000, 2000)
    assert limits.max_connections is not None
    assert limits.max_connections > 2000


def test_replicas_are_chosen_by_conversation_only_where_that_is_asked_for() -> None:
    policies = ClusterLbPolicy
    assert cluster_of("192.0.2.1:8000").lb_policy == policies.LEAST_REQUEST
    assert protocol_of(cluster_of("192.0.2.1:8000")).hash_policy == []
    sticky = cluster_of("192.0.2.1:8000", "192.0.2.2:8000", affinity=True)
    assert sticky.lb_policy == policies.MAGLEV
    [policy] = protocol_of(sticky).hash_policy
    assert policy.header is not None
    assert policy.header.header_name == "x-extproc-affinity"


@given(names=st.sets(st.text("abcxyz-09", min_size=1, max_size=8), min_size=1), data=st.data())
def test_an_expression_matches_every_name_but_those_it_is_made_for(names: set[str], data: st.DataObject) -> None:
    expression = re.compile(all_but(names))
    name = data.draw(st.sampled_from(sorted(names)))
    cut, letter = data.draw(st.integers(0, len(name))), data.draw(st.sampled_from("!-09abcxyz_~"))
    for near in (name, name[:cut], name[:cut] + letter, name[:cut] + letter + name[cut:], name + letter):
        assert bool(near and expression.fullmatch(near)) is bool(near and near not in names)
    assert not expression.fullmatch(f":{name}")


# ---- the edges


def test_only_what_is_for_a_model_may_have_its_body_buffered_whole() -> None:
    made = made_of(config("127.0.0.1:8000", max_body_bytes=5_000_000))
    buffered = [
        (route.name, packed.unpack())
        for route in routes_of(made)
        if (packed := route.typed_per_filter_config.get("envoy.filters.http.buffer")) is not None
    ]
    whole = BufferPerRoute(buffer=Buffer(max_request_bytes=5_000_000))
    assert buffered == [(answered.name, whole) for answered in ROUTES.values()]
    assert made.static_resources is not None
    assert made.static_resources.listeners[0].per_connection_buffer_limit_bytes == 128 * 1024
    http2 = manager_of(made).http2_protocol_options
    assert http2 is not None
    assert http2.initial_stream_window_size == 128 * 1024


def test_there_is_an_admin_interface_only_where_one_is_asked_for() -> None:
    configuration = config("127.0.0.1:8000")
    assert bootstrap(configuration, processor=SOCKET).admin is None
    admin = bootstrap(configuration, processor=SOCKET, admin=ADMIN).admin
    assert admin is not None
    assert admin.address is not None
    assert admin.address.pipe is not None
    assert admin.address.pipe.path == ADMIN
