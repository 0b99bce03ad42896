"""Calls of tools that run on our side, as Responses shows those of MCP servers: items of type `mcp_call`.

A client sends them back with the conversation, and to the model they are calls of its own, each with its result.
Source: OpenAI's API reference, "responses", and the types of its Python SDK 3.52.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any, TypeAlias

from extproc.contract.errors import ApiError, invalid_type, missing_parameter
from extproc.contract.json_body import encode
from extproc.contract.members import name_problems, string_problems, word_problems
from extproc.names import CHARACTER
from extproc.surfaces.responses.taught_tools import full_name
from extproc.turn.served import ServedCall, ServedResult

Json: TypeAlias = dict[str, Any]

MCP_CALL = "mcp_call"
MEMBERS = frozenset({"server_label", "error", "approval_request_id"})
"""The members that other items don't have. Nobody is asked for approval here."""
_TOOL_FAILED = "mcp_tool_execution_error"
_WITH_MESSAGE = ("mcp_protocol_error", "http_error")


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


def problems(item: Json, param: str) -> Iterator[ApiError]:
    """What is wrong with an item of a request, its arguments aside."""
    for name in ("id", "server_label", "name"):
        yield from name_problems(item, name, param)
    if not isinstance(output := item.get("output"), str | None):
        yield invalid_type(f"{param}.output", "a string", output)
    if (error := item.get("error")) is not None:
        yield from _error_problems(error, f"{param}.error")


def _error_problems(error: Any, param: str) -> Iterator[ApiError]:
    if isinstance(error, str):  # what it was at first, and still is for some servers of this API
        return
    if not isinstance(error, dict):
        yield invalid_type(param, "an object with a 'type'", error)
        return
    yield from word_problems(error, "type", param, (_TOOL_FAILED, *_WITH_MESSAGE))
    if error.get("type") in _WITH_MESSAGE:
        yield from string_problems(error, "message", param)
    elif error.get("type") == _TOOL_FAILED and error.get("content") is None:
        yield missing_parameter(f"{param}.content", "Send what the tool said.")


def name_of(item: Json) -> str:
    """By which the model knows the tool: a character's own by its name alone."""
    label: str = item["server_label"]
    return full_name(item["name"], None if label.startswith(CHARACTER) else label)


def said(item: Json) -> str | None:
    """What the model got for the call; None where it got nothing yet."""
    output: str | None = item.get("output")
    match item.get("error"):
        case None:
            return output
        case str(words):
            return words
        case {"message": str(message)}:
            return message
        case error:
            return _text(error["content"])


def _text(content: Any) -> str:
    """Of a tool's content, as MCP has it; of any other its JSON."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [part.get("text") if isinstance(part, dict) else None for part in content]
        if all(isinstance(text, str) for text in texts):
            return "\n".join(text for text in texts if text is not None)
    return encode(content).decode()
