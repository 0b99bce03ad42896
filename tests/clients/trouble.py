"""What clients are troubled with: a gateway that loses patience soon, and answers that end too early.

A test of trouble takes `actor` and `gateway` from conftest.py, one of each for all tests of a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.clients.actor import MODEL, Actor
from tests.gateway import Gateway, configured_gateway

TASK = "Create hello.txt with a greeting."
GREETING = "Hello, world! This is a file of one line, and long enough for trouble in its middle.\n"
_HEAD = 'data: {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{"index": 0, '


def chunk(content: str, finish_reason: str | None) -> str:
    """An answer of one chunk; without a reason it ends too early."""
    words, reason = json.dumps(content), json.dumps(finish_reason)
    return f'{_HEAD}"delta": {{"role": "assistant", "content": {words}}}, "finish_reason": {reason}}}]}}\n\n'


@contextmanager
def impatient_gateway(actor: Actor, folder: Path) -> Iterator[Gateway]:
    """`coder` answers in prompt mode, also by Claude's names; `holding` shows no call before it is whole."""
    configuration = f"""
models:
  - {{name: coder, backend: vllm, upstream_model: {MODEL}, tools: prompt}}
  - {{name: holding, backend: vllm, upstream_model: {MODEL}, tools: prompt, invalid_calls: error}}
backends:
  - {{name: vllm, address: "127.0.0.1:{actor.port}", health_check: false}}
aliases: {{"claude-*": coder}}
limits: {{silence_seconds: 3}}
"""
    with configured_gateway(folder, configuration, envoy={"1800s": "9s"}) as gateway:
        yield gateway
