"""Takes a whole output apart at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from extproc.toolcalls.events import Parsed, collect
from extproc.toolcalls.machine import Parser
from extproc.toolcalls.table import Format


def parse(
    text: str,
    *,
    format: Format | str,  # noqa: A002 - the public name; nothing here formats a string
    tools: Sequence[Mapping[str, Any]] | None = None,
    reasoning: Literal["open"] | None = None,
) -> Parsed:
    """What the streaming parser makes of the text, fed once."""
    parser = Parser(format=format, tools=tools, reasoning=reasoning)
    return collect([*parser.feed(text), *parser.close()])
