"""How a command is added to the command line, and the options that several of them take."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent, indent
from typing import TypeAlias

from extproc.commands.values import address, seconds, workers

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

PROCESSOR = f"unix:{os.environ.get('XDG_RUNTIME_DIR') or '/run'}/extproc.sock"
"""Where `serve` listens and where `envoy` looks for it, unless told otherwise: a socket that only the same user and
root can connect to. At a port anybody on the machine could, and be taken for Envoy."""
_GRACE = 30.0


def add(
    commands: Commands, name: str, run: Callable[[argparse.Namespace], int], purpose: str, examples: str
) -> argparse.ArgumentParser:
    """A command, which `run` performs; the options get a function `misused` that ends with a usage error."""
    command = commands.add_parser(
        name,
        help=purpose,
        description=purpose[0].upper() + purpose[1:] + ".",
        epilog="examples:\n" + indent(dedent(examples).strip("\n"), "  "),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=run, misused=command.error)
    return command


def add_metrics(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--metrics",
        type=address,
        metavar="HOST:PORT",
        help="serve metrics for Prometheus here, at /metrics (default: nowhere)",
    )


def add_sockets(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--sockets",
        type=Path,
        metavar="DIRECTORY",
        help="directory of the sockets between Envoy, the processor and the runner, instead of the file's",
    )


def add_workers(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--workers",
        type=workers,
        metavar="N|auto",
        help="number of the processor's processes, instead of the file's; auto: one for each core",
    )


def add_grace(command: argparse.ArgumentParser, what: str) -> None:
    command.add_argument(
        "--grace",
        type=seconds,
        default=_GRACE,
        metavar="SECONDS",
        help=f"how long {what} under way may take to end after Ctrl-C or SIGTERM (default: %(default)g)",
    )


def add_envoy_binary(command: argparse.ArgumentParser) -> None:
    command.add_argument("--envoy", metavar="PATH", help="Envoy's binary (default: the installed one)")


def path_or_address(address: str | None) -> str | None:
    """What gRPC calls unix:/path is /path for Envoy."""
    return address.removeprefix("unix:") if address is not None else None
