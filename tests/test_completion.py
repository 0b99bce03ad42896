"""A shell completes our command line."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from extproc.installing import by_pip
from tests.test_cli import run

COMPLETED = """\
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
_shtab_extproc
printf '%s\\n' "${COMPREPLY[@]}"
"""
"""What bash does when somebody presses Tab."""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "extproc"
    done = run("completion", "bash")
    assert done.status == 0
    path.write_text(done.stdout)
    return path


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["ch"], ["chat", "check"]),
        (["serve", "--tls-c"], ["--tls-certificate", "--tls-client-ca"]),
        (["conformance", ""], ["tools", "model"]),
        (["conformance", "--rec"], ["--recipe"]),
        (["conformance", "tools", "--pars"], ["--parser"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["check", "ex"], ["extproc.yaml"]),
        (["up", "--config", "ex"], ["extproc.yaml"]),
        (["record", "rec"], ["recordings"]),
    ],
)
def test_bash_completes(typed: list[str], offered: list[str], script: Path, tmp_path: Path) -> None:
    (tmp_path / "extproc.yaml").touch()
    (tmp_path / "record.txt").touch()
    (tmp_path / "recordings").mkdir()
    bash = shutil.which("bash")
    assert bash, "the tests need bash"
    command: list[str | Path] = [bash, "--norc", "-c", COMPLETED, "bash", script, "extproc", *typed]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (done.stdout.split(), done.stderr) == (offered, "")


@pytest.mark.parametrize(("shell", "begins"), [("zsh", "#compdef extproc\n"), ("fish", "#")])
def test_other_shells_get_theirs(shell: str, begins: str) -> None:
    printed = run("completion", shell).stdout
    assert printed.startswith(begins)
    assert "tls-certificate" in printed
    if there := shutil.which(shell):
        assert subprocess.run([there, "-n"], input=printed, text=True, capture_output=True).stderr == ""


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    done = run("completion", "bash")
    assert (done.status, done.stdout) == (1, "")
    assert done.stderr == f"extproc: this needs shtab; install it with {by_pip('completion')}\n"
