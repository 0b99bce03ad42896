"""A rate limit service as envoyproxy/ratelimit is one, for tests: its file, its protocol, its counters in a Redis.

The counters are in a real server (Valkey, which speaks Redis's protocol), by the same commands and under the same keys.
Where it differs it is stricter: a file that the real one would refuse, or a descriptor that it would not find a limit
for because of its depth, raises. Source: envoyproxy/ratelimit at commit 05c08d03, src/config/config_impl.go,
src/service/ratelimit.go, src/redis/fixed_cache_impl.go, src/limiter/base_limiter.go, src/utils/utilities.go.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import grpc
import yaml
from envoy_data_plane.envoy.config.core.v3 import HeaderValue
from envoy_data_plane.envoy.extensions.common.ratelimit import v3 as common
from envoy_data_plane.envoy.service.ratelimit import v3 as protocol

SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_KNOWN = {
    "": {"domain", "descriptors"},
    "descriptors": {"key", "value", "rate_limit", "descriptors", "shadow_mode", "quota_mode", "detailed_metric"},
    "rate_limit": {"unit", "requests_per_unit", "unlimited", "name", "replaces"},
}
_UNITS = {
    "minute": protocol.RateLimitResponseRateLimitUnit.MINUTE,
    "day": protocol.RateLimitResponseRateLimitUnit.DAY,
}


@dataclass(frozen=True)
class Limit:
    unit: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Told:
    """What the service was told once, for one descriptor, and counted."""

    key: str
    value: str
    tokens: int
    counted: int
    """With these, in the counter's time."""
    limit: Limit
    beginning: int
    """Of the counter's time, by the service's clock."""
    at: float
    """By `time.monotonic`, when it was counted."""


def rate_limits_by(should_rate_limit: Callable[[bytes, Any], Any]) -> grpc.GenericRpcHandler:
    """The protocol's one method, by a function of serialised messages: a coroutine where the server is asyncio's."""
    method: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(should_rate_limit)
    service = "envoy.service.ratelimit.v3.RateLimitService"
    return grpc.method_handlers_generic_handler(service, {"ShouldRateLimit": method})


