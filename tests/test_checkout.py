"""A measurement names the commit that it was made with, and whether that is all."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.checkout import UNKNOWN, commit


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("extproc/a.py", "docs/a.md", "bench/parsers/results/a.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1\n")
    who = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    for words in (("init", "-q"), ("add", "-A"), (*who, "commit", "-qm", "first")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def test_a_clean_checkout_is_its_commit(root: Path) -> None:
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, check=True, capture_output=True, text=True).stdout
    assert commit(root) == f"commit {head[:12]}"


@pytest.mark.parametrize("name", ["extproc/a.py", "extproc/new.py"])
def test_changes_of_what_is_measured_are_told(root: Path, name: str) -> None:
    clean = commit(root)
    (root / name).write_text("2\n")
    assert commit(root) == f"{clean} with changes"


@pytest.mark.parametrize("name", ["docs/a.md", "bench/parsers/results/a.json"])
def test_what_is_written_meanwhile_is_none(root: Path, name: str) -> None:
    clean = commit(root)
    (root / name).write_text("2\n")
    assert commit(root) == clean


def test_without_git_nothing_is_claimed(tmp_path: Path) -> None:
    assert commit(tmp_path) == UNKNOWN
