"""`extproc conformance` over real gRPC: verdicts, exit statuses, reports, recipes, and the pytest plugin, as
docs/conformance.md has them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import entry_points
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import cast

import grpc
import pytest
import yaml

from extproc.cli import main
from extproc.conformance.cases import CASES
from extproc.conformance.cases.case import Session
from extproc.conformance.driver import DirectLink, Processor
from extproc.conformance.host.outcome import Closed
from extproc.conformance.invariants import Level
from extproc.conformance.pytest_plugin import _Run
from extproc.conformance.recipe import RecipeError, read
from extproc.conformance.reference import HEADER, LARGEST, REFUSAL, Reference
from extproc.conformance.reference_server import serve
from extproc.conformance.reports import FORMATS
from extproc.conformance.verdicts import Finding, Report, Result, Verdict
from extproc.wire import ProcessingRequest, ProcessingResponse
from tests.gateway import ENVOY

RECIPE = {
    "profiles": ["core", "mutating"],
    "passes": {},
    "refused": {"headers": {HEADER: "refuse"}, "status": REFUSAL},
    "mutated": {"headers": {HEADER: "mutate"}},
    "layouts": ["FULL_DUPLEX_STREAMED/FULL_DUPLEX_STREAMED"],
    "limits": {
        "pause": 0.01,
        "streams": 16,
        "silence": 0.1,
        "body_mib": 30,
        "too_large_mib": (LARGEST >> 20) + 1,
        "reply": 30,
        "case": 120,
    },
}


class Spurious(Reference):
    """Replies twice to a response's headers."""

    def receive(self, message: ProcessingRequest) -> list[ProcessingResponse | Closed]:
        replies = super().receive(message)
        return [*replies, *replies] if message.HasField("response_headers") else replies


def serving(processor: type[Processor]) -> Iterator[str]:
    server, port = serve("127.0.0.1:0", processor)
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.fixture(scope="module")
def reference() -> Iterator[str]:
    """In a process of its own: what grpcio's server has of calls that were broken off may keep it from stopping."""
    command = [sys.executable, "-m", "extproc.conformance.reference_server", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"127.0.0.1:{process.stdout.readline().split()[-1]}"
        process.kill()


@pytest.fixture(scope="module")
def spurious() -> Iterator[str]:
    yield from serving(Spurious)


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(RECIPE))
    return path


@pytest.mark.long
def test_the_reference_conforms_over_grpc(
    reference: str, recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = tmp_path / "found.json"
    assert main(["conformance", reference, "--recipe", str(recipe), "--json", str(found), "--quiet"]) == 0
    told = json.loads(found.read_text())
    assert told["conforms"] is True
    others = {each["id"]: each["verdict"] for each in told["results"] if each["verdict"] != "PASS"}
    slow = others.pop("LIV-07", None)  # the machine may be busy
    without_config = dict.fromkeys(("LAY-21", "LAY-22", "LAY-23", "LAY-24"), "REFUSES")
    assert others == without_config
    if slow is None:
        assert capsys.readouterr().out == f"{reference}: 4 REFUSES, {len(told['results']) - 4} PASS\n"


def test_a_server_that_breaks_an_invariant_fails(spurious: str, tmp_path: Path) -> None:
    found = tmp_path / "found.xml"
    assert main(["conformance", spurious, "--only", "LAY-0[56]", "--quiet", "--junit", str(found)]) == 1
    suite = ET.parse(found).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "2")
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert "INV-01" in str(failure.get("message"))


class Knowing(Reference):
    """Serves whom the host's filter metadata names."""

    def receive(self, message: ProcessingRequest) -> list[ProcessingResponse | Closed]:
        if message.metadata_context.filter_metadata["a.b"].fields["tenant"].string_value != "t-1":
            return [Closed("PERMISSION_DENIED")]
        return super().receive(message)


def test_a_recipe_says_what_the_host_forwards(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump({"metadata_context": {"a.b": {"tenant": "t-1"}}}))
    for target in serving(Knowing):
        assert main(["conformance", target, "--only", "LAY-06", "--quiet"]) == 1
        words = ["--only", "LAY-06", "--only", "UNK-01", "--quiet", "--recipe", str(path)]
        assert main(["conformance", target, *words]) == 0


class Failing(Reference):
    """Never answers a request's headers."""

    def receive(self, message: ProcessingRequest) -> list[ProcessingResponse | Closed]:
        return [] if message.HasField("request_headers") else super().receive(message)


