"""A recorded exchange as a person reads it: the two requests and the two answers, in the order in which they came."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from extproc.recording.difference import streamed_piece
from extproc.recording.document import Document, Entry, Json, Kind
from extproc.recording.envoy_json import bytes_from_json
from extproc.recording.replay import ReplayResult

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""What a terminal would obey, and halves of characters, which can't be written; not tabs and ends of lines."""


def printable(text: str) -> str:
    """With escapes in the place of what must not reach a terminal."""
    return _UNSEEN.sub(lambda found: ascii(found[0])[1:-1], text)


def shown(document: Document, now: ReplayResult) -> str:
    """What came in as it was recorded, and what goes out as it does now."""
    steps = list(now.steps)
    forward = [step for step in steps if "request_body" in step.what]
    parts = [
        *_request(document),
        *(part for step in forward for part in _forwarded(step.what)),
        *_backend_answer(document),
        *_retry(document, steps),
        *_client_answer(steps),
    ]
    return printable("\n".join(parts)) + "\n"


def _request(document: Document) -> Iterator[str]:
    for message in _received(document):
        if "request_headers" in message.what:
            fields = _fields(message.what["request_headers"])
            yield _title(f"the client asked: {fields.get(':method')} {fields.get(':path')}")
        elif "request_body" in message.what:
            yield _readable(message.what["request_body"].get("body", ""))


def _forwarded(what: Json) -> Iterator[str]:
    body = what["request_body"]["response"].get("body_mutation", {}).get("body")
    backend = what["dynamic_metadata"]["extproc"]["backend"]
    if body is None:
        yield _title(f"the backend {backend} is asked the same")
    else:
        yield _title(f"the backend {backend} is asked")
        yield _readable(body)


def _backend_answer(document: Document) -> Iterator[str]:
    pieces = [message for message in _received(document) if "response_body" in message.what]
    for message in _received(document):
        if "response_headers" in message.what:
            fields = _fields(message.what["response_headers"])
            how = f", in {len(pieces)} pieces and {pieces[-1].at - pieces[0].at:.0f} ms" if len(pieces) > 1 else ""
            yield _title(f"it answered: {fields.get(':status')} {fields.get('content-type', '')}{how}")
    if pieces:
        bodies = (bytes_from_json(piece.what["response_body"].get("body", "")) for piece in pieces)
        yield _readable_bytes(b"".join(bodies))


def _retry(document: Document, steps: list[Entry]) -> Iterator[str]:
    said = (entry.what for entry in document.entries if entry.kind is Kind.SAID)
    for step in steps:
        if step.kind is Kind.ASKED:
            yield _title(f"the backend {step.what['backend']} is asked again")
            yield _readable(step.what["body"])
            if (answer := next(said, None)) is not None:
                yield _title(f"it answered: {answer['status']}")
                yield _readable(answer["body"])


def _client_answer(steps: list[Entry]) -> Iterator[str]:
    stream = [bytes_from_json(piece.get("body", "")) for piece in map(streamed_piece, steps) if piece is not None]
    for step in steps:
        if step.kind is Kind.BROKE_OFF:
            yield _title(f"the exchange breaks off: {step.what['exception']}")
        elif "immediate_response" in step.what:
            answer = step.what["immediate_response"]
            yield _title(f"the client gets {answer['status']['code']} from the processor")
            yield _readable(answer.get("body", ""))
        elif "response_headers" in step.what and "mode_override" not in step.what:
            yield _title("the client gets the backend's answer as it is")
        elif "response_body" in step.what and streamed_piece(step) is None:
            yield _title("the client gets")
            yield _readable(step.what["response_body"]["response"]["body_mutation"].get("body", ""))
    if stream:
        yield _title("the client gets")
        yield _readable_bytes(b"".join(stream))


def _received(document: Document) -> Iterator[Entry]:
    return (entry for entry in document.entries if entry.kind is Kind.ENVOY)


def _fields(headers: Json) -> dict[str, Any]:
    return dict(headers.get("headers", ()))


def _title(text: str) -> str:
    return f"--- {text}"


def _readable(body: Any) -> str:
    return _readable_bytes(bytes_from_json(body))


def _readable_bytes(data: bytes) -> str:
    """JSON is indented; anything else is shown as it is, JSON that is too deep for it as well."""
    text = data.decode("utf-8", "replace")
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text.strip("\n")
