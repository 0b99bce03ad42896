"""The processor as several processes: a real Envoy in front of two workers."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
import yaml
from grpc_health.v1 import health_pb2

from extproc.config import parse
from extproc.exchange.context import ExchangeContext
from extproc.observability.telemetry import Telemetry
from extproc.processes.fleet import Fleet
from extproc.transport.lean.server import accepts
from scripted_vllm import Reply, ScriptedVLLM
from scripted_vllm.troubles import Stall
from tests.collector import Collector, Series
from tests.gateway import EXTPROC, free_port, put, until_healthy, wait_until
from tests.reloadable import CHAT, PATIENCE, TOOLS, Gateway, Stream, request, running

pytestmark = pytest.mark.long

NAMES = ("alice", "bob", "carol", "dave", "erin")
KEYS = {name: f"{name}-has-a-key-that-is-long-enough" for name in NAMES}
SHARE = 4
"""Requests that one client may have under way."""
RESTARTS = "extproc_worker_restarts_total"
REQUESTS = 'extproc_requests_total{model="coder"}'
FINISHED = "extproc_finish_reasons_total"
ASKED: Series = ("extproc_requests_total", frozenset({("model", "coder")}))
"""The same, as a collector has it."""


def keys_of(*names: str) -> str:
    return "".join(f"{name}: {hashlib.sha256(KEYS[name].encode()).hexdigest()}\n" for name in names)


def children(pid: int) -> list[int]:
    threads = Path(f"/proc/{pid}/task").glob("*/children")  # each tells of those that it has started itself
    return [int(each) for thread in threads for each in thread.read_text().split()]


def workers_of(pid: int) -> list[int]:
    """The workers' process ids: they are forks of a child that does nothing else."""
    return sorted(worker for child in children(pid) for worker in children(child))


def sockets(gateway: Gateway) -> list[Path]:
    return [gateway.processor, gateway.processor.with_suffix(".1.sock")]


def healthy(socket: Path, service: str) -> bool:
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        answer = check(health_pb2.HealthCheckRequest(service=service), timeout=PATIENCE)
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def taken(gateway: Gateway) -> list[int]:
    """How many calls Envoy has made to each worker by now."""
    lines = gateway.admin.get("/clusters").text.splitlines()
    return [
        sum(int(line.rpartition("::")[2]) for line in lines if line.startswith(f"_processor::{path}::rq_total"))
        for path in sockets(gateway)
    ]


@pytest.fixture(scope="module")
def shared() -> Iterator[Gateway]:
    with ScriptedVLLM(model="qwen").running() as backend, tempfile.TemporaryDirectory() as folder:
        gateway = Gateway(Path(folder), backend)
        gateway.write(settings(gateway))
        with running(gateway, follows=False, workers=2):
            yield gateway


@pytest.fixture
def gateway(shared: Gateway) -> Gateway:
    shared.backend.forget()
    return shared


def settings(gateway: Gateway, **more: Any) -> dict[str, Any]:
    return {**gateway.settings("coder"), "workers": 2, "sockets": str(gateway.processor.parent), **more}


@pytest.fixture(scope="module")
def guarded() -> Iterator[Gateway]:
    """The same for clients with keys, who have a share each."""
    with ScriptedVLLM(model="qwen").running() as backend, tempfile.TemporaryDirectory() as folder:
        gateway = Gateway(Path(folder), backend)
        Path(folder, "keys").write_text(keys_of(*NAMES))
        limits = {"concurrent_requests": SHARE, "requests_per_minute": None}
        gateway.write(settings(gateway, api_keys=str(Path(folder, "keys")), limits=limits))
        with running(gateway, follows=False, workers=2):
            yield gateway


def status(gateway: Gateway, name: str) -> int:
    headers = {"authorization": f"Bearer {KEYS[name]}"}
    return gateway.http.post(CHAT, json=request("coder", tools=TOOLS), headers=headers).status_code


