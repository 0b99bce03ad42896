"""docs/configuration.md names every setting, its default, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from extproc.config import Backend, Config, Model, parse
from extproc.config.tools import Runs, ToolServer

PAGE = (Path(__file__).parent.parent / "docs" / "configuration.md").read_text()


def settings_of(model: type[BaseModel], prefix: str = "") -> set[str]:
    names: set[str] = set()
    for name, field in model.model_fields.items():
        inside = [getattr(kind, "__origin__", kind) for kind in getattr(field.annotation, "__args__", ())]
        inner = next((kind for kind in [field.annotation, *inside] if is_settings(kind)), None)
        if inner is None:
            names.add(prefix + name)
            continue
        names |= settings_of(inner, f"{prefix}{name}.")
        if (prefix + name) in WITHOUT_MAPPING:
            names.add(prefix + name)
    return names


WITHOUT_MAPPING = ("aliases", "health_check")
"""Settings that are mappings, or a single value that stands for one."""


def is_settings(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def told(heading: str) -> set[str]:
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0].partition("\n### ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


@pytest.mark.parametrize(
    ("heading", "model"),
    [("The whole", Config), ("Models", Model), ("Backends", Backend), ("Tool servers", ToolServer)],
)
def test_every_setting_is_told_and_no_other(heading: str, model: type[BaseModel]) -> None:
    elsewhere = ("models.", "backends.", "tool_servers.")
    own = {name for name in settings_of(model) if not name.startswith(elsewhere)}
    assert told(heading) - {"tool_servers"} == own - {"tool_servers"}
    assert ("tool_servers" in told(heading)) is ("tool_servers" in model.model_fields)


def test_the_defaults_of_runs_are_told() -> None:
    rows = dict(re.findall(r"^\| `runs\.(\w+)` \| `?(\w+)`? \|", PAGE, re.MULTILINE))
    assert rows == {name: f"{value:g}" if isinstance(value, float) else str(value).lower() for name, value in Runs()}


def test_the_example_is_a_configuration() -> None:
    parse(PAGE.partition("```yaml\n")[2].partition("```")[0])
