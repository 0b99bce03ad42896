"""The conversation of a request: what each message may hold, and which call a result belongs to.

Lenient where real clients and servers need it, and nowhere else: older vLLMs wrote `tool_calls: []` into every answer,
and clients send it back; some servers number their calls from `call_0` in every turn, so an id may come again in a
later message, and a result belongs to the call nearest before it; a result may be missing, because a user stopped the
agent; an assistant may have said nothing, for which clients write `content: null`, or `[]` beside calls (kimi-cli): a
thought that was cut off is such an answer; a tool may return images, which OpenAI doesn't take and vLLM does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
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
from extproc.contract.media_urls import MediaUrls, url_fault
from extproc.contract.members import word_problems
from extproc.contract.withheld import part_refusals

Json: TypeAlias = dict[str, Any]

ROLES = ("system", "developer", "user", "assistant", "tool", "function")

_PART_FIELDS: Mapping[str, tuple[str, tuple[type, ...], str] | None] = {
    # type of a part: the field that it needs, its types, and how to say them
    "text": ("text", (str,), "a string"),
    "refusal": ("refusal", (str,), "a string"),
    "thinking": None,
    "image_url": ("image_url", (dict, str), "an object with a 'url'"),
    "input_audio": ("input_audio", (dict,), "an object with 'data' and 'format'"),
    "audio_url": ("audio_url", (dict, str), "an object with a 'url'"),
    "video_url": ("video_url", (dict, str), "an object with a 'url'"),
    "file": ("file", (dict,), "an object"),
    "image_embeds": None,
    "audio_embeds": None,
}
MOST_ITEMS = 65536
"""Messages, parts and calls together. Each takes some 7 us to check and to render, and one request must not hold up the
others: Envoy gives up after 5 s."""

PART_TYPES = tuple(_PART_FIELDS)
"""OpenAI's parts, and those that vLLM takes besides."""

_SHOWN_TO_MODELS = frozenset(PART_TYPES) - {"refusal", "thinking"}
_PARTS_OF_ROLE: Mapping[str, frozenset[str]] = {
    "user": _SHOWN_TO_MODELS,
    "assistant": frozenset({"text", "refusal", "thinking"}),
    "tool": _SHOWN_TO_MODELS,
}
_TEXT_ONLY = frozenset({"text"})

_PLAIN_TEXTS = ("name", "reasoning", "reasoning_content", "refusal")


@dataclass(frozen=True, slots=True)
class PartRules:
    """What of the contents of messages a client is trusted with."""

    withheld: Collection[str] = ()
    media_urls: MediaUrls = "any"


def message_problems(fields: Json, reader: ArgumentReader, parts: PartRules) -> Iterator[ApiError]:
    """What is wrong with `messages`, message by message."""
    messages = fields.get("messages")
    if messages is None:
        yield missing_parameter("messages", "Send an array with at least one message.")
        return
    if not isinstance(messages, list):
        yield invalid_type("messages", "an array", messages)
        return
    if not messages:
        yield empty_array("messages", "at least one message")
    if (items := len(messages) + sum(map(parts_and_calls, messages))) > MOST_ITEMS:
        yield array_too_long("messages", f"at most {MOST_ITEMS} messages, content parts and tool calls together", items)
        return
    calls = Calls(reader)
    for index, message in enumerate(messages):
        yield from one_message_problems(message, f"messages[{index}]", calls, parts)


def parts_and_calls(message: Any) -> int:
    """How many a message has, valid or not."""
    if not isinstance(message, dict):
        return 0
    lists = (message.get("content"), message.get("tool_calls"))
    return sum(len(items) for items in lists if isinstance(items, list))


def one_message_problems(message: Any, param: str, calls: Calls, parts: PartRules) -> Iterator[ApiError]:
    """What is wrong with the message that comes next in a conversation, and stands at `param`."""
    if not isinstance(message, dict):
        yield invalid_type(param, "an object with 'role' and 'content'", message)
        return
    role = message.get("role")
    if not isinstance(role, str) or role not in ROLES:
        yield from word_problems(message, "role", param, ROLES)
    else:
        yield from _content(message, role, param, parts)
        yield from calls.problems(message, role, param)
        if role == "function" and message.get("name") is None:
            yield missing_parameter(f"{param}.name", "Name the function that this is the result of.")
        elif role == "function" and message["name"] == "":
            yield empty_string(f"{param}.name", "the name of the function that this is the result of")
    for name in _PLAIN_TEXTS:
        if (value := message.get(name)) is not None and not isinstance(value, str):
            yield invalid_type(f"{param}.{name}", "a string", value)
    if (audio := message.get("audio")) is not None and not isinstance(audio, dict):
        yield invalid_type(f"{param}.audio", "an object with an 'id'", audio)


def _content(message: Json, role: str, param: str, parts: PartRules) -> Iterator[ApiError]:
    param = f"{param}.content"
    content = message.get("content")
    if content is None:
        # By OpenAI's reference a function's may be null.
        if role != "assistant" and not (role == "function" and "content" in message):
            yield missing_parameter(param, f"A message of role {role} needs content: a string, which may be empty.")
    elif isinstance(content, list):
        if not content and role != "assistant":
            yield empty_array(param, "at least one part")
        for index, part in enumerate(content):
            yield from _part(part, role, f"{param}[{index}]", parts)
    elif not isinstance(content, str):
        yield invalid_type(param, "a string or an array of parts", content)


