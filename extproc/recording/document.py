"""The file that an exchange is recorded in: one JSON document, an entry of the exchange on each line.

    {
     "extproc_recording": 1,            the version of this layout
     "notice": "...",                   what is in it, for those who are about to pass it on
     "extproc": "0.2.0",                the version that made it
     "began": "2026-01-31T12:00:00Z",
     "complete": true,                  false: the exchange was too large, and only its beginning is here
     "notes": [...],                    what is to be known of it, in words
     "settings": {...},                 a configuration for its model, without addresses and files
     "entries": [
      {"at": 0.0, "envoy": {...}},      a message of Envoy's; `at` is in milliseconds
      {"at": 0.8, "processor": {...}},  a reply
      {"at": 9.1, "asked": {...}},      a request of the processor's own: backend and body
      {"at": 9.9, "said": {...}},       its answer: status (0: there was none) and body
      {"at": 9.9, "silence": {}},       nothing had come for too long
      {"at": 9.9, "broke_off": {...}}   an exception ended the exchange
     ]
    }

Messages are written as `extproc.recording.envoy_json` has them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self, TypeAlias, TypeVar

import orjson

from extproc.contract.json_body import encode
from extproc.names import METADATA_NAMESPACE, STREAM_ENDED
from extproc.recording.envoy_json import bytes_from_json, from_json
from extproc.wire import ProcessingRequest, ProcessingResponse

Json: TypeAlias = dict[str, Any]
_T = TypeVar("_T")

VERSION = 1
NO_ANSWER = 0
"""The status of what a backend said when it said nothing."""
NOTICE = (
    "Everything that was said in this exchange IS in this file: prompts, tool definitions, calls with their arguments, "
    "results and answers. Keys, cookies, addresses and clients' names are not. Read it before you pass it on."
)


class RecordingError(Exception):
    """A file is no recording, or can't be replayed here; the text says why, ready to be shown to a person."""


class Kind(enum.Enum):
    """What happened."""

    ENVOY = "envoy"
    PROCESSOR = "processor"
    ASKED = "asked"
    SAID = "said"
    IDLE_TIMEOUT = "silence"
    BROKE_OFF = "broke_off"


@dataclass(frozen=True, slots=True)
class Entry:
    """One step of an exchange."""

    at: float
    """Milliseconds after the first."""
    kind: Kind
    what: Json


@dataclass(frozen=True, slots=True)
class Document:
    """A whole recording."""

    extproc: str
    began: str
    complete: bool
    settings: Json
    entries: tuple[Entry, ...]

    @property
    def finished(self) -> bool:
        """The answer is in it up to its end, or as far as the processor gets to see it."""
        return self.complete and (self._answered or self._passed)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be known of it, in words."""
        if not self.complete:
            return ("The exchange was too large to be recorded whole: this is its beginning.",)
        if self._passed:
            return ("The answer went past the processor, as one to a request without tools does: its body isn't here.",)
        if not self.finished:
            return ("Envoy ended the exchange before the answer: the client left, or the backend's stream broke.",)
        return ()

    @property
    def _answered(self) -> bool:
        return (
            any(entry.what.get("response_body", {}).get("end_of_stream") for entry in self._of(Kind.ENVOY))
            or self._has(Kind.ENVOY, "response_trailers")
            or any(_told_end(entry.what) for entry in self._of(Kind.PROCESSOR))
            or self._has(Kind.PROCESSOR, "immediate_response")
            or any(self._of(Kind.IDLE_TIMEOUT))
            or any(self._of(Kind.BROKE_OFF))
        )

    @property
    def _passed(self) -> bool:
        return (
            self._has(Kind.ENVOY, "response_headers")
            and not any(
                "mode_override" in entry.what for entry in self._of(Kind.PROCESSOR) if "response_headers" in entry.what
            )
            and not self._has(Kind.PROCESSOR, "immediate_response")
        )

    @property
    def asked(self) -> bool:
        """The request is in it, so that there is something to play."""
        return self._has(Kind.ENVOY, "request_body")

    def _of(self, kind: Kind) -> Iterator[Entry]:
        return (entry for entry in self.entries if entry.kind is kind)

    def _has(self, kind: Kind, part: str) -> bool:
        return any(part in entry.what for entry in self._of(kind))

    def written(self) -> bytes:
        """The content of its file."""
        head: Json = {
            "extproc_recording": VERSION,
            "notice": NOTICE,
            "extproc": self.extproc,
            "began": self.began,
            "complete": self.complete,
            "notes": list(self.notes),
            "settings": self.settings,
        }
        lines = [b" %b: %b,\n" % (orjson.dumps(name), encode(value)) for name, value in head.items()]
        entries = [encode({"at": entry.at, entry.kind.value: entry.what}) for entry in self.entries]
        return b'{\n%b "entries": [\n  %b\n ]\n}\n' % (b"".join(lines), b",\n  ".join(entries))

    @classmethod
    def read(cls, content: bytes) -> Self:
        """Raises RecordingError."""
        try:
            fields = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise RecordingError(f"not a recording: {error}") from error
        if not isinstance(fields, dict) or "extproc_recording" not in fields:
            raise RecordingError("not a recording: it has no 'extproc_recording'")
        if fields["extproc_recording"] != VERSION:
            raise RecordingError(
                f"a recording of version {fields['extproc_recording']}; this extproc reads version {VERSION}"
            )
        try:
            return cls(
                extproc=_of_type(fields, "extproc", str),
                began=_of_type(fields, "began", str),
                complete=_of_type(fields, "complete", bool),
                settings=_of_type(fields, "settings", dict),
                entries=tuple(map(_entry, fields["entries"])),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise RecordingError(f"not a recording as this extproc knows them: {error!r}") from error


def _told_end(reply: Json) -> bool:
    """Whether the last event of a stream leaves with it; the end of the body may never have come."""
    told = reply.get("dynamic_metadata", {}).get(METADATA_NAMESPACE)
    return isinstance(told, dict) and STREAM_ENDED in told


def _entry(fields: Json) -> Entry:
    [kind] = [kind for kind in Kind if kind.value in fields]
    what = _of_type(fields, kind.value, dict)
    try:
        _check(kind, what)
    except (KeyError, TypeError, ValueError) as error:
        raise RecordingError(f"{_NAMES[kind]} in it can't be read: {error}") from error
    return Entry(float(fields["at"]), kind, what)


_NAMES = {
    Kind.ENVOY: "a message of Envoy's",
    Kind.PROCESSOR: "a reply of the processor's",
    Kind.ASKED: "a request of the processor's own",
    Kind.SAID: "a backend's answer",
    Kind.IDLE_TIMEOUT: "a silence",
    Kind.BROKE_OFF: "an exception",
}


def _check(kind: Kind, what: Json) -> None:
    """Raises KeyError, TypeError or ValueError when an entry of this kind says something else."""
    match kind:
        case Kind.ENVOY:
            from_json(what, ProcessingRequest)
        case Kind.PROCESSOR:
            from_json(what, ProcessingResponse)
        case Kind.ASKED:
            _of_type(what, "backend", str)
            bytes_from_json(what["body"])
        case Kind.SAID:
            _of_type(what, "status", int)
            bytes_from_json(what["body"])
        case Kind.BROKE_OFF:
            _of_type(what, "exception", str)
        case Kind.IDLE_TIMEOUT:
            pass


def _of_type(fields: Json, name: str, kind: type[_T]) -> _T:
    value = fields[name]
    if not isinstance(value, kind):
        raise TypeError(f"{name!r} has to be of type {kind.__name__}")
    return value