class TestOne:
    """What several have in common with one."""

    def test_both_workers_get_exchanges(self, gateway: Gateway) -> None:
        before = taken(gateway)
        streams = [Stream(gateway, "coder", words=30) for _ in range(6)]
        assert {len(stream.text()) for stream in streams} == {len("word ") * 30}
        mine = [now - then for now, then in zip(taken(gateway), before, strict=True)]
        assert min(mine) >= 2, mine  # the one that has fewer gets the next one

    def test_what_they_count_adds_up(self, gateway: Gateway) -> None:
        before = gateway.metric(REQUESTS)
        at_first = taken(gateway)
        # Several at once: the one with the fewest calls gets the next, and Envoy's log is a call that stays.
        with ThreadPoolExecutor(5) as pool:
            answers = list(pool.map(gateway.ask, ["coder"] * 40))
        assert [answer.status_code for answer in answers] == [200] * 40
        wait_until(lambda: gateway.metric(REQUESTS) == before + 40)
        assert all(now > then for now, then in zip(taken(gateway), at_first, strict=True))

    def test_a_collector_gets_the_sum_once(self, gateway: Gateway) -> None:
        with Collector().running() as collector:
            told = {"collector": f"127.0.0.1:{collector.port}", "interval_seconds": 1}
            gateway.reload(settings(gateway, metrics=told))
            assert [gateway.ask("coder").status_code for _ in range(4)] == [200] * 4
            wait_until(lambda: [batch.numbers[ASKED] for batch in collector.batches][-1:] == [gateway.metric(REQUESTS)])
            gateway.reload(settings(gateway))
        assert len({batch.resource["service.instance.id"] for batch in collector.batches}) == 1

    def test_a_change_is_in_force_in_both_when_it_is_in_force(self, gateway: Gateway) -> None:
        [model] = settings(gateway)["models"]
        gateway.reload(settings(gateway, models=[model, {**model, "name": "another"}]))
        assert [gateway.ask("another").status_code for _ in range(12)] == [200] * 12
        gateway.reload(settings(gateway))
        assert [gateway.ask("another").status_code for _ in range(12)] == [404] * 12

    def test_another_number_of_them_needs_a_restart(self, gateway: Gateway) -> None:
        gateway.refuse(settings(gateway, workers=3))
        assert gateway.logged("another number of workers needs another processor: restart it")
        for valid in (False, True):
            wait_until(lambda: [healthy(each, "extproc.config") for each in sockets(gateway)] == [valid, valid])  # noqa: B023
            gateway.write(settings(gateway))


class TestKeys:
    def test_a_key_that_is_taken_back_is_out_everywhere(self, guarded: Gateway) -> None:
        changes = 'extproc_api_keys_reloads_total{result="ok"}'
        assert [status(guarded, "alice") for _ in range(8)] == [200] * 8
        before, file = guarded.metric(changes), Path(guarded.processor.parent, "keys")
        put(file, keys_of(*NAMES[1:]))
        wait_until(lambda: guarded.metric(changes) == before + 1)
        assert [status(guarded, "alice") for _ in range(8)] == [401] * 8
        assert [status(guarded, "bob") for _ in range(8)] == [200] * 8
        put(file, keys_of(*NAMES))
        wait_until(lambda: guarded.metric(changes) == before + 2)

    @pytest.mark.parametrize(
        ("name", "tools"), [("carol", True), ("dave", False)], ids=["with tools", "past the processor"]
    )
    def test_a_client_has_one_share_of_both(self, guarded: Gateway, name: str, tools: bool) -> None:
        whole = [200] * SHARE + [429] * SHARE
        with ExitStack() as streams:
            assert held(guarded, streams, name, tools=tools) == whole
        # Of those that went past, Envoy tells one worker or the other, whichever had let them in.
        wait_until(lambda: sorted(asked(guarded, name)) == whole)


def held(gateway: Gateway, streams: ExitStack, name: str, *, tools: bool = True) -> list[int]:
    """What a client gets that asks for twice its share, and keeps what it gets."""
    fields: dict[str, Any] = {"stream": True} | ({"tools": TOOLS} if tools else {})
    headers = {"authorization": f"Bearer {KEYS[name]}"}
    gateway.backend.forget()
    gateway.backend.play(*[Reply("Hello", trouble=Stall(after=1, seconds=60))] * SHARE)
    body = request("coder", **fields)
    answers = [gateway.http.stream("POST", CHAT, json=body, headers=headers) for _ in range(2 * SHARE)]
    return [streams.enter_context(answer).status_code for answer in answers]


def asked(gateway: Gateway, name: str) -> list[int]:
    """The same, of one that leaves then."""
    with ExitStack() as streams:
        return held(gateway, streams, name)


