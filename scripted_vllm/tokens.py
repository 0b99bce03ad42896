"""An approximate token count, for a server that has no tokenizer.

Text is split where Qwen2.5's tokenizer splits before it merges: a word with its leading space, a single digit, a run
of punctuation, a run of whitespace. Each part counts as one token, so plain English comes out right and rare long
words a little low. The numbers are consistent (usage, `max_tokens` and the context limit all use them), which is
what clients of a stand-in need; they are never to be taken for a model's real count.

The constants for the chat template were fitted to recorded prompts of Qwen2.5-Coder (`chat`, `chat_n2`,
`content_parts`, `tools_choice_none`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_TOKEN = re.compile(
    r"'(?:[sdmt]|ll|ve|re)\b"
    r"|(?:[^\w\r\n]|_)?[^\W\d_]+"
    r"|\d"
    r"| ?(?:[^\s\w]|_)+[\r\n]*"
    r"|\s*[\r\n]+"
    r"|\s+(?!\S)"
    r"|\s+"
)

_TURN = 5
"""What surrounds each turn: start marker, role, newline, end marker, newline."""
_ANSWER = 3
"""What invites the answer: start marker, role, newline."""
_DEFAULT_SYSTEM = 21
"""The system turn that the template adds to a conversation without one."""
_TOOLS_PREAMBLE = 84
"""The template's own words around a list of tools."""


def split(text: str) -> list[str]:
    """The parts that count as one token each; joined, they are `text` again."""
    return _TOKEN.findall(text)


def count(text: str) -> int:
    return len(split(text))


def message_text(message: Mapping[str, Any]) -> str:
    """All text of a chat message, whether its content is a string, a list of parts or null."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if isinstance(part.get("text"), str))
    return ""


def count_prompt(messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] = ()) -> int:
    """Tokens of a conversation once the chat template has rendered it, tools and earlier calls included."""
    total = _ANSWER
    if not messages or messages[0].get("role") != "system":
        total += _DEFAULT_SYSTEM
    for message in messages:
        total += _TURN + count(message_text(message))
        total += sum(count(json.dumps(call.get("function"))) for call in message.get("tool_calls") or ())
    if tools:
        total += _TOOLS_PREAMBLE + sum(count(json.dumps(tool)) for tool in tools)
    return total
