"""Calls of tools that run on our side, as Responses shows those of MCP servers: items of type `mcp_call`.

Source: OpenAI's API reference, "responses", and the types of its Python SDK 3.52.
"""

from __future__ import annotations

import secrets
from typing import Any, TypeAlias

from extproc.turn.served import ServedCall, ServedResult

Json: TypeAlias = dict[str, Any]

MCP_CALL = "mcp_call"
_TOOL_FAILED = "mcp_tool_execution_error"


def begun(call: ServedCall) -> Json:
    """The item of a call as it begins. Its arguments come next."""
    return {
        "id": f"mcp_{secrets.token_hex(24)}",
        "type": MCP_CALL,
        "status": "in_progress",
        "approval_request_id": None,
        "server_label": call.server,
        "name": call.name,
        "arguments": "",
        "output": None,
        "error": None,
    }


def ended(result: ServedResult) -> Json:
    """What the item has at its end."""
    if not result.failed:
        return {"status": "completed", "output": result.text}
    return {"status": "failed", "error": {"type": _TOOL_FAILED, "content": [{"type": "text", "text": result.text}]}}
