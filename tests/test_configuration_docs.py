"""docs/configuration.md names every setting, its default, and no other; docs/configuration-reference.md is what the
settings' classes say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from extproc.config import Backend, Config, Model, parse
from extproc.config.tools import ToolServer
from tests.generate_configuration_docs import PAGE as REFERENCE
from tests.generate_configuration_docs import page, sections

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


def plain(path: str) -> str:
    return re.sub(r"\[\]|\.NAME", "", path)


def test_the_reference_is_fresh() -> None:
    assert REFERENCE.read_text(encoding="utf-8") == page(), "run `python -m tests.generate_configuration_docs`"


def test_the_reference_tells_every_setting_and_what_it_means() -> None:
    told = [setting for _, settings in sections() for setting in settings]
    assert settings_of(Config) - {plain(setting.path) for setting in told} == set()
    assert [setting.path for setting in told if not setting.meaning] == []
    assert len({setting.path for setting in told}) == len(told)


def test_defaults_that_are_one_value_are_told_by_hand_as_they_are() -> None:
    tables = "".join(re.findall(r"^\| setting \| default \| meaning \|\n((?:\|.*\n)+)", PAGE, re.MULTILINE))
    rows = re.findall(r"^\| (`[^|]+`) \| ([^|]*) \|", tables, re.MULTILINE)
    told: dict[str, str] = {}
    for names, defaults in rows:
        each = defaults.replace("`", "").split(", ")
        paths = re.findall(r"`([^`]+)`", names)
        told |= dict(zip(paths, each if len(each) == len(paths) else each * len(paths), strict=False))
    said_otherwise = {"none", "needed", "as below", "[]", "{}"}
    wrong = []
    for _, settings in sections():
        for setting in settings:
            path = plain(re.sub(r"^(?:models|backends|tool_servers|jwt)(?:\[\])?\.", "", setting.path))
            default = setting.default.strip("`")
            if path in told and default not in said_otherwise and "of them" not in default and told[path] != default:
                wrong.append((setting.path, default, told[path]))
    assert len(told) > 100
    assert wrong == []


def test_the_example_is_a_configuration() -> None:
    parse(PAGE.partition("```yaml\n")[2].partition("```")[0])
