"""Each block of YAML that a page shows of our configuration is one, once it has what it leaves out."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from extproc.config import Config, ConfigError, parse
from tests.documented.blocks import Block, blocks
from tests.site.pages import ROOT

SETTINGS = [
    block
    for block in blocks()
    if block.language == "yaml"
    and set(re.findall(r"^(\w+):", block.text, re.MULTILINE)) <= set(Config.model_fields)
    and not re.match(r" *- ", block.text)
]


def completed(text: str) -> str:
    """The block, and below it the models and backends that it names or needs."""
    settings: dict[str, Any] = yaml.safe_load(text)
    models, backends = settings.get("models", []), settings.get("backends", [])
    served = {model["backend"] for model in models} or {"gpu"}
    named = {name for team in settings.get("teams", ()) for name in team.get("models", ()) if "/" not in name}
    named |= {settings.get("recording", {}).get("model", "any")}
    for alias in settings.get("aliases", {}).values():
        split = alias["split"] if isinstance(alias, dict) else [{"model": alias}]
        named |= {share["model"] for share in split}
    models = models + [
        {"name": name, "backend": min(served), "tools": "prompt"}
        for name in sorted(named - {model["name"] for model in models})
    ]
    backends = backends + [
        {"name": name, "address": "gpu:8000"} for name in sorted(served - {backend["name"] for backend in backends})
    ]
    return yaml.safe_dump({"characters": "characters", **settings, "models": models, "backends": backends})


def test_the_pages_show_settings() -> None:
    assert len(SETTINGS) > 15


@pytest.mark.parametrize("block", SETTINGS, ids=str)
def test_a_block_is_a_configuration(block: Block, tmp_path: Path) -> None:
    for name in re.findall(r"response_template: (\S+)", block.text):
        (tmp_path / name).parent.mkdir()
        shutil.copy(ROOT / "tests/samples/response_templates/qwen3.json", tmp_path / name)
    parse(completed(block.text), source=str(tmp_path / "extproc.yaml"))


def test_a_setting_that_there_is_not_would_be_noticed() -> None:
    with pytest.raises(ConfigError, match="no such setting"):
        parse(completed("recording: {directory: /tmp, folder: /tmp}\n"))
