"""Envoy's configuration in parts that Envoy reads again when they change, for the bootstrap that names them.

    clusters.yaml   the backends. A cluster that goes, or that changes, lets its running exchanges end
    routes.yaml     the routes. They hold from the next request on, on connections that are open too
    listener.yaml   all else about the listeners. A change makes a new listener; the old one keeps its connections, and
                    closes each behind its next answer, or when DRAIN_SECONDS are over

Beside them lie the files by which Envoy finds keys and certificates (extproc.envoy.secrets). So what changes most
(models: not in any of them; backends, routes) touches no connection. A file is replaced by renaming, and Envoy watches
the directory: it takes the new one within milliseconds, and shows its version among its statistics. What it refuses, it
takes in part where it can, and says so in its log. Measured with Envoy 1.40.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any

from betterproto2 import Message

from extproc.config import Backend, Config
from extproc.envoy.extensions import type_url
from extproc.envoy.plain import plain, yaml_of
from extproc.envoy.resources import Resources
from extproc.envoy.sources import CLUSTERS, LISTENER, ROUTES, Directory, secret_file

VERSIONED = frozenset({CLUSTERS, ROUTES, LISTENER})
"""Those of which Envoy shows the version that it has taken."""

DRAIN_SECONDS = 24 * 60 * 60
"""How long a listener that was changed keeps its connections. Then it cuts them, with all that runs on them: this must
be longer than any stream. It costs 80 kB for each change."""

ENVOY_ARGUMENTS = ("--drain-time-s", str(DRAIN_SECONDS), "--drain-strategy", "immediate")
"""What Envoy has to be started with. `immediate` is said of connections: the next answer on one that a changed listener
has left closes it. By default they would be closed little by little, over the whole time."""


def files(config: Config, leaving: Sequence[Backend], directory: str) -> dict[str, str]:
    """The texts of all files, in the order in which Envoy needs them.

    Backends that are `leaving` stay beside those of `config`. `directory` is where Envoy finds the files.
    """
    resources = Resources(config, Directory(directory))
    # Of what changes most, models and backends, the listener knows nothing, and the routes know this much.
    settings = config.model_dump_json(exclude={"models", "backends", "aliases", "teams"})
    of_routes = f"{settings}\n{config.default_backend.name}\n{config.routes_by_model}"
    limits = f"{config.rates_of_teams}\n{config.global_limit_kinds}"
    of_listeners = f"{settings}\n{directory}\n{config.asks_itself}\n{limits}"
    return {
        **backend_files(config, leaving, directory),
        ROUTES: _made(ROUTES, of_routes, lambda: _versioned([resources.routes()])),
        LISTENER: _made(LISTENER, of_listeners, lambda: _versioned(resources.listeners())),
    }


_last_made: dict[str, tuple[str, str]] = {}
"""Of a file, what it was made for the last time, and its text: to make both again takes 0.4 seconds."""


def _made(name: str, purpose: str, make: Callable[[], str]) -> str:
    last, text = _last_made.get(name, ("", ""))
    if last != purpose:
        text = make()
        _last_made[name] = purpose, text
    return text


def backend_files(config: Config, leaving: Sequence[Backend], directory: str) -> dict[str, str]:
    """Those of `files` that change when some of `leaving` have left."""
    resources = Resources(config, Directory(directory), leaving)
    # A secret's file stays as it is when the secret changes: it tells where that is.
    return {
        **{secret_file(secret.name): yaml_of(_told([secret])) for secret in resources.secrets()},
        CLUSTERS: _versioned(resources.clusters()),
    }


def version_of(text: str) -> str:
    """The version that the text of one of the three names: Envoy shows it when it has taken the file."""
    return text.partition("\n")[0].removeprefix("version_info: ")


def _told(resources: Iterable[Message]) -> dict[str, Any]:
    """What Envoy expects of a file: a DiscoveryResponse, whose resources are packed, written out."""
    return {"resources": [{"@type": type_url(resource), **plain(resource)} for resource in resources]}


def _versioned(resources: Iterable[Message]) -> str:
    text = yaml_of(_told(resources))
    # With a letter before it, for a version of digits alone would be a number.
    return f"version_info: v{sha256(text.encode()).hexdigest()[:16]}\n{text}"
