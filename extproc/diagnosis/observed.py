"""What a recording shows of an exchange, as far as somebody who asks for causes needs it.

The request is read once more, and what the model wrote is parsed once more, by the same code that did it then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self, TypeAlias

import orjson

from extproc.config import Backend, Config, Model
from extproc.contract.errors import LIMIT_REFUSALS, ApiError
from extproc.contract.json_array import tools_by_name
from extproc.contract.sse import DONE, Data, SseDecoder
from extproc.exchange.content_coding import UnreadableCodingError, decoded
from extproc.names import CHAT_PATH, REPLY_HEADER, ROUND_HEADER
from extproc.recording.document import Document, Kind
from extproc.recording.envoy_json import bytes_from_json
from extproc.recording.replay import settings_of
from extproc.surfaces import ROUTES, prepare
from extproc.toolcalls import Parsed
from extproc.toolcalls.events import collect
from extproc.turn.readers import reader_for
from extproc.turn.spec import ResponseSpec
from extproc.turn.upstream import UpstreamRequest

Json: TypeAlias = dict[str, Any]

_NOTHING: Json = {}
MOST_READ = 32 * 1024
"""Characters of what a model wrote that are looked at."""


@dataclass(slots=True)
class Choice:
    """What the backend sent of one choice, joined."""

    content: str = ""
    reasoning: str = ""
    calls: dict[Any, Json] = field(default_factory=dict)
    """The backend's own, by their index."""
    finish_reason: str | None = None

    def take(self, message: Json) -> None:
        """A message, or the next delta of one."""
        self.content += message.get("content") or ""
        self.reasoning += message.get("reasoning") or message.get("reasoning_content") or ""
        for place, call in enumerate(message.get("tool_calls") or ()):
            function = call.get("function") or {}
            kept = self.calls.setdefault(call.get("index", place), {"name": "", "arguments": ""})
            kept["name"] += function.get("name") or ""
            kept["arguments"] += function.get("arguments") or ""


def parsed_of(spec: ResponseSpec, said: Choice) -> Parsed:
    """What the gateway makes of a choice."""
    reader = reader_for(spec)
    calls = [
        {"index": place, "id": f"call_{place}", "type": "function", "function": call}
        for place, call in enumerate(said.calls.values())
    ]
    message = {"content": said.content[:MOST_READ], **({"tool_calls": calls} if calls else {})}
    cut_off = said.finish_reason == "length"
    parsed = collect([*reader.feed(message), *reader.close(cut_off=cut_off)])
    parsed.reasoning = f"{said.reasoning}{parsed.reasoning or ''}" or None
    return parsed


