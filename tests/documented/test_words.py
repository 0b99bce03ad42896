"""Every command line that a page shows is understood by its program, whatever it takes to run it.

Ours by their own parsers; kubectl by kubectl itself, which has no cluster here and gets as far as asking for one.
"""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest

from extproc.commands.parser import understood
from tests.documented.blocks import Block, blocks
from tests.site.pages import ROOT

KUBECTL = Path(sys.executable).with_name("kubectl")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


OTHERS = frozenset(
    """
    agentic-api aider cat cd claude cline cn codex curl docker echo git gptme grep gzip helm istioctl kilo kimi kind
    mkdir npm openssl opencode pip pipx pre-commit python3 qwen sed sha256sum skopeo tee vibe
    """.split()
)
"""Programs whose command lines only running them can tell right from wrong: the catalogue says what does."""

SHELL = [block for block in blocks() if block.language == "bash"]
LINES = [(block, words) for block in SHELL for words in block.commands]


def of(*programs: str) -> list[object]:
    """The command lines of these, as parameters of a test."""
    return [
        pytest.param(words, id=f"{block}-{at}") for at, (block, words) in enumerate(LINES) if program(words) in programs
    ]


def program(words: list[str]) -> str:
    """What it is that runs: `extproc` of whatever environment."""
    return words[0].rpartition("/bin/")[2] if "/bin/" in words[0] else words[0]


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_the_shell_can_read_it(block: Block) -> None:
    subprocess.run(["bash", "-n"], input=block.text, text=True, check=True)


def test_every_program_is_known() -> None:
    ours = {"extproc", "python", "make", "pytest", "kubectl", "deploy/k8s/digests.sh"}
    assert {program(words) for _, words in LINES} - ours == OTHERS


def test_no_command_hides_in_a_block_without_a_language() -> None:
    begins = re.compile(r"^(?:extproc|make|curl|kubectl|python3?|pip|npm|docker) ", re.MULTILINE)
    assert [str(block) for block in blocks() if block.language in ("", "text") and begins.search(block.text)] == []


@pytest.mark.parametrize("words", of("extproc"))
def test_ours_are_understood(words: list[str]) -> None:
    assert callable(understood(words[1:]).run)


@pytest.mark.parametrize("words", of("make"))
def test_targets_and_variables_are_those_of_the_makefile(words: list[str]) -> None:
    for word in words[1:]:
        name, assigned, _ = word.partition("=")
        assert re.search(rf"^{name} +\?=" if assigned else rf"^{name}:", MAKEFILE, re.MULTILINE), word


@pytest.mark.parametrize("words", of("python"))
def test_modules_are_there_and_know_their_options(words: list[str]) -> None:
    assert words[1] == "-m"
    found = find_spec(words[2])
    assert found
    assert found.origin
    program = Path(found.origin).with_name("__main__.py") if found.submodule_search_locations else Path(found.origin)
    source = program.read_text(encoding="utf-8")
    assert [word for word in words[3:] if word.startswith("--") and f'"{word}"' not in source] == []


@pytest.mark.parametrize("words", of("pytest"))
def test_tests_that_are_named_are_there(words: list[str]) -> None:
    assert [word for word in words if word.endswith(".py") and not (ROOT / word).exists()] == []


@pytest.mark.parametrize("words", of("docker"))
def test_images_are_made_of_files_that_are_there(words: list[str]) -> None:
    for option, value in pairwise(words):
        if option == "-f":
            assert (ROOT / value).exists()
    assert words[1] != "build" or words[-1] == "."


@pytest.mark.parametrize("words", of("kubectl"))
def test_kubectl_understands(words: list[str], tmp_path: Path) -> None:
    # What `my-gateway` is, tests/k8s/test_readmes.py knows; here any kustomization will do.
    words = ["deploy/k8s/overlays/vllm" if word == "my-gateway" else word for word in words]
    (tmp_path / "api-keys").touch()
    words = [word.replace("=api-keys", f"={tmp_path}/api-keys") for word in words]
    done = subprocess.run(
        [KUBECTL, *words[1:], "--server=http://127.0.0.1:1"],
        cwd=ROOT,
        input="{apiVersion: v1, kind: Namespace, metadata: {name: gateway}}",
        capture_output=True,
        text=True,
        timeout=60,
    )
    said = done.stderr.strip().splitlines()
    assert (
        done.returncode == 0
        or "connection to the server 127.0.0.1:1 was refused" in said[-1]
        or ("connection refused" in said[-1])
    ), done.stderr


def test_a_wrong_option_of_kubectl_would_be_noticed(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="unknown flag"):
        test_kubectl_understands(["kubectl", "get", "pods", "--no-such"], tmp_path)
