"""`extproc probe`, and what other commands have of it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from extproc.commands.options import Commands, add
from extproc.commands.values import interval, origin

if TYPE_CHECKING:
    from extproc.probe import Report


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
    probe.add_argument("url", type=origin, metavar="URL", help="where it serves, such as http://gpu-host:8000")
    add_what_is_asked(probe)


def add_what_is_asked(command: argparse.ArgumentParser) -> None:
    """The options that say what is asked, and how."""
    command.add_argument("--model", metavar="NAME", help="ask about this model only")
    command.add_argument("--api-key-file", type=Path, metavar="FILE", help="the key that the server asks for")
    command.add_argument("--ca", type=Path, metavar="FILE", help="CA certificates (PEM) to verify the server's against")
    command.add_argument(
        "--timeout",
        type=interval,
        default=120.0,
        metavar="SECONDS",
        help="how long to wait for each answer (default: %(default)g)",
    )


def asked(options: argparse.Namespace) -> Report:
    """What came of asking."""
    from extproc.probe import probe

    return probe(options.url, options.model, api_key_file=options.api_key_file, ca=options.ca, timeout=options.timeout)


def _probe(options: argparse.Namespace) -> int:
    report = asked(options)
    sys.stderr.write(report.summary())
    sys.stdout.write(report.yaml())
    return 0
