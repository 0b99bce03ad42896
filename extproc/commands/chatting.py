"""`extproc chat`: a conversation at a terminal, with a model behind the gateway."""

from __future__ import annotations

import argparse
import io
import os
import sys
from pathlib import Path

from extproc.commands.options import Commands, add
from extproc.commands.values import base_url

_URL = "http://127.0.0.1:10000/v1"


def add_commands(commands: Commands) -> None:
    chat = add(
        commands,
        "chat",
        _chat,
        "talk with a model behind the gateway, with streamed text, thinking, and three small tools that run here",
        """
        extproc chat
        extproc chat http://gateway:10000/v1 --model qwen-coder --key-file key
        echo "What time is it?" | extproc chat
        """,
    )
    chat.add_argument(
        "url",
        type=base_url,
        nargs="?",
        default=_URL,
        metavar="URL",
        help="the gateway's base URL (default: %(default)s)",
    )
    chat.add_argument("--model", metavar="NAME", help="the model to ask (default: the first in the gateway's list)")
    chat.add_argument(
        "--key-file", type=Path, metavar="FILE", help="holds the API key, if one is needed (default: $OPENAI_API_KEY)"
    )
    chat.add_argument("--no-tools", action="store_true", help="offer the model no tools")


def _chat(options: argparse.Namespace) -> int:
    from extproc.chat.gateway import ChatError, Gateway
    from extproc.chat.terminal import HELP, Conversation

    key = options.key_file.read_text(encoding="utf-8").strip() if options.key_file else os.environ.get("OPENAI_API_KEY")
    gateway = Gateway(options.url, key)
    try:
        models = gateway.models()
    except ChatError as error:
        raise OSError(str(error)) from error
    if not models:
        raise OSError(f"{options.url} has no model")
    model = options.model or models[0]
    if model not in models:
        raise OSError(f"there is no model {model!r}; there are: {', '.join(models)}")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # models write what a terminal may not have
    terminal = sys.stdin.isatty()
    colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    conversation = Conversation(gateway, model, _write, not options.no_tools, colours)
    if terminal:
        import readline  # noqa: F401  so that a line can be edited, and the last ones are found again

        print(f"{model} at {options.url}\n{HELP}")
    while (line := _line(terminal)) is not None and conversation.say(line):
        pass
    return 0


def _line(terminal: bool) -> str | None:
    """What is typed next; None at the end."""
    try:
        return input("> " if terminal else "")
    except EOFError:
        return None
    except KeyboardInterrupt:
        print()
        return None


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
