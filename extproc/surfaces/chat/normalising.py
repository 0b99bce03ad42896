"""Messages in the one form that is rendered: no legacy functions, no newer role, arguments that can be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from extproc.contract.history import ArgumentReader

Json: TypeAlias = dict[str, Any]


class Normalising:
    """Valid messages in the one form that is rendered, one by one."""

    __slots__ = ("_index", "_reader", "_unanswered", "repaired")

    def __init__(self, reader: ArgumentReader) -> None:
        self.repaired = 0
        """How many arguments were repaired."""
        self._reader = reader
        self._index = 0
        self._unanswered: dict[str, list[str]] = {}  # legacy: function -> ids of calls without a result

    def add(self, message: Json) -> Json:
        """The next one. One that needs no change is the client's own object."""
        index, unanswered, self._index = self._index, self._unanswered, self._index + 1
        match message["role"]:
            case "developer":
                # OpenAI's newer name of the system message; most chat templates don't know it, and leave it out.
                message = {**message, "role": "system"}
            case "assistant":
                if message.get("content") == []:
                    message = {**message, "content": None}
                if (function := message.get("function_call")) is not None:
                    # The place in the conversation makes an id that stays the same from turn to turn.
                    call_id = f"call_function_{index}"
                    unanswered.setdefault(function["name"], []).append(call_id)
                    message = {key: value for key, value in message.items() if key != "function_call"}
                    message["tool_calls"] = [{"id": call_id, "type": "function", "function": function}]
                if message.get("tool_calls"):
                    calls = [_readable(call, self._reader) for call in message["tool_calls"]]
                    count = sum(new is not old for new, old in zip(calls, message["tool_calls"], strict=True))
                    if count:
                        message = {**message, "tool_calls": calls}
                        self.repaired += count
            case "function":
                waiting = unanswered.get(message["name"])
                call_id = waiting.pop(0) if waiting else f"call_function_{index}"
                message = {**message, "role": "tool", "tool_call_id": call_id}
        return message


def normalised(messages: Sequence[Json], reader: ArgumentReader) -> tuple[list[Json], int]:
    """All of them, and how many arguments were repaired."""
    normalising = Normalising(reader)
    return [normalising.add(message) for message in messages], normalising.repaired


def _readable(call: Json, reader: ArgumentReader) -> Json:
    arguments = call["function"]["arguments"]
    readable = reader.readable(arguments)
    return call if readable == arguments else {**call, "function": {**call["function"], "arguments": readable}}
