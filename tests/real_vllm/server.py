"""One vLLM server for tests: started plainly, without a tool parser, on a free port of the loopback interface.

Started as a user would who knows nothing of tool calling: that is the server the gateway is for.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.gateway import free_port
from tests.real_vllm.environment import Environment
from tests.real_vllm.model import Model

MODEL = "qwen2.5-coder-0.5b"
MAX_MODEL_LENGTH = 4096
_START_SECONDS = 900
"""How long a start may take; 25 to 45 s on two idle cores, and they may be busy."""
_STOP_SECONDS = 20
_ATTEMPTS_A_SECOND = 5


class VLLM:
    """A running server, and what it says of itself."""

    def __init__(self, port: int, log: Path) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.log = log

    def is_healthy(self) -> bool:
        """Whether it takes requests."""
        try:
            return httpx.get(f"{self.url}/health", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def count(self, metric: str) -> int:
        """One of its own counters, such as `vllm:prompt_tokens_total`."""
        lines = httpx.get(f"{self.url}/metrics", timeout=10).raise_for_status().text.splitlines()
        values = [float(line.rpartition(" ")[2]) for line in lines if line.startswith(metric + "{")]
        assert values, f"vLLM has no counter {metric}"
        return int(sum(values))


@contextmanager
def running_vllm(
    environment: Environment, model: Model, log: Path, *flags: str, cache_gigabytes: int = 1
) -> Iterator[VLLM]:
    """Start a server, wait until it is healthy, and end it and all it started. Its output goes to `log`."""
    server = VLLM(free_port(), log)
    command = [
        *("-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(model.directory), "--served-model-name", MODEL),
        *("--host", "127.0.0.1", "--port", str(server.port)),
        *("--dtype", number_type(), "--max-model-len", str(MAX_MODEL_LENGTH)),
        # The compiled path gave wrong text for one model, and takes minutes to compile.
        "--enforce-eager",
        *flags,
    ]
    settings = {
        # One thread for each core that this process may use; vLLM by itself leaves one of them out.
        "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, sorted(os.sched_getaffinity(0)))),
        "VLLM_CPU_KVCACHE_SPACE": str(cache_gigabytes),
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(environment.python), *command],
            env={**os.environ, **settings},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # which makes a process group of all it starts
        )
    try:
        with ended_with_us(process.pid):
            try:
                _wait_until_healthy(server, process)
                yield server
            finally:
                _end(process)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()  # Until now nobody else could get the number of its group.


@contextmanager
def ended_with_us(group: int) -> Iterator[None]:
    """Kill a process group when this process ends, even if that is killed itself.

    A shell waits for its input to end, which nobody else holds open. The kernel's parent-death signal (see
    `extproc.tether`) doesn't do here: it isn't passed on, and vLLM's workers outlive a killed server.
    """
    command = ("/bin/sh", "-c", 'read _; kill -s KILL -- "-$1"', "sh", str(group))
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as watch:
        try:
            yield
        finally:
            watch.kill()  # before its input ends


def number_type() -> str:
    """What the processor computes with fastest: bfloat16 only if it has instructions for that.

    Without them a prompt of 480 tokens takes the 1.5B 29 s in bfloat16, and 6 s in float32 (two cores with AVX-512).
    """
    cpu = Path("/proc/cpuinfo")
    return "bfloat16" if not cpu.exists() or " avx512_bf16" in cpu.read_text() else "float32"


def _wait_until_healthy(server: VLLM, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not server.is_healthy():
        if has_ended(process):
            raise RuntimeError(f"vLLM ended while starting:\n{_tail(server.log)}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"vLLM isn't ready after {_START_SECONDS} s:\n{_tail(server.log)}")
        time.sleep(1 / _ATTEMPTS_A_SECOND)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let it end by itself."""
    os.kill(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while not has_ended(process) and time.monotonic() < deadline:
        time.sleep(1 / _ATTEMPTS_A_SECOND)


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Unlike `poll` this leaves the process to be reaped: until then nobody else can get the number of its group."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-40:])
