"""docs/configuration.md names every setting, its default, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from extproc.config import Backend, Config, Model, parse

PAGE = (Path(__file__).parent.parent / "docs" / "configuration.md").read_text()


def settings_of(model: type[BaseModel], prefix: str = "") -> set[str]:
    names: set[str] = set()
    for name, field in model.model_fields.items():
        inner = next(
            (kind for kind in [field.annotation, *getattr(field.annotation, "__args__", ())] if is_settings(kind)), None
        )
        names |= settings_of(inner, f"{prefix}{name}.") if inner is not None else {prefix + name}
    return names


def is_settings(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def told(heading: str) -> set[str]:
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0].partition("\n### ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


@pytest.mark.parametrize(("heading", "model"), [("The whole", Config), ("Models", Model), ("Backends", Backend)])
def test_every_setting_is_told_and_no_other(heading: str, model: type[BaseModel]) -> None:
    own = {name for name in settings_of(model) if not name.startswith(("models.", "backends."))}
    assert told(heading) == own


def test_the_example_is_a_configuration() -> None:
    parse(PAGE.partition("```yaml\n")[2].partition("```")[0])
