"""What the model may call in a chat: small tools that run here and change nothing."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

_MOST_NAMES = 100


class ToolError(Exception):
    """A tool can't do what it is asked for; the text is for the model."""


def current_time(timezone: str = "UTC") -> str:
    """The time now."""
    try:
        now = datetime.now(ZoneInfo(timezone))
    except (KeyError, OSError, ValueError) as error:
        raise ToolError(f"no such time zone: {timezone}") from error
    return now.strftime("%A, %Y-%m-%d %H:%M:%S %Z")


def roll_dice(sides: int = 6, count: int = 1) -> list[int]:
    """Throws of dice."""
    if not (2 <= sides <= 1000 and 1 <= count <= 100):
        raise ToolError("dice have 2 to 1000 sides, and at most 100 are thrown")
    return [1 + secrets.randbelow(sides) for _ in range(count)]


def list_directory(path: str = ".") -> list[str]:
    """The names in a directory, of this one and what is below it."""
    here = Path.cwd()
    folder = (here / path).resolve()
    if not folder.is_relative_to(here):
        raise ToolError("only this directory and what is below it can be looked at")
    try:
        names = sorted(f"{item.name}/" if item.is_dir() else item.name for item in folder.iterdir())
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}") from error
    more = len(names) - _MOST_NAMES
    return [*names[:_MOST_NAMES], f"and {more} more"] if more > 0 else names


def _tool(name: str, description: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS = [
    _tool(
        "current_time",
        "Tells the current date and time",
        timezone={"type": "string", "description": "An IANA name such as Europe/Paris", "default": "UTC"},
    ),
    _tool(
        "roll_dice",
        "Rolls dice",
        sides={"type": "integer", "minimum": 2, "maximum": 1000, "default": 6},
        count={"type": "integer", "minimum": 1, "maximum": 100, "default": 1},
    ),
    _tool(
        "list_directory",
        "Lists the files in a directory",
        path={"type": "string", "description": "Relative to the working directory", "default": "."},
    ),
]
"""As a request offers them."""

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "current_time": current_time,
    "roll_dice": roll_dice,
    "list_directory": list_directory,
}


def run(name: str, arguments: str) -> str:
    """The result of a call, or what is wrong with it, as text for the model."""
    function = _FUNCTIONS.get(name)
    if function is None:
        return f"Error: there is no tool {name}"
    try:
        given = json.loads(arguments or "{}")
        result = function(**given)
    except ToolError as error:
        return f"Error: {error}"
    except (TypeError, ValueError) as error:
        return f"Error: these arguments can't be used: {error}"
    return result if isinstance(result, str) else json.dumps(result)
