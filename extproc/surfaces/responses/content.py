"""The input of a Responses request: what each item may hold, and what the model is shown for it.

Items stand one after the other where chat completions nest them: what an assistant thought, said and called between two
items of others is one message of the house's own. What OpenAI's servers did (`web_search_call` and the like) is left
out and named, because no model here could have done it. Nothing is kept from one request to the next, so that a
reference to what was said before is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from extproc.contract.errors import (
    ApiError,
    array_too_long,
    empty_array,
    empty_string,
    invalid_request,
    invalid_type,
    invalid_value,
    missing_parameter,
    quoted,
)
from extproc.contract.history import ArgumentReader
from extproc.contract.json_body import encode
from extproc.contract.media_urls import MediaUrls, url_fault
from extproc.surfaces.responses.tools import INPUT, full_name

Json: TypeAlias = dict[str, Any]

ROLES = ("user", "assistant", "system", "developer")
MOST_ITEMS = 65536
"""Items and content parts together, as in chat completions."""
_CALLS = ("function_call", "custom_tool_call")
_RESULTS = ("function_call_output", "custom_tool_call_output")
LEFT_OUT = frozenset(
    """
    web_search_call file_search_call code_interpreter_call computer_call computer_call_output image_generation_call
    mcp_call mcp_list_tools mcp_approval_request mcp_approval_response local_shell_call local_shell_call_output
    shell_call shell_call_output apply_patch_call apply_patch_call_output tool_search_call tool_search_output compaction
    """.split()
)
"""Items that no backend gets."""
KINDS = ("message", *_CALLS, *_RESULTS, "reasoning")
_PARTS = {
    "user": ("input_text", "input_image"),
    "assistant": ("output_text", "refusal"),
    "system": ("input_text",),
    "developer": ("input_text",),
}
STATELESS = (
    "this gateway keeps nothing between requests. Send the whole conversation as 'input', or put vLLM's agentic-api in "
    "front, which keeps conversations (docs/responses.md)."
)


def input_problems(fields: Json, reader: ArgumentReader, media_urls: MediaUrls) -> Iterator[ApiError]:
    """What is wrong with `instructions` and `input`, item by item."""
    instructions = fields.get("instructions")
    if not isinstance(instructions, str | None):
        yield invalid_type("instructions", "a string", instructions)
    items = fields.get("input")
    if items is None:
        yield missing_parameter("input", "Send a string, or an array of items.")
    elif isinstance(items, list):
        if not items:
            yield empty_array("input", "at least one item")
        if (count := len(items) + sum(map(_parts, items))) > MOST_ITEMS:
            yield array_too_long("input", f"at most {MOST_ITEMS} items and content parts together", count)
            return
        check = _Check(reader, media_urls)
        for index, item in enumerate(items):
            yield from check.item(item, f"input[{index}]")
    elif not isinstance(items, str):
        yield invalid_type("input", "a string or an array of items", items)


def _parts(item: Any) -> int:
    content = item.get("content") if isinstance(item, dict) else None
    return len(content) if isinstance(content, list) else 0


def kind_of(item: Json) -> Any:
    """The type of an item; a message needn't say it."""
    return item.get("type") or ("message" if "role" in item else None)


class _Check:
    """The items of one request, in their order."""

    def __init__(self, reader: ArgumentReader, media_urls: MediaUrls) -> None:
        self._reader = reader
        self._media_urls = media_urls
        self._calls: set[str] = set()

    def item(self, item: Any, param: str) -> Iterator[ApiError]:
        if not isinstance(item, dict):
            yield invalid_type(param, "an object with a 'type'", item)
            return
        kind = kind_of(item)
        if kind is None:
            yield missing_parameter(f"{param}.type", f"Expected one of: {', '.join(KINDS)}.")
        elif kind == "item_reference":
            yield invalid_value(f"{param}.type", STATELESS)
        elif not isinstance(kind, str):
            yield invalid_type(f"{param}.type", "a string", kind)
        elif kind == "message":
            yield from self._message(item, param)
        elif kind in _CALLS:
            yield from self._call(item, kind, param)
        elif kind in _RESULTS:
            yield from self._result(item, param)
        elif kind == "reasoning":
            yield from _thoughts(item, param)
        elif kind not in LEFT_OUT:
            yield invalid_value(f"{param}.type", f"expected one of {', '.join(KINDS)}, got {quoted(kind)}.")

    def _message(self, item: Json, param: str) -> Iterator[ApiError]:
        role, content = item.get("role"), item.get("content")
        if not isinstance(role, str) or role not in ROLES:
            yield invalid_value(f"{param}.role", f"expected one of {', '.join(ROLES)}.")
        elif content is None:
            yield missing_parameter(f"{param}.content", "Expected a string or an array of content parts.")
        else:
            # Some clients send a model's own words back as if a user had written them.
            allowed = (*_PARTS[role], *(("input_text",) if role == "assistant" else ("output_text",)))
            yield from self._content(content, f"{param}.content", allowed)

    def _content(self, content: Any, param: str, allowed: tuple[str, ...]) -> Iterator[ApiError]:
        if isinstance(content, str):
            return
        if not isinstance(content, list):
            yield invalid_type(param, "a string or an array of content parts", content)
            return
        for index, part in enumerate(content):
            here = f"{param}[{index}]"
            kind = part.get("type") if isinstance(part, dict) else None
            if not isinstance(part, dict):
                yield invalid_type(here, "an object with a 'type'", part)
            elif not isinstance(kind, str) or kind not in allowed:
                yield invalid_value(f"{here}.type", f"expected one of {', '.join(allowed)}.")
            elif kind == "input_image":
                yield from self._image(part, here)
            else:
                yield from _string(part, "refusal" if kind == "refusal" else "text", here)

    def _image(self, part: Json, param: str) -> Iterator[ApiError]:
        if part.get("image_url") is None and part.get("file_id") is not None:
            yield invalid_value(f"{param}.file_id", "files aren't kept here; send 'image_url', as data: for example.")
            return
        yield from _string(part, "image_url", param)
        url = part.get("image_url")
        if isinstance(url, str) and (fault := url_fault(url, self._media_urls)) is not None:
            yield invalid_value(f"{param}.image_url", fault)

    def _call(self, item: Json, kind: str, param: str) -> Iterator[ApiError]:
        yield from _name(item, "call_id", param)
        yield from _name(item, "name", param)
        if kind == "custom_tool_call":
            yield from _string(item, "input", param)
        else:
            yield from _string(item, "arguments", param)
            arguments = item.get("arguments")
            if isinstance(arguments, str) and self._reader.readable(arguments) is None:
                yield invalid_request(
                    f"Malformed arguments in '{param}.arguments': expected a string that holds a JSON object. Send "
                    "them as the model should have written them.",
                    f"{param}.arguments",
                    "malformed_tool_arguments",
                )
        if isinstance(call_id := item.get("call_id"), str):
            self._calls.add(call_id)

    def _result(self, item: Json, param: str) -> Iterator[ApiError]:
        call_id, place = item.get("call_id"), f"{param}.call_id"
        if call_id is None:
            yield missing_parameter(place, "Send the id of the call that this is the result of.")
        elif not isinstance(call_id, str):
            yield invalid_type(place, "a string", call_id)
        elif call_id not in self._calls:
            yield invalid_value(
                place, f"{quoted(call_id)} is the id of no call in an earlier item; send the call before its result."
            )
        if item.get("output") is None:
            yield missing_parameter(f"{param}.output", "Expected a string or an array of content parts.")
        else:
            yield from self._content(item["output"], f"{param}.output", ("input_text", "input_image", "output_text"))


