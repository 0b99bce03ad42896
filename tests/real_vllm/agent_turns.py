"""The turns of Codex and Claude Code as the gateway recorded them: what the model wrote, and what the client got of it.

What a client got is held against the grammar of its dialect's events (of Responses also against OpenAI's own types),
and against the same answer when it comes byte by byte. What the model wrote may be any nonsense.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from extproc.names import MESSAGES_PATH, RESPONSES_PATH
from extproc.recording.difference import first_difference
from extproc.recording.document import Kind
from extproc.recording.replay import ReplayResult, replay
from tests import messages, responses
from tests.real_vllm.turns import Turn, is_call, objects_in, read_turns

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Got:
    """What an answer's events say so far, whether they are in order or not."""

    text: str
    calls: list[tuple[str, str]]
    """Names, and arguments as they are."""
    reason: str | None
    """Anthropic's `stop_reason`, or the `status` of a response; None where the events have no end."""


@dataclass(frozen=True, slots=True)
class AgentTurn:
    """A request in Messages or Responses, and its answer."""

    recorded: Turn

    @property
    def path(self) -> str:
        """Where it was sent to."""
        for entry in self.recorded.document.entries:
            if entry.kind is Kind.ENVOY and "request_headers" in entry.what:
                path = str(dict(entry.what["request_headers"]["headers"])[":path"])
                return path.partition("?")[0]
        return ""

    @property
    def got(self) -> Got:
        """What the client got."""
        events = _events(self.recorded.stream)
        return _got_of_responses(events) if self.path == RESPONSES_PATH else _got_of_messages(events)

    @property
    def ended(self) -> bool:
        """Whether the answer came to its end; who has read its last event may leave before the gateway has ended it."""
        return self.recorded.ended or self.got.reason is not None

    @property
    def written(self) -> str:
        """What the model wrote."""
        return self.recorded.written

    @property
    def is_cut_off(self) -> bool:
        """Whether the answer ended at the most tokens that it may have."""
        return self.got.reason in ("max_tokens", "incomplete")

    @property
    def shown_objects(self) -> list[Any]:
        """Markup, and JSON objects with the name of an offered tool, in what is shown as words."""
        offered = [tool.get("name", tool.get("type")) for tool in self.recorded.request.get("tools", ())]
        return objects_in(self.got.text, offered)

    def problems(self) -> list[str]:
        """What is wrong with what the client got. There should be nothing, whatever the model wrote."""
        found = [f"a call is shown as text: {shown}" for shown in self.shown_objects if is_call(shown)]
        status = self.recorded.status
        if status == 0:
            return found  # the client left before there was an answer
        if self.path not in _CHECKS or self.recorded.request.get("stream") is not True:
            return [*found, f"not a request for a stream of Messages or Responses: {self.path}"]
        if status != 200:
            return found if _is_too_long(self.recorded.error) else [*found, f"status {status}: {self.recorded.error}"]
        events_of, check_whole = _CHECKS[self.path]
        stream = self.recorded.stream
        try:
            if self.ended:
                check_whole(stream.encode())
            else:
                events_of(stream[: stream.rfind("\n\n") + 2].encode())
        except (AssertionError, LookupError, TypeError, ValueError) as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            found.append(f"not a stream of {self.path}: {type(error).__name__} {error} ({at.line})")
        document = self.recorded.document
        if (difference := first_difference(ReplayResult.recorded(document), replay(document, 1))) is not None:
            found.append(f"byte by byte it is another answer: {difference}")
        return found


def read_agent_turns(recordings: Path) -> list[AgentTurn]:
    """All that are in a directory, in the order in which they began."""
    return list(map(AgentTurn, read_turns(recordings)))


def _is_too_long(error: Json) -> bool:
    """By what each of the clients knows it."""
    return error.get("code") == "context_length_exceeded" or str(error["message"]).startswith("prompt is too long: ")


def _check_message(stream: bytes) -> None:
    message = messages.message_of(stream, parsed=False)
    called = any(block["type"] == "tool_use" for block in message["content"])
    assert message["stop_reason"] in ("max_tokens", "tool_use" if called else "end_turn"), message
    assert message["usage"]["output_tokens"] > 0, message


def _check_response(stream: bytes) -> None:
    response = responses.response_of(stream)
    details = {"completed": None, "incomplete": {"reason": "max_output_tokens"}}
    assert response["incomplete_details"] == details[response["status"]], response
    assert response["usage"]["output_tokens"] > 0, response


_CHECKS: dict[str, tuple[Callable[[bytes], list[Json]], Callable[[bytes], None]]] = {
    MESSAGES_PATH: (messages.events_of, _check_message),
    RESPONSES_PATH: (responses.events_of, _check_response),
}
"""How events are read one by one, and how a whole stream is checked."""


def _events(stream: str) -> list[Json]:
    """The data of those that are complete."""
    *blocks, _ = stream.split("\n\n")
    lines = (line for block in blocks for line in block.split("\n"))
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def _got_of_messages(events: list[Json]) -> Got:
    text, reason, calls = "", None, [["", ""]]
    for event in events:
        match event:
            case {"type": "content_block_start", "content_block": {"type": "tool_use", "name": name}}:
                calls.append([name, ""])
            case {"type": "content_block_delta", "delta": {"partial_json": piece}}:
                calls[-1][1] += piece
            case {"type": "content_block_delta", "delta": {"type": "text_delta", "text": piece}}:
                text += piece
            case {"type": "message_delta", "delta": {"stop_reason": reason}}:
                pass
    return Got(text, [(name, arguments) for name, arguments in calls[1:]], reason)


def _got_of_responses(events: list[Json]) -> Got:
    text, reason, calls = "", None, [["", ""]]
    for event in events:
        match event:
            case {"type": "response.output_item.added", "item": {"type": "function_call", "name": name}}:
                calls.append([name, ""])
            case {"type": "response.function_call_arguments.delta", "delta": piece}:
                calls[-1][1] += piece
            case {"type": "response.output_text.delta", "delta": piece}:
                text += piece
            case {"type": "response.completed" | "response.incomplete" | "response.failed", "response": response}:
                reason = response["status"]
    return Got(text, [(name, arguments) for name, arguments in calls[1:]], reason)
