"""Chunks of a stream that differ in nothing but what the model wrote: recognised by their bytes, and not decoded again.

Nearly all chunks of a stream are the same text around another piece of content. Once such a chunk was read and checked,
another one with the same bytes before its content and behind it, and one JSON string between them, is the same object
with another content: whatever the bytes around say, they say it again.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import orjson

Json: TypeAlias = dict[str, Any]

_KEY = b'"content":'
_FIELD, _END = b"data: ", b"\n\n"
LARGEST = 2048
"""Bytes of an event that is looked at: what is larger has more to say than a piece of content."""


class RepeatedChunk:
    """The last chunk that others may repeat: its object, in which the content stands that came last."""

    __slots__ = ("_after", "_before", "_passed_after", "_passed_before", "choice", "chunk", "data", "delta", "index")

    def __init__(self) -> None:
        self.chunk: Json = {}
        self.choice: Json = {}
        self.delta: Json = {}
        self.index = 0
        self.data = b""
        """The chunk as it may be passed on."""
        self._before = self._after = b""  # what an event has to be around its content
        self._passed_before = self._passed_after = b""  # and what may be passed on is

    def learn(self, came: bytes, passed: bytes, chunk: Json) -> None:
        """A chunk was read and is good: as it `came`, as it may be `passed` on, and its object."""
        self._before = b""
        if len(came) > LARGEST or (content := self._only_content(chunk)) is None:
            return
        written = orjson.dumps(content)
        if (around := _around(came, written)) is None or (passed_around := _around(passed, written)) is None:
            return
        before, after = around
        self._before, self._after = _FIELD + before, after + _END
        self._passed_before, self._passed_after = passed_around

    def _only_content(self, chunk: Json) -> str | None:
        """What the chunk says, if it says nothing else."""
        choices = chunk["choices"]
        if len(choices) != 1:
            return None
        (choice,) = choices
        delta = choice["delta"]
        content = delta.get("content")
        if type(content) is not str or choice.get("finish_reason") is not None:
            return None
        if any(value for name, value in delta.items() if name != "content"):
            return None
        self.chunk, self.choice, self.delta, self.index = chunk, choice, delta, choice.get("index", 0)
        return content

    def read(self, event: bytes) -> bool:
        """Whether this is one event that repeats the chunk; then its content stands in `chunk`, and `data` is it."""
        before, after = self._before, self._after
        if not before or len(event) > LARGEST or not (event.startswith(before) and event.endswith(after)):
            return False
        written = event[len(before) : -len(after)]
        if written[:1] != b'"' or written[-1:] != b'"':  # white space may end the event
            return False
        try:
            content = orjson.loads(written)
        except orjson.JSONDecodeError:
            return False
        if type(content) is not str:
            return False
        self.delta["content"] = content
        self.data = self._passed_before + written + self._passed_after
        return True


def _around(data: bytes, written: bytes) -> tuple[bytes, bytes] | None:
    """What stands before the content and behind it, where that is certain."""
    if data.count(_KEY) != 1:
        return None
    start = data.index(_KEY) + len(_KEY)
    if data[start : start + 1] == b" ":
        start += 1
    if not data.startswith(written, start):  # another encoder may write it in another way
        return None
    return data[:start], data[start + len(written) :]
