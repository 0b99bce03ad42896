"""The Envoy container's hook lets a pod leave without breaking an answer; its probe tells when it serves."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from urllib.parse import urlsplit

import httpx
import pytest

from extproc.envoy.clusters import COUNTING
from tests.gateway import wait_until
from tests.k8s.envoy_container import running, written
from tests.k8s.rendered import BASE, K8S, rendered
from tests.limit_load import COUNTING_NOW
from tests.serving_in_thread import serving_in_thread

OBJECTS = rendered(BASE)


@contextmanager
def admin(port: int, gauges: Mapping[str, int]) -> Iterator[list[str]]:
    """An admin interface that has these gauges; yields the paths that it was asked for."""
    asked: list[str] = []

    class Admin(StreamRequestHandler):
        def handle(self) -> None:
            _, target, _ = self.rfile.readline().decode().split()
            while self.rfile.readline().strip():
                pass
            at = urlsplit(target)
            asked.append(at.path)
            wanted = re.compile(at.query.removeprefix("filter="))
            lines = [f"{name}: {value}\n" for name, value in gauges.items() if wanted.search(name)]
            self.wfile.write(f"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{''.join(lines)}".encode())

    with serving_in_thread(ThreadingTCPServer(("127.0.0.1", port), Admin)):
        yield asked


def test_the_hook_lets_a_request_finish_and_takes_no_more_but_for_metrics(tmp_path: Path) -> None:
    watched = rendered(K8S / "overlays/monitoring")
    with running(watched, tmp_path) as envoy, envoy.request_under_way() as (client, upstream):
        with subprocess.Popen(envoy.drain_command("0", "20")) as hook:
            wait_until(lambda: not envoy.accepts())
            assert not envoy.ready()
            metrics = httpx.get(f"http://127.0.0.1:{envoy.metrics}/metrics").text
            assert 'envoy_http_downstream_rq_active{envoy_http_conn_manager_prefix="openai"} 1' in metrics
            with pytest.raises(subprocess.TimeoutExpired):
                hook.wait(0.5)
            upstream.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
            answer = client.getresponse()
            assert answer.read() == b"{}"
            assert answer.headers["connection"] == "close"
        assert hook.returncode == 0


def test_the_hook_still_takes_connections_while_the_cluster_learns_that_the_pod_leaves(tmp_path: Path) -> None:
    with (
        running(OBJECTS, tmp_path) as envoy,
        subprocess.Popen(envoy.drain_command("30", "0"), start_new_session=True) as hook,
    ):
        try:
            wait_until(lambda: not envoy.ready())
            with envoy.request_under_way():
                assert hook.poll() is None
        finally:
            os.killpg(hook.pid, signal.SIGKILL)  # its sleep too


def test_the_hook_ends_when_its_time_is_up(tmp_path: Path) -> None:
    with running(OBJECTS, tmp_path) as envoy, envoy.request_under_way() as (client, upstream):
        assert subprocess.run(envoy.drain_command("0", "0"), timeout=20, check=False).returncode == 0
        upstream.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
        assert client.getresponse().status == 204, "the request was still under way"


@pytest.mark.parametrize(
    "busy",
    [
        "http.openai.downstream_rq_active",
        "http.openai.downstream_cx_tx_bytes_buffered",
        *COUNTING_NOW,
    ],
)
def test_the_hook_waits_for_what_is_not_done(tmp_path: Path, busy: str) -> None:
    """Each gauge alone, at an admin interface that answers as Envoy's does."""
    gauges = {busy: 1, f"cluster.{COUNTING}.upstream_rq_total": 7, "http.admin.downstream_rq_active": 1}
    with written(OBJECTS, tmp_path) as envoy, admin(envoy.admin, gauges) as asked:
        with subprocess.Popen(envoy.drain_command("0", "600")) as hook:
            try:
                wait_until(lambda: asked.count("/stats") >= 2)
                assert hook.poll() is None
                gauges[busy] = 0
                assert hook.wait(60) == 0
            finally:
                hook.kill()
        assert asked[:3] == ["/healthcheck/fail", "/drain_listeners", "/stats"]


def test_the_hook_takes_no_answer_for_no_answer_that_all_is_done(tmp_path: Path) -> None:
    with written(OBJECTS, tmp_path) as envoy:
        begin = time.monotonic()
        done = subprocess.run(envoy.drain_command("0", "2"), capture_output=True, timeout=20, check=False)
        assert done.returncode == 0
        assert time.monotonic() - begin >= 1  # bash counts whole seconds


def test_envoy_is_not_ready_when_it_is_not_there(tmp_path: Path) -> None:
    with written(OBJECTS, tmp_path) as envoy:
        assert not envoy.ready()
