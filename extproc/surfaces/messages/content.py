"""The conversation of a Messages request: what each block may hold, and what the model is shown for it.

A message of blocks becomes one or several of the house's own: results of tools are messages of role tool, wherever they
stand between other blocks. Thinking of earlier turns is shown as such; where it was redacted there is nothing to show.
What Anthropic's own servers did (`server_tool_use` and its results) is left out and named, because no model here could
have done it. `cache_control` and `citations` mean nothing here: vLLM caches every prefix.

Claude Code writes messages of role system between the others, which few chat templates can show: those before the first
answer join the system prompt, later ones become the user's, in tags.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from extproc.contract.errors import (
    ApiError,
    array_too_long,
    empty_array,
    invalid_type,
    invalid_value,
    missing_parameter,
    quoted,
)
from extproc.contract.json_body import encode
from extproc.contract.media_urls import url_fault
from extproc.contract.members import name_problems, string_problems, word_problems
from extproc.contract.rules import Rules

Json: TypeAlias = dict[str, Any]

ROLES = ("user", "assistant", "system")
MOST_ITEMS = 65536
"""Messages and blocks together, as in chat completions."""

_MEDIA_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_SERVERS = "server_tool_use"
_RESULTS_OF_SERVERS = (
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "mcp_tool_use",
    "mcp_tool_result",
)
LEFT_OUT = frozenset({_SERVERS, *_RESULTS_OF_SERVERS})
"""Blocks that no backend gets."""
_OF_ROLE = {
    "user": ("text", "image", "document", "tool_result", "search_result", *_RESULTS_OF_SERVERS),
    "assistant": ("text", "thinking", "redacted_thinking", "tool_use", _SERVERS, *_RESULTS_OF_SERVERS),
    "system": ("text",),
}
_IN_RESULTS = ("text", "image", "document", "search_result", "tool_reference")
_REMINDER = "<system-reminder>\n{}\n</system-reminder>"


def content_problems(fields: Json, rules: Rules) -> Iterator[ApiError]:
    """What is wrong with `system` and `messages`, block by block."""
    yield from system_problems(fields, rules)
    messages = fields.get("messages")
    if messages is None:
        yield missing_parameter("messages", "Send an array with at least one message.")
        return
    if not isinstance(messages, list):
        yield invalid_type("messages", "an array", messages)
        return
    if not messages:
        yield empty_array("messages", "at least one message")
    if (items := len(messages) + sum(map(blocks_in, messages))) > MOST_ITEMS:
        yield array_too_long("messages", f"at most {MOST_ITEMS} messages and content blocks together", items)
        return
    calls: set[str] = set()
    for index, message in enumerate(messages):
        yield from message_problems(message, f"messages[{index}]", calls, rules)


def system_problems(fields: Json, rules: Rules) -> Iterator[ApiError]:
    """What is wrong with `system`."""
    if (system := fields.get("system")) is not None:
        yield from _Check(rules, set()).blocks(system, "system", "system")


def message_problems(message: Any, param: str, calls: set[str], rules: Rules) -> Iterator[ApiError]:
    """What is wrong with one message. `calls` are the ids of those before it; its own are added."""
    if not isinstance(message, dict):
        yield invalid_type(param, "an object with 'role' and 'content'", message)
        return
    role = message.get("role")
    if not isinstance(role, str) or role not in ROLES:
        yield from word_problems(message, "role", param, ROLES)
    elif message.get("content") is None:
        yield missing_parameter(f"{param}.content", "Expected a string or an array of content blocks.")
    elif message["content"] == [] and role == "user":
        yield empty_array(f"{param}.content", "at least one block")
    else:
        yield from _Check(rules, calls).blocks(message["content"], f"{param}.content", role)


def blocks_in(message: Any) -> int:
    """How many a message holds, which may be wrong."""
    content = message.get("content") if isinstance(message, dict) else None
    return len(content) if isinstance(content, list) else 0


class _Check:
    """The blocks of one request, in their order."""

    def __init__(self, rules: Rules, calls: set[str]) -> None:
        self._rules = rules
        self._calls = calls

    def blocks(self, content: Any, param: str, role: str) -> Iterator[ApiError]:
        if isinstance(content, str):
            return
        if not isinstance(content, list):
            yield invalid_type(param, "a string or an array of content blocks", content)
            return
        for index, block in enumerate(content):
            yield from self._block(block, f"{param}[{index}]", _OF_ROLE[role])

    def _block(self, block: Any, param: str, allowed: tuple[str, ...]) -> Iterator[ApiError]:
        if not isinstance(block, dict):
            yield invalid_type(param, "an object with a 'type'", block)
            return
        kind = block.get("type")
        if not isinstance(kind, str) or kind not in allowed:
            yield from word_problems(block, "type", param, allowed)
        elif kind in ("text", "thinking"):
            yield from string_problems(block, kind, param)
        elif kind == "image":
            yield from self._image(block, param)
        elif kind == "document":
            yield from _document(block, param)
        elif kind == "search_result":
            yield from string_problems(block, "source", param)
            yield from string_problems(block, "title", param)
            yield from self.blocks(block.get("content"), f"{param}.content", "system")
        elif kind == "tool_reference":
            yield from string_problems(block, "tool_name", param)
        elif kind == "tool_use":
            yield from self._tool_use(block, param)
        elif kind == "tool_result":
            yield from self._tool_result(block, param)

    def _image(self, block: Json, param: str) -> Iterator[ApiError]:
        source, param = block.get("source"), f"{param}.source"
        if source is None:
            yield missing_parameter(param, "Send an object with 'type' 'base64' or 'url'.")
        elif not isinstance(source, dict):
            yield invalid_type(param, "an object with a 'type'", source)
        elif source.get("type") == "base64":
            yield from string_problems(source, "data", param)
            if source.get("media_type") not in _MEDIA_TYPES:
                yield invalid_value(f"{param}.media_type", f"expected one of {', '.join(_MEDIA_TYPES)}.")
        elif source.get("type") == "url":
            yield from string_problems(source, "url", param)
            url = source.get("url")
            if isinstance(url, str) and (fault := url_fault(url, self._rules.media_urls)) is not None:
                yield invalid_value(f"{param}.url", fault)
        else:
            yield invalid_value(f"{param}.type", "expected 'base64' or 'url': files aren't kept here.")

    def _tool_use(self, block: Json, param: str) -> Iterator[ApiError]:
        yield from name_problems(block, "id", param)
        yield from name_problems(block, "name", param)
        if not isinstance(block.get("input"), dict):
            yield invalid_type(f"{param}.input", "an object, the arguments that the call came with", block.get("input"))
        if isinstance(call_id := block.get("id"), str):
            self._calls.add(call_id)

    def _tool_result(self, block: Json, param: str) -> Iterator[ApiError]:
        call_id, place = block.get("tool_use_id"), f"{param}.tool_use_id"
        if call_id is None:
            yield missing_parameter(place, "Send the id of the tool_use block that this is the result of.")
        elif not isinstance(call_id, str):
            yield invalid_type(place, "a string", call_id)
        elif call_id not in self._calls:
            yield invalid_value(
                place,
                f"{quoted(call_id)} is the id of no tool_use block in an earlier assistant message; "
                "send that message before the results.",
            )
        error = block.get("is_error")
        if error is not None and not isinstance(error, bool):
            yield invalid_type(f"{param}.is_error", "a boolean", error)
        content = block.get("content")
        if isinstance(content, list):
            for index, inner in enumerate(content):
                yield from self._block(inner, f"{param}.content[{index}]", _IN_RESULTS)
        elif not isinstance(content, str | None):
            yield invalid_type(f"{param}.content", "a string or an array of content blocks", content)


def _document(block: Json, param: str) -> Iterator[ApiError]:
    source, param = block.get("source"), f"{param}.source"
    if not isinstance(source, dict):
        yield invalid_type(param, "an object with 'type': 'text' and 'data'", source)
    elif source.get("type") == "text":
        yield from string_problems(source, "data", param)
    else:
        yield invalid_value(
            f"{param}.type", "expected 'text': models here read no PDF; send its text, or its pages as images."
        )


# What the model is shown


class Conversation:
    """A valid conversation as the house's messages, message by message."""

    __slots__ = ("_system", "_waiting", "begun", "is_empty", "left_out")

    def __init__(self, fields: Json) -> None:
        """Before its first message; of the request only `system` matters."""
        self.left_out: set[str] = set()
        """The types of blocks that no backend gets."""
        self.is_empty = True
        """Nothing of it can be shown but the system prompt."""
        self.begun = False
        """The client has begun the model's answer."""
        self._system = _texts(fields.get("system") or "")
        self._waiting: list[Json] | None = []  # what stands before the first answer; None behind it

    def add(self, message: Json) -> list[Json]:
        """Those that are complete by the next one."""
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        self.left_out |= LEFT_OUT.intersection(block["type"] for block in blocks)
        made: list[Json] = []
        match message["role"]:
            case "assistant":
                made = [_answer(blocks)]
            case "system" if self._waiting is not None:
                self._system += _texts(content)
            case "system":
                made = [{"role": "user", "content": _REMINDER.format("\n\n".join(_texts(content)))}]
            case _:
                made = list(_asked(blocks))
        if made:
            self.is_empty, self.begun = False, _is_begun(made[-1])
        if self._waiting is None:
            return made
        self._waiting += made
        return self.rest() if message["role"] == "assistant" else []

    def rest(self) -> list[Json]:
        """Those that are complete because there are no more."""
        if self._waiting is None:
            return []
        said = "\n\n".join(filter(None, self._system))
        made = [*([{"role": "system", "content": said}] if said else ()), *self._waiting]
        self._system, self._waiting = [], None
        return made


