"""What the README prints works as printed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from extproc.cli import main
from extproc.config import parse
from tests.gateway import Gateway, curl

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def questions() -> list[str]:
    return [block for block in blocks("bash") if block.startswith("curl")]


def run(command: str, gateway: Gateway) -> dict[str, object]:
    """A printed command, against the gateway of the tests instead of the one of `make run`."""
    command = command.replace("http://127.0.0.1:10000", gateway.url).replace('"qwen2.5-coder"', '"coder"')
    return dict(json.loads(curl(command)))


def test_the_first_command_gets_a_call(gateway: Gateway) -> None:
    completion = run(questions()[0], gateway)
    assert '"finish_reason": "tool_calls"' in json.dumps(completion)
    assert '{\\"city\\": \\"Paris\\"}' in json.dumps(completion).replace("\\\\", "\\")


def test_the_second_command_gets_an_answer_that_uses_the_result(gateway: Gateway) -> None:
    completion = run(questions()[1], gateway)
    assert '"finish_reason": "stop"' in json.dumps(completion)
    assert "18 degrees" in json.dumps(completion)


def test_what_cline_is_told_is_what_the_page_of_clients_says() -> None:
    """Where `make test-clients` runs it."""
    clients = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
    [printed] = [block for block in blocks("bash") if block.startswith("npm")]
    assert [line for line in printed.splitlines()[:2] if line not in clients] == []
    assert printed.splitlines()[2].startswith('cline "')


def test_the_sample_configuration_is_valid() -> None:
    (sample,) = blocks("yaml")
    config = parse(sample)
    assert config.models[0].upstream_model == "Qwen/Qwen2.5-Coder-7B-Instruct"
    assert yaml.safe_load(sample)["listen"] == config.listen


@pytest.mark.parametrize("command", re.findall(r"^\| `extproc ([\w-]+)", README, re.MULTILINE))
def test_every_command_of_the_table_exists(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    assert f"extproc {command}" in capsys.readouterr().out


def test_what_ci_runs_is_told_whole() -> None:
    targets = re.findall(r"^(lint|site|test(?:-\w+)?):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    run = re.findall(r"\b(lint|site|test(?:-\w+)?)\b", (ROOT / ".ci/run").read_text(encoding="utf-8"))
    assert set(targets) - set(run) == {"test-cluster"}
    for page in (README, (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")):
        assert [name for name in targets if not re.search(rf"`(?:make )?{name}`", page)] == []


def test_every_path_that_is_named_is_there() -> None:
    table = README[README.index("## Where things are") :]
    named = re.findall(r"`([a-z0-9_/]+(?:/|\.py))`", table) + re.findall(r"\]\(([^)]+)\)", README)
    assert named
    missing = [path for path in named if not ((ROOT / path).exists() or (ROOT / "extproc" / path).exists())]
    assert missing == []
