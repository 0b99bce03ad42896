"""One real vLLM and one gateway in front of it, as a user starts them, for all tests here."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import openai
import pytest

from tests.gateway import free_port
from tests.real_vllm.environment import Environment
from tests.real_vllm.matcher import Matcher, running_matcher
from tests.real_vllm.model import Model
from tests.real_vllm.server import MODEL, VLLM, running_vllm

NAME = "qwen-coder"
"""The model's name at the gateway; the backend has another."""
TEMPLATE = "qwen-coder-template"
"""The same in template mode."""
NATIVE = "qwen-coder-native"
"""The same in native mode; the server needs a tool parser for it."""
_START_SECONDS = 60
_STOP_SECONDS = 60


class Gateway:
    """The gateway in front of a real vLLM, and the way around it."""

    def __init__(self, url: str, vllm: VLLM) -> None:
        self.url = url
        self.vllm = vllm
        self.openai = openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0, timeout=300)
        self.direct = openai.OpenAI(base_url=f"{vllm.url}/v1", api_key="unused", max_retries=0, timeout=300)

    def close(self) -> None:
        self.openai.close()
        self.direct.close()


@pytest.fixture(scope="session")
def matcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matcher]:
    environment = Environment()
    if not environment.is_ready:
        pytest.fail("vLLM isn't set up: run `python -m tests.real_vllm.setup`, or `make test-vllm`")
    with running_matcher(environment, tmp_path_factory.mktemp("xgrammar") / "log") as running:
        yield running


@pytest.fixture(scope="session")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VLLM]:
    environment, model = Environment(), Model()
    if not (environment.is_ready and model.is_ready):
        pytest.fail("vLLM isn't set up: run `python -m tests.real_vllm.setup`, or `make test-vllm`")
    log = tmp_path_factory.mktemp("vllm") / "vllm.log"
    with running_vllm(environment, model, log) as server:
        yield server


@pytest.fixture(scope="session")
def gateway(vllm: VLLM, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running_gateway(vllm, tmp_path_factory.mktemp("gateway")) as gateway:
        yield gateway


@contextmanager
def running_gateway(vllm: VLLM, folder: Path) -> Iterator[Gateway]:
    """A gateway in front of this vLLM, with a model for each mode."""
    port = free_port()
    settings = f"""
listen: 127.0.0.1:{port}
models:
  - {{name: {NAME}, backend: qwen, upstream_model: {MODEL}, tools: prompt, format: hermes}}
  - {{name: {TEMPLATE}, backend: qwen, upstream_model: {MODEL}, tools: template, format: hermes}}
  - {{name: {NATIVE}, backend: qwen, upstream_model: {MODEL}, tools: native, repair: true, format: hermes}}
backends:
  - {{name: qwen, address: "127.0.0.1:{vllm.port}"}}
"""
    with serving_gateway(settings, port, folder) as url:
        gateway = Gateway(url, vllm)
        try:
            yield gateway
        finally:
            gateway.close()


@contextmanager
def serving_gateway(settings: str, port: int, folder: Path) -> Iterator[str]:
    """The address of `extproc up` with this configuration, until it is told to stop; it must then end well."""
    config, log = folder / "extproc.yaml", folder / "extproc.log"
    config.write_text(settings)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "extproc", "up", "--config", config], stdout=output, stderr=subprocess.STDOUT
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_until_serving(url, process, log)
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert status == 0, log.read_text()


def _wait_until_serving(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            if httpx.get(f"{url}/v1/models", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