class TestDeath:
    def test_a_worker_takes_only_its_own_streams_along(self, gateway: Gateway) -> None:
        counted, restarts = gateway.metric(REQUESTS), gateway.metric(RESTARTS)
        before = workers_of(gateway.process)
        streams = [Broken(gateway, "coder", words=50) for _ in range(6)]
        wait_until(lambda: gateway.metric("extproc_running_exchanges") == 6)
        os.kill(before[0], signal.SIGKILL)
        # Whoever comes meanwhile waits a moment.
        assert [gateway.ask("coder").status_code for _ in range(6)] == [200] * 6
        for stream in streams:
            stream.join(PATIENCE)
        assert sum(stream.broken for stream in streams) in (2, 3, 4)  # Envoy's log is a call of one of them too
        assert all(stream.broken or stream.ended for stream in streams)
        wait_until(lambda: gateway.metric(RESTARTS) == restarts + 1)
        wait_until(lambda: len(workers_of(gateway.process)) == 2)
        assert len({*workers_of(gateway.process), *before}) == 3
        # What the dead one has counted is known from the page before, and so is what one that is late has.
        wait_until(lambda: gateway.metric(REQUESTS) == counted + 12)
        assert gateway.logged("a worker has ended (killed by SIGKILL); starting another")

    def test_the_next_one_knows_what_is_in_force_and_what_is_well(self, gateway: Gateway) -> None:
        [model] = settings(gateway)["models"]
        gateway.reload(settings(gateway, models=[{**model, "name": "renamed"}]))
        restarts = gateway.metric(RESTARTS)
        for worker in workers_of(gateway.process):
            os.kill(worker, signal.SIGKILL)
        assert [gateway.ask("renamed").status_code for _ in range(12)] == [200] * 12
        wait_until(lambda: gateway.metric(RESTARTS) == restarts + 2)
        assert [healthy(socket, "") for socket in sockets(gateway)] == [True, True]
        gateway.reload(settings(gateway))

    def test_what_it_held_of_a_share_is_free(self, guarded: Gateway) -> None:
        with ExitStack() as streams:
            assert held(guarded, streams, "erin") == [200] * SHARE + [429] * SHARE
            os.kill(workers_of(guarded.process)[1], signal.SIGKILL)
            wait_until(lambda: status(guarded, "erin") == 200)

    def test_one_that_hangs_is_killed(self) -> None:
        config = parse('models: [{name: m, backend: b, tools: prompt}]\nbackends: [{name: b, address: "127.0.0.1:1"}]')
        telemetry = Telemetry(config)

        async def hang(socket: Path) -> None:
            fleet = Fleet(ExchangeContext(config), telemetry, 1, patience=0.2)
            async with fleet.running(f"unix:{socket}"):
                [worker] = fleet.pids
                os.kill(worker, signal.SIGSTOP)
                await asyncio.to_thread(wait_until, lambda: fleet.pids not in ([], [worker]))

        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(hang(Path(folder, "p.sock")))
        assert b"extproc_worker_restarts_total 1.0\n" in telemetry.page()


class Broken(Stream):
    """A stream that may break off."""

    broken = False

    def run(self) -> None:
        try:
            super().run()
        except httpx.RemoteProtocolError:
            self.broken = True
        else:
            self.broken = not self.ended


def test_when_it_is_asked_to_stop_the_streams_of_both_come_to_their_end() -> None:
    with ExitStack() as stack:
        backend = stack.enter_context(ScriptedVLLM(model="qwen").running())
        collector = stack.enter_context(Collector().running())
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        gateway = Gateway(Path(folder), backend)
        told = {"collector": f"127.0.0.1:{collector.port}", "interval_seconds": 1}
        gateway.write(gateway.settings("coder", metrics=told))
        with running(gateway, "--workers", "2", workers=2):
            streams = [Stream(gateway, "coder", words=60) for _ in range(4)]
            assert len([each for each in taken(gateway) if each >= 2]) == 2
            os.kill(gateway.process, signal.SIGTERM)
            assert [len(stream.text()) for stream in streams] == [len("word ") * 60] * 4
            wait_until(lambda: "State:\tZ" in Path(f"/proc/{gateway.process}/status").read_text())  # no second signal
        assert not [socket for socket in sockets(gateway) if socket.exists()]
        assert [each["message"] for each in gateway.logged("stopping")] == ["stopping; exchanges still running: 4"]
        last = collector.batches[-1].numbers  # what both have counted to their end, and once
        assert (last[ASKED], sum(number for (name, _), number in last.items() if name == FINISHED)) == (4, 4)
        assert len({batch.resource["service.instance.id"] for batch in collector.batches}) == 1


def test_workers_never_outlive_the_process_that_keeps_them() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file, socket, health = Path(folder, "c.yaml"), Path(folder, "p.sock"), f"127.0.0.1:{free_port()}"
        models = [{"name": "coder", "backend": "b", "tools": "prompt"}]
        file.write_text(yaml.safe_dump({"models": models, "backends": [{"name": "b", "address": "127.0.0.1:1"}]}))
        command: list[str | Path] = [
            *EXTPROC,
            "serve",
            "--config",
            file,
            "--listen",
            f"unix:{socket}",
            "--health",
            health,
        ]
        # A process that is killed leaves what it has there for `multiprocessing`.
        environment = {**os.environ, "TMPDIR": folder}
        processor = subprocess.Popen([*command, "--workers", "2"], env=environment)
        until_healthy(health, processor)
        workers = workers_of(processor.pid)
        assert len(workers) == 2
        processor.kill()
        processor.wait()
        wait_until(lambda: not accepts(str(socket)) and not accepts(str(Path(folder, "p.1.sock"))))
