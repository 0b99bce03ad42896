"""A call in the two shapes that OpenAI's API has for it.

`TOOL_CALLS` is today's. `FUNCTION_CALL` is what a client gets that sent `functions`: one call, without id, number and
type. Source: OpenAI's API reference, "chat completion object" and "chat completion chunk object".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from extproc.contract.ids import new_tool_call_id
from extproc.toolcalls import Call, CallStart
from extproc.turn.spec import ResponseSpec

Json = dict[str, Any]


class CallShape(Protocol):
    """How calls are written into messages and deltas."""

    @property
    def finish_reason(self) -> str:
        """Why the model stopped, when it was to call."""

    def put(self, message: Json, calls: Sequence[Call]) -> None:
        """Write all the calls of a whole message, at least one."""

    def start(self, start: CallStart, /) -> Json:
        """The first delta of a call."""

    def arguments(self, index: int, json: str, /) -> Json:
        """A delta with the next piece of its arguments."""


class _ToolCalls:
    finish_reason = "tool_calls"

    def put(self, message: Json, calls: Sequence[Call]) -> None:
        message["tool_calls"] = [_tool_call(call.name, call.arguments, call.id) for call in calls]

    def start(self, start: CallStart, /) -> Json:
        return {"tool_calls": [{"index": start.index, **_tool_call(start.name, "", start.id)}]}

    def arguments(self, index: int, json: str, /) -> Json:
        return {"tool_calls": [{"index": index, "function": {"arguments": json}}]}


class _FunctionCall:
    """Nobody asks for its second call: `CheckedCalls` lets one pass."""

    finish_reason = "function_call"

    def put(self, message: Json, calls: Sequence[Call]) -> None:
        message.pop("tool_calls", None)  # some servers write an empty list
        message["function_call"] = {"name": calls[0].name, "arguments": calls[0].arguments}

    def start(self, start: CallStart, /) -> Json:
        return {"function_call": {"name": start.name, "arguments": ""}}

    def arguments(self, _index: int, json: str, /) -> Json:
        return {"function_call": {"arguments": json}}


def _tool_call(name: str, arguments: str, call_id: str | None) -> Json:
    return {"id": call_id or new_tool_call_id(), "type": "function", "function": {"name": name, "arguments": arguments}}


TOOL_CALLS: CallShape = _ToolCalls()
FUNCTION_CALL: CallShape = _FunctionCall()


def shape_for(spec: ResponseSpec) -> CallShape:
    """The shape that the client understands."""
    return FUNCTION_CALL if spec.legacy else TOOL_CALLS
