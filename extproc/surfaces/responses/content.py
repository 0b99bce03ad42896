"""The input of a Responses request, item by item: what each may hold, and what is wrong with it.

What OpenAI's servers did (`web_search_call` and the like) is left out and named, because no model here could have done
it; not so calls of MCP servers, which a model here may well have made. Nothing is kept from one request to the next, so
that a reference to what was said before is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from extproc.contract.checks import OneOf
from extproc.contract.errors import (
    ApiError,
    array_too_long,
    empty_array,
    invalid_request,
    invalid_type,
    invalid_value,
    missing_parameter,
    quoted,
)
from extproc.contract.history import ArgumentReader
from extproc.contract.media_urls import MediaUrls, url_fault
from extproc.contract.members import name_problems, string_problems
from extproc.surfaces.responses import served_calls
from extproc.surfaces.responses.served_calls import MCP_CALL
from extproc.surfaces.responses.taught_tools import BY_CALL, BY_RESULT, TaughtTool

Json: TypeAlias = dict[str, Any]

ROLES = ("user", "assistant", "system", "developer")
MOST_ITEMS = 65536
"""Items and content parts together, as in chat completions."""
CALLS = ("function_call", "custom_tool_call")
RESULTS = ("function_call_output", "custom_tool_call_output")
LEFT_OUT = frozenset(
    """
    web_search_call file_search_call code_interpreter_call computer_call computer_call_output image_generation_call
    mcp_list_tools mcp_approval_request mcp_approval_response
    """.split()
)
"""Items that no backend gets."""
KINDS = ("message", *CALLS, *RESULTS, *BY_CALL, *BY_RESULT, MCP_CALL, "reasoning")
_KEPT_ELSEWHERE = ("item_reference", "compaction")
"""Items that stand for what was said before, and hold nothing of it that could be read here."""
READ_MEMBERS = served_calls.MEMBERS | frozenset(
    """
    type id status role content call_id name namespace arguments input output summary action operation execution tools
    environment max_output_length
    """.split()
)
"""The members of items that are read, or say nothing to a model."""
_DETAILS = ("auto", "low", "high", "original")
_PARTS = {
    "user": ("input_text", "input_image"),
    "assistant": ("output_text", "refusal"),
    "system": ("input_text",),
    "developer": ("input_text",),
}
FORGETFUL = "this gateway keeps nothing between requests."


def input_problems(fields: Json, reader: ArgumentReader, media_urls: MediaUrls) -> Iterator[ApiError]:
    """What is wrong with `instructions` and `input`, item by item."""
    yield from instructions_problems(fields)
    items = fields.get("input")
    if items is None:
        yield missing_parameter("input", "Send a string, or an array of items.")
    elif isinstance(items, list):
        if not items:
            yield empty_array("input", "at least one item")
        if (count := len(items) + sum(map(parts_in, items))) > MOST_ITEMS:
            yield array_too_long("input", f"at most {MOST_ITEMS} items and content parts together", count)
            return
        if items and not any(map(is_shown, items)):
            yield invalid_value("input", "nothing of it can be shown to a model here; send what the user said.")
        calls: set[str] = set()
        for index, item in enumerate(items):
            yield from item_problems(item, f"input[{index}]", calls, reader, media_urls)
    elif not isinstance(items, str):
        yield invalid_type("input", "a string or an array of items", items)


def instructions_problems(fields: Json) -> Iterator[ApiError]:
    """What is wrong with `instructions`."""
    if not isinstance(instructions := fields.get("instructions"), str | None):
        yield invalid_type("instructions", "a string", instructions)


def item_problems(
    item: Any, param: str, calls: set[str], reader: ArgumentReader, media_urls: MediaUrls
) -> Iterator[ApiError]:
    """What is wrong with one item. `calls` are the ids of those before it; its own are added."""
    yield from _Check(reader, media_urls, calls).item(item, param)


def parts_in(item: Any) -> int:
    """How many content parts an item holds, which may be wrong."""
    lists = [item.get(name) for name in ("content", "output", "summary")] if isinstance(item, dict) else ()
    return sum(len(parts) for parts in lists if isinstance(parts, list))


def is_shown(item: Any) -> bool:
    """Whether a model would see anything of an item. One that is wrong is told of elsewhere."""
    kind = kind_of(item) if isinstance(item, dict) else None
    if kind == "reasoning":
        return any(
            not isinstance(parts, list) or any(not isinstance(part, dict) or part.get("text") != "" for part in parts)
            for name in ("content", "summary")
            if (parts := item.get(name))
        )
    return not isinstance(kind, str) or not is_left_out(item, kind)


def kind_of(item: Json) -> Any:
    """The type of an item; a message needn't say it."""
    return item.get("type") or ("message" if "role" in item else None)


def is_left_out(item: Json, kind: Any) -> bool:
    """Whether no backend gets it: what OpenAI's servers did, a search for tools among it."""
    return kind in LEFT_OUT or (kind in _SEARCHES and item.get("execution") != "client")


_SEARCHES = ("tool_search_call", "tool_search_output")


