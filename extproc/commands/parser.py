"""The parser of the whole command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from extproc.commands import (
    beginning,
    chatting,
    completing,
    configuration,
    conformance,
    diagnosing,
    probing,
    replaying,
    running,
    watching,
)
from extproc.commands.mistyping import refuse_mistyped
from extproc.commands.options import Commands


def understood(words: Sequence[str]) -> argparse.Namespace:
    """The command line, whose function `run` takes it. Ends the process if it can't be understood, or asks for help."""
    whole, commands = parsers()
    words = conformance.folded(words)
    refuse_mistyped(words, whole, commands)
    return whole.parse_args(words)


def parsers(*, nested: bool = False) -> tuple[argparse.ArgumentParser, Commands]:
    """That of all, and those of the commands; `nested`: a command of two words is a command of a command."""
    whole = argparse.ArgumentParser(
        prog="extproc",
        description="OpenAI tool calling for any model behind vLLM, by an external processor for Envoy.",
        epilog="Begin with `extproc up --scripted`; each command explains itself with --help.",
    )
    whole.add_argument("--version", action=_Version, nargs=0, help="show program's version number and exit")
    commands = whole.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for group in (beginning, running, chatting, configuration, probing, replaying, diagnosing, watching):
        group.add_commands(commands)
    (conformance.add_nested if nested else conformance.add_commands)(commands)
    completing.add_commands(commands)
    return whole, commands


class _Version(argparse.Action):
    """Says it. What knows it is imported for that alone."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"extproc {version('extproc')}")
        parser.exit()
