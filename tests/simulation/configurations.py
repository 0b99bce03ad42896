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
AT_ONCE = 3
"""Requests of the team, at all backends,"""
AT_A_BACKEND = 2
"""and at one of them."""
TEAM_MODELS = ("native", "prompt", "served")
"""The only ones that it may ask."""
_SETTINGS = """
models:
  - {{name: native, backend: b{place}, upstream_model: m{version}, tools: native, retry: true}}
  - {{name: template, backend: b{place}, upstream_model: m{version}, tools: template, format: hermes, retry: true}}
  - {{name: prompt, backend: b{place}, upstream_model: m{version}, tools: prompt, retry: true}}
  - {{name: served, backend: b{place}, upstream_model: m{version}, tools: prompt, tool_servers: [web]}}
backends: [{{name: b{place}, address: "127.0.0.1:1", health_check: false{of_a_backend}}}]
tool_servers: [{{name: web, url: "http://127.0.0.1:3/mcp"}}]
runs: {{rounds: {rounds}, seconds: {seconds}, calls_at_once: 2}}
limits: {{first_event_seconds: 30, silence_seconds: 30{of_keys}}}
sockets: /sockets
{keys}
"""
_OF_A_BACKEND = ", priority_scheduling: true, max_batch_requests: {at_a_backend}"
_TEAM = """
teams:
  - name: crew
    models: [{models}]
    concurrent_requests: {at_once}
    tokens_per_minute: 4000000000
    priority: batch
rate_limit_service: {{address: "127.0.0.1:4"}}
"""


def settings(version: int, keys: Path | None = None, *, team: bool = False) -> str:
    """The text of a file; `keys` is the one of API keys. With a `team`, the answers to all requests are counted."""
    text = _SETTINGS.format(
        version=version,
        place=version % BACKENDS,
        rounds=MOST_ROUNDS,
        seconds=RUN_SECONDS,
        keys=f"api_keys: {keys}" if keys is not None else "",
        of_keys=", tokens_per_day: 4000000000" if team else "",
        of_a_backend=_OF_A_BACKEND.format(at_a_backend=AT_A_BACKEND) if team else "",
    )
    return text + _TEAM.format(models=", ".join(TEAM_MODELS), at_once=AT_ONCE) if team else text


@cache
def config(version: int, *, team: bool = False) -> Config:
    """The same as it is read; with a team's keys in a file that isn't there."""
    return parse(settings(version, Path("/keys") if team else None, team=team))


def version_of(config: Config) -> int:
    return int(config.models[0].upstream_name.removeprefix("m"))
