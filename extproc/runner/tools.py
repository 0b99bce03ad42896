"""A tool that runs on our side, whoever offers it: a character's own code, or an MCP server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

Json: TypeAlias = dict[str, Any]

Outcome: TypeAlias = Literal[
    "ok", "unknown_tool", "invalid_arguments", "timeout", "memory", "crashed", "failed", "unavailable", "cancelled"
]
"""How a call ended, for metrics and the audit log. `failed`: the tool itself says so; `unavailable`: nothing could be
asked."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What the model gets for a call."""

    text: str
    outcome: Outcome = "ok"


class ToolSource(Protocol):
    """Offers tools, and runs them."""

    @property
    def name(self) -> str:
        """In logs, metrics, and as `server_label` where a client is shown the calls."""

    @property
    def definitions(self) -> list[Json]:
        """The tools as OpenAI tool definitions, by the names that the model sees."""

    def runs(self, name: str) -> bool:
        """Whether a call of this name, which is among the definitions, runs here; otherwise it goes to the client."""

    async def call(self, name: str, arguments: str) -> ToolResult:
        """Run a tool with the arguments as the model wrote them: JSON text, or what was meant to be.

        Never raises but CancelledError: whatever goes wrong is a result that begins with `Error: `. Cancelling it stops
        the tool within 100 ms.
        """
