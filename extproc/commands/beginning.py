"""`extproc init`: two questions, a look at the backend, and a configuration file that says why it is as it is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from extproc.commands.options import Commands, add
from extproc.commands.probing import add_what_is_asked, asked
from extproc.commands.values import address, origin
from extproc.config import Config, parse

T = TypeVar("T")

_FILE = Path("extproc.yaml")
_BACKEND = "http://127.0.0.1:8000"
_LISTEN: str = Config.model_fields["listen"].default


def add_commands(commands: Commands) -> None:
    init = add(
        commands,
        "init",
        _init,
        "write a configuration file for a running vLLM: ask where it is and where clients connect, and examine it",
        """
        extproc init
        extproc init http://gpu-host:8000 --listen 0.0.0.0:10000
        extproc init https://models.example.org --api-key-file key --model qwen-coder
        """,
    )
    init.add_argument("url", type=origin, nargs="?", metavar="URL", help="vLLM's URL; asked for if left out")
    init.add_argument(
        "--listen", type=address, metavar="HOST:PORT", help="where clients connect; asked for if left out"
    )
    init.add_argument(
        "--file",
        type=Path,
        default=_FILE,
        metavar="FILE",
        help="the file to write (default: %(default)s); an existing one is never overwritten",
    )
    add_what_is_asked(init)


def _init(options: argparse.Namespace) -> int:
    file: Path = options.file
    if file.exists():
        raise FileExistsError(f"{file} is there already: move it away, or choose another name with --file")
    if options.url is None:
        options.url = _answer("Where does vLLM serve?", _BACKEND, origin)
    listen = options.listen or _answer("Where should clients come in?", _LISTEN, address)
    report = asked(options)
    sys.stderr.write(report.summary())
    text = f"listen: {listen}\n{report.yaml()}"
    parse(text, source=str(file))
    with file.open("x", encoding="utf-8") as written:
        written.write(text)
    print(f"{file} is written. Next:\n\n  extproc check {file}\n  extproc up --config {file}\n")
    print(f"In some minutes this finds the best settings for tools:\n\n  extproc probe {options.url} --measure")
    return 0


def _answer(question: str, default: str, read: Callable[[str], T]) -> T:
    """What somebody types, asked again until it can be read; what a pipe says is read once."""
    while True:
        sys.stderr.write(f"{question} [{default}] ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            sys.stderr.write("\n")
            raise OSError("nobody answers: give URL and --listen, as `extproc init --help` shows")
        try:
            return read(line.strip() or default)
        except argparse.ArgumentTypeError as error:
            if not sys.stdin.isatty():
                raise OSError(str(error)) from error
            sys.stderr.write(f"  {error}\n")
