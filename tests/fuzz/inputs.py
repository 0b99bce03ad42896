"""What the parser is given: an output, and how it is to be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from extproc.toolcalls import TEMPLATE_TOKENS, Parser

Tools: TypeAlias = tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Input:
    format: str
    text: str
    tools: Tools = ()
    thinking: bool = False
    """The prompt has opened the thinking already."""
    hidden: bool = False
    """The chat template's own tokens are no text."""
    cut_off: bool = False
    """It is known that the model would have gone on."""

    def parser(self) -> Parser:
        return Parser(
            format=self.format,
            tools=self.tools,
            reasoning="open" if self.thinking else None,
            hidden=TEMPLATE_TOKENS if self.hidden else frozenset(),
        )

    def row(self) -> dict[str, Any]:
        """The input as JSON has it."""
        flags = {name: True for name in ("thinking", "hidden", "cut_off") if getattr(self, name)}
        return {"format": self.format, "tools": list(self.tools), "text": self.text, **flags}


def from_row(row: dict[str, Any]) -> Input:
    return Input(
        row["format"],
        row["text"],
        tuple(row["tools"]),
        row.get("thinking", False),
        row.get("hidden", False),
        row.get("cut_off", False),
    )
