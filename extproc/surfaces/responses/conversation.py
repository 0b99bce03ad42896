"""The conversation of a Responses request, as the model is shown it.

Items stand one after the other where chat completions nest them: what an assistant thought, said and called between two
items of others is one message of the house's own. A call that ran on our side has its result in its own item: where
nothing waits for a result of the client's, the model goes on in a new message.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from extproc.contract.history import ArgumentReader
from extproc.contract.json_body import encode
from extproc.surfaces.responses import served_calls
from extproc.surfaces.responses.content import CALLS, READ_MEMBERS, RESULTS, id_of_call, is_left_out, kind_of
from extproc.surfaces.responses.served_calls import MCP_CALL
from extproc.surfaces.responses.taught_tools import BY_CALL, BY_RESULT, TaughtTool, full_name
from extproc.surfaces.responses.tools import INPUT

Json: TypeAlias = dict[str, Any]


_RESULTS = "results"
"""What tools on our side gave for the calls of a message, while it is put together: the messages behind it."""


class Conversation:
    """A valid conversation as the house's messages, item by item."""

    __slots__ = ("_answered", "_call_ids", "_messages", "_reader", "_system", "left_out", "repaired")

    def __init__(self, fields: Json, reader: ArgumentReader) -> None:
        """Before its first item; of the request only `instructions` matters."""
        self.left_out: set[str] = set()
        """What of the input no backend gets: the types of items, and members of others."""
        self.repaired = 0
        """How many malformed arguments were repaired."""
        self._reader = reader
        self._system = [fields["instructions"]] if fields.get("instructions") else []
        self._messages: list[Json] = []  # those that may not be complete
        self._answered = False
        self._call_ids: dict[Any, str] = {}

    def add(self, item: Json) -> list[Json]:
        """Those that are complete by the next one."""
        self._read(item)
        if not self._answered:  # the system prompt isn't
            return []
        goes_on = bool(self._messages) and self._messages[-1]["role"] == "assistant"
        complete = self._messages[:-1] if goes_on else self._messages
        self._messages = self._messages[-1:] if goes_on else []
        return [*self._instructions(), *(each for message in complete for each in _finished(message))]

    def rest(self) -> list[Json]:
        """Those that are complete because there are no more."""
        complete, self._messages = self._messages, []
        return [*self._instructions(), *(each for message in complete for each in _finished(message))]

    def _instructions(self) -> list[Json]:
        system, self._system = self._system, []
        return [{"role": "system", "content": "\n\n".join(system)}] if system else []

    def _read(self, item: Json) -> None:
        kind = kind_of(item)
        messages, call_ids = self._messages, self._call_ids
        if is_left_out(item, kind):
            self.left_out.add(kind)
            return
        self.left_out.update(name for name in item.keys() - READ_MEMBERS if item[name] not in (None, False))
        if kind in BY_CALL:
            call_ids.setdefault(item.get("id"), item["call_id"])
            call_ids[item["call_id"]] = item["call_id"]
            self._model().setdefault("tool_calls", []).append(_read_taught_call(item, BY_CALL[kind]))
        elif kind in BY_RESULT:
            call_id = id_of_call(item)
            said = BY_RESULT[kind].said(item)
            messages.append({"role": "tool", "tool_call_id": call_ids.get(call_id, call_id), "content": said})
        elif kind == "reasoning":
            if thought := _thought(item):
                self._model().setdefault("reasoning", []).append(thought)
        elif kind in CALLS:
            call = _read_call(item, kind)
            call_ids[call["id"]] = call["id"]
            self.repaired += _mend(call, self._reader)
            self._model().setdefault("tool_calls", []).append(call)
        elif kind == MCP_CALL:
            call = _called(item["id"], served_calls.name_of(item), item["arguments"])
            self.repaired += _mend(call, self._reader)
            _served(self._model(), call, served_calls.said(item))
        elif kind in RESULTS:
            call_id = call_ids.get(item["call_id"], item["call_id"])
            messages.append({"role": "tool", "tool_call_id": call_id, "content": _content(item["output"])})
        elif item["role"] == "assistant":
            self._model().setdefault("content", []).append(_content(item["content"]))
        elif item["role"] == "user":
            messages.append({"role": "user", "content": _content(item["content"])})
        elif self._answered:
            messages.append({"role": "system", "content": _content(item["content"])})
        else:  # the client's own instructions, wherever they stand before the first answer
            content = _content(item["content"])
            assert isinstance(content, str)  # it has no other parts
            self._system.append(content)

    def _model(self) -> Json:
        """The message in which the model goes on."""
        self._answered = True
        if not self._messages or self._messages[-1]["role"] != "assistant" or _has_all_results(self._messages[-1]):
            self._messages.append({"role": "assistant"})
        return self._messages[-1]


def _has_all_results(message: Json) -> bool:
    return _RESULTS in message and len(message[_RESULTS]) == len(message["tool_calls"])


def _served(message: Json, call: Json, said: str | None) -> None:
    """The model has called a tool that runs on our side."""
    message.setdefault("tool_calls", []).append(call)
    if said is not None:
        message.setdefault(_RESULTS, []).append({"role": "tool", "tool_call_id": call["id"], "content": said})


def _finished(message: Json) -> list[Json]:
    """One of the model's with what it said and thought, item by item, as one text each; and the results behind it."""
    if message["role"] != "assistant":
        return [message]
    results = message.pop(_RESULTS, [])
    joined: Json = {
        name: "\n".join(filter(None, message[name])) for name in ("reasoning", "content") if name in message
    }
    content = None if message.get("tool_calls") else ""
    return [{"role": "assistant", "content": content, **message, **joined}, *results]


def _thought(item: Json) -> str:
    parts = item.get("content") or item.get("summary") or ()
    return "\n".join(part["text"] for part in parts)


def _read_call(item: Json, kind: str) -> Json:
    custom = kind == "custom_tool_call"
    arguments = encode({INPUT: item["input"]}).decode() if custom else item["arguments"]
    return _called(item["call_id"], full_name(item["name"], item.get("namespace")), arguments)


def _read_taught_call(item: Json, tool: TaughtTool) -> Json:
    return _called(item["call_id"], tool.kind, encode(tool.read(item[tool.field])).decode())


def _called(call_id: str, name: str, arguments: str) -> Json:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _mend(call: Json, reader: ArgumentReader) -> bool:
    """Whether its arguments had to be repaired."""
    written: str = call["function"]["arguments"]
    call["function"]["arguments"] = readable = reader.readable(written)
    return written != readable


def _content(content: str | list[Json]) -> str | list[Json]:
    """A string where all is text, as every chat template takes it."""
    if isinstance(content, str):
        return content
    if any(part["type"] == "input_image" for part in content):
        return [_part(part) for part in content]
    return "\n".join(part["refusal"] if part["type"] == "refusal" else part["text"] for part in content)


def _part(part: Json) -> Json:
    if part["type"] != "input_image":
        return {"type": "text", "text": part["text"]}
    # Not every vLLM knows the word, and none needs it: it takes an image as it is.
    detail = {"detail": part["detail"]} if part.get("detail") not in (None, "original") else {}
    return {"type": "image_url", "image_url": {"url": part["image_url"], **detail}}
