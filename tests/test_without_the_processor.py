"""The commands that judge others, run where the processor's libraries aren't: docs/conformance.md, docs/corpus.md.

The environments are Python's standard library, the package itself, and what a test names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from extproc.corpus import load
from tests.pinned import ROOT
from tests.test_conformance_alone import packages, run

__all__ = ["packages"]

CONSOLE = "import sys; from extproc.cli import main; sys.exit(main())"
"""What pip's script `extproc` does."""


@pytest.fixture(scope="module")
def nothing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Like site-packages after `pip install --no-deps` of the wheel alone."""
    folder = tmp_path_factory.mktemp("nothing")
    (folder / "extproc").symlink_to(ROOT / "extproc")
    return folder


def test_the_suite_runs_by_its_main_command_with_the_extra_alone(packages: Path) -> None:
    listed = run(packages, "-c", CONSOLE, "conformance", "--list", "--only", "LAY-01")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert listed.stdout.startswith("LAY-01 ")
    assert listed.stdout == run(packages, "-m", "extproc.conformance", "--list", "--only", "LAY-01").stdout

    environment = {**os.environ, "PYTHONPATH": str(packages)}
    server = subprocess.Popen(
        [sys.executable, "-S", "-m", "extproc.conformance.reference_server", "127.0.0.1:0"],
        env=environment, cwd="/", stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with server:
        assert server.stdout is not None
        target = f"127.0.0.1:{server.stdout.readline().split()[-1]}"
        judged = run(packages, "-c", CONSOLE, "conformance", target, "--only", "LAY-06", "--quiet")
        server.kill()
    assert (judged.returncode, judged.stdout) == (0, f"{target}: 1 PASS\n"), judged.stderr


def test_its_help_and_its_mistakes_are_of_the_command_that_was_typed(packages: Path) -> None:
    helped = run(packages, "-c", CONSOLE, "conformance", "--help")
    assert helped.returncode == 0
    assert helped.stdout.startswith("usage: extproc conformance ")
    assert "\nextproc conformance 127.0.0.1:9000 --envoy 1.38.3\n" in helped.stdout
    wrong = run(packages, "-c", CONSOLE, "conformance")
    assert wrong.returncode == 2
    assert wrong.stderr == "extproc: say which server: TARGET is HOST:PORT or unix:/path\n"


@pytest.mark.parametrize("command", [("-c", CONSOLE, "conformance"), ("-m", "extproc.conformance")])
def test_a_library_that_the_suite_lacks_is_one_line(nothing: Path, command: tuple[str, ...]) -> None:
    done = run(nothing, *command, "--list")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "extproc: google isn't installed; the suite needs grpcio, protobuf, pyyaml and hpack, "
        "and for real Envoys h11 and h2\n"
    )


@pytest.mark.parametrize("words", [("serve",), ("--version",), (), ("conformance", "model", "http://127.0.0.1:1")])
def test_what_needs_the_processor_is_refused_in_one_line(packages: Path, words: tuple[str, ...]) -> None:
    done = run(packages, "-c", CONSOLE, *words)
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("extproc: the processor isn't installed whole (")
    assert line.endswith("only `extproc conformance` and `extproc conformance tools` run without it")


@pytest.mark.parametrize("command", [("-m", "extproc.corpus"), ("-c", CONSOLE, "conformance", "tools")])
def test_the_corpus_is_read_and_exported_with_nothing_else(nothing: Path, command: tuple[str, ...]) -> None:
    done = run(nothing, *command, "--export", "--format", "hermes")
    assert (done.returncode, done.stderr) == (0, "")
    rows = [json.loads(line) for line in done.stdout.split("\n") if line]
    assert [row["id"] for row in rows] == [row.id for row in load(["hermes"])]


def test_a_parser_of_somebody_elses_is_judged_with_nothing_else(nothing: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text('def parse(given):\n    yield {"content": "".join(given.pieces)}\n')
    words = ("-m", "extproc.corpus", "--format", "hermes", "--parser", "theirs:parse", "--json")
    environment = {**os.environ, "PYTHONPATH": f"{nothing}{os.pathsep}{tmp_path}"}
    done = subprocess.run(
        [sys.executable, "-S", *words], env=environment, cwd="/", capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert json.loads(done.stdout)["scores"]["hermes"]["well_formed"]["rows"] > 0


def test_judging_our_own_parser_there_is_refused_in_one_line(nothing: Path) -> None:
    done = run(nothing, "-m", "extproc.corpus", "--format", "hermes", "--parser", "extproc")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("corpus: ")
    assert done.stderr.count("\n") == 1
