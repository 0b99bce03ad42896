"""Calls of tools that run on our side, as far as a client is shown them: between the model's own events."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ServedCall:
    """A call begins to run; its arguments are complete."""

    id: str
    server: str
    """Who runs it: an MCP server's name, or a character's."""
    name: str
    """The tool's name, as its server knows it."""
    arguments: str
    """JSON text, or what the model wrote instead."""


@dataclass(slots=True)
class ServedResult:
    """It has ended."""

    id: str
    text: str
    """What the model got for it."""
    failed: bool
    """The text is an error."""
