"""A chunk of a stream with a long text, as several with a part of it each: others get their turn between two of them.

What comes of them is what would come of the one: however a stream is cut, the joined result is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

_PART = 4096
"""Characters, which take some milliseconds if all of them are markup."""

_BEHIND = ("tool_calls", "function_call")
"""What a reader takes after the text."""


def parts_of_chunk(chunk: Json) -> Iterator[Json]:
    """Chunks of the same envelope. The choices of the chunk may be anything."""
    parts = [part for choice in chunk["choices"] for part in _parts_of_choice(choice)]
    without_usage = {name: value for name, value in chunk.items() if name != "usage"}
    if "usage" in chunk:
        without_usage["usage"] = None
    for part in parts[:-1]:
        yield {**without_usage, "choices": [part]}
    yield {**chunk, "choices": parts[-1:]}


def _parts_of_choice(choice: Any) -> Iterator[Any]:
    delta = choice.get("delta") if isinstance(choice, dict) else None
    content = delta.get("content") if isinstance(delta, dict) else None
    if not isinstance(delta, dict) or not isinstance(content, str) or len(content) <= _PART:
        yield choice
        return
    behind = {name: value for name, value in delta.items() if name in _BEHIND}
    before = {name: value for name, value in delta.items() if name not in _BEHIND}
    last = (len(content) - 1) // _PART * _PART
    for start in range(0, last, _PART):
        yield {**choice, "delta": {**before, "content": content[start : start + _PART]}, "finish_reason": None}
        before = {}
        choice = {**choice, "logprobs": None}
    yield {**choice, "delta": {"content": content[last:], **behind}}
