"""Writes what is made in the Helm chart: `python -m tests.generate_chart`. A test fails when it is stale.

Made are the templates of all objects that kustomize makes of deploy/k8s/base and of the components that the chart has,
`values.yaml`, `values.schema.json`, the table of values in the chart's README, and the values of `ci/`. By hand are
`Chart.yaml`, the rest of the README, `templates/NOTES.txt`, `templates/_helpers.tpl`, and the templates in BY_HAND.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.chart.made import Values, made, overlays
from tests.chart.text import template
from tests.chart.tree import Plain, Template
from tests.chart.values import DEFINITIONS, GROUPS, VALUES, Value

CHART = Path(__file__).parents[1] / "deploy/helm/extproc"

BY_HAND = {
    ".helmignore",
    "Chart.yaml",
    "README.md",
    "templates/NOTES.txt",
    "templates/_helpers.tpl",
    "templates/characters.yaml",
    "templates/extra.yaml",
}
"""Of the README the table of values is made."""

HEAD = "Made by `python -m tests.generate_chart` of deploy/k8s, which says why each thing is as it is: change that."


def files() -> dict[str, str]:
    """The text of each file that is made, by its path within the chart."""
    all_of, defaults = made()
    long: dict[str, str] = {}
    written = {f"templates/{name}.yaml": template(each, long) for name, each in _names(all_of).items()}
    written = {name: f"{{{{- /* {HEAD} */ -}}}}\n{text}" for name, text in written.items()}
    written |= {f"files/{name}": text for name, text in long.items()}
    written |= {f"ci/{name}-values.yaml": _dump(values) for name, values in overlays().items()}
    written["values.yaml"] = values_yaml(defaults)
    written["values.schema.json"] = json.dumps(schema(), indent=2) + "\n"
    written["README.md"] = readme((CHART / "README.md").read_text(encoding="utf-8"), defaults)
    return dict(sorted(written.items()))


_HASH = re.compile("-[bcdfghkmt2456789]{10}$")
"""What kustomize puts behind a name."""


def _names(all_of: Sequence[Template]) -> dict[str, Template]:
    """By kinds, and by names where there are several of a kind."""
    kinds = [each.kind for each in all_of]
    names: dict[str, Template] = {}
    for each in all_of:
        name = f"-{_HASH.sub('', each.name)}" if kinds.count(each.kind) > 1 else ""
        if names.setdefault(f"{each.kind.lower()}{name}", each) is not each:
            raise ValueError(f"two templates of the name {each.kind.lower()}{name}")
    return names


# ---- values.yaml


def values_yaml(defaults: Values) -> str:
    lines = [f"# {HEAD}", "# The chart's README.md has them as a table.", ""]
    return "\n".join([*lines, *_described(_tree(VALUES), defaults, 0)]).rstrip() + "\n"


Tree = dict[str, "Value | Tree"]


def _tree(values: Sequence[Value]) -> Tree:
    root: Tree = {}
    for each in values:
        *parents, last = each.path.split(".")
        here = root
        for name in parents:
            below = here.setdefault(name, {})
            assert isinstance(below, dict), each.path
            here = below
        here[last] = each
    return root


def _described(tree: Tree, defaults: Values, depth: int) -> Iterator[str]:
    for name, below in tree.items():
        told = below.told if isinstance(below, Value) else GROUPS.get(name, "") if depth == 0 else ""
        comment = textwrap.wrap(told, 118 - depth, break_long_words=False, break_on_hyphens=False)
        if isinstance(below, Value):
            block = [*(f"# {line}" for line in comment), *_dump({name: defaults[below.path]}).splitlines()]
        else:
            block = [*(f"# {line}" for line in comment), f"{name}:", *_described(below, defaults, 2)]
        yield from textwrap.indent("\n".join(block), " " * min(depth, 2)).splitlines()
        if depth == 0:
            yield ""


def _dump(values: Mapping[str, Plain]) -> str:
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Indents lists, and writes texts of several lines as they are."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


# ---- values.schema.json


def schema() -> dict[str, Any]:
    """Strict: a value that the chart doesn't know is a slip of the pen."""
    made = _schema(_tree(VALUES))
    made["properties"]["global"] = {"type": "object"}  # Helm's own, where this is part of another chart
    return {"$schema": "http://json-schema.org/draft-07/schema#", **made, "definitions": DEFINITIONS}


def _schema(tree: Tree) -> dict[str, Any]:
    properties = {
        name: {"description": below.told, **below.schema} if isinstance(below, Value) else _schema(below)
        for name, below in tree.items()
    }
    return {"type": "object", "additionalProperties": False, "properties": properties}


# ---- README.md


BEGIN, END = "<!-- made: the values -->\n", "<!-- made until here -->\n"


def readme(text: str, defaults: Values) -> str:
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    assert after, f"no {BEGIN} and {END}"
    rows = [
        f"| `{each.path}` | {each.told.replace('|', chr(92) + '|')} | {_short(defaults[each.path])} |"
        for each in VALUES
    ]
    return "".join(
        [
            before,
            BEGIN,
            "\n",
            *(f"{row}\n" for row in ["| value | what it is | default |", "| --- | --- | --- |", *rows]),
            "\n",
            END,
            after,
        ]
    )


def _short(default: Plain) -> str:
    text = json.dumps(default)
    return f"`{text}`" if len(text) <= 40 else "see `values.yaml`"


if __name__ == "__main__":
    written = files()
    for path in CHART.rglob("*"):
        name = path.relative_to(CHART).as_posix()
        if path.is_file() and name not in written.keys() | BY_HAND:
            path.unlink()
    for name, text in written.items():
        path = CHART / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(Path.cwd()))
