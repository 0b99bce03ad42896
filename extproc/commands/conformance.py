"""`extproc conformance`: the command of `extproc.conformance` among the others."""

from __future__ import annotations

import argparse

from extproc.commands.options import Commands, add
from extproc.conformance.command import EXAMPLES, PURPOSE, add_arguments


def add_commands(commands: Commands) -> None:
    add_arguments(add(commands, "conformance", _run, PURPOSE, EXAMPLES))


def _run(options: argparse.Namespace) -> int:
    from extproc.conformance.command import run

    return run(options)
