"""What clients got from a stage's gateway, read out of its own recordings: the same look at all clients.

Many a client shows its user only the model's last words, and forgives an answer without an end or with a wrong reason.
So it isn't asked: what the gateway sent is compared with what the model said, word for word.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from extproc.recording.document import Document, Kind
from extproc.recording.envoy_json import bytes_from_json
from tests.clients.actor import Said
from tests.messages import calls_of, message_of, said_in
from tests.responses import response_calls, response_of, response_text


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a request with tools."""

    said: Said
    reason: str | None
    """The only `finish_reason` in it, or what Anthropic's `stop_reason` is among those."""
    closed: bool
    """A stream with its dialect's end, or a whole answer."""


def recorded_answers(directory: Path) -> list[Answer]:
    """All that came to their ends, in the order in which they were asked for."""
    documents = (Document.read(path.read_bytes()) for path in sorted(directory.glob("*.json")))
    return [answer for document in documents if (answer := _answer(document)) is not None]


def _answer(document: Document) -> Answer | None:
    """None where the client left, and where the answer went past the processor: there was no tool in it."""
    bodies = [
        entry.what["response_body"]["response"].get("body_mutation", {})
        for entry in document.entries
        if entry.kind is Kind.PROCESSOR and "response_body" in entry.what
    ]
    if bodies and all("streamed_response" in body for body in bodies):
        stream = b"".join(bytes_from_json(body["streamed_response"].get("body", "")) for body in bodies)
        # Who has read the last event may leave before Envoy has told that it was the last.
        ended = stream.endswith((b"data: [DONE]\n\n", b'data: {"type":"message_stop"}\n\n')) or _RESPONDED in stream
        return _of_stream(stream) if document.finished or ended else None
    if not document.finished or not bodies:
        return None
    [body] = bodies
    whole = json.loads(body["body"])
    if "input_tokens" in whole or whole.get("type") == "error":
        return None  # nothing that was said
    if whole.get("type") == "message":
        return _of_message(whole)
    if whole.get("object") == "response":
        return _of_response(whole)
    [choice] = whole["choices"]
    message = choice["message"]
    functions = [call["function"] for call in message.get("tool_calls") or ()]
    return Answer(_said(message["content"], functions), choice["finish_reason"], closed=True)


_REASONS = {"tool_use": "tool_calls", "end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length"}


def _of_message(message: dict[str, Any]) -> Answer:
    calls = tuple(calls_of(message))
    return Answer(Said(said_in(message, "text").strip(), calls), _REASONS.get(message["stop_reason"]), closed=True)


_RESPONDED = b"event: response.completed\n"


def _of_response(response: dict[str, Any]) -> Answer:
    calls = tuple(response_calls(response))
    reason = {"completed": "tool_calls" if calls else "stop", "incomplete": "length"}.get(response["status"])
    return Answer(Said(response_text(response).strip(), calls), reason, closed=True)


def _of_stream(body: bytes) -> Answer:
    if body.startswith(b"event: response."):
        return _of_response(response_of(body))
    if body.startswith(b"event:"):
        return _of_message(message_of(body))
    events = [line.removeprefix("data: ") for line in body.decode().splitlines() if line]
    choices = [choice for event in events if event != "[DONE]" for choice in json.loads(event)["choices"]]
    content = "".join(choice["delta"].get("content") or "" for choice in choices)
    pieces = [piece for choice in choices for piece in choice["delta"].get("tool_calls") or ()]
    functions = [_joined(of_one) for _, of_one in groupby(pieces, lambda piece: piece["index"])]
    reasons = [choice["finish_reason"] for choice in choices if choice["finish_reason"] is not None]
    reason = reasons[0] if len(reasons) == 1 else None
    return Answer(_said(content, functions), reason, closed=events[-1] == "[DONE]" and events.count("[DONE]") == 1)


def _joined(pieces: Iterator[dict[str, Any]]) -> dict[str, str]:
    functions = [piece["function"] for piece in pieces]
    return {"name": functions[0]["name"], "arguments": "".join(each.get("arguments", "") for each in functions)}


def _said(content: str | None, functions: list[dict[str, str]]) -> Said:
    calls = tuple((function["name"], json.loads(function["arguments"])) for function in functions)
    return Said((content or "").strip(), calls)
