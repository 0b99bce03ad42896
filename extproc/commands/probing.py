"""`extproc probe`, and what other commands have of it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from extproc.commands.options import Commands, add
from extproc.commands.values import between, interval, origin, quarters

if TYPE_CHECKING:
    from extproc.probe import Measuring, Report


def add_commands(commands: Commands) -> None:
    probe = add(
        commands,
        "probe",
        _probe,
        "ask a running server what it is and can do, and print the configuration for it",
        """
        extproc probe http://gpu-host:8000
        extproc probe https://models.example.org --model qwen-coder --api-key-file key > extproc.yaml
        """,
    )
    probe.add_argument("url", type=origin, metavar="URL", help="the server's URL, such as http://gpu-host:8000")
    add_what_is_asked(probe)
    probe.add_argument(
        "--measure",
        action="store_true",
        help="ask each model (but no adapter) questions in each way that its server allows, and recommend the best way",
    )
    probe.add_argument(
        "--questions",
        type=quarters,
        metavar="N",
        help="with --measure: number of questions, a quarter of each kind (default: 40)",
    )
    probe.add_argument("--seed", type=int, metavar="N", help="with --measure: selects the questions (default: 0)")
    probe.add_argument(
        "--concurrency",
        type=between(1, 64),
        metavar="N",
        help="with --measure: number of questions asked at once (default: 8)",
    )


def add_what_is_asked(command: argparse.ArgumentParser) -> None:
    """The options that say what is asked, and how."""
    command.add_argument("--model", metavar="NAME", help="ask about this model only")
    command.add_argument("--api-key-file", type=Path, metavar="FILE", help="holds the server's API key")
    command.add_argument(
        "--ca", type=Path, metavar="FILE", help="verify the server's certificate against these CA certificates (PEM)"
    )
    command.add_argument(
        "--timeout",
        type=interval,
        default=120.0,
        metavar="SECONDS",
        help="how long to wait for each answer (default: %(default)g)",
    )


def asked(options: argparse.Namespace, measuring: Measuring | None = None) -> Report:
    """What came of asking."""
    from extproc.probe import probe

    return probe(
        options.url,
        options.model,
        api_key_file=options.api_key_file,
        ca=options.ca,
        timeout=options.timeout,
        measuring=measuring,
    )


def _probe(options: argparse.Namespace) -> int:
    try:
        report = asked(options, _measuring(options))
    except KeyboardInterrupt:
        sys.stderr.write("\nextproc: stopped\n")
        return 130
    sys.stderr.write(report.summary())
    sys.stdout.write(report.yaml())
    return 0


def _measuring(options: argparse.Namespace) -> Measuring | None:
    from extproc.probe import Measuring

    given = {name: getattr(options, name) for name in ("questions", "seed", "concurrency")}
    given = {name: value for name, value in given.items() if value is not None}
    if not options.measure:
        if given:
            options.misused(f"--{next(iter(given))} is for --measure")
        return None
    return Measuring(**given, told=_tell)


def _tell(way: str, done: int, of: int) -> None:
    """On a terminal each answer, elsewhere each way."""
    terminal = sys.stderr.isatty()
    if terminal or done == of:
        end = "\r" if terminal and done < of else "\n"
        sys.stderr.write(f"{way}: {done} of {of} answered{end}")
        sys.stderr.flush()
