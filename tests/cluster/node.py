"""A cluster of one node: etcd, the control plane, containerd, the kubelet, kube-proxy and a DNS.

It is started in namespaces of its own (tests/cluster/__main__.py): every program listens where nothing else is, routes
and rules for packets are its own, and all of it ends with the first process of the namespace. What programs write where
they can't be told to (/run, /var/lib, /var/log) goes to memory, and what they ask of the machine's kernel, to files.

Missing: other nodes, what enforces NetworkPolicies, and what measures pods' CPU for the autoscaler.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import yaml
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.cluster import names
from tests.cluster.images import PAUSE, Image
from tests.cluster.programs import ETCD, WHOLE, Programs
from tests.gateway import wait_until
from tests.k8s.rendered import Object

FOLDER = "EXTPROC_CLUSTER_FOLDER"
"""The variable that says where the node may write."""
CGROUPS = "extproc-cluster"
NODE = "node"
ADDRESS = "10.244.0.1"
"""The node's, on the bridge that all pods are on."""
_API = "https://127.0.0.1:6443"
_TOKEN = "of-the-tests"
_PODS = "10.244.0.0/24"
_SERVICES = "10.96.0.0/16"
_PATIENCE = 180
_KERNEL = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""What the kubelet wants of the whole machine: it finds it in files that lie over the kernel's."""


