"""`extproc conformance`, `conformance tools`, `conformance model`: the commands of three rooms that judge others."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from extproc.commands.options import Commands, add
from extproc.conformance.command import EXAMPLES, PURPOSE, add_arguments

TOOLS = "conformance tools"
MODEL = "conformance model"


def add_commands(commands: Commands) -> None:
    add_arguments(add(commands, "conformance", _run, PURPOSE, EXAMPLES))
    _add_tools(commands, TOOLS)
    _add_model(commands, MODEL)


def add_nested(commands: Commands) -> None:
    """As a shell sees it: a command with two of its own. To argparse they would stand where its target does."""
    suite = add(commands, "conformance", _run, PURPOSE, EXAMPLES)
    nested = suite.add_subparsers()
    _add_tools(nested, TOOLS.split()[1])
    _add_model(nested, MODEL.split()[1])
    add_arguments(suite)


def _add_tools(commands: Commands, name: str) -> None:
    from extproc.corpus import command

    tools = add(commands, name, command.run, command.PURPOSE, "")
    tools.epilog = command.EXPLAINED
    command.add_arguments(tools)


def _add_model(commands: Commands, name: str) -> None:
    from extproc.model_checks import command

    model = add(commands, name, command.run, command.PURPOSE, "")
    model.epilog = command.EXPLAINED
    command.add_arguments(model)


def folded(words: Sequence[str]) -> list[str]:
    """The command line with `conformance tools` as one word, which the parser of arguments takes for a command."""
    of_two = next((command for command in (TOOLS, MODEL) if list(words[:2]) == command.split()), None)
    return [of_two, *words[2:]] if of_two else list(words)


def _run(options: argparse.Namespace) -> int:
    from extproc.conformance.command import run

    return run(options)
