"""How many file descriptors a gateway needs, and how many this process may have.

Envoy doesn't survive it when a socket can't be made for want of a descriptor: it dies with all its connections. So
the limit has to be raised as far as it goes, and the connections that are let in kept below what it has room for.
Limits are inherited: those of `extproc up` are Envoy's and the processor's too.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress

PER_CONNECTION = 2
"""A client's own, and one to a backend: over HTTP/1.1 to backends each request under way has a connection."""
PER_WORKER = 8
"""Of an Envoy worker, one for each core: 5 for events, timers and the listener (counted with Envoy 1.40), and what it
has open to the processor."""
RESERVED = 64
"""For what there is once: logs, the admin interface and its visitors, files that are watched, health checks."""
ENOUGH = 1 << 20
"""No more is asked for: some systems have limits of a thousand millions, and programs that make tables of that size."""


def descriptors_needed(connections: int, workers: int | None = None) -> int:
    """What an Envoy needs for so many connections of clients. `workers`: its threads; one for each core by default."""
    return _fixed(workers) + PER_CONNECTION * connections


def connections_that_fit(limit: int, workers: int | None = None) -> int:
    """How many connections of clients an Envoy can take with this limit of descriptors; at least one."""
    return max(1, (limit - _fixed(workers)) // PER_CONNECTION)


def descriptor_limit() -> int:
    """How many descriptors this process, and what it starts, may have now."""
    return _number(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def raise_descriptor_limit() -> int:
    """Have as many as the hard limit allows, or ENOUGH; returns the limit that holds then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(_number(hard), ENOUGH)
    if _number(soft) < wanted:
        with suppress(OSError, ValueError):  # macOS has a limit of its own below the hard one
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return descriptor_limit()


def _fixed(workers: int | None) -> int:
    return RESERVED + PER_WORKER * (workers if workers is not None else os.cpu_count() or 1)


def _number(limit: int) -> int:
    return ENOUGH if limit == resource.RLIM_INFINITY else limit


def too_few(connections: int, limit: int) -> str | None:
    """What a person should know of a limit that has no room for so many connections of clients."""
    needed = descriptors_needed(connections)
    if needed <= limit:
        return None
    return (
        f"{limit} file descriptors are allowed, enough for {connections_that_fit(limit)} client connections; "
        f"{connections} need {needed}: raise the hard limit (`ulimit -Hn {needed}`, systemd's LimitNOFILE, docker's "
        "--ulimit nofile)"
    )
