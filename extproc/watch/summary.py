"""An exchange as a line of the list: what is known of it at a glance, as it comes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import orjson

from extproc.exchange.protocol import fields_of
from extproc.names import METADATA_NAMESPACE, ROUND_HEADER, STREAM_ENDED
from extproc.recording.document import Kind
from extproc.recording.kept import Kept
from extproc.watch.lanes import Lanes
from extproc.wire import ProcessingRequest, ProcessingResponse

State: TypeAlias = Literal["running", "failed", "invalid", "called", "answered", "passed", "left"]
"""It goes on; the client got an error; a call was wrong; there were calls; there were words; the answer went past the
processor; the client left, or the backend's stream broke."""

_CALLED = re.compile(
    rb'"finish_reason":"(?:tool_calls|function_call)"|"stop_reason":"tool_use"|"type":"(?:function_call|custom_tool_call)"'
)
"""In an answer to a client, of whichever dialect. In what was said quotes are escaped, so none of it is found there."""
_WORDS = 160
"""Characters of what was asked."""


@dataclass(slots=True)
class Summary:
    """One exchange."""

    id: str
    began: str
    state: State = "running"
    ms: float = 0.0
    """How long it has taken so far,"""
    first_ms: float | None = None
    """and how long until its backend's first words."""
    model: str | None = None
    client: str | None = None
    path: str = ""
    request_id: str = ""
    round: int | None = None
    is_run: bool = False
    stream: bool = False
    status: int | None = None
    error: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    invalid_calls: int = 0
    tools: int = 0
    """How many the client offered."""
    calls: list[str] = field(default_factory=list)
    """The tools that the model called, and how many slips were repaired: when it has been looked at closely."""
    repairs: int = 0
    words: str = ""
    """What the client said last."""
    complete: bool = True
    _answered: bool = False
    _passes: bool = False
    _called: bool = False

    def as_json(self) -> dict[str, Any]:
        """For the page."""
        return {name: getattr(self, name) for name in _FIELDS}

    def take(self, kept: Kept) -> None:
        """The next step of the exchange."""
        self.ms = kept.at
        match kept.kind:
            case Kind.ENVOY:
                self._came(kept)
            case Kind.PROCESSOR:
                self._said(ProcessingResponse.FromString(kept.data))
            case Kind.IDLE_TIMEOUT:
                self._answered = True
                self.error = self.error or "silence"
            case Kind.BROKE_OFF:
                self._answered = True
                self.error = str(kept.beside.get("exception", "bug"))
            case Kind.ASKED | Kind.SAID:
                pass

    def _came(self, kept: Kept) -> None:
        message = ProcessingRequest.FromString(kept.data)
        if message.HasField("response_body"):
            if message.response_body.body and self.first_ms is None:
                self.first_ms = kept.at
            self._answered |= message.response_body.end_of_stream
        elif message.HasField("request_headers"):
            fields = fields_of(message.request_headers.headers, ":path", "x-request-id", ROUND_HEADER)
            self.path, self.request_id = fields.get(":path", "").partition("?")[0], fields.get("x-request-id", "")
            number = fields.get(ROUND_HEADER, "")
            self.round = int(number) if number.isdecimal() else None
        elif message.HasField("request_body"):
            self._asked(message.request_body.body)
        elif message.HasField("response_headers"):
            status = fields_of(message.response_headers.headers, ":status").get(":status", "")
            self.status = int(status) if status.isdecimal() else None
        elif message.HasField("response_trailers"):
            self._answered = True

    def _asked(self, body: bytes) -> None:
        try:
            fields = orjson.loads(body)
        except orjson.JSONDecodeError:
            return
        if not isinstance(fields, dict):
            return
        self.model = self.model or (name if isinstance(name := fields.get("model"), str) else None)
        self.stream = fields.get("stream") is True
        tools = fields.get("tools") or fields.get("functions")
        self.tools = len(tools) if isinstance(tools, list) else 0
        self.words = _last_words(fields.get("messages") or fields.get("input"))

    def _said(self, reply: ProcessingResponse) -> None:
        if reply.HasField("dynamic_metadata"):
            said = reply.dynamic_metadata.fields[METADATA_NAMESPACE].struct_value.fields
            self._answered |= STREAM_ENDED in said
            if "error" in said:
                self.error = said["error"].string_value
            for name in ("prompt_tokens", "completion_tokens", "invalid_calls"):
                if name in said:
                    setattr(self, name, round(said[name].number_value))
        if reply.HasField("immediate_response"):
            self._answered = True
            self.status = reply.immediate_response.status.code
        elif reply.HasField("response_headers"):
            self._passes = not reply.HasField("mode_override")
        elif reply.HasField("response_body") and not self._called:
            mutation = reply.response_body.response.body_mutation
            self._called = _CALLED.search(mutation.body or mutation.streamed_response.body) is not None

    def ended(self, *, complete: bool) -> None:
        """There comes nothing more."""
        self.complete = complete
        if self.error is not None or (self.status is not None and self.status >= 400):
            self.state = "failed"
        elif not complete:
            self.state = "answered"
        elif self._passes:
            self.state = "passed"
        elif not self._answered:
            self.state = "left"
        else:
            self.state = "invalid" if self.invalid_calls else "called" if self._called else "answered"

    def read(self, lanes: Lanes) -> None:
        """What its lanes tell besides, when it has ended."""
        outputs = [output for output in lanes.written if output.index == 0]
        if lanes.retry is not None and lanes.retry.written:
            outputs = lanes.retry.written[:1]
        self.calls = [call.name for output in outputs for call in output.calls]
        self.repairs = sum(len(output.repairs) for output in outputs)


_FIELDS = tuple(name for name in Summary.__slots__ if not name.startswith("_"))


def _last_words(messages: Any) -> str:
    """Of the last message that is somebody's words, or a tool's result."""
    if isinstance(messages, str):
        return messages[:_WORDS]
    for message in reversed(messages if isinstance(messages, list) else []):
        content = message.get("content") or message.get("output") if isinstance(message, dict) else None
        if isinstance(content, list):
            parts = [part.get("text") for part in content if isinstance(part, dict)]
            content = " ".join(part for part in parts if isinstance(part, str))
        if isinstance(content, str) and content.strip():
            return " ".join(content.split())[:_WORDS]
    return ""
