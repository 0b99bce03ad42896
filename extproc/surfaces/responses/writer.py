"""Answers in the words of OpenAI's Responses: a response with output items, or the events that build one.

One state is behind both: which item is open, and which tools run on our side meanwhile. A stream says each step as an
event, with a number of its own; its last event has the whole response, which a client that doesn't stream gets alone.
Source: OpenAI's API reference, "responses" and "streaming events".
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, TypeAlias

import orjson

from extproc.contract.errors import ApiError, backend_garbage, invalid_call
from extproc.contract.ids import new_tool_call_id
from extproc.contract.json_body import encode as to_json
from extproc.contract.sse import Comment, encode
from extproc.surfaces.responses import served_calls
from extproc.surfaces.responses.taught_tools import BY_CALL, TAUGHT, TaughtTool
from extproc.surfaces.responses.tools import INPUT
from extproc.toolcalls import ArgumentsDelta, CallEnd, CallStart, Event, Reasoning, Text
from extproc.turn.output import CALLED, CUT_OFF, Said
from extproc.turn.served import ServedCall, ServedResult
from extproc.turn.spec import ResponseSpec
from extproc.turn.turn import ToolName
from extproc.turn.usage import StreamCount

Json: TypeAlias = dict[str, Any]

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
_ENDS = ("stop", CALLED, *_INCOMPLETE)
_CALLS = ("function_call", "custom_tool_call", *BY_CALL)
_PREFIX = {"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}
_SAYS = {"output_text": "text", "refusal": "refusal", "reasoning_text": "text"}
"""Content parts, and the field that has their words."""
_DELTAS = {
    "output_text": "response.output_text",
    "refusal": "response.refusal",
    "reasoning_text": "response.reasoning_text",
    "function_call": "response.function_call_arguments",
    "custom_tool_call": "response.custom_tool_call_input",
}


class ResponsesWriter:
    """Writes one answer."""

    def __init__(self, spec: ResponseSpec) -> None:
        self._spec = spec
        self._out = bytearray()
        self._number = 0  # of the next event
        self._whole = False
        self._id = f"resp_{secrets.token_hex(24)}"
        self._created: int | None = None
        self._items: list[Json] = []
        self._open: Json | None = None  # what the model says, while it goes on,
        self._index = 0  # and its place among the items
        self._part = ""  # the type of its content part, where it has one
        self._said: list[str] = []  # what it says
        self._taught: tuple[TaughtTool, str] | None = None  # a call that is an item once it is complete, and its id
        self._thoughts: list[str] = []  # that came while a call was open
        self._served: dict[str, int] = {}  # the places of calls that run on our side, by their ids
        self._finished = False
        self._incomplete: str | None = None

    # A stream

    def chunk(self, chunk: Json, _data: bytes, said: Sequence[Said], /) -> bytes:
        self._start(chunk)
        for one in said:
            self._say(one)
        return self._taken()

    def comment(self, comment: Comment, /) -> bytes:
        return encode(comment)

    def end(self, count: StreamCount) -> bytes:
        status = self._close()
        self._event(f"response.{status}", {"response": self._response(status, usage_of(count.total()))})
        return self._taken()

    def fail(self, error: ApiError) -> bytes:
        self._start({})
        if self._open is not None:
            self._open["status"] = "incomplete"
            if self._open["type"] != "custom_tool_call":  # whose input is still wrapped
                self._fill(self._open)
        for index in self._served.values():
            self._items[index]["status"] = "incomplete"
        response = self._response("failed", None)
        response["error"] = {"code": _failure(error.status), "message": error.message}
        self._event("response.failed", {"response": response})
        return self._taken()

    def _start(self, chunk: Json) -> None:
        if self._created is not None:
            return
        created = chunk.get("created")
        self._created = created if type(created) is int else 0
        for kind in ("created", "in_progress"):
            self._event(f"response.{kind}", {"response": self._response("in_progress", None)})

    def _response(self, status: str, usage: Json | None) -> Json:
        incomplete = status == "incomplete"
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created or 0,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": self._incomplete} if incomplete else None,
            "model": self._spec.model,
            "output": self._items,
            "usage": usage,
            **self._spec.echo,
        }

    def _event(self, kind: str, fields: Json) -> None:
        if self._whole:
            return
        event = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        self._out += b"event: %b\ndata: %b\n\n" % (kind.encode(), to_json(event))

    def _taken(self) -> bytes:
        out = bytes(self._out)
        self._out.clear()
        return out

    # A whole answer

    def whole(self, _body: bytes, completion: Json, said: Sequence[Said], usage: Json | None, /) -> bytes:
        self._whole = True
        self._start(completion)
        for one in said:
            self._say(one)
        status = self._close()
        return to_json(self._response(status, usage_of(usage)))

    # Both

    def _say(self, said: Said) -> None:
        said.check_alone()
        if self._finished and (said.events or said.thinking or said.refusal):
            raise backend_garbage("content after a finish_reason.")
        if said.thinking:
            self._think(said.thinking)
        for event in said.events:
            if isinstance(event, ServedCall):
                self._begin_served(event)
            elif isinstance(event, ServedResult):
                self._end_served(event)
            else:
                self._take(event, cut_off=said.finish_reason in CUT_OFF)
        if said.refusal:
            if self._is_in_call:
                raise backend_garbage("a refusal in the middle of a call.")
            self._goes_on("refusal", said.refusal)
        if said.finish_reason is not None and said.error is None:
            if said.finish_reason not in _ENDS:
                raise backend_garbage("an unknown finish_reason.")
            self._finished = True
            self._incomplete = _INCOMPLETE.get(said.finish_reason)
            self._close_item(cut_off=said.finish_reason in CUT_OFF)

    @property
    def _is_in_call(self) -> bool:
        return self._taught is not None or (self._open is not None and self._open["type"] in _CALLS)

    def _think(self, text: str) -> None:
        if self._is_in_call:
            self._thoughts.append(text)  # a call is one item
        else:
            self._goes_on("reasoning_text", text)

    def _take(self, event: Event, *, cut_off: bool) -> None:
        match event:
            case Text(text):
                self._goes_on("output_text", text)
            case Reasoning(text):
                self._think(text)
            case CallStart():
                self._close_item()
                self._begin_call(event)
            case ArgumentsDelta(_, json):
                if self._open is not None and self._open["type"] == "function_call":
                    self._delta(json)
                else:
                    self._said.append(json)  # what it says is inside
            case CallEnd():
                if self._taught is not None:
                    self._close_taught(cut_off=cut_off and not event.whole)
                else:
                    self._close_item(cut_off=not event.whole)

    def _begin_call(self, start: CallStart) -> None:
        known = self._spec.names.get(start.name) or ToolName(start.name)
        call_id = start.id or new_tool_call_id()
        if known.kind in TAUGHT:
            self._taught = TAUGHT[known.kind], call_id
            return
        kind, field = ("custom_tool_call", INPUT) if known.kind == "custom" else ("function_call", "arguments")
        namespace = {"namespace": known.namespace} if known.namespace else {}
        self._open_item(kind, {"call_id": call_id, "name": known.name, **namespace, field: ""})

    def _close_taught(self, *, cut_off: bool) -> None:
        """Such a call has no form for half of its arguments: one that the backend cut off is none, and one that isn't
        what the client can run is an error."""
        assert self._taught is not None
        (tool, call_id), self._taught = self._taught, None
        said = "".join(self._said)
        self._said.clear()
        if not cut_off:
            try:
                value = tool.write(orjson.loads(said))
            except (orjson.JSONDecodeError, TypeError, ValueError, KeyError, AttributeError):
                raise invalid_call(
                    "malformed_tool_arguments", f"The model's call of '{tool.kind}' can't be one."
                ) from None
            fields = {"call_id": call_id, tool.field: value, **(tool.more or {})}
            self._open_item(tool.call, fields)
            self._close_item()
        self._say_thoughts()

    def _goes_on(self, part: str, text: str) -> None:
        """The item whose content is of this type goes on."""
        if not text:
            return
        if self._open is None or self._open["type"] in _CALLS or self._part != part:
            self._close_item()
            self._part = part
            if part == "reasoning_text":
                self._open_item("reasoning", {"summary": [], "content": [], "encrypted_content": None})
            else:
                self._open_item("message", {"role": "assistant", "content": []})
            self._event("response.content_part.added", {**self._place(), "content_index": 0, "part": self._content("")})
        self._delta(text)

    def _open_item(self, kind: str, fields: Json) -> None:
        prefix = BY_CALL[kind].prefix if kind in BY_CALL else _PREFIX[kind]
        item_id = f"{prefix}_{secrets.token_hex(24)}"
        self._open = {"id": item_id, "type": kind, "status": "in_progress", **fields}
        self._index = self._add(self._open)

    def _add(self, item: Json) -> int:
        index = len(self._items)
        self._items.append(item)
        self._event("response.output_item.added", {"output_index": index, "item": item})
        return index

    def _place(self, index: int | None = None) -> Json:
        """Of an item: the one that is open, if it isn't told."""
        index = self._index if index is None else index
        return {"item_id": self._items[index]["id"], "output_index": index}

    def _content(self, text: str) -> Json:
        more: Json = {"annotations": [], "logprobs": []} if self._part == "output_text" else {}
        return {"type": self._part, _SAYS[self._part]: text, **more}

    def _delta(self, text: str) -> None:
        self._said.append(text)
        kind = self._items[self._index]["type"]
        if kind in _CALLS:
            self._event(f"{_DELTAS[kind]}.delta", {**self._place(), "delta": text})
            return
        more: Json = {"logprobs": []} if self._part == "output_text" else {}
        self._event(f"{_DELTAS[self._part]}.delta", {**self._place(), "content_index": 0, "delta": text, **more})

    def _fill(self, item: Json) -> None:
        """An item has what was said so far."""
        said = "".join(self._said)
        if item["type"] in BY_CALL:
            return  # it was complete from the first
        if item["type"] == "custom_tool_call":
            item[INPUT] = _input(said)
        elif item["type"] == "function_call":
            item["arguments"] = said
        else:
            item["content"] = [self._content(said)]

    def _close_item(self, *, cut_off: bool = False) -> None:
        item, self._open = self._open, None
        if item is None:
            return
        self._fill(item)
        self._said.clear()
        kind, place = item["type"], self._place()
        if kind == "custom_tool_call":
            if item[INPUT]:
                self._event(f"{_DELTAS[kind]}.delta", {**place, "delta": item[INPUT]})
            self._event(f"{_DELTAS[kind]}.done", {**place, INPUT: item[INPUT]})
        elif kind == "function_call":
            self._event(f"{_DELTAS[kind]}.done", {**place, "name": item["name"], "arguments": item["arguments"]})
        elif kind not in BY_CALL:
            [part] = item["content"]
            says = _SAYS[self._part]
            place["content_index"] = 0
            more: Json = {"logprobs": []} if self._part == "output_text" else {}
            self._event(f"{_DELTAS[self._part]}.done", {**place, says: part[says], **more})
            self._event("response.content_part.done", {**place, "part": part})
        item["status"] = "incomplete" if cut_off else "completed"
        self._event("response.output_item.done", {"output_index": self._index, "item": item})
        self._say_thoughts()

    # Tools that run on our side

    def _begin_served(self, call: ServedCall) -> None:
        if not self._is_in_call:
            self._close_item()
        item = served_calls.begun(call)
        index = self._served[call.id] = self._add(item)
        place = self._place(index)
        self._event("response.mcp_call.in_progress", place)
        if call.arguments:
            self._event("response.mcp_call_arguments.delta", {**place, "delta": call.arguments})
        self._event("response.mcp_call_arguments.done", {**place, "arguments": call.arguments})
        item["arguments"] = call.arguments

    def _end_served(self, result: ServedResult) -> None:
        index = self._served.pop(result.id)
        item = self._items[index]
        item.update(served_calls.ended(result))
        self._event(f"response.mcp_call.{item['status']}", self._place(index))
        self._event("response.output_item.done", {"output_index": index, "item": item})

    def _close(self) -> str:
        """The answer is complete: its status. Raises ApiError (502) where a tool runs that nothing has cut off."""
        self._close_item()
        if self._served and self._incomplete is None:
            raise backend_garbage("it ended while a tool was running.")
        for index in self._served.values():
            self._items[index]["status"] = "incomplete"
            self._event("response.output_item.done", {"output_index": index, "item": self._items[index]})
        self._served.clear()
        return "completed" if self._incomplete is None else "incomplete"

    def _say_thoughts(self) -> None:
        """Those that came while a call was open."""
        if self._thoughts:
            thoughts, self._thoughts = "".join(self._thoughts), []
            self._goes_on("reasoning_text", thoughts)


