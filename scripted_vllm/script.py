"""Turns an answer and its trouble into steps for a connection to perform.

An `Answer` is a status, headers and an iterator of steps: send these bytes, be silent for a while, hang up. Everything
that can be decided without a socket is decided here, so the connection knows nothing of chat completions and this
module nothing of sockets. The body is framed by the headers: `content-length` if it is there, else chunked.
"""

from __future__ import annotations

import gzip
import itertools
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus

from scripted_vllm import shapes
from scripted_vllm.checks import RequestError
from scripted_vllm.replies import Reply
from scripted_vllm.troubles import (
    Comments,
    Cut,
    ErrorBody,
    ErrorEvent,
    Fail,
    Garbage,
    Gzip,
    NoDone,
    Nonsense,
    Refuse,
    Stall,
    Trouble,
    Verbatim,
)


@dataclass(frozen=True, slots=True)
class Send:
    """Send these bytes of the body, as one HTTP chunk when chunked."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Wait:
    """Send nothing for so long, but notice if the client goes."""

    seconds: float


@dataclass(frozen=True, slots=True)
class HangUp:
    """Close the connection here, whatever was promised."""


Step = Send | Wait | HangUp
Header = tuple[str, str]

_EVENT_STREAM: Header = ("content-type", "text/event-stream; charset=utf-8")
_GZIPPED: Header = ("content-encoding", "gzip")
_NONSENSE = b"upstream says hello"
_HTML_PAGE = b"<html>\r\n<head><title>%d %s</title></head>\r\n<body><h1>%d %s</h1></body>\r\n</html>\r\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer, ready to be performed."""

    status: int
    headers: Sequence[Header] = ()
    """Without `date`, `server` and `vary`, which every answer has."""
    steps: Iterable[Step] = ()
    before: Sequence[Step] = field(default=())
    """Steps ahead of the status line."""


def whole(
    body: bytes, *, status: int = 200, content_type: str = "application/json", headers: Sequence[Header] = ()
) -> Answer:
    """An answer in one piece; an empty body has no content type."""
    framing: list[Header] = [*headers, ("content-length", str(len(body)))]
    if body:
        framing.append(("content-type", content_type))
    return Answer(status, framing, [Send(body)] if body else [])


def refusal(error: RequestError) -> Answer:
    return whole(shapes.dump(shapes.error(error)), status=error.status)