def test_what_fails_anyway_is_not_laid_at_another_cases_door(tmp_path: Path) -> None:
    """Neither cancelling nor a body's size makes a server fail that fails every exchange. Nor may it be blamed for
    changing what nobody said it shouldn't."""
    found, path = tmp_path / "found.json", tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump({"profiles": ["core", "mutating"], "limits": {"reply": 0.2}}))
    cases = ("LAY-06", "LIV-02", "LIV-03", "MUT-09.1", "MUT-11")
    words = [word for case in cases for word in ("--only", case)]
    for target in serving(Failing):
        assert main(["conformance", target, "--recipe", str(path), *words, "--quiet", "--json", str(found)]) == 1
    told = {each["id"]: (each["verdict"], each["reason"]) for each in json.loads(found.read_text())["results"]}
    assert told.pop("LAY-06")[0] == "FAIL"
    assert told.pop("MUT-11") == ("SKIP", "the recipe names no exchange that passes")
    assert told == dict.fromkeys(("LIV-02", "LIV-03", "MUT-09.1"), ("SKIP", "any exchange ends as timeout"))


def test_a_recipe_that_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "recipe.yaml"
    assert main(["conformance", "127.0.0.1:1", "--recipe", str(missing)]) == 2
    assert capsys.readouterr().err == f"extproc: {missing} can't be read (No such file or directory)\n"


def test_nobody_there_is_no_verdict(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extproc.conformance.client._CONNECT_SECONDS", 0.2)
    assert main(["conformance", "127.0.0.1:1"]) == 2
    assert "no gRPC server answers at 127.0.0.1:1" in capsys.readouterr().err


def test_a_server_elsewhere_has_to_be_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", "processor.example:9000"]) == 2
    assert "--allow-remote" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--html", "/nobody/there/r.html"], "/nobody/there/r.html"),
        (["--only", "LAY-0*", "--only", "NOPE-1"], "no case is named NOPE-1 in core"),
        (["--except", "NOPE-*"], "no case is named NOPE-* in core"),
        (["--only", "LAY-0*", "--except", "LAY-*"], "--except leaves no case"),
    ],
)
def test_what_is_wrong_with_the_command_line_is_told_before_anything_is_played(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["conformance", "127.0.0.1:1", *words]) == 2
    told = capsys.readouterr()
    assert complaint in told.err
    assert told.out == ""


@pytest.mark.parametrize(
    "words",
    [
        ["127.0.0.1:99999"],
        ["127.0.0.1:0"],
        ["model", "http://127.0.0.1:1", "--model", "m", "--timeout", "0"],
        ["tools", "http://127.0.0.1:1", "--timeout", "nan"],
    ],
)
def test_ports_and_times_are_possible_ones(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["conformance", *words])
    assert caught.value.code == 2
    assert "expected" in capsys.readouterr().err


def test_the_list_is_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [case.id for case in CASES]


def test_what_is_left_out_is_not_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", "--list", "--only", "UNK-*", "--only", "OAI-01", "--except", "UNK-0[1-5]"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["UNK-06", "OAI-01"]