@dataclass(frozen=True)
class Observed:
    """One exchange."""

    document: Document
    config: Config

    @classmethod
    def of(cls, document: Document) -> Self:
        """Raises RecordingError when its settings can't be used here."""
        return cls(document, settings_of(document))

    # What was asked

    @cached_property
    def request_fields(self) -> Mapping[str, str]:
        return self._fields("request_headers")

    @cached_property
    def path(self) -> str:
        """As the gateway knows it."""
        path = self.config.path_of(self.request_fields.get(":path", CHAT_PATH).partition("?")[0])
        return path if path in ROUTES else CHAT_PATH

    @cached_property
    def request(self) -> Json:
        """Empty for what is no JSON object."""
        return _object(self._body("request_body"))

    @cached_property
    def _read(self) -> UpstreamRequest | ApiError:
        try:
            return prepare(
                self._body("request_body"), self.config, self.path, inner=ROUND_HEADER in self.request_fields
            )
        except ApiError as error:
            return error.caught()

    @property
    def refusal(self) -> ApiError | None:
        """Why the request went to no backend."""
        return self._read if isinstance(self._read, ApiError) else None

    @property
    def prepared(self) -> UpstreamRequest | None:
        return self._read if isinstance(self._read, UpstreamRequest) else None

    @property
    def spec(self) -> ResponseSpec | None:
        """How the answer is read; None where it passes as it is."""
        return self.prepared.answer if self.prepared is not None else None

    @cached_property
    def model(self) -> Model | None:
        name = self.request.get("model")
        return self.config.model_of(name) if isinstance(name, str) else None

    @cached_property
    def backend(self) -> Backend | None:
        return self.config.backends_by_name[self.model.backend] if self.model is not None else None

    @cached_property
    def tools(self) -> Mapping[str, Mapping[str, Any]]:
        """Those that the model may call, by name."""
        return tools_by_name(self.spec.tools) if self.spec is not None else {}

    @property
    def follows_result(self) -> bool:
        """Whether the model was asked what it makes of a tool's result."""
        asked = self.prepared.asked if self.prepared is not None else None
        return asked is not None and asked.follows_result

    @cached_property
    def upstream(self) -> Json:
        """What the backend was asked."""
        for entry in self.document.entries:
            if entry.kind is Kind.PROCESSOR and "request_body" in entry.what:
                body = entry.what["request_body"].get("response", {}).get("body_mutation", {}).get("body")
                return self.request if body is None else _object(bytes_from_json(body))
        return {}

    # What came back

    @cached_property
    def status(self) -> str:
        """The backend's, or Envoy's in its place; empty for none."""
        return self._fields("response_headers").get(":status", "")

    @property
    def refused_by_limit(self) -> bool:
        """Whether Envoy itself has refused it by a limit behind the processor, so that no backend was asked."""
        return self._fields("response_headers").get(REPLY_HEADER) in LIMIT_REFUSALS

    @cached_property
    def answer(self) -> bytes:
        """The answer's body, without its coding; empty where that can't be read."""
        coding = self._fields("response_headers").get("content-encoding", "")
        with suppress(UnreadableCodingError):
            return decoded(b"".join(self._bodies("response_body")), coding, self.config.limits.max_body_bytes)
        return b""

    @cached_property
    def bodies(self) -> list[Json]:
        """The completion, or the chunks of the stream."""
        if whole := _object(self.answer):
            return [whole]
        decoder = SseDecoder()
        events = [*decoder.feed(self.answer), *decoder.close()]
        return [_object(event.data) for event in events if isinstance(event, Data) and event.data != DONE]

    @cached_property
    def was_stream(self) -> bool:
        return self._fields("response_headers").get("content-type", "").startswith("text/event-stream")

    @cached_property
    def error(self) -> Json:
        """The error that the backend sent; empty for none."""
        return next((body["error"] for body in self.bodies if isinstance(body.get("error"), dict)), _NOTHING)

    @cached_property
    def choices(self) -> list[Choice]:
        by_index: dict[Any, Choice] = {}
        for body in self.bodies:
            for each in body.get("choices") or ():
                choice = by_index.setdefault(each.get("index"), Choice())
                choice.take(each.get("delta") or each.get("message") or {})
                choice.finish_reason = each.get("finish_reason") or choice.finish_reason
        return list(by_index.values())

    @cached_property
    def said(self) -> Choice:
        """The first choice; an empty one if there is none."""
        return self.choices[0] if self.choices else Choice()

    @cached_property
    def usage(self) -> Json:
        return next((body["usage"] for body in reversed(self.bodies) if isinstance(body.get("usage"), dict)), {})

    @cached_property
    def parsed(self) -> Parsed:
        """What the gateway makes of the first choice."""
        if self.spec is None:
            return Parsed(self.said.content or None, self.said.reasoning or None, [])
        return parsed_of(self.spec, self.said)

    @property
    def ended_with(self) -> str | None:
        """The finish reason, where the answer has one."""
        return self.said.finish_reason

    # What the gateway told

    @cached_property
    def facts(self) -> Json:
        """What the access log was told: `model`, `backend`, `error`, and more."""
        told: Json = {}
        for entry in self.document.entries:
            if entry.kind is Kind.PROCESSOR:
                told |= entry.what.get("dynamic_metadata", {}).get("extproc", {})
        return told

    @property
    def code(self) -> str:
        """Of the error that the client got; empty for none."""
        return str(self.facts.get("error", ""))

    @cached_property
    def client_error(self) -> str:
        """What that error says."""
        for entry in self.document.entries:
            if entry.kind is Kind.PROCESSOR:
                replaced = entry.what.get("response_body", {}).get("response", {}).get("body_mutation", {})
                for body in (entry.what.get("immediate_response", {}).get("body"), replaced.get("body")):
                    error = _object(bytes_from_json(body)).get("error") if body is not None else None
                    if isinstance(error, dict):
                        return str(error.get("message", ""))
        return ""

    @property
    def fell_silent(self) -> bool:
        return any(entry.kind is Kind.IDLE_TIMEOUT for entry in self.document.entries)

    @property
    def broke_off(self) -> str:
        """The exception that ended it; empty for none."""
        kind = (entry.what["exception"] for entry in self.document.entries if entry.kind is Kind.BROKE_OFF)
        return next(kind, "")

    # In the recording

    def _of_envoy(self, part: str) -> Iterator[Any]:
        for entry in self.document.entries:
            if entry.kind is Kind.ENVOY and part in entry.what:
                yield entry.what[part]

    def _fields(self, part: str) -> Mapping[str, str]:
        headers = next(self._of_envoy(part), _NOTHING).get("headers", ())
        return {name: value if isinstance(value, str) else "" for name, value in headers}

    def _bodies(self, part: str) -> Iterator[bytes]:
        return (bytes_from_json(message.get("body", "")) for message in self._of_envoy(part))

    def _body(self, part: str) -> bytes:
        return next(self._bodies(part), b"")


def _object(data: bytes) -> Json:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
