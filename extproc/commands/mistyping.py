"""What was mistyped on the command line, and what may have been meant.

argparse says of a command only which there are, and of an option nothing where another one is missing: the one that was
mistyped.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from extproc.commands.options import Commands


def refuse_mistyped(words: Sequence[str], whole: argparse.ArgumentParser, commands: Commands) -> None:
    """End with a usage error if there is no command, or not this one, or not an option of it. All else is argparse's
    to say."""
    if not words:
        whole.error("a command is missing; begin with `extproc up --scripted`, or see `extproc --help`")
    name = next(iter(words), "-")
    if name.startswith("-"):
        return
    command = commands.choices.get(name)
    if command is None:
        near = _near(name, commands.choices)
        whole.error(
            f"there is no command {name!r}; " + (f"did you mean `extproc {near}`?" if near else "see `extproc --help`")
        )
    options = [option for option in command._option_string_actions if option.startswith("--")]
    for word in words[1:]:
        if word == "--":
            return
        option = word.partition("=")[0]
        if not option.startswith("--") or " " in option:  # which is a value to argparse
            continue
        if not any(known.startswith(option) for known in options):  # it may be cut short
            near = _near(option, options)
            command.error(
                f"there is no option {option}; " + (f"did you mean {near}?" if near else f"see `extproc {name} --help`")
            )


def _near(typed: str, known: Iterable[str]) -> str | None:
    return next(iter(get_close_matches(typed, known, n=1, cutoff=0.7)), None)
