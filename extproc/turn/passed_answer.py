"""An answer that is the client's as it comes, and is read for what it cost alone.

What leaves are the backend's own bytes, event by event; only the chunk that tells the usage is left out where the
client didn't ask for it, because the backend was asked in its place. Nothing here makes an error of an answer: what
can't be read, or would take too long, passes on unread, and costs what its backend tells at its end, or else its
prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TypeAlias

import orjson

from extproc.contract.errors import ApiError
from extproc.contract.json_body import MOST_NODES
from extproc.contract.json_nodes import count_nodes
from extproc.contract.sse import DONE, Data, SseDecoder
from extproc.turn import completion
from extproc.turn.answer import AnswerWriter, Rewritten
from extproc.turn.answer_stream import AnswerStream
from extproc.turn.spec import ResponseSpec
from extproc.turn.tally import Tally
from extproc.turn.usage import Sent, counted, estimated, written

Json: TypeAlias = dict[str, Any]

LONGEST_READ = 256 * 1024
"""Bytes of an event that is held until it is whole; the rest of a longer one passes on as it comes."""
_USAGE = 4096
"""Bytes behind the name `usage` in which its value ends."""
_line_end = re.compile(rb"\r\n|\n|\r(?=.)", re.DOTALL)  # a CR at the very end may be half of a CRLF
_usage_name = b'"usage":'


def passed_completion(body: bytes, spec: ResponseSpec, sent: Sent | None) -> Rewritten:
    """A whole answer, whatever it is, and what it cost."""
    tally = Tally()
    too_many = len(body) > MOST_NODES and count_nodes(body, MOST_NODES) > MOST_NODES
    answer = _object(body) if not too_many else None
    if answer is None:
        count, cost = _told_last(body), estimated(sent, ()) if sent is not None and body.strip() else None
    else:
        choices = _choices(answer)
        count, cost = counted(answer.get("usage")), None
        if choices and sent is not None and count is None:
            messages = (message for choice in choices if isinstance(message := choice.get("message"), dict))
            cost = estimated(sent, written(messages))
        reasons = (choice.get("finish_reason") for choice in choices)
        tally.finish_reasons += [reason for reason in reasons if isinstance(reason, str)]
    return Rewritten(body, count, False, tally, called=False, cost=(count or cost) if spec.counted else None)


class PassedStream(AnswerStream):
    """One stream that passes. Its `error` may be the backend's own, or that it can't be decoded."""

    called = False
    held = 0
    """Nothing is kept that couldn't leave at once."""

    def __init__(self, spec: ResponseSpec, writer: AnswerWriter, sent: Sent | None = None) -> None:
        super().__init__(spec, sent)
        self._writer = writer
        self._buffer = bytearray()
        self._line = self._searched = 0  # where the last line begins, and up to where it has no end
        self._unread = False  # amid an event that is passed on as it comes
        self._finished: set[int] = set()
        self._begun = self._done = self._ended = False

    @property
    def begun(self) -> bool:
        return self._begun

    @property
    def ended(self) -> bool:
        return self._ended

    @property
    def over(self) -> bool:
        return self._done or self._ended

    @property
    def unfinished(self) -> int:
        return len(self._buffer)

    def feed(self, piece: bytes) -> bytes:
        """The bytes of events that are complete."""
        if self._ended:
            return b""
        out = bytearray()
        buffer = self._buffer
        buffer += piece
        start = 0  # of the event
        line, search = self._line, self._searched
        while match := _line_end.search(buffer, search):
            blank = match.start() == line
            line = search = match.end()
            if blank:
                out += self._event(bytes(buffer[start:line]))
                start = line
        del buffer[:start]
        self._line = line - start
        self._searched = max(len(buffer) - 1, self._line, 0)  # the last byte is looked at again: it may be half an end
        if len(buffer) > LONGEST_READ or (self._unread and buffer):
            out += self._begin_of_unread()
        return bytes(out)

    def steps(self, piece: bytes) -> Iterator[bytes]:
        """The same; no piece takes longer than the others should wait."""
        yield self.feed(piece)

    def close(self) -> bytes:
        """The backend's stream has ended, in whichever way."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return self._event(rest) if rest and not self._ended else b""

    def fail(self, error: ApiError) -> bytes:
        """End the stream with an error, where its bytes themselves can't be had; what comes behind it is dropped."""
        if self._ended:
            return b""
        self._ended, self.error = True, error.caught()
        return self._writer.fail(error)

    def _begin_of_unread(self) -> bytes:
        """What is there of an event that is too long to be read, but for the beginning of a line's end."""
        buffer = self._buffer
        if not self._unread:
            self._unread = True
            self.chunks += not self._done
            self._passes_unread()
        kept = 1 if buffer.endswith(b"\r") else 0
        out = bytes(buffer[: len(buffer) - kept])
        # An end that comes next ends a line in which there was something, unless all that has left ended one.
        within = self._line < len(out)
        del buffer[: len(out)]
        self._line, self._searched = (-1 if within else 0), 0
        return out

    def _event(self, event: bytes) -> bytes:
        """What the client gets of an event, which is complete: all of it, or nothing."""
        if self._unread:
            self._unread = False
            return event
        data = _data_of(event)
        if (chunk := _object(data)) is None:
            self._done = self._done or data.strip() == DONE
            if data.strip():
                self._passes_unread()
            return event
        if not self._done:  # what it came to is told with that, and nothing behind it counts
            try:
                completion.raise_error(chunk, data)
            except ApiError as error:
                self.error = error.caught()
                return event
            self._take(chunk)
        untold = not self._spec.include_usage and chunk.get("choices") == [] and isinstance(chunk.get("usage"), dict)
        return b"" if untold else event

    def _passes_unread(self) -> None:
        """Such a stream costs its prompt, unless its end has come."""
        self._begun = self._begun or not self._done

    def _take(self, chunk: Json) -> None:
        self._count.take(chunk)
        choices = _choices(chunk)
        for choice in choices[: completion.MOST_CHOICES]:
            self._said(choice)
        if choices:
            self._begun = True
            self.chunks += 1

    def _said(self, choice: Json) -> None:
        index = choice.get("index")
        index = index if type(index) is int and 0 <= index < completion.MOST_CHOICES else 0
        if isinstance(delta := choice.get("delta"), dict):
            self._count.wrote(index, delta)
        if isinstance(reason := choice.get("finish_reason"), str) and index not in self._finished:
            self._finished.add(index)
            self.tally.finish_reasons.append(reason)


def _data_of(event: bytes) -> bytes:
    if event.startswith(b"data: {") and event.endswith(b"}\n\n") and event.count(b"\n") == 2:
        return event[6:-2]
    decoder = SseDecoder()
    read = [*decoder.feed(event), *decoder.close()]
    return next((one.data for one in read if isinstance(one, Data)), b"")


def _object(data: bytes) -> Json | None:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _choices(answer: Json) -> list[Json]:
    choices = answer.get("choices")
    return [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []


def _told_last(body: bytes) -> Json | None:
    """The count in an answer that isn't read. What looks like its name is one: in a text, quotes are escaped."""
    if (start := body.rfind(_usage_name)) < 0:
        return None
    start += len(_usage_name)
    try:
        value, _ = json.JSONDecoder().raw_decode(body[start : start + _USAGE].decode("utf-8", "replace").lstrip())
    except (ValueError, RecursionError):
        return None
    return counted(value)
