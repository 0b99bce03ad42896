"""The simulated host and real Envoys, with real HTTP on both sides, make the same of the same servers.

One release and some of it here, all of it with all releases by `make test-envoys`.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from extproc.cli import main
from extproc.conformance.cases.case import Session
from extproc.conformance.cases.unknown import request_headers
from extproc.conformance.driver import DirectLink
from extproc.conformance.envoys import lab
from extproc.conformance.envoys.comparing import difference
from extproc.conformance.envoys.lab import Measured, measure
from extproc.conformance.envoys.releases import RELEASES, ReleaseError, binary, version
from extproc.conformance.envoys.tap import Tap
from extproc.conformance.faults import FAULTS
from extproc.conformance.host.outcome import Closed, Ending, Outcome
from extproc.conformance.host.settings import Headers, HttpMessage
from extproc.conformance.recipe import Limits
from extproc.conformance.reference import Reference
from extproc.conformance.reference_server import serve
from extproc.conformance.runner import run
from extproc.conformance.verdicts import Report, Verdict
from extproc.wire import SERVICE, ProcessingRequest, ProcessingResponse
from tests import conformance_ours
from tests.gateway import ENVOY
from tests.test_conformance_cases import RECIPE

LATEST = list(RELEASES)[-1]
SMALL = replace(RECIPE, limits=Limits())
"""Without the largest bodies, which the reference may take longer over than a host waits."""
WITH_ENVOYS = replace(SMALL, limits=Limits(reply=10.0))
SOME_CASES = [
    "LAY-0[69]",
    "LAY-20",
    "LAY-26",
    "LAY-29",
    "END-0[35]",
    "END-1[36]",
    "HDR-02",
    "HDR-03",
    "MUT-0[67]",
    "UNK-01",
]
SOME_FAULTS = [
    fault for fault in FAULTS if fault.name in ("twice", "a body", "an early end", "value alone", "the method")
]

every_release = pytest.mark.parametrize("release", RELEASES)


@contextlib.contextmanager
def reference_server() -> Iterator[str]:
    """In a process of its own: what grpcio's server has of calls that were broken off may keep it from stopping."""
    command = [sys.executable, "-m", "extproc.conformance.reference_server", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"127.0.0.1:{process.stdout.readline().split()[-1]}"
        process.kill()


def failed(report: Report) -> list[tuple[str, str]]:
    return [(each.id, each.finding.reason) for each in report.results if each.verdict is Verdict.FAIL]


def differing(measured: list[Measured]) -> list[tuple[str, str]]:
    return [(str(each.fault), each.differs) for each in measured if each.differs is not None]


def test_some_cases_pass_through_this_releases_envoy_too() -> None:
    with reference_server() as target:
        report = asyncio.run(run(target, WITH_ENVOYS, envoy=str(ENVOY), patterns=SOME_CASES))
    assert failed(report) == []
    assert report.target == f"{target} through Envoy {LATEST}"
    others = {each.id: each.verdict for each in report.results if each.verdict is not Verdict.PASS}
    assert others == {"UNK-01": Verdict.SKIP}


def test_some_faults_are_what_the_simulated_host_makes_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "_MESSAGE_TIMEOUT", 5.0)  # none of these waits for it
    measured = asyncio.run(measure(ENVOY, SOME_FAULTS))
    assert differing(measured) == []
    found = {each.fault.name: each.effects for each in measured}
    assert found["twice"] == ("500 `spurious_message`",)
    assert found["a body"] == ("the response is cut",)
    assert found["value alone"] == ("200, the response's `x-a` is empty",) or found["value alone"] == (
        "200, the request's `x-a` is empty",
    )
    assert found["the method"] == ("200, as if nothing were wrong; `rejected_header_mutations` counts it",)


def test_the_pinned_envoy_is_the_simulated_one() -> None:
    assert version(ENVOY) == LATEST


@pytest.mark.parametrize("name", ["1.2.3", "./nothing"])
def test_an_envoy_that_isnt_there(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ReleaseError):
        binary(name)
    with reference_server() as target:
        assert main(["conformance", target, "--envoy", name]) == 2
    assert name in capsys.readouterr().err


def outcome(body: bytes, ending: Ending = Ending.COMPLETE) -> Outcome:
    message = HttpMessage(((":status", b"200"),), (body,))
    return Outcome(ending, message, message)


def test_what_is_the_servers_to_choose_is_no_difference() -> None:
    one, two, three = outcome(b'{"id": "call_1a"}'), outcome(b'{"id": "call_2b"}'), outcome(b'{"id": "call_3c"}')
    assert difference(one, two) is not None
    assert difference(one, two, three) is None
    assert difference(one, outcome(b'{"no": "call_2b"}'), three) is not None
    assert difference(one, outcome(b'{"id": "call_2b", '), three) is not None
    assert difference(one, outcome(b'{"id": "call_1a"}', Ending.HUNG)) is not None


def test_a_difference_tells_no_value_of_a_header() -> None:
    def message(headers: Headers, trailers: Headers) -> Outcome:
        told = HttpMessage(((":status", b"200"), *headers), (), trailers)
        return Outcome(Ending.COMPLETE, told, told)

    key, bare = (("authorization", b"Bearer sk-secret"),), message((), ())
    assert difference(message(key, ()), bare) == (
        "the client's header authorization has no value, not 1 value of 16 bytes, or another value"
    )
    assert difference(bare, message((), key)) == "the client's trailers are authorization[16], not none"


class Knowing(Reference):
    """Serves whom the host's filter metadata names."""

    def receive(self, message: ProcessingRequest) -> list[ProcessingResponse | Closed]:
        if message.metadata_context.filter_metadata["a.b"].fields["tenant"].string_value != "t-1":
            return [Closed("PERMISSION_DENIED")]
        return super().receive(message)


def test_between_envoy_and_the_server_each_message_gets_the_recipes_metadata(tmp_path: Path) -> None:
    server, port = serve("127.0.0.1:0", Knowing)
    first = request_headers(Session(RECIPE, lambda: DirectLink(Reference()))).SerializeToString()

    async def passed_on() -> ProcessingResponse:
        async with Tap(tmp_path / "tap", f"127.0.0.1:{port}", (), (("a.b", (("tenant", "t-1"),)),)):
            with grpc.insecure_channel(f"unix:{tmp_path / 'tap'}") as channel:
                process: Any = channel.stream_stream(f"/{SERVICE}/Process")
                [reply] = await asyncio.to_thread(list, process(iter([first]), timeout=10))
        return ProcessingResponse.FromString(reply)

    try:
        assert asyncio.run(passed_on()).HasField("request_headers")
    finally:
        server.stop(None).wait()


@pytest.mark.envoys
@every_release
def test_the_reference_passes_in_each_release(release: str) -> None:
    with reference_server() as target:
        report = asyncio.run(run(target, WITH_ENVOYS, envoy=release))
    assert failed(report) == []
    assert report.count(Verdict.PASS) > 45


@pytest.mark.envoys
@every_release
def test_each_fault_is_what_the_simulated_host_makes_of_it(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "_MESSAGE_TIMEOUT", 2.0)
    measured = asyncio.run(measure(binary(release)))
    assert differing(measured) == []
    assert len(measured) == len(FAULTS)


@pytest.mark.envoys
@every_release
def test_our_server_fails_no_case_in_any_release(release: str) -> None:
    report = conformance_ours.judged(release)
    assert failed(report) == []
    assert report.conforms