def unary(body: bytes, reply: Reply) -> Answer:
    """The body of a completion, delivered as `reply` has it."""
    trouble = reply.trouble
    instead = _instead(trouble)
    if instead is not None:
        return instead
    answer = whole(body)
    match trouble:
        case ErrorEvent(message=message, status=status):
            return refusal(_server_error(message, status))
        case Garbage(what=Nonsense.NOT_JSON):
            answer = whole(_NONSENSE)
        case Garbage(what=Nonsense.BROKEN_JSON):
            answer = whole(body[: len(body) // 2])
        case Gzip():
            answer = whole(gzip.compress(body), headers=[_GZIPPED])
        case Stall(seconds=seconds):
            answer = replace(answer, before=[Wait(seconds)])
        case Cut(after_bytes=after_bytes):
            end = len(body) // 2 if after_bytes is None else after_bytes
            answer = replace(answer, steps=_first_bytes(answer.steps, end))
    return replace(answer, steps=_cut_anew(answer.steps, reply.wire_cut))


def streamed(events: Iterable[shapes.StreamEvent], reply: Reply) -> Answer:
    """The events of a stream, delivered as `reply` has it."""
    trouble = reply.trouble
    instead = _instead(trouble)
    if instead is not None:
        return instead
    headers, steps = [_EVENT_STREAM], _play(events, reply)
    if isinstance(trouble, Gzip):
        headers, steps = [_GZIPPED, *headers], _gzipped(steps)
    answer = Answer(200, headers, _cut_anew(steps, reply.wire_cut))
    match trouble:
        case Stall(after=None, seconds=seconds):
            answer = replace(answer, before=[Wait(seconds)])
        case Cut(after_bytes=int(after_bytes)):
            answer = replace(answer, steps=_first_bytes(answer.steps, after_bytes))
    return answer


def _instead(trouble: Trouble | None) -> Answer | None:
    """What comes in place of any answer, streamed or not."""
    match trouble:
        case Refuse():
            return Answer(200, before=[HangUp()])
        case Fail():
            return _failure(trouble)
        case Garbage(what=Nonsense.WRONG_TYPE):
            return whole(_html(HTTPStatus.OK), content_type="text/html")
        case Verbatim(body):
            content_type = _EVENT_STREAM[1] if body.startswith("data:") else "application/json"
            return whole(body.encode(), content_type=content_type)
    return None


def _play(events: Iterable[shapes.StreamEvent], reply: Reply) -> Iterator[Step]:
    """The stream's events and `[DONE]` with pauses between them, up to the trouble or past it."""
    trouble = reply.trouble
    strikes_after = _strikes_after(trouble)
    pieces = 0
    ending = () if isinstance(trouble, NoDone) else (shapes.StreamEvent(shapes.DONE),)
    for position, event in enumerate(itertools.chain(events, ending)):
        data = event.data
        if position > 0 and pieces == strikes_after:
            strikes_after = None
            match trouble:
                case Stall(seconds=seconds):
                    yield Wait(seconds)
                case Cut():
                    yield HangUp()
                case ErrorEvent(message=message, status=status):
                    yield Send(shapes.error_event(_server_error(message, status)))
                    yield Send(shapes.DONE)
                    return
                case Garbage(what=Nonsense.BROKEN_JSON):
                    data = data[: len(data) // 2] + b"\n\n"
                case Garbage():
                    data = b"data: " + _NONSENSE + b"\n\n"
        if position > 0 and reply.pace:
            yield Wait(reply.pace)
        if isinstance(trouble, Comments):
            yield Send(f": {trouble.text}\n\n".encode())
        yield Send(data)
        pieces += event.is_piece
    if isinstance(trouble, Stall) and strikes_after is not None:
        yield Wait(trouble.seconds)


def _strikes_after(trouble: Trouble | None) -> int | None:
    """The number of pieces after which a trouble strikes, if it waits for pieces."""
    match trouble:
        case Cut(after_bytes=int()):
            return None
        case Stall(after=after) | Cut(after=after) | Garbage(after=after) | ErrorEvent(after=after):
            return after
    return None


def _failure(trouble: Fail) -> Answer:
    status = HTTPStatus(trouble.status)
    headers = [] if trouble.retry_after is None else [("retry-after", str(trouble.retry_after))]
    if trouble.body is ErrorBody.HTML:
        return whole(_html(status), status=status, content_type="text/html", headers=headers)
    if trouble.body is ErrorBody.PLAIN:
        text = status.phrase.lower().encode()
        return whole(text, status=status, content_type="text/plain", headers=headers)
    error = shapes.error(_server_error(trouble.message or status.description or status.phrase, status))
    return whole(shapes.dump(error), status=status, headers=headers)


def _server_error(message: str, status: int) -> RequestError:
    """An error of vLLM's own; its type is the status, in words."""
    return RequestError(message, kind=HTTPStatus(status).phrase.title().replace(" ", ""), status=status)


def _html(status: HTTPStatus) -> bytes:
    phrase = status.phrase.encode()
    return _HTML_PAGE % (status, phrase, status, phrase)


def _gzipped(steps: Iterable[Step]) -> Iterator[Step]:
    """The same body, compressed; flushed at every step, so that it still arrives as it is made."""
    packer = zlib.compressobj(wbits=31)
    for step in steps:
        if isinstance(step, Send):
            yield Send(packer.compress(step.data) + packer.flush(zlib.Z_SYNC_FLUSH))
        else:
            yield step
    yield Send(packer.flush(zlib.Z_FINISH))


def _cut_anew(steps: Iterable[Step], cut: int | Sequence[int] | None) -> Iterator[Step]:
    """The same bytes in chunks of other sizes. What is held back comes out before any silence."""
    if cut is None:
        yield from steps
        return
    sizes = itertools.repeat(cut) if isinstance(cut, int) else iter(cut)
    size = next(sizes, None)
    held = b""
    for step in steps:
        if isinstance(step, Send):
            held += step.data
            while size is not None and len(held) >= size:
                yield Send(held[:size])
                held = held[size:]
                size = next(sizes, None)
            continue
        if held:
            yield Send(held)
            held = b""
        yield step
    if held:
        yield Send(held)


def _first_bytes(steps: Iterable[Step], count: int) -> Iterator[Step]:
    """So many bytes of the body, then the connection closes."""
    for step in steps:
        if isinstance(step, Send):
            if len(step.data) >= count:
                if count:
                    yield Send(step.data[:count])
                break
            count -= len(step.data)
        yield step
    yield HangUp()
