"""The four lanes of an exchange, of its recording: what the client asked, what the model was shown, what it wrote, and
what the client got. Pure; whatever of them isn't there, or can't be read, is None and told in the notes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeAlias

import orjson

from extproc.config import Config
from extproc.contract.errors import ApiError
from extproc.exchange.protocol import is_event_stream
from extproc.names import METADATA_NAMESPACE, ROUND_HEADER, RUNNER
from extproc.recording.difference import streamed_piece
from extproc.recording.document import Document, Entry, Kind, RecordingError
from extproc.recording.envoy_json import bytes_from_json
from extproc.recording.replay import settings_of
from extproc.surfaces import ROUTES, prepare
from extproc.turn.spec import ResponseSpec
from extproc.watch.received import Received, received
from extproc.watch.written import Piece, Written, written
from extproc.wire import StatusCode

Json: TypeAlias = dict[str, Any]

SHOWN = 1024 * 1024
"""Bytes of a body that is shown."""


@dataclass(slots=True)
class Timing:
    """Milliseconds after the beginning; None for what hasn't come."""

    asked: float | None = None
    """The request was there."""
    forwarded: float | None = None
    """The backend was asked."""
    head: float | None = None
    """The answer's head came,"""
    first: float | None = None
    """its first piece,"""
    last: float | None = None
    """and its last."""
    end: float | None = None
    """The last thing that happened."""


@dataclass(slots=True)
class Retry:
    """The backend was asked once more."""

    body: Any = None
    status: int | None = None
    written: list[Written] = field(default_factory=list)


@dataclass(slots=True)
class Lanes:
    """An exchange as the page shows it."""

    method: str = ""
    path: str = ""
    request_id: str = ""
    round: int | None = None
    """Which model round of a run it is."""
    headers: list[tuple[str, str]] = field(default_factory=list)
    asked: Any = None
    """The client's request: JSON, or text that is none."""
    shown: Any = None
    """What the backend was asked; None: nothing."""
    same: bool = False
    """It is the client's own, byte for byte."""
    backend: str | None = None
    mode: str | None = None
    step: str | None = None
    """At which step of its ladder the model was asked, if it is steered."""
    format: str | None = None
    written: list[Written] = field(default_factory=list)
    passed: bool = False
    """The answer went past the processor."""
    retry: Retry | None = None
    received: Received | None = None
    timing: Timing = field(default_factory=Timing)
    metadata: Json = field(default_factory=dict)
    """What the access log was told."""
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> Json:
        """For the page."""
        made = asdict(self)
        if self.received is not None:
            made["received"].pop("_open")
        return made


def lanes(document: Document, *, ended: bool = True) -> Lanes:
    """What became of an exchange, or has become of it so far."""
    made = Lanes(notes=list(document.notes) if ended else [])
    _Reading(document, made, ended=ended).read()
    return made


