"""The chat template: what a model gets to see of a conversation.

A model sees turns of text, never the API's fields. With `tool_choice: "none"` vLLM still hands `tools`, earlier
`tool_calls` and `tool` messages to the chat template, and templates of the Qwen family write them with the same tags
that this one uses.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scripted_vllm.tokens import message_text


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of the conversation; the text is all that the model reads."""

    role: str
    text: str


def turns(messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] = ()) -> list[Turn]:
    """The conversation as the model reads it."""
    seen = [_turn(message) for message in messages]
    if tools:
        lines = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
        seen.insert(0, Turn("system", f"<tools>\n{lines}\n</tools>"))
    return seen


def _turn(message: Mapping[str, Any]) -> Turn:
    role, text = str(message.get("role")), message_text(message)
    if role == "tool":
        return Turn("user", f"<tool_response>\n{text}\n</tool_response>")
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    written = (
        f'<tool_call>\n{{"name": {json.dumps(call.get("name"))}, "arguments": {call.get("arguments")}}}\n</tool_call>'
        for call in calls
    )
    return Turn(role, "\n".join(part for part in (text, *written) if part))
