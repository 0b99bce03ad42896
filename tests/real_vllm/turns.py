"""The turns of a conversation as the gateway recorded them: what the model wrote, and what the client got of it.

What a client got is held against docs/openapi.yaml, against the official client's own reading, and against the same
answer when it comes byte by byte. That is about the gateway alone; what the model wrote may be any nonsense.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openai import OpenAIError
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from extproc.recording.difference import first_difference, streamed_piece
from extproc.recording.document import Document, Kind
from extproc.recording.envoy_json import bytes_from_json
from extproc.recording.replay import ReplayResult, replay
from extproc.wire import StatusCode
from tests.openapi.document import check, check_stream

_MARKUP = "<tool_call>"


@dataclass(frozen=True, slots=True)
class Turn:
    """A request with `stream: true`, and its answer."""

    document: Document

    @property
    def ended(self) -> bool:
        """Whether the answer came to its end; else the client left before."""
        return self.document.finished

    @property
    def status(self) -> int:
        """The answer's; 0 while there is none."""
        for entry in reversed(self.document.entries):
            if "immediate_response" in entry.what:
                return StatusCode.Value(entry.what["immediate_response"]["status"]["code"])
            if entry.kind is Kind.ENVOY and "response_headers" in entry.what:
                return int(dict(entry.what["response_headers"]["headers"])[":status"])
        return 0

    @property
    def error_code(self) -> str | None:
        """That of the error which the client got in the place of an answer."""
        code = self.error.get("code")
        return None if code is None else str(code)

    @property
    def error(self) -> dict[str, Any]:
        """What the client got in the place of an answer, in its dialect's form; empty if there is no error."""
        for entry in reversed(self.document.entries):
            told = entry.what.get("immediate_response") or _whole_body(entry.what)
            if entry.kind is Kind.PROCESSOR and told:
                return dict(json.loads(told["body"])["error"])
        return {}

    @property
    def request(self) -> dict[str, Any]:
        """What the client asked; empty while it hasn't."""
        return json.loads(self.request_body) if self.request_body else {}

    @property
    def request_body(self) -> bytes:
        """The same as it came."""
        return b"".join(self._received("request_body"))

    @property
    def offered(self) -> list[str]:
        """The tools of the request."""
        return [tool["function"]["name"] for tool in self.request.get("tools", ())]

    @property
    def written(self) -> str:
        """What the model wrote."""
        return _content(_events(b"".join(self._received("response_body")).decode()))

    @property
    def stream(self) -> str:
        """What the client got."""
        pieces = (streamed_piece(entry) for entry in self.document.entries)
        return b"".join(bytes_from_json(piece.get("body", "")) for piece in pieces if piece is not None).decode()

    @property
    def text(self) -> str:
        """What of it is words."""
        return _content(_events(self.stream))

    @property
    def calls(self) -> list[tuple[str, str]]:
        """What of it is calls: names, and arguments as they are."""
        found: dict[int, list[str]] = {}
        for choice in _choices(_events(self.stream)):
            for call in choice["delta"].get("tool_calls") or ():
                name_and_arguments = found.setdefault(call["index"], ["", ""])
                name_and_arguments[0] += call["function"].get("name") or ""
                name_and_arguments[1] += call["function"].get("arguments") or ""
        return [(name, arguments) for name, arguments in found.values()]

    @property
    def finish_reason(self) -> str | None:
        """None if the client left before."""
        reasons = [choice["finish_reason"] for choice in _choices(_events(self.stream)) if choice["finish_reason"]]
        return reasons[-1] if reasons else None

    @property
    def shown_objects(self) -> list[Any]:
        """Markup, and JSON objects with the name of an offered tool, in what is shown as words."""
        return objects_in(self.text, self.offered)

    @property
    def leaked_calls(self) -> list[Any]:
        """Those among them that are calls where they stand alone: the arguments are an object, or a list."""
        return [shown for shown in self.shown_objects if is_call(shown)]

    def problems(self) -> list[str]:
        """What is wrong with what the client got. There should be nothing, whatever the model wrote."""
        found = [f"a call is shown as text: {call}" for call in self.leaked_calls]
        if self.status != 200:
            known = self.status == 0 or self.error_code == "context_length_exceeded"
            return found if known else [*found, f"an error with status {self.status}: {self.error_code}"]
        try:
            if self.ended:
                check_stream(self.stream)
                _check_end(self.finish_reason, self.calls)
            state = ChatCompletionStreamState()
            for event in _events(self.stream):
                check("ChatCompletionChunk", event)
                state.handle_chunk(ChatCompletionChunk.model_validate(event))
        except (AssertionError, OpenAIError, TypeError, ValueError) as error:
            found.append(f"{type(error).__name__}: {error}")
        if (difference := first_difference(ReplayResult.recorded(self.document), replay(self.document, 1))) is not None:
            found.append(f"byte by byte it is another answer: {difference}")
        return found

    def _received(self, part: str) -> Iterator[bytes]:
        for entry in self.document.entries:
            if entry.kind is Kind.ENVOY and part in entry.what:
                yield bytes_from_json(entry.what[part].get("body", ""))


def objects_in(text: str, offered: Collection[str]) -> list[Any]:
    """Markup of calls, and JSON objects with the name of an offered tool, in a text."""
    found: list[Any] = [_MARKUP] * text.count(_MARKUP)
    for brace in re.finditer(r"\{", text):
        try:
            value, _ = json.JSONDecoder().raw_decode(text, brace.start())
        except ValueError:
            continue
        if value.get("name") in offered:
            found.append(value)
    return found


def is_call(shown: Any) -> bool:
    """Whether what `objects_in` found could have been run: markup, or an object with arguments."""
    return shown == _MARKUP or isinstance(shown.get("arguments", shown.get("parameters")), (dict, list))


def has_two_answers(folder: Path) -> bool:
    """Whether so many answers of a gateway in this folder have been recorded, whatever they were for."""
    return len([*(folder / "recordings").glob("*.json")]) >= 2


def read_turns(recordings: Path) -> list[Turn]:
    """All that are in a directory, in the order in which they began."""
    return [Turn(Document.read(file.read_bytes())) for file in sorted(recordings.glob("*.json"))]


def _whole_body(what: dict[str, Any]) -> Any:
    """What the processor puts in the place of a body that came in one piece."""
    mutation = what.get("response_body", {}).get("response", {}).get("body_mutation", {})
    return mutation if "body" in mutation else None


def _check_end(finish_reason: str | None, calls: list[tuple[str, str]]) -> None:
    assert finish_reason in ("length", "tool_calls" if calls else "stop"), (finish_reason, calls)


def _events(stream: str) -> list[Any]:
    """Those that are complete."""
    *events, _ = stream.split("\n\n")
    data = (event.removeprefix("data: ") for event in events)
    return [json.loads(event) for event in data if event != "[DONE]"]


def _choices(events: list[Any]) -> Iterator[Any]:
    return (choice for event in events for choice in event.get("choices", ()))


def _content(events: list[Any]) -> str:
    return "".join(choice["delta"].get("content") or "" for choice in _choices(events))