class _Reading:
    def __init__(self, document: Document, made: Lanes, *, ended: bool) -> None:
        self._document = document
        self._made = made
        self._ended = ended
        self._body = b""
        self._answer: list[Piece] = []
        self._got: list[Piece] = []
        self._status: int | None = None
        self._type = self._coding = ""
        self._streams = False

    def read(self) -> None:
        for entry in self._document.entries:
            self._made.timing.end = entry.at
            match entry.kind:
                case Kind.ENVOY:
                    self._came(entry)
                case Kind.PROCESSOR:
                    self._said(entry)
                case Kind.ASKED:
                    self._made.retry = Retry(_shown(bytes_from_json(entry.what["body"])))
                case Kind.SAID:
                    self._second(entry)
                case Kind.IDLE_TIMEOUT:
                    self._made.notes.append("Nothing came from the backend for too long.")
                case Kind.BROKE_OFF:
                    self._made.notes.append(f"An exception ended the exchange: {entry.what['exception']}.")
        self._finish()

    def _came(self, entry: Entry) -> None:
        made, what, timing = self._made, entry.what, self._made.timing
        if "request_headers" in what:
            fields = _fields(what["request_headers"])
            made.headers = [(name, value) for name, value in fields.items() if not name.startswith(":")]
            made.method, made.path = fields.get(":method", ""), fields.get(":path", "")
            made.request_id = fields.get("x-request-id", "")
            number = fields.get(ROUND_HEADER, "")
            made.round = int(number) if number.isdecimal() else None
        elif "request_body" in what:
            self._body = bytes_from_json(what["request_body"].get("body", ""))
            made.asked, timing.asked = _shown(self._body), entry.at
        elif "response_headers" in what:
            fields = _fields(what["response_headers"])
            timing.head = entry.at
            self._status = int(status) if (status := fields.get(":status", "")).isdecimal() else None
            self._type, self._coding = fields.get("content-type", ""), fields.get("content-encoding", "")
        elif "response_body" in what and (data := bytes_from_json(what["response_body"].get("body", ""))):
            timing.first = entry.at if timing.first is None else timing.first
            timing.last = entry.at
            self._answer.append((entry.at, data))

    def _said(self, entry: Entry) -> None:
        made, what = self._made, entry.what
        made.metadata |= what.get("dynamic_metadata", {}).get(METADATA_NAMESPACE, {})
        if "request_body" in what:
            made.timing.forwarded = entry.at
            made.backend = made.metadata.get("backend")
            made.step = made.metadata.get("step")
            body = what["request_body"].get("response", {}).get("body_mutation", {}).get("body")
            made.same = body is None
            made.shown = made.asked if body is None else _shown(bytes_from_json(body))
        elif "response_headers" in what:
            made.passed = "mode_override" not in what
        elif "immediate_response" in what:
            answer = what["immediate_response"]
            code = answer.get("status", {}).get("code")
            self._status = _status(code)
            self._got, self._streams = [(entry.at, bytes_from_json(answer.get("body", "")))], False
            made.passed = False
        elif (piece := streamed_piece(entry)) is not None:
            self._streams = True
            self._got.append((entry.at, bytes_from_json(piece.get("body", ""))))
        elif "response_body" in what:
            response = what["response_body"].get("response", {})
            if (whole := response.get("body_mutation", {}).get("body")) is not None:
                self._got, self._streams = [(entry.at, bytes_from_json(whole))], False
            for field_ in response.get("header_mutation", {}).get("set_headers", ()):
                if field_.get("header", {}).get("key") == ":status":
                    said = field_["header"].get("raw_value", "")
                    self._status = int(said) if str(said).isdecimal() else self._status

    def _second(self, entry: Entry) -> None:
        retry = self._made.retry
        if retry is None:
            return
        retry.status = entry.what["status"]
        data = bytes_from_json(entry.what["body"])
        if retry.status == 200 and (spec := self._spec()) is not None:
            events = data.lstrip().startswith((b"data:", b":"))
            retry.written = written([(entry.at, data)], spec, events=events, ended=True)

    def _finish(self) -> None:
        made = self._made
        if made.backend == RUNNER:
            made.notes = [note for note in made.notes if "went past the processor" not in note]
            made.notes.append("The gateway runs the tools of this request: its rounds are exchanges of their own.")
        if self._answer and (spec := self._spec()) is not None:
            events = is_event_stream({"content-type": self._type})
            made.written = written(self._answer, spec, events=events, coding=self._coding, ended=self._ended)
        if self._got or (self._status is not None and not made.passed):
            made.received = received(self._got, stream=self._streams, status=self._status)

    def _spec(self) -> ResponseSpec | None:
        """How the answer has to be read: as the processor has found out, by the same code."""
        made = self._made
        try:
            config: Config = settings_of(self._document)
            path = made.path.partition("?")[0]
            known = config.path_of(path)
            asked = prepare(self._body, config, known if known in ROUTES else path, inner=True)
        except (ApiError, RecordingError, KeyError) as error:
            made.notes.append(f"What the model wrote can't be read here: {error}")
            return None
        model = config.models_by_name.get(asked.model or "")
        if model is not None:
            made.mode = model.tools
        if asked.answer is not None:
            made.format = asked.answer.format
        return replace(asked.answer) if asked.answer is not None else None


def _shown(body: bytes) -> Any:
    """JSON if it is some; a text otherwise, and of what is too large for a page its beginning."""
    if len(body) > SHOWN:
        return f"{body[:SHOWN].decode('utf-8', 'replace')}\n… {len(body) - SHOWN} bytes more"
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return body.decode("utf-8", "replace")


def _fields(headers: Json) -> dict[str, str]:
    return {name: value for name, value in headers.get("headers", ()) if isinstance(value, str)}


def _status(code: Any) -> int | None:
    if isinstance(code, int):
        return code
    return StatusCode.Value(code) if isinstance(code, str) else None
