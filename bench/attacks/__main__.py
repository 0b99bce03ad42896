"""`python -m bench.attacks [NAME ...] [--seconds 20] [--ulimit N] [--json FILE]`; without names all, in turn."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.attacks import honest, report
from bench.attacks.attack import Attack, Needs
from bench.attacks.kinds import ATTACKS
from bench.attacks.victim import Victim, child, running
from bench.attacks.watch import Seen

_WARM = 2.0
"""Seconds from the first answer of as many requests as there are clients to the first that counts."""
_BEGIN = 60.0
"""Seconds that the clients have to get there, and an attacker to begin."""
_ATTACKER_END = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.list:
        for name, attack in ATTACKS.items():
            print(f"{name:22}{attack.means}")
        return 0
    # So that the children end, whatever ends us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    for name in options.names or ATTACKS:
        result = measure(ATTACKS[name], options)
        print(report.line(result), flush=True)
        if options.json:
            _store(options.json, result)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.attacks", description="Attack the real gateway, and report what honest clients notice."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="attacks (default: all)")
    parser.add_argument("--list", action="store_true", help="show the attacks and what they take")
    parser.add_argument("--seconds", type=float, default=20, help="of the attack (default: %(default)s)")
    parser.add_argument("--baseline", type=float, default=8, help="seconds before it (default: %(default)s)")
    parser.add_argument("--recovery", type=float, default=10, help="seconds after it (default: %(default)s)")
    parser.add_argument("--ulimit", type=int, help="`ulimit -n` of the gateway, instead of the attack's own")
    parser.add_argument("--settings", type=Path, help="YAML that is put behind the gateway's configuration")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="put the results there, beside those of other attacks"
    )
    return parser


def measure(attack: type[Attack], options: argparse.Namespace) -> dict[str, Any]:
    """One attack against a gateway of its own."""
    needs = attack.needs if options.ulimit is None else dataclasses.replace(attack.needs, nofile=options.ulimit)
    more = options.settings.read_text() if options.settings else ""
    with tempfile.TemporaryDirectory(prefix="attack-") as name:
        folder = Path(name)
        with running(needs, folder, more) as victim:
            return _measured(attack, needs, victim, folder, options)


def _measured(
    attack: type[Attack], needs: Needs, victim: Victim, folder: Path, options: argparse.Namespace
) -> dict[str, Any]:
    log = folder / "honest.jsonl"
    settings = {
        "port": victim.port,
        "backend": victim.backend,
        "keys": victim.keys,
        "authority": victim.authority,
    }
    with (
        log.open("wb") as written,
        child([sys.executable, "-m", "bench.attacks.honest", json.dumps(settings)], stdout=written),
    ):
        clients = honest.STREAMS + honest.PLAIN
        _wait_until(lambda: log.read_text().count(f'"{honest.FIRST}"') >= clients)
        time.sleep(_WARM)
        begin = time.monotonic()
        time.sleep(options.baseline)
        quiet = _peaks(victim)
        load = os.getloadavg()[0]
        start, tally = _attack(attack.name, victim, folder, options.seconds)
        end = time.monotonic()
        if victim.alive:
            time.sleep(options.recovery)
        last = time.monotonic()
        alive = victim.alive
    events = report.read(log)
    return {
        "name": attack.name,
        "means": attack.means,
        "needs": dataclasses.asdict(needs),
        "command": f"python -m bench.attacks {attack.name} --seconds {options.seconds:g}"
        + (f" --ulimit {options.ulimit}" if options.ulimit else ""),
        "commit": _commit(),
        "load_average": round(load, 1),
        "baseline": report.as_json(report.Phase.of(events, begin, start)),
        "during": report.as_json(report.Phase.of(events, start, end)),
        "after": report.as_json(report.Phase.of(events, end, last)),
        "recovery_seconds": report.recovery(events, end, last) if alive else None,
        "gateway_alive": alive,
        "processes": {name: _process(seen, quiet[name], start) for name, seen in victim.watch.seen.items()},
        "attacker": tally,
        "said": _last_words(victim.said),
    }


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _BEGIN
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError("the honest clients don't get their answers, or the attacker doesn't begin")
        time.sleep(0.05)


def _attack(name: str, victim: Victim, folder: Path, seconds: float) -> tuple[float, dict[str, Any]]:
    """Run the attacker to its end; when it began, and what it did."""
    command = [sys.executable, "-m", "bench.attacks.attacker", name, "127.0.0.1", str(victim.port)]
    output = folder / "attacker.out"
    with (
        output.open("wb") as written,
        child([*command, victim.attackers_key, str(seconds)], stdout=written) as attacker,
    ):
        _wait_until(lambda: "begins" in output.read_text() or attacker.poll() is not None)
        begun = time.monotonic()
        deadline = begun + seconds + _ATTACKER_END
        while attacker.poll() is None and time.monotonic() < deadline and victim.alive:
            time.sleep(0.05)
    lines = output.read_text().splitlines()
    return begun, dict(json.loads(lines[-1])) if len(lines) > 1 else {}


def _process(seen: Seen, quiet: int, start: float) -> dict[str, Any]:
    return {
        "limit_mb": seen.limit >> 20,
        "quiet_rss_mb": quiet,
        "peak_rss_mb": seen.peak_rss >> 20,
        "peak_anonymous_mb": seen.peak_anonymous >> 20,
        "deaths": [
            {"after": round(death.at - start, 1), "how": death.how} for death in seen.deaths if death.how != "stopped"
        ],
    }


def _peaks(victim: Victim) -> dict[str, int]:
    return {name: seen.peak_rss >> 20 for name, seen in victim.watch.seen.items()}


def _last_words(said: Path) -> list[str]:
    """What `up` itself has to say."""
    return [line for line in said.read_text(errors="replace").splitlines() if line.startswith("extproc: ")][-5:]


def _commit() -> str:
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        shown = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            check=True,
            capture_output=True,
            text=True,
            cwd=Path(__file__).parent,
        )
        return shown.stdout.strip()
    return "unknown"


def _store(path: Path, result: dict[str, Any]) -> None:
    results = json.loads(path.read_text()) if path.exists() else {}
    results[result["name"]] = result
    path.write_text(json.dumps(results, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