def _thoughts(item: Json, param: str) -> Iterator[ApiError]:
    for name in ("summary", "content"):
        parts = item.get(name)
        if not isinstance(parts, list | None):
            yield invalid_type(f"{param}.{name}", "an array", parts)
            continue
        for index, part in enumerate(parts or ()):
            if not isinstance(part, dict) or not isinstance(part.get("text"), str):
                yield invalid_type(f"{param}.{name}[{index}]", "an object with a 'text'", part)


def _string(value: Json, name: str, param: str) -> Iterator[ApiError]:
    if value.get(name) is None:
        yield missing_parameter(f"{param}.{name}", "Expected a string.")
    elif not isinstance(value[name], str):
        yield invalid_type(f"{param}.{name}", "a string", value[name])


def _name(item: Json, name: str, param: str) -> Iterator[ApiError]:
    yield from _string(item, name, param)
    if item.get(name) == "":
        yield empty_string(f"{param}.{name}", "what the call came with")


# What the model is shown


@dataclass(slots=True)
class Conversation:
    """The house's messages, as they are put together."""

    messages: list[Json] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)
    """The types of items that no backend gets."""
    repaired: int = 0
    """How many malformed arguments were repaired."""


def read_conversation(fields: Json, reader: ArgumentReader) -> Conversation:
    """Those of a valid request."""
    conversation = Conversation()
    system = [fields["instructions"]] if fields.get("instructions") else []
    items = fields["input"]
    messages: list[Json] = []
    for item in [{"role": "user", "content": items}] if isinstance(items, str) else items:
        kind = kind_of(item)
        if kind in LEFT_OUT:
            conversation.left_out.add(kind)
        elif kind == "reasoning":
            if thought := _thought(item):
                _assistant(messages)["reasoning"] = thought
        elif kind in _CALLS:
            call = _read_call(item, kind)
            readable = reader.readable(call["function"]["arguments"])
            conversation.repaired += readable != call["function"]["arguments"]
            call["function"]["arguments"] = readable
            _assistant(messages).setdefault("tool_calls", []).append(call)
        elif kind in _RESULTS:
            messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": _content(item["output"])})
        elif item["role"] == "assistant":
            _said(_assistant(messages), _content(item["content"]))
        elif item["role"] == "user":
            messages.append({"role": "user", "content": _content(item["content"])})
        elif any(message["role"] == "assistant" for message in messages):
            messages.append({"role": "system", "content": _content(item["content"])})
        else:  # the client's own instructions, wherever they stand before the first answer
            content = _content(item["content"])
            assert isinstance(content, str)  # it has no other parts
            system.append(content)
    if system:
        conversation.messages.append({"role": "system", "content": "\n\n".join(system)})
    conversation.messages += [_finished(message) for message in messages]
    return conversation


def _assistant(messages: list[Json]) -> Json:
    """The message in which the model goes on."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant"})
    return messages[-1]


def _said(message: Json, content: str | list[Json]) -> None:
    before = message.get("content")
    message["content"] = f"{before}\n{content}" if before else content


def _finished(message: Json) -> Json:
    if message["role"] != "assistant" or "content" in message:
        return message
    return {"role": "assistant", "content": None if message.get("tool_calls") else "", **message}


def _thought(item: Json) -> str:
    parts = item.get("content") or item.get("summary") or ()
    return "\n".join(part["text"] for part in parts)


def _read_call(item: Json, kind: str) -> Json:
    custom = kind == "custom_tool_call"
    arguments = encode({INPUT: item["input"]}).decode() if custom else item["arguments"]
    name = full_name(item["name"], item.get("namespace"))
    return {"id": item["call_id"], "type": "function", "function": {"name": name, "arguments": arguments}}


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
    detail = {"detail": part["detail"]} if isinstance(part.get("detail"), str) else {}
    return {"type": "image_url", "image_url": {"url": part["image_url"], **detail}}
