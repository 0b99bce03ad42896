"""A command that fails says what to type next."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from extproc.config import parse
from extproc.supervisor.backends import complaints
from tests.test_cli import run


def said(*words: str, status: int) -> str:
    """The last line on stderr, which is the error."""
    done = run(*words)
    assert done.status == status
    return done.stderr.splitlines()[-1]


@pytest.fixture
def nobody() -> Iterator[int]:
    """A port that refuses connections, and is nobody else's meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("chekc extproc.yaml", "extproc: error: there is no command 'chekc'; did you mean `extproc check`?"),
        ("srve", "extproc: error: there is no command 'srve'; did you mean `extproc serve`?"),
        ("frobnicate", "extproc: error: there is no command 'frobnicate'; see `extproc --help`"),
        ("serve --confg x.yaml", "extproc serve: error: there is no option --confg; did you mean --config?"),
        ("up --scripted --wach=1:1", "extproc up: error: there is no option --wach; did you mean --watch?"),
        ("check --zzz x.yaml", "extproc check: error: there is no option --zzz; see `extproc check --help`"),
        (
            "conformance tools --pasrer x",
            "extproc conformance tools: error: there is no option --pasrer; did you mean --parser?",
        ),
    ],
)
def test_what_was_mistyped_is_named_with_what_may_have_been_meant(typed: str, told: str) -> None:
    assert said(*typed.split(), status=2) == told


def test_what_argparse_understands_is_not_mistyped(tmp_path: Path) -> None:
    """An option cut short, a value with a blank, and what follows on `--`."""
    assert said("formats", "--tab", status=2).endswith("--table needs the NAME of a format of the list")
    assert "can't be read" in said("check", "--conf", f"{tmp_path}/--a b", status=1)
    assert "'--nope'" in said("formats", "--", "--nope", status=1)


def test_no_command_at_all_is_told_where_to_begin() -> None:
    told = "extproc: error: a command is missing; begin with `extproc up --scripted`, or see `extproc --help`"
    assert said(status=2) == told


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (
            "",
            "no service that counts, and nobody whose requests; set `rate_limit_service`, and `api_keys` or `jwt`",
        ),
        ("api_keys: /k\n", "no service that counts; set `rate_limit_service`"),
        (
            "api_keys: /k\nrate_limit_service: {address: 'r:1'}\nlimits: {requests_per_minute: null}\n",
            "no limit; set one in tokens or of requests in `limits` or in an entry of `teams`",
        ),
    ],
)
def test_without_limits_for_the_service_it_is_told_what_is_missing(settings: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "extproc.yaml"
    least = "models: [{name: m, backend: b, tools: prompt}]\nbackends: [{name: b, address: 'b:1'}]\n"
    file.write_text(least + settings)
    assert said("limits", str(file), status=1) == f"extproc: {file}: {why}, and try again"


@pytest.mark.parametrize("command", [["check"], ["up", "--config"], ["envoy", "--config"], ["watch", "--config"]])
def test_a_configuration_that_is_not_there_can_be_made(command: list[str], tmp_path: Path) -> None:
    path = tmp_path / "my file.yaml"
    assert said(*command, str(path), status=1) == (
        f"extproc: {path}: can't be read: No such file or directory; `extproc init --file '{path}'` writes one"
    )


@pytest.mark.parametrize("command", ["serve", "runner"])
def test_so_it_can_for_those_that_log(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert json.loads(said(command, "--config", "missing.yaml", status=1))["message"] == (
        "missing.yaml: can't be read: No such file or directory; `extproc init --file missing.yaml` writes one"
    )


def test_a_server_that_is_not_there_can_be_done_without(nobody: int, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{nobody}"
    expected = f"extproc: {url}: connection refused; is vLLM running there? `extproc up --scripted` does without"
    assert said("probe", url, status=1) == expected
    made = tmp_path / "extproc.yaml"
    assert said("init", url, "--listen", "127.0.0.1:1", "--file", str(made), status=1) == expected
    assert not made.exists()


def test_a_backend_that_does_not_answer_can_be_probed(nobody: int) -> None:
    model = "models: [{name: m, backend: b, tools: prompt}]\n"
    for tls, scheme in (("", "http"), (", tls: {}", "https")):
        config = parse(f"{model}backends: [{{name: b, address: '127.0.0.1:{nobody}'{tls}}}]")
        (told,) = asyncio.run(complaints(config))
        assert told.endswith(f"until it is up; see `extproc probe {scheme}://127.0.0.1:{nobody}`")


@pytest.mark.parametrize("command", ["replay", "diagnose"])
def test_of_several_recordings_those_that_are_there_are_told_of(command: str, tmp_path: Path) -> None:
    there = next((Path(__file__).parent / "recordings/reports").glob("*.json"))
    missing = tmp_path / "exchange.json"
    done = run(command, str(missing), str(tmp_path), str(there))
    assert done.status == 1
    assert done.stderr.splitlines() == [
        f"extproc: {missing}: no such file; `extproc record DIRECTORY --backend URL` makes recordings",
        f"extproc: {tmp_path}: can't be read: Is a directory",
    ]
    assert done.stdout.startswith(f"{there}:")