def _failure(status: int) -> str:
    """One of the words that this dialect has for it."""
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return "rate_limit_exceeded"
    return "server_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_prompt"


def _input(arguments: str) -> str:
    """The text that a custom tool gets.

    It knows nothing of the parameter that the model was shown: what stands there in place of a text is meant as one,
    and where nothing stands there is none. What can't be read, and other arguments, are left as the model wrote them.
    """
    try:
        value = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return arguments
    if isinstance(value, dict) and (INPUT in value or not value):
        value = value.get(INPUT)
    elif not isinstance(value, str | None):
        return arguments
    if value is None:
        return ""
    return value if isinstance(value, str) else to_json(value).decode()


def usage_of(usage: Json | None) -> Json | None:
    """A count in the names of this dialect."""
    if usage is None:
        return None
    cached, thought = (
        details.get(name) if isinstance(details := usage.get(place), dict) else None
        for place, name in (
            ("prompt_tokens_details", "cached_tokens"),
            ("completion_tokens_details", "reasoning_tokens"),
        )
    )
    estimated = {"estimated": True} if usage.get("estimated") else {}
    return {
        **estimated,
        "input_tokens": usage.get("prompt_tokens") or 0,
        "input_tokens_details": {"cached_tokens": cached if type(cached) is int else 0, "cache_write_tokens": 0},
        "output_tokens": usage.get("completion_tokens") or 0,
        "output_tokens_details": {"reasoning_tokens": thought if type(thought) is int else 0},
        "total_tokens": usage.get("total_tokens") or 0,
    }