class Greedy(grpc.GenericRpcHandler):
    """Takes all that comes, whether its replies are read or not."""

    def service(self, _details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:  # type: ignore[type-arg]
        return grpc.stream_stream_rpc_method_handler(
            self._process, ProcessingRequest.FromString, ProcessingResponse.SerializeToString
        )

    def _process(
        self, messages: Iterator[ProcessingRequest], _context: grpc.ServicerContext
    ) -> Iterator[ProcessingResponse]:
        processor, replies = Reference(), SimpleQueue[ProcessingResponse | None]()

        def read() -> None:
            with contextlib.suppress(Exception):  # the call is over
                for message in messages:
                    for reply in processor.receive(message):
                        if isinstance(reply, ProcessingResponse):
                            replies.put(reply)
            replies.put(None)

        threading.Thread(target=read, daemon=True).start()
        yield from iter(replies.get, None)


def test_a_server_that_keeps_what_nobody_reads_is_caught(capsys: pytest.CaptureFixture[str]) -> None:
    server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.max_receive_message_length", 1 << 20)])
    server.add_generic_rpc_handlers((Greedy(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        assert main(["conformance", f"127.0.0.1:{port}", "--only", "LIV-05"]) == 0
    finally:
        server.stop(None).wait()
    told = capsys.readouterr().out
    assert told.startswith("WARN     LIV-05")
    assert "takes 64 MiB while nobody reads its replies" in told


class Bounded(Reference):
    """Ends a call that has more to keep than it may."""

    status = "RESOURCE_EXHAUSTED"

    def receive(self, message: ProcessingRequest) -> list[ProcessingResponse | Closed]:
        self.kept = getattr(self, "kept", 0) + len(message.response_body.body)
        if self.kept > 1 << 20:
            return [Closed(self.status, "1 MiB is kept")]
        replies = super().receive(message)
        return [] if message.HasField("response_body") and not message.response_body.end_of_stream else replies


class BoundedByAccident(Bounded):
    status = "INTERNAL"


@pytest.mark.parametrize("server", [Bounded, BoundedByAccident])
def test_a_server_that_ends_the_call_keeps_nothing(server: type[Bounded], capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody reads its end either: to gRPC the call goes on, and takes all that is sent."""
    for target in serving(server):
        assert main(["conformance", target, "--only", "LIV-05"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("PASS     LIV-05")
    assert f"it ends the call: {server.status}" in told


@pytest.mark.parametrize(
    ("told", "complaint"),
    [
        ({"pases": {}}, "pases: no such field; there are: layouts, limits,"),
        ({"passes": {"headers": {"a": 1}}}, "passes.headers.a: expected text"),
        ({"passes": {"body": "a", "json": {}}}, "passes.json: there is a body already"),
        ({"metadata_context": {"a": "b"}}, "metadata_context: expected a mapping of namespaces to mappings"),
        ({"metadata_context": {"a": {"b": 1}}}, "metadata_context.a.b: expected text"),
        ({"refused": {"path": "/"}}, "refused.status: expected the status of the refusal, 200 to 599"),
        ({"profiles": []}, "profiles: expected at least one of core, mutating, openai"),
        ({"metadata": {"A B": "x"}}, "metadata.a b: expected a name of a-z, 0-9, _, - and ., without grpc- or -bin"),
        ({"metadata": {"grpc-timeout": "1S"}}, "metadata.grpc-timeout: expected a name of a-z"),
        ({"metadata": {"a": "\n"}}, "metadata.a: expected printable ASCII"),
        ({"openai": {"headers": {"a": 1}}}, "openai.headers.a: expected text"),
        ({"openai": {"key": "a"}}, "openai.key: no such field; there are: headers, model, path, text"),
        ({"layouts": ["NONE/BUFFERED_PARTIAL"]}, "layouts[0]: expected one of NONE/NONE,"),
        ({"layouts": ["BUFFERED"]}, "layouts[0]: expected one of NONE/NONE,"),
        ({"limits": {"too_large_mib": 0.5}}, "limits.too_large_mib: expected a whole number above 0, at most 256"),
        ({"limits": {"streams": 1.5}}, "limits.streams: expected a whole number above 0, at most 1000"),
        ([], "the file: expected a mapping"),
    ],
)
def test_a_wrong_recipe_is_told_by_its_field(told: object, complaint: str) -> None:
    with pytest.raises(RecipeError) as caught:
        read(told)
    assert str(caught.value).startswith(complaint)


@pytest.mark.parametrize("told", [{"response": {"status": 204}}, {"response": {"status": 304}}, {"method": "HEAD"}])
def test_what_has_no_body_gets_none(told: object) -> None:
    response = read({"passes": told}).passes.response
    assert (response.pieces, response.first("content-length")) == ((), b"0" if "method" in str(told) else None)


def test_the_layouts_that_can_be_claimed_are_played() -> None:
    played = [case.layout for case in CASES if case.layout]
    assert read({"layouts": played}).layouts == tuple(played)
    assert len(played) == 20


def test_each_request_to_an_openai_model_has_the_recipes_headers() -> None:
    recipe = read({"openai": {"headers": {"authorization": "Bearer test"}}})
    seen: list[bytes] = []

    class Asks(Reference):
        def receive(self, message: ProcessingRequest) -> list[ProcessingResponse | Closed]:
            for header in message.request_headers.headers.headers:
                seen.extend([header.raw_value] if header.key == "authorization" else [])
            return super().receive(message)

    for case in CASES:
        if case.id in ("OAI-01", "OAI-17"):
            asyncio.run(case.judge(Session(recipe, lambda: DirectLink(Asks()))))
    assert len(seen) >= 2
    assert set(seen) == {b"Bearer test"}


def report() -> Report:
    """Of a server whose words are hostile."""
    words = "a | b <script>alert(1)</script> # \x1b[31m ]]>"
    results = [
        Result(
            f"LAY-{at:02}",
            Level.MUST,
            "core",
            "a title",
            "a source",
            layout,
            Finding(verdict, words, (), (words,)),
            0.1,
        )
        for at, (verdict, layout) in enumerate(
            zip(Verdict, ["NONE/NONE", "BUFFERED/NONE", "BUFFERED/BUFFERED", "", "STREAMED/NONE"], strict=True)
        )
    ]
    return Report("127.0.0.1:9000", "1", ("core",), "defaults", tuple(results))


@pytest.mark.parametrize("name", FORMATS)
def test_a_report_tells_every_verdict_and_is_not_fooled_by_words(name: str) -> None:
    told = FORMATS[name](report())
    assert "\x1b" not in told
    assert "<script>" not in told or name in ("json", "text", "tap")
    if name != "badge":
        assert all(f"LAY-0{at}" in told for at in range(5))
    if name in ("junit", "badge"):
        ET.fromstring(told)
    if name == "html":
        assert told.index("<h2>Layouts</h2>") < told.index('id="LAY-00"')
        assert '<td class="FAIL">FAIL</td>' in told
    if name == "tap":
        assert told.startswith("TAP version 13\n1..5\nok 1 - ")
        assert told.count("\nnot ok") == 1
    if name == "markdown":
        assert "| BUFFERED | SKIP | REFUSES | - | - |" in told


def by_pytest(target: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    plugin = "extproc.conformance.pytest_plugin"
    installed = any(each.value == plugin for each in entry_points(group="pytest11"))  # then it is there by itself
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *([] if installed else ["-p", plugin])]
    command += [f"--rootdir={folder}", "--extproc-target", target, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=folder)


@pytest.mark.long
def test_the_cases_are_tests_for_pytest(spurious: str, tmp_path: Path) -> None:
    done = by_pytest(spurious, tmp_path, "--extproc-only", "LAY-0[15]", "--extproc-only", "LAY-21")
    assert "2 failed, 1 skipped" in done.stdout, done.stdout + done.stderr
    assert "LAY-05 (MUST)" in done.stdout
    assert "< response_headers" in done.stdout
    assert done.returncode == 1


@pytest.mark.long
def test_pytest_takes_profiles_exceptions_and_a_real_envoy(reference: str, tmp_path: Path) -> None:
    """UNK-06 is not played through one."""
    words = ["--extproc-profile", "core", "--extproc-profile", "openai", f"--extproc-envoy={ENVOY}", "-rs"]
    some = ["--extproc-only", "LAY-0[56]", "--extproc-only", "UNK-06", "--extproc-only", "OAI-01"]
    done = by_pytest(reference, tmp_path, *words, *some, "--extproc-except", "LAY-05")
    assert "1 failed, 1 passed, 1 skipped" in done.stdout, done.stdout + done.stderr
    assert "OAI-01 (MUST)" in done.stdout
    assert "not through an Envoy" in done.stdout


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--extproc-only", "LAY-0*", "--extproc-only", "NOPE-1"], "no case is named NOPE-1 in core"),
        (["--extproc-except", "NOPE-*"], "no case is named NOPE-* in core"),
        (["--extproc-only", "LAY-0*", "--extproc-except", "LAY-*"], "--extproc-except leaves no case"),
    ],
)
def test_pytest_refuses_what_the_command_refuses(words: list[str], complaint: str, tmp_path: Path) -> None:
    done = by_pytest("127.0.0.1:1", tmp_path, *words)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: {complaint}\n" in done.stdout + done.stderr


@pytest.mark.long
def test_pytest_says_that_there_is_no_such_envoy(reference: str, tmp_path: Path) -> None:
    done = by_pytest(reference, tmp_path, "--extproc-envoy", "1.2.3")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "1.2.3" in done.stdout + done.stderr


def test_pytest_ends_where_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, object] = {"--extproc-target": "127.0.0.1:1", "--extproc-allow-remote": False}
    told |= dict.fromkeys(("--extproc-recipe", "--extproc-profile", "--extproc-envoy"))
    monkeypatch.setattr("extproc.conformance.client._CONNECT_SECONDS", 0.2)
    run = _Run(cast("pytest.Config", SimpleNamespace(getoption=told.__getitem__)))
    with pytest.raises(pytest.exit.Exception, match="no gRPC server answers") as caught:
        run.judge(CASES[0])
    assert caught.value.returncode == pytest.ExitCode.USAGE_ERROR
    run.close()
