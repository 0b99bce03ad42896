"""How our packages are installed is by a file's path: `extproc` on PyPI is somebody else's (docs/supply-chain.md)."""

from __future__ import annotations

import json
import re
import subprocess
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest

from extproc.installing import by_pip
from tests.pinned import ROOT

PAGE = ROOT / "docs" / "supply-chain.md"
WARNING = "`pip install extproc`, with an extra or without one"
NAME = r"extproc(?:[-_]scripted[-_]vllm)?(?![\w/-]|\.\w)"
BARE = re.compile(
    rf"""\b(?:pip3?|uv|pipx)\b[^\n|]*\b(?:install|download|wheel|add|inject)\b[^\n|`{{]*?[ '"]{NAME}"""
    rf"""|\b(?:uvx|uv\ tool\ run|pipx\ run)\b(?![^\n|`]*\ --(?:from|spec)\b)[^\n|`{{]*?[ '"]{NAME}"""
    rf"""|\b(?:uvx?|pipx)\b[^\n|`]*\ --(?:with|from|spec)[ =]['"]?(?:[^\s'"`]*,)?{NAME}"""
)
"""A package of ours by its name: to install it, to run it from an index, and to run something else with it."""
WHEELS = re.compile(r"\b(extproc(?:_scripted_vllm)?)-([0-9][^-]*)-py3-none-any\.whl")


def texts() -> list[Path]:
    """What people read or are told: pages, sources, manifests, the Makefile."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    kinds = {".md", ".py", ".toml", ".sh", ".yaml", ".yml", ".txt", ".Dockerfile", ""}
    names = [name for name in listed.split("\0") if name and not name.startswith("tests/")]
    return [ROOT / name for name in names if Path(name).suffix in kinds and (ROOT / name).is_file()]


def on_one_line(text: str) -> str:
    """Commands that go on behind a backslash as one line each."""
    return text.replace("\\\n", "")


def test_nothing_says_to_install_by_the_bare_name() -> None:
    told = []
    for path in texts():
        text = on_one_line(path.read_text(encoding="utf-8"))
        if path == PAGE:
            assert text.count(WARNING) == 1, "the one place that says why"
            text = text.replace(WARNING, "")
        # An image's own step asks no index at all.
        told += [f"{path.name}: {found[0]}" for found in BARE.finditer(text) if "--no-index" not in found[0]]
    assert told == []


@pytest.mark.parametrize(
    "line",
    [
        "pip install extproc",
        "gateway/bin/pip install 'extproc[up]'",
        "pip install --no-deps extproc && pip install grpcio",
        "pip install --find-links build/wheels extproc-scripted-vllm",
        "uv add extproc",
        "uv tool install 'extproc[up]'",
        "pip install --only-binary :all: -c constraints.txt \\\n  'extproc[up]'",
        "First pip install extproc.",
        "uvx extproc up",
        "uvx --python 3.12 extproc==0.1.0",
        "uvx --from 'extproc[up]' extproc up",
        "uv tool run extproc up",
        "uv run --with extproc serve",
        "uv run --with=grpcio,extproc_scripted_vllm python -m scripted_vllm",
        "pipx run extproc",
        "pipx run --spec extproc extproc up",
    ],
)
def test_a_bare_name_would_be_noticed(line: str) -> None:
    assert BARE.search(on_one_line(line))


def test_a_wheels_path_is_no_bare_name() -> None:
    assert not BARE.search(
        "pip install 'build/wheels/extproc-0.1.0-py3-none-any.whl[up]' build/wheels/extproc_scripted_vllm-0.1.0.whl"
    )
    assert not BARE.search(by_pip("otel"))
    assert not BARE.search("uvx --from build/wheels/extproc-0.1.0-py3-none-any.whl extproc up")
    assert not BARE.search("uv run --with ./scripted_vllm extproc up")
    assert not BARE.search("uv run extproc up"), "what is installed already"


VERSION = version("extproc")
WHEEL = f"extproc-{VERSION}-py3-none-any.whl"


@pytest.mark.parametrize(
    ("name", "direct_url", "told"),
    [
        (f"build/wheels/{WHEEL}", {"archive_info": {}}, "`pip install '{path}[otel]'`"),
        (f"with a blank/{WHEEL}", {"archive_info": {}}, "`pip install '{path}[otel]'`"),
        ("checkout", {"dir_info": {}}, "`pip install '{path}[otel]'`"),
        ("checkout", {"dir_info": {"editable": True}}, "`pip install --editable '{path}[otel]'`"),
        (None, {"archive_info": {}}, f"`pip install '{WHEEL}[otel]'` in the folder of the wheel"),
        (None, None, f"`pip install '{WHEEL}[otel]'` in the folder of the wheel"),
    ],
    ids=["a wheel", "a blank in its path", "a folder", "an editable one", "a wheel that is gone", "an index's"],
)
def test_an_extra_is_installed_from_where_we_came(
    name: str | None, direct_url: dict[str, object] | None, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / (name or "gone.whl")
    if name is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    noted = None if direct_url is None else json.dumps({"url": path.as_uri(), **direct_url})
    monkeypatch.setattr(
        "importlib.metadata.distribution",
        lambda _: SimpleNamespace(version=VERSION, read_text={"direct_url.json": noted}.get),
    )
    assert by_pip("otel") == told.format(path=path)


def test_wheels_are_named_as_they_are_made() -> None:
    named = {found.groups() for path in texts() for found in WHEELS.finditer(path.read_text(encoding="utf-8"))}
    assert named == {(name, version("extproc")) for name in ("extproc", "extproc_scripted_vllm")}
