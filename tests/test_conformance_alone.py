"""The conformance suite without the processor: in an environment with what the extra `conformance` names alone."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.gateway import ENVOY
from tests.pinned import ROOT

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
NAMED = {canonicalize_name(Requirement(each).name) for each in EXTRAS["conformance"]}
SUITE = ROOT / "extproc" / "conformance"


def closure(names: Iterable[str]) -> Iterator[str]:
    """With what these need themselves."""
    for name in names:
        yield name
        required = [Requirement(each) for each in distribution(name).requires or []]
        needed = {each.name for each in required if each.marker is None or each.marker.evaluate({"extra": ""})}
        yield from closure(needed)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Like site-packages after `pip install --no-deps extproc` and one of what the extra names."""
    folder = tmp_path_factory.mktemp("packages")
    (folder / "extproc").symlink_to(ROOT / "extproc")
    for name in set(closure(NAMED)):
        files = distribution(name).files or []
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            link = folder / top
            if top != "google" and not link.exists():
                link.symlink_to(str(distribution(name).locate_file(top)))
    (folder / "google").mkdir()
    (folder / "google" / "protobuf").symlink_to(str(distribution("protobuf").locate_file("google/protobuf")))
    return folder


def run(packages: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Python with these packages alone: -S leaves out the environment's own."""
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    command = [sys.executable, "-S", *words]
    return subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, timeout=120, check=False)


def test_the_processor_is_missing_there(packages: Path) -> None:
    done = run(packages, "-c", "import extproc.exchange.machine")
    assert "ModuleNotFoundError" in done.stderr


def test_it_judges_there_with_a_real_envoy_too(packages: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    command = [sys.executable, "-S", "-m", "extproc.conformance.reference_server", "127.0.0.1:0"]
    with subprocess.Popen(command, env=environment, cwd="/", stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        target = f"127.0.0.1:{server.stdout.readline().split()[-1]}"
        judge = ("-m", "extproc.conformance", target, "--only", "LAY-0[68]", "--only", "LIV-06", "--quiet")
        simulated = run(packages, *judge)
        real = run(packages, *judge, "--envoy", str(ENVOY))
        server.kill()
    assert (simulated.returncode, simulated.stdout) == (0, f"{target}: 3 PASS\n"), simulated.stderr
    assert real.returncode == 0, real.stderr
    assert real.stdout.endswith(": 1 SKIP, 2 PASS\n")


def test_the_extra_names_what_the_suite_imports() -> None:
    imported = set()
    for path in SUITE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {each.name for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module)
    tops = {name.partition(".")[0] for name in imported} - sys.stdlib_module_names - {"extproc", "pytest", "google"}
    distributions = packages_distributions()
    assert {canonicalize_name(distributions[top][0]) for top in tops} | {"protobuf"} == NAMED
