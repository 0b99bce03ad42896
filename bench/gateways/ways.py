"""How each gateway is started, and which processes it consists of."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

from bench.gateways.peers import Peers
from bench.gateways.processes import Tree, child
from extproc.config import ConfigError, parse
from extproc.envoy.bootstrap import bootstrap
from extproc.envoy.plain import plain
from tests.gateway import ENVOY, EXTPROC, free_port, wait_until

_HERE = Path(__file__).parent
_PATIENCE = 90.0
PROCESSOR, ENVOYS, PROXY = "processor", "Envoy", "proxy"
"""What processes are called in the results."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running one."""

    port: int
    processes: Mapping[str, Tree]
    """By what they are; none for the backend alone."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What a gateway is started in; everything on it ends with `stack`."""

    stack: ExitStack
    folder: Path
    """The gateway's own, empty."""
    ports: Mapping[str, int]
    """The backend's, by the kind of model."""
    peers: Peers

    def serve(self, name: str, port: int, *command: object, **env: str) -> Tree:
        """Start a process, and wait until it listens at `port`."""
        process = self._start(name, *command, **env)
        self._until(lambda: _listens(socket.AF_INET, ("127.0.0.1", port)), name, process)
        return Tree(process.pid)

    def serve_at(self, name: str, path: Path, *command: object) -> Tree:
        """Start a process, and wait until it listens at the unix socket `path`."""
        process = self._start(name, *command)
        self._until(lambda: _listens(socket.AF_UNIX, str(path)), name, process)
        return Tree(process.pid)

    def _start(self, name: str, *command: object, **env: str) -> Popen[bytes]:
        environment = {**os.environ, "HOME": str(self.folder), **env}
        return self.stack.enter_context(child(command, stderr=self.folder / f"{name}.log", env=environment))

    def _until(self, condition: Callable[[], bool], name: str, process: Popen[bytes]) -> None:
        wait_until(lambda: condition() or process.poll() is not None, _PATIENCE)
        if process.poll() is not None:
            said = " ".join((self.folder / f"{name}.log").read_text().split())
            raise RuntimeError(f"it ended with status {process.returncode}: {said[-300:]}")


def start(name: str, settings: str, stage: Stage) -> Gateway:
    """Start a gateway; `settings` are more lines of our own's configuration. Raises RuntimeError if it can't be."""
    try:
        return STARTS[name](settings, stage)
    except (OSError, ConfigError, AssertionError) as error:
        raise RuntimeError(" ".join(str(error).split())[:300] or repr(error)) from error


def backend(stack: ExitStack, peers: Peers) -> dict[str, int]:
    """Start the backend; its ports by the kind of model."""
    process = stack.enter_context(child([peers.fastapi / "python", _HERE / "paced.py"], stdout=PIPE))
    assert process.stdout is not None
    ports: dict[str, int] = json.loads(process.stdout.readline())
    return ports


def _direct(_: str, stage: Stage) -> Gateway:
    return Gateway(stage.ports["marked"], {})


def _envoy(_: str, stage: Stage) -> Gateway:
    port = free_port()
    return Gateway(port, {ENVOYS: _start_envoy(stage, port, without_processor(_configuration(stage, port)))})


def _echo(_: str, stage: Stage) -> Gateway:
    port, listen = free_port(), stage.folder / "processor.sock"
    processor = stage.serve_at(PROCESSOR, listen, sys.executable, "-m", "bench.gateways.echo", listen, "marked")
    envoy = _start_envoy(stage, port, _configuration(stage, port))
    return Gateway(port, {PROCESSOR: processor, ENVOYS: envoy})


def _ours(settings: str, stage: Stage) -> Gateway:
    port, listen = free_port(), stage.folder / "processor.sock"
    configuration = _configuration(stage, port, settings)  # refuses what this version doesn't have
    serve = ["serve", "--config", stage.folder / "extproc.yaml", "--listen", f"unix:{listen}"]
    processor = stage.serve_at(PROCESSOR, listen, *EXTPROC, *serve)
    return Gateway(port, {PROCESSOR: processor, ENVOYS: _start_envoy(stage, port, configuration)})