def _is_begun(last: Json) -> bool:
    return last["role"] == "assistant" and bool(last["content"]) and not last.get("tool_calls")


def _texts(content: str | list[Json]) -> list[str]:
    return [content] if isinstance(content, str) else [block["text"] for block in content]


def _answer(blocks: list[Json]) -> Json:
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    thoughts = [block["thinking"] for block in blocks if block["type"] == "thinking" and block["thinking"]]
    calls = [
        {
            "id": block["id"],
            "type": "function",
            "function": {"name": block["name"], "arguments": encode(block["input"]).decode()},
        }
        for block in blocks
        if block["type"] == "tool_use"
    ]
    message: Json = {"role": "assistant", "content": "\n".join(texts) or (None if calls else "")}
    if thoughts:
        message["reasoning"] = "\n".join(thoughts)
    if calls:
        message["tool_calls"] = calls
    return message


def _asked(blocks: list[Json]) -> Iterator[Json]:
    """Results as messages of their own, and what stands between them as the user's."""
    parts: list[Json] = []
    for block in blocks:
        if block["type"] != "tool_result":
            parts += _parts(block)
            continue
        if parts:
            yield {"role": "user", "content": _content(parts)}
            parts = []
        yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": _result(block)}
    if parts:
        yield {"role": "user", "content": _content(parts)}


