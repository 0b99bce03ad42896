"""The commands as a user types them: what they print, where they say it, and how they end."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import resource
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from importlib.metadata import version
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple, TypeAlias

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2

from extproc.cli import main
from extproc.config import load
from extproc.control.publishing import EnvoyFiles
from extproc.names import LAYOUT, LAYOUT_METADATA
from extproc.toolcalls import NAMED
from extproc.wire import SERVICE, HeaderMap, HeaderValue, HttpBody, HttpHeaders, ProcessingRequest, ProcessingResponse
from scripted_vllm import ScriptedVLLM
from tests.gateway import ENVOY, EXTPROC, free_port, limited, put

pytestmark = pytest.mark.long

GOOD = """\
models:
  - name: coder
    backend: qwen
    tools: prompt
    format: hermes
backends:
  - name: qwen
    address: 127.0.0.1:8000
"""


class Done(NamedTuple):
    stdout: str
    stderr: str
    status: int


def run(*arguments: str | Path) -> Done:
    """One command in this process, by the function that the `extproc` script calls."""
    stdout, stderr = io.StringIO(), io.StringIO()
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)
    with redirect_stdout(stdout), redirect_stderr(stderr):
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as end:  # argparse's way to return
            status = int(end.code or 0)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, descriptors)  # some commands raise it
    return Done(stdout.getvalue(), stderr.getvalue(), status)


def run_apart(*arguments: str | Path) -> Done:
    """One command in a process of its own."""
    done = subprocess.run([*EXTPROC, *arguments], capture_output=True, text=True, timeout=60)
    return Done(done.stdout, done.stderr, done.returncode)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "extproc.yaml"
    path.write_text(GOOD)
    return path


# check


def test_check_tells_of_affinity_that_has_nothing_to_choose_from(good: Path) -> None:
    good.write_text(GOOD.replace("127.0.0.1:8000", "localhost:8000\n    affinity: true"))
    done = run("check", good)
    assert (
        "extproc: warning: the backend 'qwen': affinity is on, but localhost:8000 resolves to 127.0.0.1 alone"
        in done.stderr
    )
    assert done.status == 0


def test_check_sums_up_a_good_file_and_has_envoy_look_at_it(good: Path) -> None:
    done = run_apart("check", good)
    assert done.stdout == f"{good}: OK: 1 model, 1 backend, listening on 127.0.0.1:10000; accepted by Envoy\n"
    told = [line for line in done.stderr.splitlines() if "file descriptors are allowed" not in line]  # of this machine
    assert (told, done.status) == ([], 0)


def test_check_warns_where_there_are_too_few_descriptors(good: Path) -> None:
    done = subprocess.run(
        limited([*EXTPROC, "check", str(good)], 256, 1024), capture_output=True, text=True, timeout=60
    )
    assert "extproc: warning: on this machine 1024 file descriptors are allowed, enough for" in done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("was", "becomes", "line", "complaint"),
    [
        ("tools: prompt", "tools: magic", 4, "models[0].tools: expected 'native', 'template', 'prompt' or 'auto'"),
        ("format: hermes", "format: hermas", 5, "models[0].format: no tool-call format is named 'hermas'"),
        ("backend: qwen", "backend: quen", 3, "models[0].backend: no backend is named 'quen'; there are: qwen"),
        ("address: 127", "adress: 127", 8, "backends[0].adress: no such setting"),
        (":8000", "", 8, "backends[0].address: expected host:port"),
        ("models:", "models: [", 2, "not valid YAML"),
    ],
)
def test_check_names_the_line_and_the_field_of_a_mistake(
    good: Path, was: str, becomes: str, line: int, complaint: str
) -> None:
    good.write_text(GOOD.replace(was, becomes, 1))
    done = run("check", "--config", good)
    assert f"extproc: {good}:{line}: {complaint}" in done.stderr
    assert (done.stdout, done.status) == ("", 1)


def test_check_shows_envoys_own_words_when_envoy_refuses(good: Path, tmp_path: Path) -> None:
    strict = tmp_path / "strict-envoy"
    strict.write_text("#!/bin/sh\necho 'no such cluster' >&2\nexit 1\n")
    strict.chmod(0o755)
    done = run("check", good, "--envoy", strict)
    assert done.stderr.splitlines()[-1] == "extproc: Envoy refuses its configuration: no such cluster"
    assert done.status == 1


def test_check_needs_exactly_one_file(good: Path) -> None:
    assert run("check").status == 2
    assert run("check", good, "--config", good).status == 2


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    done = run("check", tmp_path / "absent.yaml")
    assert f"{tmp_path / 'absent.yaml'}: can't be read" in done.stderr
    assert done.status == 1


# envoy


def test_the_printed_bootstrap_is_one_that_envoy_accepts(good: Path, tmp_path: Path) -> None:
    bootstrap = tmp_path / "envoy.yaml"
    done = run_apart("envoy", "--config", good, "--processor", "unix:/run/extproc.sock", "--admin", "127.0.0.1:9901")
    assert done.status == 0, done.stderr
    bootstrap.write_text(done.stdout)
    assert "path: /run/extproc.sock" in done.stdout
    validated = subprocess.run([ENVOY, "--mode", "validate", "-c", bootstrap], capture_output=True, text=True)
    assert validated.returncode == 0, validated.stderr


def test_the_bootstrap_for_a_configuration_that_changes_is_one_that_envoy_accepts(tmp_path: Path) -> None:
    bootstrap = tmp_path / "envoy.yaml"
    done = run("envoy", "--dynamic", tmp_path, "--processor", "unix:/run/extproc.sock", "--admin", "127.0.0.1:9901")
    bootstrap.write_text(done.stdout)
    for name in ("clusters", "listener"):  # without which Envoy doesn't start
        assert f"path: {tmp_path}/{name}.yaml" in done.stdout
        (tmp_path / f"{name}.yaml").write_text("resources: []\n")
    validated = subprocess.run([ENVOY, "--mode", "validate", "-c", bootstrap], capture_output=True, text=True)
    assert validated.returncode == 0, validated.stderr


def test_a_bootstrap_is_for_one_configuration_or_for_all(good: Path, tmp_path: Path) -> None:
    assert run("envoy").status == 2
    assert run("envoy", "--config", good, "--dynamic", tmp_path).status == 2


# hash-key


def hashed(key: str) -> Done:
    done = subprocess.run([*EXTPROC, "hash-key", "alice"], input=key, capture_output=True, text=True, timeout=60)
    return Done(done.stdout, done.stderr, done.returncode)


def test_a_key_is_read_from_standard_input_and_its_line_printed() -> None:
    key = "a" * 40
    hashed = subprocess.run(
        [*EXTPROC, "hash-key", "alice"], input=f"{key}\n", capture_output=True, text=True, timeout=60
    )
    assert hashed.stdout == f"alice: {hashlib.sha256(key.encode()).hexdigest()}\n"
    assert (hashed.stderr, hashed.returncode) == ("", 0)


def test_a_key_that_is_too_short_gets_no_line() -> None:
    hashed = subprocess.run(
        [*EXTPROC, "hash-key", "alice"], input="hunter2", capture_output=True, text=True, timeout=60
    )
    assert hashed.stderr.startswith("extproc: a key has at least 16 characters")
    assert "hunter2" not in hashed.stderr
    assert (hashed.stdout, hashed.returncode) == ("", 1)


# formats


def test_formats_lists_every_format_with_its_models_aliases_and_an_example() -> None:
    listed = run("formats").stdout
    for format_ in NAMED:
        assert f"{format_.name}: {format_.title}\n" in listed
        for word in (*format_.models, *format_.aliases, format_.example.replace("\n", "\\n")):
            assert word in listed


def test_one_format_is_shown_as_its_models_write_it_also_by_an_alias() -> None:
    shown = run("formats", "qwen25").stdout
    assert shown.startswith("hermes: ")
    assert shown.endswith('<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>\n')


def test_a_formats_table_says_which_marker_leads_where() -> None:
    shown = run("formats", "qwen3_coder", "--table").stdout
    assert "\nPROSE (text)\n  '<tool_call>' -> BLOCK\n" in shown
    assert "  '</function>' -> AFTER_FUNCTION  (ends the call)\n" in shown


def test_every_formats_table_can_be_shown() -> None:
    for format_ in NAMED:
        assert f"{format_.name}: " in run("formats", format_.name, "--table").stdout


def test_an_unknown_format_brings_near_names() -> None:
    done = run("formats", "hermas")
    assert done.stderr == "extproc: no tool-call format is named 'hermas'; did you mean 'hermes'?\n"
    assert done.status == 1


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("qwen3", "did you mean 'qwen3_coder' or 'qwen3_json' or 'qwen3_xml'?"),
        ("Qwen3-Cod", "did you mean 'qwen3_coder'?"),
        ("nope", "see `extproc formats`"),
        ("", "see `extproc formats`"),
    ],
)
def test_names_that_begin_as_typed_are_offered_first_and_far_ones_never(typed: str, hint: str) -> None:
    done = run("formats", typed)
    assert (done.stderr, done.status) == (f"extproc: no tool-call format is named {typed!r}; {hint}\n", 1)


def test_the_format_of_a_checkpoint_is_told_too_and_where_it_comes_from() -> None:
    shown = run("formats", "hf")
    assert shown.stdout.startswith("hf: a format that comes with a checkpoint\n")
    assert "`response_template`" in shown.stdout
    assert run("formats").stdout.endswith(shown.stdout)


def test_a_table_is_one_formats() -> None:
    assert run("formats", "--table").status == run("formats", "hf", "--table").status == 2


# help


@pytest.mark.parametrize(
    "command",
    "init up chat record serve check envoy formats probe hash-key replay completion".split(),
)
def test_every_command_explains_itself_with_examples(command: str) -> None:
    done = run(command, "--help")
    assert f"examples:\n  extproc {command}" in done.stdout
    assert done.status == 0


def test_the_version_is_told() -> None:
    done = run("--version")
    assert (done.stdout, done.status) == (f"extproc {version('extproc')}\n", 0)


def test_no_command_is_a_usage_error() -> None:
    done = run()
    assert "COMMAND" in done.stderr
    assert done.status == 2


def test_a_reader_that_goes_away_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen([*EXTPROC, "formats"], stdout=writing, stderr=subprocess.PIPE, text=True) as process:
        os.close(writing)
        assert process.communicate(timeout=60)[1] == ""
        assert process.returncode == 1


# serve


class Served:
    """A running `extproc serve`, and a channel to it."""

    def __init__(self, process: subprocess.Popen[str], channel: grpc.Channel) -> None:
        self.process = process
        self.channel = channel
        self.health = channel.unary_stream(
            "/grpc.health.v1.Health/Watch",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )(health_pb2.HealthCheckRequest(service=SERVICE))
        exchange = channel.stream_stream(
            f"/{SERVICE}/Process",
            request_serializer=ProcessingRequest.SerializeToString,
            response_deserializer=ProcessingResponse.FromString,
        )
        self.exchange = partial(exchange, metadata=((LAYOUT_METADATA, LAYOUT),))


def logged(done: Done) -> list[str]:
    """The errors that `serve` has logged."""
    return [message for level, message in records(done) if level == "error"]


def records(done: Done) -> list[tuple[str, str]]:
    """The level and the message of each line."""
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    return [(line["level"], line["message"]) for line in lines]


@contextmanager
def served(good: Path, *options: str, first: str | None = None) -> Iterator[Served]:
    """`first`: what it says before it is ready. In the end it is killed."""
    socket = good.with_name("p.sock")
    command = [*EXTPROC, "serve", "--config", str(good), "--listen", f"unix:{socket}", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr
            assert process.stdout
            if first is not None:
                said = json.loads(process.stderr.readline())
                assert (said["level"], said["message"]) == ("error", first)
            line = process.stdout.readline()
            assert json.loads(line)["message"] == f"the processor is ready on unix:{socket}", line
            with grpc.insecure_channel(f"unix:{socket}") as channel:
                yield Served(process, channel)
        finally:
            process.kill()


def make_envoys_files(good: Path, files: Path) -> None:
    """As the processor would, which finds them then: what makes them takes it a second to import."""
    asyncio.run(EnvoyFiles(files, None).begin(load(good)))


def is_serving(processor: Served, service: str) -> bool:
    check = processor.channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
        response_deserializer=health_pb2.HealthCheckResponse.FromString,
    )
    answer = check(health_pb2.HealthCheckRequest(service=service), timeout=30)
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


Messages: TypeAlias = "SimpleQueue[ProcessingRequest | None]"
"""What a test sends on an exchange; None ends it."""


def request_headers() -> ProcessingRequest:
    fields = {":method": "POST", ":path": "/v1/chat/completions", "content-type": "application/json"}
    headers = HeaderMap(headers=[HeaderValue(key=key, raw_value=value.encode()) for key, value in fields.items()])
    return ProcessingRequest(request_headers=HttpHeaders(headers=headers))


def test_serve_on_sigterm_reports_not_serving_then_finishes_what_runs_then_exits_0(good: Path) -> None:
    with served(good) as processor:
        assert next(processor.health).status == health_pb2.HealthCheckResponse.SERVING
        messages: Messages = SimpleQueue()
        replies = processor.exchange(iter(messages.get, None))
        messages.put(request_headers())
        assert next(replies).WhichOneof("response") == "request_headers"

        processor.process.send_signal(signal.SIGTERM)
        assert next(processor.health).status == health_pb2.HealthCheckResponse.NOT_SERVING
        messages.put(ProcessingRequest(request_body=HttpBody(body=b"{", end_of_stream=True)))
        assert next(replies).immediate_response.status.code == 400
        assert processor.process.poll() is None
        messages.put(None)

        assert list(replies) == []
        assert processor.process.wait(30) == 0


def test_serve_ends_at_once_on_a_second_signal(good: Path) -> None:
    with served(good, "--grace", "600") as processor:
        assert next(processor.health).status == health_pb2.HealthCheckResponse.SERVING
        messages: Messages = SimpleQueue()
        replies = processor.exchange(iter(messages.get, None))
        messages.put(request_headers())
        assert next(replies).WhichOneof("response") == "request_headers"

        processor.process.send_signal(signal.SIGTERM)
        assert next(processor.health).status == health_pb2.HealthCheckResponse.NOT_SERVING
        processor.process.send_signal(signal.SIGTERM)
        assert processor.process.wait(30) == 1
        messages.put(None)


def test_serve_gives_up_on_an_exchange_after_the_grace_period(good: Path) -> None:
    with served(good, "--grace", "0.1") as processor:
        messages: Messages = SimpleQueue()
        replies = processor.exchange(iter(messages.get, None))
        messages.put(request_headers())
        assert next(replies).WhichOneof("response") == "request_headers"

        processor.process.send_signal(signal.SIGTERM)
        assert processor.process.wait(30) == 0
        messages.put(None)
        assert processor.process.stderr
        assert "exchanges cut off after 0.1 seconds: 1" in processor.process.stderr.read()


def test_serve_says_when_its_address_is_taken(good: Path) -> None:
    with served(good) as processor:
        del processor
        blocked = good.with_name("directory")
        blocked.mkdir()
        done = run("serve", "--config", good, "--listen", f"unix:{blocked}")
        (told,) = logged(done)
        assert told.startswith(f"can't listen on unix:{blocked}")
        assert done.status == 1


def test_serve_shows_its_metrics_until_the_last_exchange_has_ended(good: Path) -> None:
    url = f"127.0.0.1:{free_port()}"
    with served(good, "--metrics", url) as processor:
        messages: Messages = SimpleQueue()
        replies = processor.exchange(iter(messages.get, None))
        messages.put(request_headers())
        assert next(replies).WhichOneof("response") == "request_headers"
        assert next(processor.health).status == health_pb2.HealthCheckResponse.SERVING

        processor.process.send_signal(signal.SIGTERM)
        assert next(processor.health).status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert "\nextproc_running_exchanges 1.0\n" in httpx.get(f"http://{url}/metrics").text
        messages.put(None)
        assert processor.process.wait(30) == 0


def test_serve_says_when_its_metrics_can_not_be_served_there(good: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run("serve", "--config", good, "--listen", f"unix:{good.with_name('p.sock')}", "--metrics", address)
    assert logged(done) == [f"can't serve metrics on {address}: Address already in use"]
    assert (done.stdout, done.status) == ("", 1)


def test_an_address_for_metrics_needs_a_port(good: Path) -> None:
    done = run("serve", "--config", good, "--metrics", "9002")
    assert "argument --metrics: expected host:port such as 127.0.0.1:8000, got '9002'" in done.stderr
    assert done.status == 2


def test_a_file_of_keys_that_can_not_be_used_keeps_the_processor_from_starting(good: Path) -> None:
    keys = good.with_name("keys")
    good.write_text(f"api_keys: {keys}\n{GOOD}")
    assert logged(run("serve", "--config", good)) == [f"{keys}: can't be read: No such file or directory"]
    keys.write_text("alice: not a hash\n")
    done = run("serve", "--config", good)
    line, reason = logged(done)
    assert line.startswith(f"{keys}:1: expected 'name: hash'")
    assert reason == f"{keys}: holds no keys, so no client could get in"
    assert done.status == 1


def test_serve_wants_certificate_and_key_together_and_where_they_are_of_use(good: Path) -> None:
    tcp = ("--listen", f"127.0.0.1:{free_port()}")
    certificate, key, client_ca = (
        ("--tls-certificate", "no.crt"),
        ("--tls-key", "no.key"),
        ("--tls-client-ca", "ca.crt"),
    )
    for options, complaint in (
        ((*tcp, *certificate), "--tls-certificate and --tls-key belong together"),
        ((*tcp, *key), "--tls-certificate and --tls-key belong together"),
        ((*tcp, *client_ca), "--tls-client-ca needs"),
        ((*certificate, *key), "a socket needs no TLS"),
    ):
        done = run("serve", "--config", good, *options)
        assert done.status == 2, options
        assert complaint in done.stderr
    assert logged(run("serve", "--config", good, *tcp, *certificate, *key)) == [
        "no.crt: can't be read: No such file or directory"
    ]


def test_serve_warns_when_others_can_read_what_is_sent(good: Path) -> None:
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        (warned, warning), (_, refused) = records(run("serve", "--config", good, "--listen", f"0.0.0.0:{port}"))
        assert warned == "warning"
        assert warning.startswith(f"0.0.0.0:{port} can be reached from other machines, without TLS")
        assert "--tls-certificate" in warning
        assert refused.startswith(f"can't listen on 0.0.0.0:{port}")
        assert len(records(run("serve", "--config", good, "--listen", f"127.0.0.1:{port}"))) == 1


def test_serve_warns_where_retries_can_not_be(good: Path, tmp_path: Path) -> None:
    good.write_text(f"sockets: {tmp_path}/none\n{GOOD.replace('format: hermes', 'retry: true')}")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        serve = ("serve", "--config", good, "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
        (warned, warning), _ = records(run(*serve))
        assert warned == "warning"
        assert f"{tmp_path}/none (`sockets`), which isn't there" in warning
        assert len(records(run(*serve, "--sockets", tmp_path))) == 1
        good.write_text(f"sockets: {tmp_path}/none\n{GOOD}")
        assert len(records(run(*serve))) == 1


def test_serve_says_why_it_does_not_start_in_the_form_of_its_log(good: Path) -> None:
    good.write_text(GOOD.replace("tools: prompt", "tools: magic").replace("format: hermes", "format: [hermes]"))
    done = run_apart("serve", "--config", good)
    assert [told.rpartition(": ")[0] for told in logged(done)] == [
        f"{good}:4: models[0].tools",
        f"{good}:5: models[0].format",
    ]
    assert (done.stdout, done.status) == ("", 1)


def test_settings_of_an_envoy_need_a_directory_for_it(good: Path) -> None:
    assert run("serve", "--config", good, "--envoy-admin", "127.0.0.1:9901").status == 2
    assert run("serve", "--config", good, "--envoy-listen", "127.0.0.1:9901").status == 2


def test_without_envoys_files_a_change_that_envoy_has_to_know_of_is_refused(good: Path) -> None:
    with served(good, "--reread", "0.02") as processor:
        put(good, f"limits: {{max_body_bytes: 2048}}\n{GOOD}")
        assert processor.process.stderr
        line = json.loads(processor.process.stderr.readline())
        assert line["level"] == "error"
        assert "Envoy has to know of these changes too, and can't learn of them from here: limits; " in line["message"]
        put(good, f"limits: {{max_body_bytes: 4096}}\n{GOOD.replace('name: coder', 'name: other')}")
        assert "learn of them from here: limits; " in processor.process.stderr.readline()
        put(good, GOOD.replace("name: coder", "name: other"))
        assert "is in force" in processor.process.stderr.readline(), "models are no business of Envoy's"


# serve, started again while what it reads can't be used


INSTEAD = "the configuration is refused, what was last in force is used instead: "


def test_a_processor_that_is_killed_while_its_configuration_is_broken_starts_with_the_last_one(good: Path) -> None:
    files, metrics = good.with_name("envoy"), f"127.0.0.1:{free_port()}"
    options = ("--envoy", str(files), "--metrics", metrics, "--reread", "0.02")
    make_envoys_files(good, files)
    with served(good, *options) as processor:
        assert is_serving(processor, "extproc.config")
        assert is_serving(processor, "extproc.envoy"), "an Envoy that can't be asked is not waited for"
    assert [path.stat().st_mode & 0o777 for path in files.glob(".last-in-force*")] == [0o600]

    good.write_text("models: [")
    complaint = f"{good}:1: not valid YAML: expected the node content, but found '<stream end>'"
    with served(good, *options, first=INSTEAD + complaint) as processor:
        page = httpx.get(f"http://{metrics}/metrics").text
        assert f'extproc_config_info{{hash="{hashlib.sha256(GOOD.encode()).hexdigest()[:12]}"}}' in page
        assert is_serving(processor, "")
        status = processor.channel.unary_stream(
            "/grpc.health.v1.Health/Watch",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )(health_pb2.HealthCheckRequest(service="extproc.config"))
        while next(status).status != health_pb2.HealthCheckResponse.NOT_SERVING:
            pass
        assert "\nextproc_config_valid 0.0\n" in httpx.get(f"http://{metrics}/metrics").text
        put(good, GOOD.replace("name: coder", "name: other"))
        assert next(status).status == health_pb2.HealthCheckResponse.SERVING
        assert "\nextproc_config_valid 1.0\n" in httpx.get(f"http://{metrics}/metrics").text

    good.write_text("models: [")
    with served(good, *options, first=INSTEAD + complaint):
        assert 'extproc_requests_total{model="other"}' in httpx.get(f"http://{metrics}/metrics").text

    good.unlink()
    done = run_apart("serve", "--config", good, "--envoy", files)
    gone = f"{good}: can't be read: No such file or directory; `extproc init --file {good}` writes one"
    assert (logged(done), done.status) == ([gone], 1)


def test_a_processor_that_was_never_in_force_does_not_start_with_a_broken_configuration(good: Path) -> None:
    good.write_text("models: [")
    done = run_apart("serve", "--config", good, "--envoy", good.with_name("envoy"))
    assert logged(done) == [f"{good}:1: not valid YAML: expected the node content, but found '<stream end>'"]
    assert done.status == 1


def test_a_full_disk_a_refused_change_and_a_crash_together_leave_the_last_configuration_in_force(good: Path) -> None:
    """A file that can't grow stands for a disk that is full."""
    files, metrics = good.with_name("envoy"), f"127.0.0.1:{free_port()}"
    options = ("--envoy", str(files), "--metrics", metrics, "--reread", "0.02")
    with served(good, *options):
        pass
    before = {path.name: path.read_bytes() for path in files.iterdir()}
    good.write_text(GOOD + "  - {name: more, address: '127.0.0.1:8001'}\n")
    in_force = 'extproc_config_info{hash="%s"}'
    with full_disk():
        for _ in range(2):
            with served(
                good, *options, first=f"{INSTEAD}Envoy's files can't be written: [Errno 27] File too large"
            ) as processor:
                assert is_serving(processor, "")
                page = httpx.get(f"http://{metrics}/metrics").text
                assert in_force % hashlib.sha256(GOOD.encode()).hexdigest()[:12] in page
                assert {path.name: path.read_bytes() for path in files.iterdir()} == before
    with served(good, *options):
        page = httpx.get(f"http://{metrics}/metrics").text
        assert in_force % hashlib.sha256(good.read_bytes()).hexdigest()[:12] in page


