"""This project's own server for the conformance suite: how it is started, and its recipe."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from extproc.conformance.recipe import Recipe, read
from tests.gateway import EXTPROC, free_port, until_healthy

CONFIG = """
listen: 127.0.0.1:10000
models:
  - name: conformance
    backend: vllm
    tools: prompt
    format: hermes
backends:
  - name: vllm
    address: 127.0.0.1:8000
"""
"""Nobody listens there: the suite plays the backend."""

_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": _SCHEMA}}
_CALL = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'


def _exchange(model: str, says: str, **more: object) -> dict[str, Any]:
    message = {"role": "user", "content": "The weather in Oslo?"}
    choice = {"index": 0, "message": {"role": "assistant", "content": says}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    answer = {"id": "c-1", "object": "chat.completion", "created": 1, "model": model, "choices": [choice]}
    return {
        "path": "/v1/chat/completions",
        "json": {"model": model, "messages": [message], **more},
        "response": {"json": {**answer, "usage": usage}},
    }


def recipe() -> Recipe:
    told = {
        "profiles": ["core", "mutating", "openai"],
        "passes": _exchange("conformance", "Sunny, I suppose."),
        "refused": {**_exchange("nobody", ""), "status": 404},
        "mutated": _exchange("conformance", _CALL, tools=[_TOOL]),
        "limits": {"reply": 30, "case": 120},  # a busy machine takes seconds to start what reads large bodies
    }
    return replace(read(told), name="ours")


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of the server, as `extproc serve` runs it."""
    config, address = folder / "extproc.yaml", f"127.0.0.1:{free_port()}"
    config.write_text(CONFIG, encoding="utf-8")
    command = [*EXTPROC, "serve", "--config", str(config), "--listen", address, "--sockets", str(folder)]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            until_healthy(address, process)
            yield address
        finally:
            process.terminate()
