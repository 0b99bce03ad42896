"""What a release of Envoy makes of each fault, measured; and whether the simulated host makes the same of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from extproc.conformance.driver import DirectLink, play
from extproc.conformance.envoys.comparing import difference
from extproc.conformance.envoys.host import EnvoyHost
from extproc.conformance.envoys.releases import version
from extproc.conformance.faults import FAULTS, Broken, Fault
from extproc.conformance.host.outcome import Ending, Outcome
from extproc.conformance.host.settings import HttpMessage
from extproc.conformance.reference import Reference
from extproc.conformance.reference_server import serve

_MESSAGE_TIMEOUT = 0.5
_TRIES = 3
"""For what may depend on what is on its way."""
_COUNTED = ("rejected_header_mutations", "clear_route_cache_ignored", "override_message_timeout_ignored")
_UNTOLD = frozenset("date x-request-id".split())


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one fault behind one Envoy."""

    fault: Fault
    effects: tuple[str, ...]
    """In a few words each; several, where it depends on what is on its way."""
    endings: tuple[Ending, ...]
    differs: str | None
    """What the simulated host makes otherwise."""


async def measure(
    program: Path, faults: Sequence[Fault] = FAULTS, told: Callable[[Measured], None] = lambda _: None
) -> list[Measured]:
    """Each fault behind this Envoy. Raises ReleaseError and EnvoyError."""
    major, minor, _ = (await asyncio.to_thread(version, program)).split(".")
    making: list[Callable[[], Broken | Reference]] = [Reference]
    server, port = serve("127.0.0.1:0", lambda: making[0]())
    try:
        async with EnvoyHost(program, f"127.0.0.1:{port}", message_timeout=_MESSAGE_TIMEOUT) as host:
            result = []
            for fault in faults:
                settings = replace(fault.settings, release=(int(major), int(minor)))
                making[0] = Reference
                clean = await host.play(settings, fault.exchange)
                making[0] = lambda fault=fault: Broken(fault)  # type: ignore[misc]
                simulated = await play(settings, fault.exchange, DirectLink(Broken(fault)))
                outcomes, effects = [], []
                for _ in range(_TRIES if simulated.ending is Ending.CORRUPT else 1):
                    before = await host.envoy.counters()
                    outcomes.append(await host.play(settings, fault.exchange))
                    after = await host.envoy.counters()
                    counted = [name for name in _COUNTED if after.get(name, 0) > before.get(name, 0)]
                    effects.append(effect(outcomes[-1], clean, counted))
                differences = [difference(simulated, each) for each in outcomes]
                found = Measured(
                    fault,
                    tuple(sorted(set(effects))),
                    tuple(dict.fromkeys(each.ending for each in outcomes)),
                    next((each for each in differences if each is not None), None),
                )
                told(found)
                result.append(found)
            return result
    finally:
        server.stop(None)


def effect(outcome: Outcome, clean: Outcome, counted: Sequence[str] = ()) -> str:
    """What client and upstream notice, beside what they get from a server without the fault."""
    match outcome.ending:
        case Ending.HUNG:
            return "hangs"
        case Ending.CUT:
            return "the response is cut"
        case Ending.IMMEDIATE:
            return f"its body goes out as {outcome.status}"
        case Ending.COMPLETE | Ending.LEFT:
            assert outcome.client is not None
            assert clean.client is not None
            changes = [*_changes("response", clean.client, outcome.client)]
            if clean.upstream is not None and outcome.upstream is not None:
                changes = [*_changes("request", clean.upstream, outcome.upstream), *changes]
            if outcome.ending is Ending.COMPLETE:
                shown = {kind for kind, _, _ in outcome.sent}
                missing = [kind for kind in dict.fromkeys(kind for kind, _, _ in clean.sent) if kind not in shown]
                changes += [f"`{kind}` isn't sent" for kind in missing]
            told = f"{outcome.status}, {', '.join(changes) or 'as if nothing were wrong'}"
            return told + "".join(f"; `{name}` counts it" for name in counted)
        case _:
            detail = outcome.detail.partition(":")[0].rstrip(".").removeprefix("ext_proc_error_")
            return f"{outcome.status} `{detail}`"


def _changes(way: str, wanted: HttpMessage, got: HttpMessage) -> list[str]:
    changes = []
    if len(got.body) < len(wanted.body):
        changes.append(f"{len(got.body)} of the {way}'s {len(wanted.body)} bytes")
    elif got.body != wanted.body:
        changes.append(f"another {way} of {len(got.body)} bytes")
    names = [name for name in dict.fromkeys(name for name, _ in got.headers) if name not in _UNTOLD]
    return changes + [
        f"the {way}'s `{name}` is {_told(got.all(name))}" for name in names if got.all(name) != wanted.all(name)
    ]


def _told(values: list[bytes]) -> str:
    return f"`{b', '.join(values).decode('latin-1')}`" if any(values) else "empty"