@contextmanager
def full_disk() -> Iterator[None]:
    """For processes that are started meanwhile: no file takes more than 64 bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_file_that_is_envoys_to_read_need_not_be_there(good: Path) -> None:
    """In a pod the processor doesn't see the certificate of the listener."""
    files, certificate = good.with_name("envoy"), good.with_name("certificate")
    options = ("--envoy", str(files))
    make_envoys_files(good, files)
    with served(good, *options):
        pass
    good.write_text(f"tls: {{certificate: {certificate}, key: {certificate}}}\n{GOOD}")
    make_envoys_files(good, files)
    for _ in range(2):
        with served(good, *options):
            pass
    good.write_text("models: [")
    with served(
        good, *options, first=f"{INSTEAD}{good}:1: not valid YAML: expected the node content, but found '<stream end>'"
    ):
        pass


def test_no_copy_opens_a_gateway_that_asks_who_clients_are(good: Path) -> None:
    """Neither one from before there were keys, nor one whose keys are gone."""
    keys, envoy = good.with_name("keys"), good.with_name("envoy")
    make_envoys_files(good, envoy)
    with served(good, "--envoy", str(envoy)):
        pass
    good.write_text(f"api_keys: {keys}\n{GOOD}")
    gone = f"{keys}: can't be read: No such file or directory"
    done = run_apart("serve", "--config", good, "--envoy", envoy)
    assert (logged(done), done.status) == ([gone], 1)
    good.write_text(f"jwt: {{issuer: a, audiences: [b], jwks: {{file: {good.parent}}}}}\n{GOOD}")
    done = run_apart("serve", "--config", good, "--envoy", envoy)
    assert (len(logged(done)), done.status) == (1, 1)
    assert "it is a directory" in logged(done)[0]

    good.write_text(f"api_keys: {keys}\n{GOOD}")
    keys.write_text(f"alice: {'0' * 64}\n")
    make_envoys_files(good, envoy)
    with served(good, "--envoy", str(envoy)):
        pass
    keys.unlink()
    good.write_text("models: [")
    done = run_apart("serve", "--config", good, "--envoy", envoy)
    assert done.status == 1
    assert "not valid YAML" in logged(done)[0]


# probe


def test_probe_prints_a_configuration_that_check_accepts(tmp_path: Path) -> None:
    with ScriptedVLLM(model="Qwen/Qwen2.5-Coder-0.5B-Instruct").running() as vllm:
        probed = run("probe", vllm.url)
    assert probed.status == 0
    assert probed.stderr
    written = tmp_path / "extproc.yaml"
    written.write_text(probed.stdout)
    assert "models:" in probed.stdout
    assert run("check", str(written)).status == 0


@pytest.mark.parametrize("url", ["ftp://host", "http://", "http://host:port"])
def test_probe_wants_a_url(url: str) -> None:
    assert run("probe", url).status == 2


def test_probe_says_in_one_line_that_nobody_is_there() -> None:
    probed = run("probe", "http://127.0.0.1:1")
    assert (probed.status, probed.stderr.count("\n")) == (1, 1)
