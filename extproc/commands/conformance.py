"""`extproc conformance` and `extproc conformance tools`: the commands of `extproc.conformance` and `extproc.corpus`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from extproc.commands.options import Commands, add
from extproc.conformance.command import EXAMPLES, PURPOSE, add_arguments

TOOLS = "conformance tools"


def add_commands(commands: Commands) -> None:
    add_arguments(add(commands, "conformance", _run, PURPOSE, EXAMPLES))
    _add_tools(commands)


def _add_tools(commands: Commands) -> None:
    from extproc.corpus import command

    tools = add(commands, TOOLS, command.run, command.PURPOSE, "")
    tools.epilog = command.EXPLAINED
    command.add_arguments(tools)


def folded(words: Sequence[str]) -> list[str]:
    """The command line with `conformance tools` as one word, which the parser of arguments takes for a command."""
    return [TOOLS, *words[2:]] if list(words[:2]) == TOOLS.split() else list(words)


def _run(options: argparse.Namespace) -> int:
    from extproc.conformance.command import run

    return run(options)
