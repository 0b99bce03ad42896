"""`extproc init`: what it asks, what it writes, and what it never does."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from extproc.cli import main
from extproc.config import load
from scripted_vllm import ScriptedVLLM
from tests.gateway import free_port
from tests.played_vllm import NAME


class Typed(io.StringIO):
    """What somebody types at a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def vllm() -> Iterator[ScriptedVLLM]:
    backend = ScriptedVLLM(model=NAME)
    with backend.running():
        yield backend


@pytest.fixture(autouse=True)
def _somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def types(monkeypatch: pytest.MonkeyPatch, *lines: str, stream: type[io.StringIO] = Typed) -> None:
    monkeypatch.setattr("sys.stdin", stream("".join(f"{line}\n" for line in lines)))


def test_two_answers_make_a_configuration_that_holds(
    vllm: ScriptedVLLM, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    types(monkeypatch, vllm.url, "127.0.0.1:18080")
    assert main(["init"]) == 0
    config = load(Path("extproc.yaml"))
    assert (config.listen, [model.name for model in config.models]) == ("127.0.0.1:18080", [NAME])
    assert config.backends[0].address == (f"127.0.0.1:{vllm.port}",)
    assert "as `extproc probe` found it" in Path("extproc.yaml").read_text()
    printed = capsys.readouterr()
    assert printed.err.startswith(
        "Where does vLLM serve? [http://127.0.0.1:8000] Where should clients come in? [127.0.0.1:10000] "
    )
    assert "\n  extproc check extproc.yaml\n  extproc up --config extproc.yaml\n" in printed.out
    assert printed.out.endswith(f"\n  extproc probe {vllm.url} --measure\n")


def test_what_is_told_is_not_asked(vllm: ScriptedVLLM, monkeypatch: pytest.MonkeyPatch) -> None:
    types(monkeypatch)
    assert main(["init", vllm.url, "--listen", "127.0.0.1:18081", "--file", "mine.yaml"]) == 0
    assert load(Path("mine.yaml")).listen == "127.0.0.1:18081"


def test_return_takes_what_is_offered(vllm: ScriptedVLLM, monkeypatch: pytest.MonkeyPatch) -> None:
    types(monkeypatch, "")
    assert main(["init", vllm.url]) == 0
    assert load(Path("extproc.yaml")).listen == "127.0.0.1:10000"


def test_who_mistypes_is_asked_again(
    vllm: ScriptedVLLM, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    types(monkeypatch, "ftp://gpu-host", vllm.url, "nowhere", "127.0.0.1:18082")
    assert main(["init"]) == 0
    assert capsys.readouterr().err.count("?") == 4
    assert load(Path("extproc.yaml")).listen == "127.0.0.1:18082"


def test_a_pipe_is_not_asked_again(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    types(monkeypatch, "ftp://gpu-host", "http://gpu-host", stream=io.StringIO)
    assert main(["init"]) == 1
    assert "ftp://gpu-host" in capsys.readouterr().err
    assert not Path("extproc.yaml").exists()


def test_where_nobody_answers_the_options_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    types(monkeypatch)
    assert main(["init"]) == 1
    assert capsys.readouterr().err.endswith(
        "extproc: nobody answers: give URL and --listen, as `extproc init --help` shows\n"
    )


def test_no_file_is_written_over(vllm: ScriptedVLLM, capsys: pytest.CaptureFixture[str]) -> None:
    Path("extproc.yaml").write_text("mine")
    assert main(["init", vllm.url]) == 1
    assert "extproc.yaml is there already: move it away, or choose another name with --file" in capsys.readouterr().err
    assert Path("extproc.yaml").read_text() == "mine"


def test_a_server_that_is_not_there_leaves_no_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"127.0.0.1:{free_port()}"
    types(monkeypatch, "")
    assert main(["init", f"http://{address}"]) == 1
    assert address in capsys.readouterr().err
    assert not Path("extproc.yaml").exists()
