"""What a model is told of a call: the result as text, or what went wrong.

Text is all that a tool's message may hold in every dialect, so what isn't text is named in its place. All of it comes
from outside: it is as long as we allow, and what we know the server by, a key or a password, is taken out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TypeAlias

import jiter
from mcp import types

from extproc.contract.errors import json_type
from extproc.runner.mcp_servers.offer import OfferedTool
from extproc.runner.tools import Outcome, ToolResult

Json: TypeAlias = dict[str, Any]

LONGEST = 32_000
"""Characters of a result."""
LONGEST_ERROR = 2_000
"""Characters of an error that isn't the tool's own."""
_LONGEST_KIND = 100
_ERROR = "Error: "


class ArgumentsError(Exception):
    """The arguments of a call are none; `args[0]` is what the model is told."""


def arguments_of(tool: OfferedTool, text: str) -> Json:
    """The arguments that the model wrote. Raises ArgumentsError."""
    try:
        value = jiter.from_json(text.strip().encode() or b"{}", allow_inf_nan=False)
        json.dumps(value, allow_nan=False)  # also a number that is too large for a float
    except UnicodeEncodeError:
        raise ArgumentsError("Invalid JSON arguments - they hold half of a surrogate pair") from None
    except ValueError as error:
        raise ArgumentsError(f"Invalid JSON arguments - {error}") from None
    if not isinstance(value, dict):
        raise ArgumentsError(f"Invalid JSON arguments - expected an object, got {json_type(value)}")
    broken = tool.check.broken_rule(value, len(text)) if tool.check is not None else None
    if broken is not None:
        raise ArgumentsError(f"Invalid parameters -{broken.removeprefix(':') or ' they break the schema'}")
    return value


def error(message: str, outcome: Outcome, secrets: Iterable[str] = ()) -> ToolResult:
    """A call that led to nothing."""
    return ToolResult(bounded(_marked(without(secrets, message)), LONGEST_ERROR), outcome)


def result(said: types.CallToolResult, secrets: Iterable[str] = ()) -> ToolResult:
    """What a tool has to say."""
    text = without(secrets, "\n".join(_parts(said)))
    if not said.is_error:
        return ToolResult(bounded(text, LONGEST))
    return ToolResult(bounded(_marked(text or "the tool failed, and says nothing of why"), LONGEST), "failed")


def _marked(text: str) -> str:
    return text if text.startswith(_ERROR) else f"{_ERROR}{text}"


def _parts(said: types.CallToolResult) -> Iterable[str]:
    """The parts as text. The structured content is what the text says, so it counts only where there is none."""
    parts = [_part(part) for part in said.content]
    has_text = any(isinstance(part, types.TextContent) for part in said.content)
    if said.structured_content is not None and not has_text:
        parts.append(json.dumps(said.structured_content, ensure_ascii=False))
    return parts


def _part(part: types.ContentBlock) -> str:
    match part:
        case types.TextContent(text=text):
            return text
        case types.ImageContent(mime_type=kind, data=data):
            return _named("image", kind, data)
        case types.AudioContent(mime_type=kind, data=data):
            return _named("audio", kind, data)
        case types.ResourceLink(title=title, name=name, uri=uri, description=description):
            return f"{title or name}: {uri}" + (f" ({description})" if description else "")
        case types.EmbeddedResource(resource=types.TextResourceContents(text=text)):
            return text
        case types.EmbeddedResource(resource=types.BlobResourceContents(mime_type=kind, blob=data)):
            return _named("resource", kind or "application/octet-stream", data)
    raise AssertionError(part)


def _named(what: str, kind: str, data: str) -> str:
    """What stands in the place of something that is no text, given in Base64."""
    size = max(0, len(data) * 3 // 4 - data[-2:].count("="))
    return f"[{what}: {kind[:_LONGEST_KIND]}, {size} bytes]"


def bounded(text: str, most: int) -> str:
    """The text, with a mark in the place of what is too much of it."""
    if len(text) <= most:
        return text
    kept = most - 50  # more than the mark has
    return f"{text[:kept]}\n[... {len(text) - kept} more characters]"


def without(secrets: Iterable[str], text: str) -> str:
    """The text without what is nobody's business."""
    for secret in secrets:
        text = text.replace(secret, "[secret]")
    return text
