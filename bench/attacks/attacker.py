"""The process of one attack: `python -m bench.attacks.attacker NAME HOST PORT KEY SECONDS`; it ends with its tally."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import signal
import sys

from bench.attacks.attack import Target
from bench.attacks.kinds import ATTACKS

_MEMORY = 4 << 30
"""Bytes of address space, so that a mistake here ends here."""


async def _attack(name: str, target: Target, seconds: float) -> None:
    attack = ATTACKS[name](target)
    print("begins", flush=True)
    running = asyncio.create_task(attack.run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    await asyncio.wait((running,), timeout=seconds)
    if not running.done():
        running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    print(json.dumps(attack.tally.json()), flush=True)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    name, host, port, key, seconds = sys.argv[1:]
    asyncio.run(_attack(name, Target(host, int(port), key), float(seconds)))
