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
_OTHER = "other-"
"""Begins the names of models that are another's like, at a backend of their own."""
ALIASES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "any-native": (("native", "other-native"), ("other-native", "native")),
    "any-template": (("template", "other-template"), ()),
    "any-prompt": (("prompt",), ("other-prompt",)),
}
"""Where there are aliases of several models, the models that have a share, and the fallbacks."""
_SETTINGS = """
models:
  - {{name: native, backend: b{place}, upstream_model: m{version}, tools: native, retry: true}}
  - {{name: template, backend: b{place}, upstream_model: m{version}, tools: template, format: hermes, retry: true}}
  - {{name: prompt, backend: b{place}, upstream_model: m{version}, tools: prompt, retry: true}}
  - {{name: served, backend: b{place}, upstream_model: m{version}, tools: prompt, tool_servers: [web]}}
{others}backends: [{{name: b{place}, address: "127.0.0.1:1", health_check: false{of_a_backend}}}{other_backend}]
tool_servers: [{{name: web, url: "http://127.0.0.1:3/mcp"}}]
runs: {{rounds: {rounds}, seconds: {seconds}, calls_at_once: 2}}
limits: {{first_event_seconds: 30, silence_seconds: 30{of_keys}}}
sockets: /sockets
{keys}
"""
_OTHERS = """\
  - {{name: other-native, {it}, tools: native, retry: true}}
  - {{name: other-template, {it}, tools: template, format: hermes, retry: true}}
  - {{name: other-prompt, {it}, tools: prompt, retry: true}}
"""
_OTHER_BACKEND = ', {{name: b1{place}, address: "127.0.0.1:1", health_check: false{of_a_backend}}}'
_ALIASES = """
aliases:
  any-native:
    split: [{{model: native, weight: {weight}}}, {{model: other-native, weight: 2}}]
    fallback: [other-native, native]
  any-template: {{split: [{{model: template}}, {{model: other-template, weight: {weight}}}]}}
  any-prompt: {{split: [{{model: prompt}}, {{model: other-prompt, weight: 0}}], fallback: [other-prompt]}}
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


def settings(version: int, keys: Path | None = None, *, team: bool = False, aliases: bool = False) -> str:
    """The text of a file; `keys` is the one of API keys. With a `team`, the answers to all requests are counted."""
    of_a_backend = _OF_A_BACKEND.format(at_a_backend=AT_A_BACKEND) if team else ""
    of = {"version": version, "place": version % BACKENDS, "of_a_backend": of_a_backend}
    text = _SETTINGS.format(
        **of,
        rounds=MOST_ROUNDS,
        seconds=RUN_SECONDS,
        keys=f"api_keys: {keys}" if keys is not None else "",
        of_keys=", tokens_per_day: 4000000000" if team else "",
        others=_OTHERS.format(it="backend: b1{place}, upstream_model: n{version}".format(**of)) if aliases else "",
        other_backend=_OTHER_BACKEND.format(**of) if aliases else "",
    )
    if aliases:
        text += _ALIASES.format(weight=version % 3 + 1)
    if team:
        names = (*TEAM_MODELS, *(f"any-{name}" for name in TEAM_MODELS if aliases and f"any-{name}" in ALIASES))
        text += _TEAM.format(models=", ".join(names), at_once=AT_ONCE)
    return text


@cache
def config(version: int, *, team: bool = False, aliases: bool = False) -> Config:
    """The same as it is read; with a team's keys in a file that isn't there."""
    return parse(settings(version, Path("/keys") if team else None, team=team, aliases=aliases))


def version_of(config: Config) -> int:
    return int(config.models[0].upstream_name.removeprefix("m"))


def backend_of(model: str, version: int) -> str:
    return f"b{'1' if model.startswith(_OTHER) else ''}{version % BACKENDS}"


def upstream_of(model: str, version: int) -> str:
    """What its server calls it."""
    return f"{'n' if model.startswith(_OTHER) else 'm'}{version}"
