"""What envoyproxy/ratelimit has to know of the limits that it counts: the other half of extproc.envoy.global_limits.

One descriptor for each limit, of one entry; a limit that holds for each key alike has no value. Its times begin with
the minute, or with the day by UTC, not with the first request. Source: its README, "Configuration"; what it makes of
Envoy's `hits_addend` by descriptor (0 asks and counts nothing) is in it since December 2024.
"""

from __future__ import annotations

from typing import Any

from extproc.config import Config
from extproc.config.global_limits import GlobalLimit
from extproc.envoy.plain import yaml_of
from extproc.names import LIMITS_DOMAIN

HEAD = """\
# Made by `extproc limits`: change extproc's configuration instead. For envoyproxy/ratelimit (CONFIG_TYPE FILE).
"""

ENVIRONMENT = {
    # Otherwise a key that is over its limit of tokens would cost its team nothing, and a team its keys.
    "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT": "false",
}
"""Variables that the service needs for what is promised to clients."""


def to_yaml(config: Config) -> str:
    """The file that the service reads."""
    descriptors = [_descriptor(limit) for limit in config.global_limits]
    return HEAD + yaml_of({"domain": LIMITS_DOMAIN, "descriptors": descriptors})


def _descriptor(limit: GlobalLimit) -> dict[str, Any]:
    named = {"value": limit.name} if limit.name else {}
    return {
        "key": limit.kind,
        **named,
        "rate_limit": {"unit": limit.unit, "requests_per_unit": limit.most},
    }
