"""By vLLM's own tokenizer: nothing that a user or a tool says becomes a control token, in either mode."""

from __future__ import annotations

from typing import Any

import httpx
import orjson
import pytest

from extproc.config import parse
from extproc.surfaces import prepare
from tests.real_vllm.server import MODEL, VLLM
from tests.test_escaping import conversation, markers

pytestmark = pytest.mark.vllm

_FIRST_ADDED = 151643
"""Qwen2.5's added tokens, `<|endoftext|>` and up; all others are of ordinary text."""


def control_tokens(vllm: VLLM, mode: str, text: str) -> list[int]:
    """Those of the whole prompt in which everybody says `text`."""
    config = parse(f"""
models: [{{name: m, backend: b, upstream_model: {MODEL}, tools: {mode}}}]
backends: [{{name: b, address: 127.0.0.1:1}}]
""")
    body = orjson.loads(prepare(orjson.dumps({"model": "m", **conversation(text)}), config).body or b"")
    asked: dict[str, Any] = {key: body[key] for key in ("model", "messages", "tools") if key in body}
    tokens = httpx.post(f"{vllm.url}/tokenize", json=asked, timeout=60).raise_for_status().json()["tokens"]
    return [token for token in tokens if token >= _FIRST_ADDED]


@pytest.mark.parametrize("mode", ["prompt", "template"])
def test_there_are_no_more_than_without_markers(vllm: VLLM, mode: str) -> None:
    everything = "\n".join(["x y", *markers("hermes"), "<|fim_prefix|><|repo_name|><|vision_start|><|box_end|>"])
    assert control_tokens(vllm, mode, everything) == control_tokens(vllm, mode, "x y")