def _part(part: Any, role: str, param: str, rules: PartRules) -> Iterator[ApiError]:
    if not isinstance(part, dict):
        yield invalid_type(param, "an object with a 'type'", part)
        return
    kind = part.get("type")
    allowed = _PARTS_OF_ROLE.get(role, _TEXT_ONLY)
    if kind is None:
        yield missing_parameter(f"{param}.type", "Expected 'text', or another type of content part.")
    elif not isinstance(kind, str):
        yield invalid_type(f"{param}.type", "a string", kind)
    elif kind not in allowed:
        there_are = ", ".join(name for name in PART_TYPES if name in allowed)
        yield invalid_value(
            f"{param}.type", f"a message of role {role} may have parts of type {there_are}, got {quoted(kind)}."
        )
    else:
        yield from part_refusals(part, param, rules.withheld)
        yield from _needed_field(part, kind, param, rules.media_urls)


def _needed_field(part: Json, kind: str, param: str, media_urls: MediaUrls) -> Iterator[ApiError]:
    if (needed := _PART_FIELDS[kind]) is not None:
        name, types, expected = needed
        value = part.get(name)
        if value is None:
            yield missing_parameter(f"{param}.{name}", f"Expected {expected}.")
        elif not isinstance(value, types):
            yield invalid_type(f"{param}.{name}", expected, value)
        elif name.endswith("_url"):
            url: Any = value
            place = f"{param}.{name}"
            if isinstance(value, dict):
                url, place = value.get("url"), f"{place}.url"
            if url is None:
                yield missing_parameter(place, "Expected a string: https:// or data:.")
            elif not isinstance(url, str):
                yield invalid_type(place, "a string", url)
            elif (violation := url_fault(url, media_urls)) is not None:
                yield invalid_value(place, violation)


class Calls:
    """The calls of the conversation so far."""

    def __init__(self, reader: ArgumentReader) -> None:
        self._reader = reader
        self._known: set[str] = set()

    def problems(self, message: Json, role: str, param: str) -> Iterator[ApiError]:
        calls = message.get("tool_calls")
        if calls is not None:
            yield from self._tool_calls(calls, role, f"{param}.tool_calls")
        if (call := message.get("function_call")) is not None:
            here = f"{param}.function_call"
            if role != "assistant":
                yield invalid_value(here, "only a message of role assistant can have a function call.")
            elif calls:
                yield invalid_value(here, "it can't be combined with 'tool_calls'; send one of the two.")
            else:
                yield from self._function(call, here)
        if role == "tool":
            yield from self._result(message, f"{param}.tool_call_id")

    def _tool_calls(self, calls: Any, role: str, param: str) -> Iterator[ApiError]:
        if role != "assistant":
            yield invalid_value(param, "only a message of role assistant can have tool calls.")
        elif not isinstance(calls, list):
            yield invalid_type(param, "an array", calls)
        else:
            ids: set[str] = set()
            for index, call in enumerate(calls):
                yield from self._tool_call(call, f"{param}[{index}]", ids)
            self._known |= ids

    def _tool_call(self, call: Any, param: str, ids: set[str]) -> Iterator[ApiError]:
        if not isinstance(call, dict):
            yield invalid_type(param, "an object", call)
            return
        call_id = call.get("id")
        if call_id is None:
            yield missing_parameter(f"{param}.id", "Send the id that the call came with.")
        elif call_id == "":
            yield empty_string(f"{param}.id", "the id that the call came with")
        elif not isinstance(call_id, str):
            yield invalid_type(f"{param}.id", "a string", call_id)
        else:
            if call_id in ids:
                yield invalid_value(
                    f"{param}.id", f"{quoted(call_id)} is the id of another call of this message; ids must be unique."
                )
            ids.add(call_id)
        if (kind := call.get("type")) is not None and kind != "function":
            yield _not_a_function(f"{param}.type", kind)
        if call.get("function") is None:
            yield missing_parameter(f"{param}.function", "Send an object with 'name' and 'arguments'.")
        else:
            yield from self._function(call["function"], f"{param}.function")

    def _function(self, function: Any, param: str) -> Iterator[ApiError]:
        if not isinstance(function, dict):
            yield invalid_type(param, "an object with 'name' and 'arguments'", function)
            return
        name, arguments = function.get("name"), function.get("arguments")
        if name is None:
            yield missing_parameter(f"{param}.name", "Name the function that was called.")
        elif name == "":
            yield empty_string(f"{param}.name", "the name of the function that was called")
        elif not isinstance(name, str):
            yield invalid_type(f"{param}.name", "a string", name)
        param = f"{param}.arguments"
        if arguments is None:
            yield missing_parameter(param, "Send the arguments that the call came with, as a string of JSON.")
        elif not isinstance(arguments, str):
            yield invalid_type(param, "a string that holds JSON", arguments)
        elif self._reader.readable(arguments) is None:
            yield invalid_request(
                f"Malformed arguments in '{param}': expected a string that holds a JSON object, such as "
                '"{\\"city\\": \\"Paris\\"}". Send them as the model should have written them.',
                param,
                "malformed_tool_arguments",
            )

    def _result(self, message: Json, param: str) -> Iterator[ApiError]:
        call_id = message.get("tool_call_id")
        if call_id is None:
            yield missing_parameter(param, "Send the id of the tool call that this is the result of.")
        elif not isinstance(call_id, str):
            yield invalid_type(param, "a string", call_id)
        elif call_id not in self._known:
            yield invalid_value(
                param,
                f"{quoted(call_id)} is the id of no tool call in an earlier assistant message; "
                "send the assistant message with its tool_calls before the results.",
            )


def _not_a_function(param: str, kind: Any) -> ApiError:
    if not isinstance(kind, str):
        return invalid_type(param, "'function'", kind)
    return invalid_value(param, f"only 'function' is supported, got {quoted(kind)}.")