class RateLimits:
    """The service. `counters` is a client of the Redis, `environment` what it is started with, `clock` in seconds."""

    def __init__(self, file: str, counters: Any, environment: Mapping[str, str], clock: Callable[[], int]) -> None:
        self.asked = 0
        """How many calls there were."""
        self.told: list[Told] = []
        """All that it has counted, in some order."""
        self._counters = counters
        self.environment = environment
        self._clock = clock
        self.read(file)

    def read(self, file: str) -> None:
        """Go by this file from now on."""
        root = yaml.safe_load(file)
        _check(root, "")
        self._domain: str = root["domain"]
        limits: dict[str, Limit] = {}
        for each in root["descriptors"]:
            _check(each, "descriptors")
            _check(each["rate_limit"], "rate_limit")
            limit = Limit(each["rate_limit"]["unit"], each["rate_limit"]["requests_per_unit"])
            assert limit.unit in SECONDS
            assert 0 <= limit.tokens < 1 << 32
            name = f"{each['key']}_{each['value']}" if each.get("value") else each["key"]
            assert name not in limits, f"duplicate descriptor composite key '{self._domain}.{name}'"
            limits[name] = limit
        self._limits = limits

    def used(self, key: str, value: str) -> int:
        """How many tokens are counted of a descriptor, in its time."""
        limit = self._limit(key, value)
        assert limit is not None
        return int(self._counters.get(self._counter(key, value, limit, self._clock())) or 0)

    @contextmanager
    def served(self, port: int = 0) -> Iterator[int]:
        """Its port."""
        self._made_once()
        server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)])
        server.add_generic_rpc_handlers((rate_limits_by(self._should_rate_limit),))
        port = server.add_insecure_port(f"127.0.0.1:{port}")
        server.start()
        try:
            yield port
        finally:
            server.stop(None).wait()

    def _should_rate_limit(self, message: bytes, _: object) -> bytes:
        self.asked += 1
        request = protocol.RateLimitRequest.parse(message)
        assert request.domain == self._domain
        counting = self._counters.pipeline(transaction=False)
        clock = self._clock()
        found: list[Limit | None] = []
        added: list[tuple[str, str, int, Limit]] = []
        for descriptor in request.descriptors:
            (entry,) = descriptor.entries
            limit = self._limit(entry.key, entry.value)
            found.append(limit)
            if limit is not None:
                addend = descriptor.hits_addend
                if addend is None:
                    addend = max(1, request.hits_addend)
                counter = self._counter(entry.key, entry.value, limit, clock)
                added.append((entry.key, entry.value, addend, limit))
                counting.incrby(counter, addend).expire(counter, SECONDS[limit.unit])
        counts = counting.execute()[::2]
        now = time.monotonic()
        for (key, value, tokens, limit), counted in zip(added, counts, strict=True):
            if tokens:
                self.told.append(Told(key, value, tokens, counted, limit, _beginning(limit, clock), now))
        return bytes(self._response([(each[-1], count) for each, count in zip(added, counts, strict=True)], len(found)))

    def _response(self, counted: list[tuple[Limit, int]], asked: int) -> protocol.RateLimitResponse:
        over = [limit for limit, count in counted if count > limit.tokens]
        code = protocol.RateLimitResponseCode.OVER_LIMIT if over else protocol.RateLimitResponseCode.OK
        response = protocol.RateLimitResponse(overall_code=code)
        for limit, count in counted:
            response.statuses.append(
                protocol.RateLimitResponseDescriptorStatus(
                    code=(
                        protocol.RateLimitResponseCode.OVER_LIMIT
                        if count > limit.tokens
                        else protocol.RateLimitResponseCode.OK
                    ),
                    current_limit=protocol.RateLimitResponseRateLimit(
                        requests_per_unit=limit.tokens, unit=_UNITS[limit.unit]
                    ),
                    limit_remaining=max(0, limit.tokens - count),
                    duration_until_reset=timedelta(seconds=self._left(limit)),
                )
            )
        for _ in range(asked - len(counted)):
            response.statuses.append(protocol.RateLimitResponseDescriptorStatus(code=protocol.RateLimitResponseCode.OK))
        if counted and self.environment.get("LIMIT_RESPONSE_HEADERS_ENABLED") == "true":
            nearest, count = min(counted, key=lambda each: max(0, each[0].tokens - each[1]))
            if over:
                nearest, count = next(each for each in reversed(counted) if each[0] is over[-1])
            told = {
                "LIMIT_LIMIT_HEADER": nearest.tokens,
                "LIMIT_REMAINING_HEADER": max(0, nearest.tokens - count),
                "LIMIT_RESET_HEADER": self._left(nearest),
            }
            response.response_headers_to_add = [
                HeaderValue(key=self.environment[name], value=str(value)) for name, value in told.items()
            ]
        return response

    def _made_once(self) -> None:
        """A message of each kind: the library finishes a class when it is first used, and several threads that use it
        first, at once, have met an unfinished one."""
        entry = common.RateLimitDescriptorEntry(key="k", value="v")
        asked = common.RateLimitDescriptor(entries=[entry], hits_addend=0)
        protocol.RateLimitRequest.parse(bytes(protocol.RateLimitRequest(domain="d", descriptors=[asked])))
        bytes(self._response([(Limit("minute", 1), 2)], 2))

    def _left(self, limit: Limit) -> int:
        return SECONDS[limit.unit] - self._clock() % SECONDS[limit.unit]

    def _limit(self, key: str, value: str) -> Limit | None:
        return self._limits.get(f"{key}_{value}") or self._limits.get(key)

    def _counter(self, key: str, value: str, limit: Limit, clock: int) -> str:
        return f"{self._domain}_{key}_{value}_{_beginning(limit, clock)}"


def _beginning(limit: Limit, clock: int) -> int:
    return clock // SECONDS[limit.unit] * SECONDS[limit.unit]


def _check(fields: Mapping[str, Any], where: str) -> None:
    unknown = fields.keys() - _KNOWN[where]
    assert not unknown, f"config error, unknown key {unknown}"
