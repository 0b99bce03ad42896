"""What both wheels, with the extra `up`, give somebody with an empty environment: two minutes or so and a package
registry, so not among `make test`'s. README.md and docs/supply-chain.md print these commands.

    make test-image

Both wheels are the checkout's. What they need comes in the versions that are pinned: these are pip's constraints,
without their hashes, which pip takes for every package or for none, and ours are just made. What was fetched is held to
the hashes afterwards.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import httpx
import pytest

from tests import distributions
from tests.gateway import free_port
from tests.pinned import OURS, ROOT, found, pins

VERSION = version("extproc")
WHEN = distributions.commit_time()

TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}

PATIENCE = 120


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files that git would take, committed or not."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in distributions.files():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name, follow_symlinks=False)
    return folder


@pytest.fixture(scope="module")
def made(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where both wheels and both source distributions are."""
    return build(checkout, tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, made: Path) -> Iterator[Path]:
    """One with both wheels and the extra `up`, and pip's report of what it has installed."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    constraints = folder / "constraints.txt"
    constraints.write_text("".join(f"{pin.requirement}\n" for pin in pins("dev").values()))
    ours = (f"extproc-{VERSION}-py3-none-any.whl[up]", f"extproc_scripted_vllm-{VERSION}-py3-none-any.whl")
    wheels = [f"{made}/{wheel}" for wheel in ours]
    given = ("--only-binary", ":all:", "--constraint", constraints)
    pip = (folder / "venv/bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check")
    subprocess.run([*pip, "install", *given, "--report", folder / "report.json", *wheels], check=True)
    yield folder
    shutil.rmtree(folder)


def build(checkout: Path, folder: Path) -> Path:
    """All four, made of a copy, since what builds them writes there."""
    source, made = folder / "source", folder / "made"
    shutil.copytree(checkout, source, symlinks=True)
    distributions.build_from(source, made, WHEN)
    return made


def extproc(environment: Path, *arguments: str) -> str:
    command = [str(environment / "venv/bin/extproc"), *arguments]
    return subprocess.run(command, cwd=environment, env={}, check=True, stdout=subprocess.PIPE, text=True).stdout


# What is made


def test_two_builds_are_the_same(checkout: Path, made: Path, tmp_path: Path) -> None:
    again = build(checkout, tmp_path)
    digests = [
        {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
        for folder in (made, again)
    ]
    assert digests[0] == digests[1]
    assert set(digests[0]) == {
        f"{name}-{VERSION}{suffix}"
        for name in ("extproc", "extproc_scripted_vllm")
        for suffix in ("-py3-none-any.whl", ".tar.gz")
    }


def test_the_source_distribution_is_the_checkout(checkout: Path, made: Path) -> None:
    with tarfile.open(made / f"extproc-{VERSION}.tar.gz") as archive:
        names = {member.name.partition("/")[2] for member in archive if not member.isdir()}
    added = {name for name in names if name in ("PKG-INFO", "setup.cfg") or name.startswith("extproc.egg-info/")}
    assert names - added == {str(path.relative_to(checkout)) for path in checkout.rglob("*") if not path.is_dir()}


# What is installed


def test_all_that_was_fetched_has_a_hash_that_is_pinned(environment: Path) -> None:
    report = json.loads((environment / "report.json").read_text())
    fetched = {each["metadata"]["name"]: each["download_info"]["archive_info"] for each in report["install"]}
    hashes = {name: f"sha256:{archive['hashes']['sha256']}" for name, archive in fetched.items() if name not in OURS}
    pinned = {each for pin in pins("dev").values() for each in pin.hashes}
    assert len(hashes) > 40
    assert {name: told for name, told in hashes.items() if told not in pinned} == {}


def test_what_is_there_works_together(environment: Path) -> None:
    subprocess.run([environment / "venv/bin/python", "-m", "pip", "check"], check=True)
    (packages,) = (environment / "venv").glob("lib/python3*/site-packages")
    assert not {"grpcio-tools", "pytest", "textual"} & found(packages).keys(), "of `dev` or `tui`"


# What it does


def test_the_commands_run(environment: Path) -> None:
    assert extproc(environment, "--version") == f"extproc {VERSION}\n"
    assert extproc(environment, "check", str(ROOT / "envoy/extproc.yaml")).endswith("; accepted by Envoy\n")


def test_up_gets_a_call_through_envoy_and_leaves_nothing_behind(environment: Path) -> None:
    url, line = f"http://127.0.0.1:{free_port()}", ""
    command: list[str | Path] = [
        environment / "venv/bin/extproc",
        "up",
        "--scripted",
        "--listen",
        url.removeprefix("http://"),
    ]
    command += ["--quiet", "--characters", ROOT / "envoy/characters"]
    with subprocess.Popen(command, cwd=environment, env={}, stdout=subprocess.PIPE, text=True) as up:
        assert up.stdout
        try:
            while line != "Ctrl-C stops the gateway.\n":
                line = up.stdout.readline()
                assert line, "it ended before it was ready"
            asked = {
                "model": "qwen2.5-coder",
                "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
            }
            answer = httpx.post(f"{url}/v1/chat/completions", json={**asked, "tools": [TOOL]}, timeout=PATIENCE)
            (choice,) = answer.json()["choices"]
            assert choice["finish_reason"] == "tool_calls"
            assert choice["message"]["tool_calls"][0]["function"]["name"] == "get_weather"
            told = {
                "model": "character/narrator",
                "messages": [{"role": "user", "content": "Please log the story event: rain"}],
            }
            answer = httpx.post(f"{url}/v1/chat/completions", json=told, timeout=PATIENCE)
            said = answer.json()["choices"][0]["message"]["content"]
            assert "According to log_story_event" in said  # which may also say that the tool was too slow
            assert any("/envoy.yaml" in line for line in processes_of(environment)), "Envoy runs from there too"
        finally:
            up.send_signal(signal.SIGTERM)
            status = up.wait(PATIENCE)
    assert status == 0
    assert processes_of(environment) == []


def processes_of(environment: Path) -> list[str]:
    """The command lines of all that runs from there."""
    lines = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(process.read_text().replace("\0", " "))
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
    return [line for line in lines if f"{environment}/" in line]
