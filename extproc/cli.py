"""The `extproc` command: its arguments, and its exit status. What the subcommands do is in `extproc.commands`.

What goes wrong is one line on stderr that says what and where, and exit status 1; a command line that can't be
understood is status 2.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from extproc.server.garbage import collector_off


def main(words: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    with collector_off():
        from extproc.commands.conformance import folded

        parser = _parser()
    options = parser.parse_args(folded(sys.argv[1:] if words is None else words))
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # `extproc formats | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except _told() as error:
        for line in str(error).splitlines():
            print(f"extproc: {line}", file=sys.stderr)
        return 1
    return status


def _told() -> tuple[type[Exception], ...]:
    """Errors whose text is for a person. What raises them is imported by now, or is only to be told from a bug."""
    from extproc.config import ConfigError
    from extproc.probe import ProbeError
    from extproc.recording.document import RecordingError
    from extproc.supervisor import GatewayError
    from extproc.toolcalls import UnknownFormatError

    return ConfigError, GatewayError, UnknownFormatError, ProbeError, RecordingError, OSError


class _Version(argparse.Action):
    """Says it. What knows it is imported for that alone."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"extproc {version('extproc')}")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    from extproc.commands import (
        beginning,
        chatting,
        configuration,
        conformance,
        diagnosing,
        probing,
        replaying,
        running,
        watching,
    )

    parser = argparse.ArgumentParser(
        prog="extproc",
        description="OpenAI tool calling for any model behind vLLM, by an external processor for Envoy.",
        epilog="Begin with `extproc up --scripted`; each command explains itself with --help.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show program's version number and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for group in (beginning, running, chatting, configuration, probing, replaying, diagnosing, watching, conformance):
        group.add_commands(commands)
    return parser
