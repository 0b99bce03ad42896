"""Overlays in front of servers that are no vLLM say of them what `extproc probe` does, and so do their READMEs.

The servers answer as in tests/test_probe_servers.py, for the model that the overlay names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from extproc.config import Config, parse
from tests.k8s.rendered import K8S, of_kind, rendered, settings
from tests.played_vllm import CALL, Played, completion, config_of
from tests.test_probe_servers import TOLD, asked, told_of

BEFORE: Mapping[str, tuple[str, Mapping[str, Played]]] = {
    "ollama": ("Ollama, a model with tools", {}),
    # Llama 3.1, which that overlay serves, writes calls without tags.
    "sglang": ("SGLang without a tool parser", {"auto": completion(CALL, prompt=182)}),
    "llama-cpp": ("llama.cpp that found a call", {}),
    "tgi": ("text-generation-inference", {}),
}
"""By overlay: the row of docs/servers.md whose settings it has, and what its model answers besides."""
each_overlay = pytest.mark.parametrize("overlay", BEFORE)


def config(overlay: str) -> Config:
    return parse(settings(rendered(K8S / "overlays" / overlay)))


def listed(answers: Mapping[str, Played], name: str) -> Played:
    """The server's list of models, with another name wherever it has its model's."""
    status, body = answers["models"]
    (card,) = body["data"]
    return status, {**body, "data": [{key: name if value == card["id"] else value for key, value in card.items()}]}


def chosen(made: Config) -> dict[str, Any]:
    """What a server decides of its entries: all but addresses and names for clients."""
    (model,), (backend,) = made.models, made.backends
    return {
        "upstream_name": model.upstream_name,
        **model.model_dump(include={"tools", "format", "repair", "forced", "thinking"}),
        **backend.model_dump(include={"server", "structured_outputs", "health_check"}),
    }


@each_overlay
def test_the_settings_are_what_probe_prints(overlay: str) -> None:
    asks, others = BEFORE[overlay]
    ours = config(overlay)
    name = ours.models[0].upstream_name
    report, _ = asked(TOLD[asks], models=listed(TOLD[asks], name), **others)
    assert chosen(ours) == chosen(config_of(report)), report.yaml()


@each_overlay
def test_the_readme_has_probe_say_what_the_page_does(overlay: str) -> None:
    says, tools = told_of()[BEFORE[overlay][0]]
    readme = (K8S / "overlays" / overlay / "README.md").read_text(encoding="utf-8")
    assert f'"{says}"' in readme
    assert f"prints `tools: {tools}`" in readme
    assert "docs/servers.md#what-extproc-probe-says" in readme


@each_overlay
def test_the_readme_names_the_service_and_the_ports(overlay: str) -> None:
    folder = K8S / "overlays" / overlay
    (to,) = config(overlay).backends[0].endpoints
    service, namespace, _ = to.host.split(".")
    assert f"kubectl port-forward -n {namespace} svc/{service} {to.port}`" in (folder / "README.md").read_text("utf-8")
    (policy,) = of_kind(rendered(folder), "NetworkPolicy")
    (rule,) = (
        rule
        for rule in policy["spec"]["egress"]
        for peer in rule["to"]
        if peer.get("namespaceSelector", {}).get("matchLabels") == {"kubernetes.io/metadata.name": namespace}
    )
    # Each of these Services passes requests on to the pods' port of the same number.
    assert rule["ports"] == [{"port": to.port, "protocol": "TCP"}]
