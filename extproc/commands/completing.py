"""`extproc completion`: what a shell needs to complete our command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from extproc.commands.options import Commands, add
from extproc.installing import by_pip

_SHELLS = ("bash", "zsh", "fish")


def add_commands(commands: Commands) -> None:
    completion = add(
        commands,
        "completion",
        _completion,
        "print a script that makes a shell complete commands and options",
        """
        extproc completion bash > ~/.local/share/bash-completion/completions/extproc
        extproc completion zsh > ~/.zfunc/_extproc           with ~/.zfunc in fpath, before compinit
        extproc completion fish > ~/.config/fish/completions/extproc.fish
        """,
    )
    completion.add_argument("shell", choices=_SHELLS, metavar="SHELL", help=f"one of {', '.join(_SHELLS)}")


def _completion(options: argparse.Namespace) -> int:
    try:
        import shtab
    except ModuleNotFoundError:
        print(f"extproc: this needs shtab; install it with {by_pip('completion')}", file=sys.stderr)
        return 1
    from extproc.commands.parser import parsers

    whole, _ = parsers(nested=True)
    for argument in _arguments(whole):
        if argument.type is Path:
            argument.complete = shtab.DIRECTORY if argument.metavar == "DIRECTORY" else shtab.FILE  # type: ignore[attr-defined]
        elif not argument.option_strings and not argument.choices:
            argument.help = argparse.SUPPRESS  # which no shell can complete, and zsh takes for a command's place
        if isinstance(argument.metavar, str):
            argument.metavar = argument.metavar.replace(":", "-")  # which to zsh begins what completes it
    print(shtab.complete(whole, options.shell))
    return 0


def _arguments(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Those of all commands too."""
    for argument in parser._actions:
        yield argument
        for inner in argument.choices.values() if isinstance(argument.choices, dict) else ():
            yield from _arguments(inner)