class _Check:
    """The items of one request, in their order."""

    def __init__(self, reader: ArgumentReader, media_urls: MediaUrls, calls: set[str]) -> None:
        self._reader = reader
        self._media_urls = media_urls
        self._calls = calls

    def item(self, item: Any, param: str) -> Iterator[ApiError]:
        if not isinstance(item, dict):
            yield invalid_type(param, "an object with a 'type'", item)
            return
        kind = kind_of(item)
        if kind is None:
            yield missing_parameter(f"{param}.type", f"Expected one of: {', '.join(KINDS)}.")
        elif kind in _KEPT_ELSEWHERE:
            yield invalid_value(
                f"{param}.type",
                f"{FORGETFUL} Send the items themselves, as some clients do when they are told 'store: false'.",
            )
        elif not isinstance(kind, str):
            yield invalid_type(f"{param}.type", "a string", kind)
        elif is_left_out(item, kind):
            return
        elif kind == "message":
            yield from self._message(item, param)
        elif kind in BY_CALL:
            yield from self._taught_call(item, BY_CALL[kind], param)
        elif kind in BY_RESULT:
            yield from self._taught_result(item, BY_RESULT[kind], param)
        elif kind in CALLS:
            yield from self._call(item, kind, param)
        elif kind in RESULTS:
            yield from self._result(item, param)
        elif kind == MCP_CALL:
            yield from served_calls.problems(item, param)
            yield from self._arguments(item, param)
        elif kind == "reasoning":
            yield from _thoughts(item, param)
        else:
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
                yield from string_problems(part, "refusal" if kind == "refusal" else "text", here)

    def _image(self, part: Json, param: str) -> Iterator[ApiError]:
        if part.get("image_url") is None and part.get("file_id") is not None:
            yield invalid_value(f"{param}.file_id", "files aren't kept here; send 'image_url', as data: for example.")
            return
        yield from string_problems(part, "image_url", param)
        if (detail := part.get("detail")) is not None:
            yield from OneOf(_DETAILS).problems(detail, f"{param}.detail")
        url = part.get("image_url")
        if isinstance(url, str) and (fault := url_fault(url, self._media_urls)) is not None:
            yield invalid_value(f"{param}.image_url", fault)

    def _call(self, item: Json, kind: str, param: str) -> Iterator[ApiError]:
        yield from name_problems(item, "call_id", param)
        yield from name_problems(item, "name", param)
        if not isinstance(namespace := item.get("namespace"), str | None):
            yield invalid_type(f"{param}.namespace", "a string", namespace)
        if kind == "custom_tool_call":
            yield from string_problems(item, "input", param)
        else:
            yield from self._arguments(item, param)
        if isinstance(call_id := item.get("call_id"), str):
            self._calls.add(call_id)

    def _arguments(self, item: Json, param: str) -> Iterator[ApiError]:
        yield from string_problems(item, "arguments", param)
        arguments = item.get("arguments")
        if isinstance(arguments, str) and self._reader.readable(arguments) is None:
            yield invalid_request(
                f"Malformed arguments in '{param}.arguments': expected a string that holds a JSON object. Send "
                "them as the model should have written them.",
                f"{param}.arguments",
                "malformed_tool_arguments",
            )

    def _taught_call(self, item: Json, tool: TaughtTool, param: str) -> Iterator[ApiError]:
        yield from name_problems(item, "call_id", param)
        if not isinstance(id_ := item.get("id"), str | None):
            yield invalid_type(f"{param}.id", "a string", id_)
        try:
            tool.read(item[tool.field])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            yield invalid_value(f"{param}.{tool.field}", f"it isn't what a '{tool.call}' has there: {_why(error)}.")
        self._calls.update(id_ for id_ in (item.get("call_id"), item.get("id")) if isinstance(id_, str))

    def _taught_result(self, item: Json, tool: TaughtTool, param: str) -> Iterator[ApiError]:
        yield from self._call_id(id_of_call(item), f"{param}.call_id")
        try:
            tool.said(item)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            yield invalid_value(
                f"{param}.{tool.result_field}", f"it isn't what a '{tool.result}' has there: {_why(error)}."
            )

    def _result(self, item: Json, param: str) -> Iterator[ApiError]:
        yield from self._call_id(item.get("call_id"), f"{param}.call_id")
        if item.get("output") is None:
            yield missing_parameter(f"{param}.output", "Expected a string or an array of content parts.")
        else:
            yield from self._content(item["output"], f"{param}.output", ("input_text", "input_image", "output_text"))

    def _call_id(self, call_id: Any, place: str) -> Iterator[ApiError]:
        if call_id is None:
            yield missing_parameter(place, "Send the id of the call that this is the result of.")
        elif not isinstance(call_id, str):
            yield invalid_type(place, "a string", call_id)
        elif call_id not in self._calls:
            yield invalid_value(
                place, f"{quoted(call_id)} is the id of no call in an earlier item; send the call before its result."
            )


def id_of_call(item: Json) -> Any:
    """Of which a taught tool's result is. In OpenAI's reference the result of a local shell has it as `id`."""
    return item.get("call_id") or item.get("id")


def _why(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _thoughts(item: Json, param: str) -> Iterator[ApiError]:
    for name in ("summary", "content"):
        parts = item.get(name)
        if not isinstance(parts, list | None):
            yield invalid_type(f"{param}.{name}", "an array", parts)
            continue
        for index, part in enumerate(parts or ()):
            if not isinstance(part, dict) or not isinstance(part.get("text"), str):
                yield invalid_type(f"{param}.{name}[{index}]", "an object with a 'text'", part)
