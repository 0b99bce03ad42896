"""Writes docs/cli.md from the parsers of the command line: `python -m tests.generate_cli_docs`.

A test fails when the page is stale.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from textwrap import dedent, indent

from extproc.commands.options import PROCESSOR
from extproc.commands.parser import parsers

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"

_HEAD = """\
# The command line

Every command of `extproc`, with its arguments and options, as `extproc COMMAND --help` prints them.
`extproc --version` prints the version, and `extproc completion` makes your shell complete commands and options.

A command that fails prints one line on standard error: what went wrong and where, and often what to type next. The
exit status is 0 if all went well, 1 if it didn't, and 2 if the command line is wrong. If a command uses them
differently, its section says so.

In defaults, `/run` stands for `$XDG_RUNTIME_DIR` if that is set.

`python -m tests.generate_cli_docs` writes this page from `extproc/commands/`.
"""

_USUAL = "/run/extproc.sock"


def page() -> str:
    """The whole page."""
    whole, _ = parsers(nested=True)
    commands = list(_commands(whole))
    rows = "".join(
        f"| [`{name}`](#{_anchor(name)}) | {_cell((command.description or '').rstrip('.'))} |\n"
        for name, command in commands
    )
    return f"{_HEAD}\n| command | what it does |\n| --- | --- |\n{rows}" + "".join(
        _section(name, command) for name, command in commands
    )


def _commands(
    parser: argparse.ArgumentParser, before: str = "extproc"
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Those that do something themselves, in the order of --help."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                if command.get_default("run"):
                    yield f"{before} {name}", command
                yield from _commands(command, f"{before} {name}")


def _section(name: str, command: argparse.ArgumentParser) -> str:
    arguments = [
        action
        for action in command._actions
        if action.help != argparse.SUPPRESS
        and not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)
    ]
    rows = "".join(f"| {_spelled(action)} | {_told(command, action)} |\n" for action in arguments)
    table = f"\n| argument or option | what it means |\n| --- | --- |\n{rows}" if rows else ""
    said = "".join(map(_said, _parts(command.epilog or "")))
    return f"\n## {name}\n\n{_prose(command.description or '')}\n{table}{said}"


def _parts(epilog: str) -> Iterator[str]:
    """Its paragraphs, and its commands, which are indented."""
    for paragraph in epilog.removeprefix("examples:\n").split("\n\n"):
        for indented, lines in groupby(paragraph.splitlines(), lambda line: line.startswith("  ")):
            text = "\n".join(lines)
            yield indent(dedent(text), "  ") if indented else text


def _said(part: str) -> str:
    """A part as the page has it."""
    if not part.startswith("  "):
        return f"\n{_prose(part)}\n" if part.strip() else ""
    lines = dedent(part).replace(PROCESSOR, f"unix:{_USUAL}").splitlines()
    commands = "\n".join(re.sub(r"(?<=\S)( {2,})(?=[^ #])", r"\1# ", line) for line in lines)
    return f"\n```bash\n{commands}\n```\n"


def _spelled(action: argparse.Action) -> str:
    """As it is typed."""
    value = "" if action.nargs == 0 else _value(action)
    if not action.option_strings:
        return f"`{value}`"
    return ", ".join(f"`{_cell(' '.join(filter(None, (option, value))))}`" for option in action.option_strings)


def _value(action: argparse.Action) -> str:
    metavar = action.metavar if isinstance(action.metavar, str) else None
    name = metavar or ("{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper())
    if action.nargs == "?":
        return f"[{name}]"
    return f"{name} ..." if action.nargs in ("*", "+") else name


def _told(command: argparse.ArgumentParser, action: argparse.Action) -> str:
    formatter = command.formatter_class(prog=command.prog)
    return _cell(formatter._expand_help(action) if action.help else "")


def _cell(text: str) -> str:
    return _prose(text).replace("|", "\\|")


def _prose(text: str) -> str:
    """With what is no markup kept from being some."""
    text = " ".join(text.split()).replace(PROCESSOR, f"unix:{_USUAL}")
    return re.sub(r"(?<!\S)([^\s`]*[*<][^\s`,;]*)", r"`\1`", text)


def _anchor(name: str) -> str:
    return name.replace(" ", "-")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.relative_to(PAGE.parent.parent))