class Node:
    """Everything, started or not yet."""

    def __init__(self, programs: Programs, folder: Path) -> None:
        self.programs = programs
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._api = httpx.Client(
            base_url=_API, verify=False, headers={"authorization": f"Bearer {_TOKEN}"}, timeout=_PATIENCE
        )

    @property
    def kubeconfig(self) -> Path:
        return self._folder / "kubeconfig"

    def start(self, images: Sequence[Image]) -> None:
        """Done when the node is ready for pods."""
        self._lay_out()
        self._network()
        self._etcd()
        self._control_plane()
        self._containerd()
        self._import(images)
        self._kubelet()
        self._services()
        wait_until(self._is_ready, _PATIENCE)

    def stop(self) -> None:
        """End the programs, the last first; pods end with the namespace."""
        for process in reversed(self._processes.values()):
            process.kill()
            process.wait()
        self._api.close()

    def get(self, path: str) -> Object:
        """An object, or a list of them, of the API. Raises HTTPStatusError."""
        return dict(self._api.get(path).raise_for_status().json())

    def require_running(self) -> None:
        """None of the programs has ended. Raises AssertionError with their last words."""
        for name, process in self._processes.items():
            log = self._folder / f"{name}.log"
            assert process.poll() is None, f"{name} has ended: {log.read_text(errors='replace')[-3000:]}"

    # ---- the parts

    def _lay_out(self) -> None:
        for place in ("/run", "/var/lib", "/var/log"):
            _run("mount", "-t", "tmpfs", "tmpfs", place)
        for name, value in _KERNEL.items():
            told = self._folder / name.replace("/", ".")
            told.write_text(value)
            _run("mount", "--bind", str(told), f"/proc/sys/{name}")
        there = {"cluster": {"server": _API, "insecure-skip-tls-verify": True}}
        self._write(
            "kubeconfig",
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": NODE, **there}],
                "users": [{"name": NODE, "user": {"token": _TOKEN}}],
                "contexts": [{"name": NODE, "context": {"cluster": NODE, "user": NODE}}],
                "current-context": NODE,
            },
        )

    def _network(self) -> None:
        for words in (
            "link set lo up",
            "link add cni0 type bridge",
            f"address add {ADDRESS}/24 dev cni0",
            "link set cni0 up",
            f"route add default via {ADDRESS}",
        ):
            _run(self.programs["ip"], *words.split())
        for name in ("net/ipv4/ip_forward", "net/bridge/bridge-nf-call-iptables"):
            Path("/proc/sys", name).write_text("1")

    def _etcd(self) -> None:
        own, peers = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
        self._begin(
            ETCD,
            *(f"--data-dir={self._folder / 'etcd'}", "--unsafe-no-fsync", f"--initial-cluster=default={peers}"),
            *(f"--listen-client-urls={own}", f"--advertise-client-urls={own}"),
            *(f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}"),
        )

    def _control_plane(self) -> None:
        tokens, key = self._folder / "tokens.csv", self._folder / "service-accounts.pem"
        tokens.write_text(f'{_TOKEN},admin,admin,"system:masters"\n')
        made = rsa.generate_private_key(65537, 2048)
        key.write_bytes(made.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
        old = self.programs.version < WHOLE
        self._begin(
            "kube-apiserver",
            *("--etcd-servers=http://127.0.0.1:2379", "--bind-address=127.0.0.1", f"--advertise-address={ADDRESS}"),
            *(f"--cert-dir={self._folder / 'api'}", f"--token-auth-file={tokens}", "--authorization-mode=Node,RBAC"),
            *("--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={key}"),
            *(f"--service-account-signing-key-file={key}", f"--service-cluster-ip-range={_SERVICES}"),
            *("--endpoint-reconciler-type=none", "--kubelet-preferred-address-types=InternalIP"),
            *(["--feature-gates=HPAContainerMetrics=true"] if old else []),
        )
        wait_until(lambda: self._answers("/readyz"), _PATIENCE)
        own = [f"--kubeconfig={self.kubeconfig}", "--bind-address=127.0.0.1", "--leader-elect=false"]
        if self.programs.version < (1, 24):
            own.append("--port=0")  # another port, without TLS
        self._begin("kube-controller-manager", *own, f"--service-account-private-key-file={key}")
        self._begin("kube-scheduler", *own)

    def _containerd(self) -> None:
        place, network = self._folder / "containerd", self._folder / "network"
        network.mkdir()
        ranges = [[{"subnet": _PODS, "gateway": ADDRESS}]]
        addresses = {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]}
        bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True, "ipam": addresses}
        plugins = {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}
        (network / "10-pods.conflist").write_text(json.dumps(plugins))
        cri = 'plugins."io.containerd.grpc.v1.cri"'
        told = f"""
            version = 2
            root = "{place}/root"
            state = "{place}/state"
            [grpc]
            address = "{self._socket}"
            [{cri}]
            sandbox_image = "{PAUSE}"
            stream_server_address = "127.0.0.1"
            disable_apparmor = true
            # Root in a virtual machine or a container may lack what it takes to go below its own.
            restrict_oom_score_adj = true
            [{cri}.cni]
            bin_dir = "{self.programs.plugins}"
            conf_dir = "{network}"
            [{cri}.containerd.runtimes.runc]
            runtime_type = "io.containerd.runc.v2"
        """
        (self._folder / "containerd.toml").write_text(told)
        self._begin("containerd", f"--config={self._folder / 'containerd.toml'}")
        wait_until(lambda: self._ctr("version").returncode == 0, _PATIENCE)

    def _import(self, images: Sequence[Image]) -> None:
        for image in images:
            for words in (
                ("import", "--base-name", image.base, str(image.archive)),
                *(("tag", image.imported, name) for name in image.names),
            ):
                self._ctr("images", *words).check_returncode()

    def _kubelet(self) -> None:
        own = self._folder / "kubelet"
        own.mkdir()
        nothing = self._folder / "resolv.conf"
        nothing.touch()
        for controller in controllers():
            (controller / CGROUPS).mkdir(exist_ok=True)
        told: dict[str, Any] = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{CGROUPS}",
            "clusterDNS": [ADDRESS],
            "clusterDomain": names.DOMAIN,
            "evictionHard": {"imagefs.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%"},
            "failSwapOn": False,
            "imageGCHighThresholdPercent": 100,
            "oomScoreAdj": 0,
            "resolvConf": str(nothing),
        }
        flags = [f"--kubeconfig={self.kubeconfig}", f"--root-dir={own}", f"--cert-dir={own}", f"--node-ip={ADDRESS}"]
        if self.programs.version < (1, 27):
            flags += ["--container-runtime=remote", f"--container-runtime-endpoint=unix://{self._socket}"]
        else:
            told["containerRuntimeEndpoint"] = f"unix://{self._socket}"
        if self.programs.version >= (1, 31):
            told["failCgroupV1"] = False
        self._begin("kubelet", f"--config={self._write('kubelet.yaml', told)}", f"--hostname-override={NODE}", *flags)

    def _services(self) -> None:
        told = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": str(self.kubeconfig)},
            "clusterCIDR": _PODS,
            "healthzBindAddress": "127.0.0.1:10256",
            "metricsBindAddress": "127.0.0.1:10249",
            "hostnameOverride": NODE,
            "mode": "iptables",
            # These are the whole machine's.
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        }
        self._begin("kube-proxy", f"--config={self._write('proxy.yaml', told)}")
        hosts = self._folder / "names"
        names.follow(self.get, hosts, self._begin("dnsmasq", *names.options(ADDRESS, hosts)))

    # ---- how

    @property
    def _socket(self) -> str:
        return str(self._folder / "containerd.sock")

    def _begin(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.log").open("wb") as log:
            words = [self.programs[name], *arguments]
            self._processes[name] = subprocess.Popen(words, stdout=log, stderr=log, env=self._environment())
        return self._processes[name]

    def _environment(self) -> dict[str, str]:
        """Programs start others by their names."""
        folders = dict.fromkeys(str(path.parent) for path in self.programs.paths.values())
        return {**os.environ, "PATH": os.pathsep.join(folders)}

    def _ctr(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [self.programs["ctr"], "--address", self._socket, "--namespace", "k8s.io", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def _answers(self, path: str) -> bool:
        self.require_running()
        try:
            return self._api.get(path).status_code == 200
        except httpx.HTTPError:
            return False

    def _is_ready(self) -> bool:
        self.require_running()
        found = [each for node in self.get("/api/v1/nodes")["items"] for each in node["status"].get("conditions", [])]
        return any(each["type"] == "Ready" and each["status"] == "True" for each in found)

    def _write(self, name: str, told: Mapping[str, Any]) -> Path:
        path = self._folder / name
        path.write_text(yaml.safe_dump(dict(told)))
        return path


def controllers() -> list[Path]:
    """The hierarchies of cgroups: one, or one for each controller."""
    top = Path("/sys/fs/cgroup")
    return [top] if (top / "cgroup.controllers").exists() else [each for each in top.iterdir() if each.is_dir()]


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr or done.stdout}"
