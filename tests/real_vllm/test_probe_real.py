"""`extproc probe` against a real vLLM, started plainly, with a model that was never taught to call tools."""

from __future__ import annotations

import pytest

from extproc.config import parse
from extproc.probe import Origin, probe
from extproc.probe.questions import Forcing
from tests.real_vllm.server import MAX_MODEL_LENGTH, MODEL, VLLM

pytestmark = pytest.mark.vllm


def test_a_plain_vllm_is_found_out(vllm: VLLM) -> None:
    report = probe(Origin.parse(vllm.url))
    [probed] = report.probed
    findings = probed.findings
    assert report.identity == "vLLM 0.32.0"
    assert (findings.card.name, findings.card.context_length) == (MODEL, MAX_MODEL_LENGTH)
    assert findings.auto.accepted is False
    assert findings.none.prompt_tokens is not None
    assert findings.prompt_tokens is not None
    assert findings.none.prompt_tokens > findings.prompt_tokens
    assert findings.rendering is not None
    assert findings.rendering.shows_tools
    assert findings.rendering.call is not None
    assert not findings.chat.reasoning_parser
    assert findings.forcing is Forcing.BINDS


def test_what_is_printed_serves_the_model(vllm: VLLM) -> None:
    config = parse(probe(Origin.parse(vllm.url), MODEL).yaml())
    [model], [backend] = config.models, config.backends
    # The 0.5B sees the tools that its chat template shows, and writes its calls without the template's tags.
    assert (model.name, model.tools, model.format) == (MODEL, "prompt", "hermes")
    assert backend.address == (f"127.0.0.1:{vllm.port}",)
    assert backend.structured_outputs
