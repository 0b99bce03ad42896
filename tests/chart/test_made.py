"""The chart is what the generator makes of deploy/k8s, and its values are what its schema says."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
import yaml

from tests.chart.merge import merged, templates
from tests.chart.places import find
from tests.chart.text import template
from tests.chart.tree import Either, Plain, Template, node, plain
from tests.chart.values import VALUES
from tests.generate_chart import BY_HAND, CHART, files, schema

CONFIG = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))["config"]


def beside_defaults(values: dict[str, Any]) -> dict[str, Any]:
    """With the settings of `values.yaml` where they say none, as Helm does it before it looks at the schema."""
    return values | {"config": CONFIG | values.get("config", {})}


def test_the_chart_is_up_to_date() -> None:
    there = {path.relative_to(CHART).as_posix() for path in CHART.rglob("*") if path.is_file()}
    made = files()
    assert there == made.keys() | BY_HAND, "python -m tests.generate_chart"
    stale = [name for name, text in made.items() if (CHART / name).read_text(encoding="utf-8") != text]
    assert not stale, "python -m tests.generate_chart"


def test_the_version_is_the_projects() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert chart["version"] == chart["appVersion"] == values["image"]["tag"]


# ---- values


def test_the_schema_takes_the_values_and_those_of_the_overlays() -> None:
    validator = jsonschema_rs.Draft7Validator(schema())
    for path in [CHART / "values.yaml", *(CHART / "ci").iterdir()]:
        validator.validate(beside_defaults(yaml.safe_load(path.read_text(encoding="utf-8"))))


@pytest.mark.parametrize(
    "values",
    [
        {"imgae": {}},
        {"image": {"tag": 1.1}},
        {"image": {"digest": "sha256:0"}},
        {"image": {"pullPolicy": "always"}},
        {"config": {"listen": "0.0.0.0:8080"}},
        {"config": {"models": {}}},
        {"config": {"teamz": []}},
        {"config": {"limits": {"tokens_per_minute": "many"}}},
        {"config": {"aliases": 3}},
        {"config": {"models": [{"name": "m", "backend": "b", "tools": "sometimes"}]}},
        {"replicas": 0},
        {"autoscaling": {"enabled": "yes"}},
        {"autoscaling": {"minReplicas": 0}},
        {"tls": {"certificate": {"dnsNames": []}}},
        {"runner": {"characters": {"a/b.py": ""}}},
        {"networkPolicy": {"clients": []}},
        {"service": {"type": "ExternalName"}},
        {"processor": {"env": [{"value": "1"}]}},
    ],
    ids=json.dumps,
)
def test_the_schema_refuses_what_is_wrong(values: dict[str, Any]) -> None:
    validator = jsonschema_rs.Draft7Validator(schema())
    assert validator.is_valid(beside_defaults({}))
    assert not validator.is_valid(beside_defaults(values))


def test_the_readme_and_the_values_tell_of_every_value() -> None:
    readme = (CHART / "README.md").read_text(encoding="utf-8")
    values = (CHART / "values.yaml").read_text(encoding="utf-8")
    for each in VALUES:
        assert f"| `{each.path}` | {each.told} |" in readme
        assert each.told[:40] in values


# ---- what becomes of renderings


def test_what_a_component_adds_has_its_condition_where_it_is_added() -> None:
    base: dict[str, Plain] = {"list": [{"name": "a"}, {"name": "b", "deep": ["x"]}], "kept": 1}
    one: dict[str, Plain] = {
        "list": [{"name": "n"}, {"name": "a"}, {"name": "b", "deep": ["x", "y"]}],
        "kept": 1,
        "more": {"k": "v"},
    }
    other: dict[str, Plain] = {"list": [{"name": "a"}, {"name": "b", "deep": ["x"]}, {"name": "m"}], "kept": 1}
    assert written(base, {"ONE": one, "OTHER": other}) == (
        "list:\n"
        "{{- if ONE }}\n  - name: n\n{{- end }}\n"
        "  - name: a\n"
        "  - name: b\n    deep:\n      - x\n{{- if ONE }}\n      - y\n{{- end }}\n"
        "{{- if OTHER }}\n  - name: m\n{{- end }}\n"
        "kept: 1\n"
        "{{- if ONE }}\nmore:\n  k: v\n{{- end }}\n"
    )


def test_what_a_component_replaces_is_one_of_two() -> None:
    assert written({"a": [{"name": "http"}]}, {"ONE": {"a": [{"name": "https"}]}}) == (
        "{{- if ONE }}\na:\n  - name: https\n{{- else }}\na:\n  - name: http\n{{- end }}\n"
    )


def test_the_brackets_of_other_templates_are_no_action() -> None:
    assert written({"a": "of {{ $labels.pod }}"}, {}) == 'a: of {{ "{{" }} $labels.pod }}\n'


def test_a_long_text_goes_to_a_file() -> None:
    long: dict[str, str] = {}
    (made,) = templates([{"kind": "A", "metadata": {"name": "a"}, "text": "line\n" * 500}], {})
    assert '.Files.Get "files/text"' in template(made, long)
    assert long == {"text": "line\n" * 500}


def test_what_a_component_takes_away_has_no_place() -> None:
    with pytest.raises(ValueError, match="ONE takes b away"):
        merged({"a": 1, "b": 1}, [("ONE", {"a": 1})])
    with pytest.raises(ValueError, match="away"):
        templates([{"kind": "A", "metadata": {"name": "a"}}], {"ONE": []})


def test_two_components_that_replace_the_same_thing_have_no_place() -> None:
    assert merged(1, [("ONE", 2), ("OTHER", 1)]) == Either("ONE", 2, 1)
    with pytest.raises(ValueError, match="unpack"):
        merged(1, [("ONE", 2), ("OTHER", 3)])


def test_a_place_is_found_by_keys_names_and_numbers() -> None:
    (made,) = templates([{"kind": "A", "metadata": {"name": "a"}, "list": [{"name": "x.y", "in": [1, 2]}]}], {})
    assert plain(find([made], "A/a:list[x.y].in[1]").value) == 2
    with pytest.raises(KeyError):
        find([made], "A/a:list[z]")


def written(base: dict[str, Plain], variants: dict[str, dict[str, Plain]]) -> str:
    tree = merged(base, list(variants.items())) if variants else node(base)
    return template(Template("A", "a", tree), {})  # type: ignore[arg-type]