def _result(block: Json) -> str | list[Json]:
    content = block.get("content") or ""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    parts = [part for inner in blocks for part in _parts(inner)]
    if block.get("is_error"):
        said = parts[0]["text"] if parts and parts[0]["type"] == "text" else None
        if said is None or not said.lstrip("<").lower().startswith(("error", "tool_use_error")):
            parts.insert(0, {"type": "text", "text": "Error:"})
    return _content(parts)


def _content(parts: list[Json]) -> str | list[Json]:
    """A string where all is text, as every chat template takes it."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _parts(block: Json) -> list[Json]:
    match block["type"]:
        case "text":
            return [{"type": "text", "text": block["text"]}]
        case "image":
            source = block["source"]
            is_url = source["type"] == "url"
            url = source["url"] if is_url else f"data:{source['media_type']};base64,{source['data']}"
            return [{"type": "image_url", "image_url": {"url": url}}]
        case "document":
            title = block.get("title")
            text = block["source"]["data"]
            return [{"type": "text", "text": f"{title}\n\n{text}" if isinstance(title, str) and title else text}]
        case "search_result":
            return [{"type": "text", "text": "\n".join((block["title"], block["source"], *_texts(block["content"])))}]
        case "tool_reference":
            return [{"type": "text", "text": block["tool_name"]}]
        case _:
            return []
