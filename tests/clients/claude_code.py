"""Runs Claude Code headless at a gateway."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tests.clients.installed import client
from tests.clients.sandbox import SECONDS, Finished, Sandbox


def run_claude(
    sandbox: Sandbox,
    url: str,
    model: str,
    task: str,
    *options: str,
    env: Mapping[str, str] = MappingProxyType({}),
    seconds: float = SECONDS,
) -> Finished:
    """Have it do a task with a model, asking nobody for leave. `options` are more of its own."""
    environment = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_AUTH_TOKEN": "unused",
        "ANTHROPIC_MODEL": model,
        "ANTHROPIC_SMALL_FAST_MODEL": model,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "IS_SANDBOX": "1",
        **env,
    }
    arguments = ("-p", task, "--dangerously-skip-permissions", "--output-format", "stream-json", "--verbose", *options)
    return sandbox.run(client("claude-code"), *arguments, env=environment, seconds=seconds)


def result_of(finished: Finished) -> dict[str, Any]:
    """What it says at its end."""
    lines = finished.json_lines()
    assert lines, finished
    assert lines[-1]["type"] == "result", finished
    return lines[-1]
