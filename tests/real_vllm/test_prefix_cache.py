"""A conversation that grows finds its earlier turns in vLLM's prefix cache: by vLLM's own count."""

from __future__ import annotations

from typing import Any

import pytest

from tests.real_vllm.conftest import NAME, Gateway
from tests.real_vllm.test_real_vllm import TOOLS

pytestmark = pytest.mark.vllm

_BLOCK = 128
"""Tokens. vLLM caches whole blocks of this size on the CPU; the last one is never full."""


def test_each_turn_finds_the_one_before(gateway: Gateway) -> None:
    messages: list[Any] = [
        {"role": "system", "content": "You help travellers. " * 40},
        {"role": "user", "content": "What is the weather in Paris?"},
    ]
    tools: Any = TOOLS
    before = 0
    for turn in range(5):
        hits = gateway.vllm.count("vllm:prefix_cache_hits_total")
        usage = gateway.openai.chat.completions.create(
            model=NAME,
            messages=messages,
            tools=tools,
            temperature=0,
            max_tokens=1,
        ).usage
        assert usage is not None
        found = gateway.vllm.count("vllm:prefix_cache_hits_total") - hits
        if turn:
            assert found >= before - _BLOCK, f"turn {turn}: {found} of {before} tokens were found"
        before = usage.prompt_tokens
        call = {"id": f"call_{turn}", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{turn}", "content": f"{turn} degrees. " * 30},
        ]
