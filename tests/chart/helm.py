"""Helm's own engine: the Go code of Helm 4 as a library, which `make test-chart` installs. No cluster is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import helm_python
import yaml

from tests.generate_chart import CHART
from tests.k8s.rendered import Object


def objects(values: Mapping[str, Any], chart: Path = CHART, release: str = "extproc") -> list[Object]:
    """What `helm install` would send to a cluster. Raises helm_python.HelmError."""
    made = documents(rendered(values, chart, release))
    for each in made:
        assert each.keys() >= {"apiVersion", "kind", "metadata"}, each
    return made


def rendered(values: Mapping[str, Any], chart: Path = CHART, release: str = "extproc") -> dict[str, str]:
    """The text of each template, by its path within the chart; the notes among them."""
    with helm_python.Chart.load(chart) as loaded:
        loaded.validate_schema(dict(values))
        texts: dict[str, str] = loaded.render(dict(values), name=release, namespace="gateway")
    return {name.partition("/")[2]: text for name, text in texts.items()}


def documents(texts: Mapping[str, str]) -> list[Object]:
    manifests = [text for name, text in texts.items() if name.endswith(".yaml")]
    return [each for text in manifests for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each]


def findings(values: Mapping[str, Any]) -> Sequence[str]:
    """What `helm lint --strict` says, but for what it only recommends."""
    done = helm_python.lint(CHART, dict(values), strict=True, namespace="gateway")
    return [f"{each['path']}: {each['error']}" for each in done["messages"] if each["severity"] > 1]
