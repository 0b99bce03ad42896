"""One streamed answer of a chat completion: what is shown of it as it comes, and the message that it is in the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of what the model says."""

    text: str


@dataclass(frozen=True, slots=True)
class Thinking:
    """A piece of what it thinks."""

    text: str


@dataclass(frozen=True, slots=True)
class CallBegun:
    """It begins to call a tool."""

    name: str


Shown: TypeAlias = Text | Thinking | CallBegun


class AnswerError(Exception):
    """The stream says that the answer failed; the text is the server's."""


@dataclass(slots=True)
class Call:
    """A call of a tool, with arguments as JSON text as far as they have come."""

    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class Answer:
    """What has come by now."""

    content: str = ""
    finish_reason: str | None = None
    _calls: dict[int, Call] = field(default_factory=dict)

    def add(self, chunk: Json) -> Iterator[Shown]:
        """Take an event's data in. Raises AnswerError if it is an error."""
        if isinstance(error := chunk.get("error"), dict):
            raise AnswerError(str(error.get("message") or error))
        for choice in chunk.get("choices") or ():
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
            delta = choice.get("delta") or {}
            if thought := delta.get("reasoning") or delta.get("reasoning_content"):
                yield Thinking(thought)
            if text := delta.get("content"):
                self.content += text
                yield Text(text)
            for piece in delta.get("tool_calls") or ():
                yield from self._add(piece)

    def _add(self, piece: Json) -> Iterator[Shown]:
        call = self._calls.setdefault(piece["index"], Call())
        function = piece.get("function") or {}
        call.id = piece.get("id") or call.id
        call.arguments += function.get("arguments") or ""
        if function.get("name") and not call.name:
            call.name = function["name"]
            yield CallBegun(call.name)

    @property
    def calls(self) -> list[Call]:
        """In their order."""
        return [self._calls[index] for index in sorted(self._calls)]

    @property
    def message(self) -> Json:
        """As the next request has it in its history."""
        message: Json = {"role": "assistant", "content": self.content or None}
        if self._calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in self.calls
            ]
        return message
