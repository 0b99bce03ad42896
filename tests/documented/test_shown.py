"""What pages show of logs, answers and files is what comes."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from pathlib import Path

import pytest
import yaml

from extproc.conformance.recipe import read
from extproc.diagnosis.causes import told
from extproc.diagnosis.diagnosing import diagnose
from extproc.runner.characters.directory import look, tell
from tests.documented.blocks import block
from tests.gateway import Gateway
from tests.k8s.rendered import BASE, Pod, one, rendered
from tests.test_answer import CALL
from tests.test_cli import run
from tests.test_diagnosis import PLANTED
from tests.test_steered_exchanges import CALLS, WRONG, config, is_told
from tests.test_steered_exchanges import Gateway as Steered

NO_TOOL_CALLS = "docs/no-tool-calls.md"


def test_the_diagnosis_is_as_printed(tmp_path: Path) -> None:
    (tmp_path / "exchange.json").write_bytes(PLANTED["other_format"].written())
    said = run("diagnose", tmp_path / "exchange.json").stdout.splitlines()
    assert block(NO_TOOL_CALLS, "recordings/").splitlines()[1:] == said[1:]


def test_the_log_names_the_cause_as_printed() -> None:
    printed = json.loads(block(NO_TOOL_CALLS, '{"level"').replace("Set\n", "Set ").replace(", ...}", "}"))
    found = told(diagnose(PLANTED["other_format"])[0], quotes=False)
    assert printed == {
        "level": found["severity"],
        "message": f"model coder: {found['what']} {found['change']}",
        "cause": found["cause"],
        "page": found["page"],
    }


def test_the_log_of_steps_is_as_printed(caplog: pytest.LogCaptureFixture) -> None:
    gateway = Steered(config(), lambda body: CALL if is_told(body) else WRONG)
    with caplog.at_level(logging.INFO):
        gateway.ask(times=2 * CALLS + 20)
    printed = block("docs/observability.md", "the model 'coder' goes").splitlines()
    assert [re.sub(r"\d+", "N", line) for line in printed] == [
        re.sub(r"\d+", "N", record.message) for record in caplog.records[:2]
    ]


def test_what_is_dropped_is_named_as_printed(gateway: Gateway) -> None:
    name, _, value = block("docs/observability.md", "x-extproc-dropped").strip().partition(": ")
    asked = {"model": "coder", "messages": [{"role": "user", "content": "Hello!"}]}
    answer = gateway.http.post("/v1/chat/completions", json=asked | {key: {} for key in value.split(", ")})
    assert answer.headers[name] == value


def test_the_probes_are_those_of_the_deployment() -> None:
    processor = Pod(one(rendered(BASE), "Deployment", "extproc")).containers["processor"]
    for name, probe in yaml.safe_load(block("docs/observability.md", "startupProbe")).items():
        assert processor[name]["grpc"] == probe["grpc"]


def test_the_recipe_is_one() -> None:
    assert read(yaml.safe_load(block("docs/conformance.md", "profiles:"))).profiles


def test_what_is_wrong_with_a_character_is_told_as_printed(tmp_path: Path) -> None:
    hidden = {"type": "function", "function": {"name": "_hidden", "description": "-", "parameters": {"type": "object"}}}
    listing = {"type": "function", "function": {"name": "a", "description": "-", "parameters": {"type": "array"}}}
    (tmp_path / "broken.py").write_text(f"TOOLS = {[hidden, listing]}")
    [broken] = asyncio.run(look(tmp_path, 256 << 20))
    assert tell(broken) == block("docs/characters.md", "broken.py").splitlines()


def test_the_log_of_a_call_has_the_fields_that_are_printed() -> None:
    """Those that tests/test_run_docs.py holds to the code, of a call without a key."""
    _, printed = map(json.loads, block("docs/characters.md", '{"time"').splitlines())
    whole = json.loads(block("docs/server-tools.md", '{"time"'))
    assert printed.keys() == whole.keys() - {"client"}