def _fastapi(_: str, stage: Stage) -> Gateway:
    port = free_port()
    backend = f"http://127.0.0.1:{stage.ports['marked']}"
    command = [stage.peers.fastapi / "python", _HERE / "fastapi_proxy.py", port, backend]
    return Gateway(port, {PROXY: stage.serve(PROXY, port, *command)})


def _litellm(_: str, stage: Stage) -> Gateway:
    if stage.peers.litellm is None:
        raise RuntimeError(stage.peers.missing["litellm"])
    port = free_port()
    base = f"http://127.0.0.1:{stage.ports['native']}/v1"
    model = {
        "model_name": "native",
        "litellm_params": {"model": "openai/native", "api_base": base, "api_key": "unused"},
    }
    (stage.folder / "litellm.yaml").write_text(json.dumps({"model_list": [model]}))
    command = [stage.peers.litellm / "litellm", "--config", stage.folder / "litellm.yaml", "--host", "127.0.0.1"]
    env = {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # what it would fetch
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",  # nobody else has a key to check either
        "LITELLM_LOG": "ERROR",
    }
    return Gateway(port, {PROXY: stage.serve(PROXY, port, *command, "--port", port, **env)})


def _agentic_api(_: str, stage: Stage) -> Gateway:
    if stage.peers.agentic_api is None:
        raise RuntimeError(stage.peers.missing["agentic-api"])
    port = free_port()
    command = [stage.peers.agentic_api / "agentic-server", "--llm-api-base"]
    command += [f"http://127.0.0.1:{stage.ports['marked']}", "--gateway-host", "127.0.0.1", "--gateway-port", port]
    return Gateway(port, {PROXY: stage.serve(PROXY, port, *command, "--skip-llm-ready-check", RUST_LOG="warn")})


STARTS: Mapping[str, Callable[[str, Stage], Gateway]] = {
    "direct": _direct,
    "envoy": _envoy,
    "echo": _echo,
    "ours": _ours,
    "fastapi": _fastapi,
    "litellm": _litellm,
    "agentic-api": _agentic_api,
}


def _configuration(stage: Stage, port: int, more: str = "") -> dict[str, Any]:
    """Envoy's bootstrap for our gateway, whose configuration is left in the folder."""
    address = {name: f"127.0.0.1:{port}" for name, port in stage.ports.items()}
    settings = f"""
listen: 127.0.0.1:{port}
sockets: {stage.folder}
models:
  - {{name: native, backend: native, tools: native}}
  - {{name: template, backend: marked, tools: template, format: hermes}}
  - {{name: prompt, backend: marked, tools: prompt}}
backends:
  - {{name: native, address: "{address["native"]}", health_check: false}}
  - {{name: marked, address: "{address["marked"]}", health_check: false}}
{more}"""
    (stage.folder / "extproc.yaml").write_text(settings)
    config = parse(settings)
    assert isinstance(config.workers, int)
    return plain(bootstrap(config, processor=str(stage.folder / "processor.sock"), workers=config.workers))


def without_processor(made: dict[str, Any]) -> dict[str, Any]:
    """Envoy's bootstrap with routes straight to the cluster `marked`."""
    (chain,) = made["static_resources"]["listeners"][0]["filter_chains"]
    manager = chain["filters"][0]["typed_config"]
    manager["http_filters"] = manager["http_filters"][-1:]
    (host,) = manager["route_config"]["virtual_hosts"]
    host["routes"] = [{"match": {"prefix": "/"}, "route": {"cluster": "marked", "timeout": "0s"}}]
    return made


def _start_envoy(stage: Stage, port: int, configuration: dict[str, Any]) -> Tree:
    (stage.folder / "envoy.json").write_text(json.dumps(configuration))
    command = [ENVOY, "-c", stage.folder / "envoy.json", "--concurrency", "2", "--use-dynamic-base-id", "-l", "error"]
    return stage.serve(ENVOYS, port, *command)


def _listens(family: socket.AddressFamily, address: str | tuple[str, int]) -> bool:
    with socket.socket(family) as attempt:
        return attempt.connect_ex(address) == 0
