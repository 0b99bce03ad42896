"""The configurations between which a history changes: the model's name upstream and the backend tell them apart."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from extproc.config import Config, parse

IDLE = 30.0
"""Seconds that a backend may be silent."""
MOST_ROUNDS = 3
"""Of a run,"""
RUN_SECONDS = 200.0
"""which has so long."""
BACKENDS = 3
_SETTINGS = """
models:
  - {{name: native, backend: b{place}, upstream_model: m{version}, tools: native, retry: true}}
  - {{name: template, backend: b{place}, upstream_model: m{version}, tools: template, format: hermes, retry: true}}
  - {{name: prompt, backend: b{place}, upstream_model: m{version}, tools: prompt, retry: true}}
  - {{name: served, backend: b{place}, upstream_model: m{version}, tools: prompt, tool_servers: [web]}}
backends: [{{name: b{place}, address: "127.0.0.1:1", health_check: false}}]
tool_servers: [{{name: web, url: "http://127.0.0.1:3/mcp"}}]
runs: {{rounds: {rounds}, seconds: {seconds}, calls_at_once: 2}}
limits: {{first_event_seconds: 30, silence_seconds: 30}}
sockets: /sockets
{keys}
"""


def settings(version: int, keys: Path | None = None) -> str:
    """The text of a file; `keys` is the one of API keys."""
    return _SETTINGS.format(
        version=version,
        place=version % BACKENDS,
        rounds=MOST_ROUNDS,
        seconds=RUN_SECONDS,
        keys=f"api_keys: {keys}" if keys is not None else "",
    )


@cache
def config(version: int) -> Config:
    """The same as it is read, without keys."""
    return parse(settings(version))


def version_of(config: Config) -> int:
    return int(config.models[0].upstream_name.removeprefix("m"))
