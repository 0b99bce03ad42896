"""Turns a backend's answer, whose calls are text, into the answer that OpenAI's API would give.

A stream is rewritten event by event: whatever the parser leaves as it is passes on byte for byte, everything else
becomes chunks with the same envelope. A completion is rewritten whole, by the same parser. The stream never ends
as if all were well when it isn't: what can't be understood becomes an error event.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from extproc.chat.call_shapes import CallShape, shape_for
from extproc.chat.calls import CheckedCalls, Faults
from extproc.chat.json_text import JsonText
from extproc.chat.large_chunk import parts_of_chunk
from extproc.chat.naming import renamed, with_older_name
from extproc.chat.plan import AnswerPlan
from extproc.chat.readers import reader_for
from extproc.chat.unescaping import UnescapedEvents
from extproc.chat.usage import Sent, StreamUsage, counted, estimated, written
from extproc.openai.arguments import ArgumentChecker
from extproc.openai.errors import ApiError, backend_error, backend_garbage
from extproc.openai.json_body import MOST_NODES
from extproc.openai.json_nodes import count_nodes
from extproc.openai.sse import DONE, Comment, Data, ServerEvent, SseDecoder, encode
from extproc.toolcalls import ArgumentsDelta, CallEnd, CallStart, Event, Reasoning, Text
from extproc.toolcalls.events import collect

Json = dict[str, Any]

_LARGE_CHUNK = 8192
"""Bytes of a chunk that is read in parts."""
_MOST_CHOICES = 128
"""That a request may ask for, and a chunk has."""

_CUT_OFF = ("length", "content_filter")
"""The finish reasons of an output that the backend ended before the model did."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A whole completion, as the client gets it."""

    body: bytes
    """The very bytes of the backend when nothing had to change."""
    usage: Json | None
    """The backend's own count, if it sent one."""
    estimated: bool
    """The client gets an estimate for want of one."""
    faults: Faults
    called: bool
    """The model made a call, in each choice, and was not cut off."""


class _Output:
    """What the model says in one choice: read, and its calls checked."""

    __slots__ = ("_json", "_reader", "_unescaped", "called", "calls", "finished")

    def __init__(self, plan: AnswerPlan, checker: ArgumentChecker, faults: Faults) -> None:
        self._reader = reader_for(plan)
        self._unescaped = UnescapedEvents(plan.openers) if plan.openers else None
        self._json = JsonText(plan.text_schema, faults) if plan.text_schema is not None else None
        self.calls = CheckedCalls(plan, checker, faults)
        self.finished = False
        self.called = False

    def feed(self, message: Json) -> list[Event]:
        """A whole message, or the next delta."""
        return self.calls.take(self._meant(self._reader.feed(message)))

    def close(self, finish_reason: object) -> list[Event]:
        """`finish_reason` is the backend's."""
        self.finished = True
        cut_off = finish_reason in _CUT_OFF
        events = self._meant(self._reader.close(cut_off=cut_off), ended=True, cut_off=cut_off)
        events = self.calls.take(events, ended=True, cut_off=cut_off)
        self.called = self.calls.given > 0 and not cut_off
        return events

    def _meant(self, events: list[Event], *, ended: bool = False, cut_off: bool = False) -> list[Event]:
        events = events if self._unescaped is None else self._unescaped.take(events)
        return events if self._json is None else self._json.take(events, ended=ended, cut_off=cut_off)

    @property
    def error(self) -> ApiError | None:
        """Why the answer ends here: a call, or a text, that the client is not to get."""
        return self.calls.error or (self._json.error if self._json is not None else None)

    @property
    def held(self) -> int:
        """How many characters are kept back."""
        return self._reader.held + self.calls.held + (self._json.held if self._json is not None else 0)

    def rest(self, message: Json) -> Json:
        """What of a message was not read."""
        return {key: value for key, value in message.items() if key not in self._reader.takes}


def rewrite_completion(body: bytes, plan: AnswerPlan, sent: Sent | None = None) -> Rewritten:
    """The completion that the client gets for the backend's.

    It has a count in any case where it is known what was `sent`. Raises ApiError (502) when the body is no chat
    completion, or holds a call that the client is not to get. The latter has the call's fault as its code, and counts
    as that one fault.
    """
    completion = _load(body)
    _raise_error(completion, body)
    choices = _choices(completion, plan.choices)
    usage = count = counted(completion.get("usage"))
    if count is None and sent is not None:
        usage = estimated(sent, written(message for _, message in choices))
    changed = usage is not None and usage is not completion.get("usage")
    if changed:
        completion["usage"] = usage
    changed |= renamed(completion, plan)
    checker, faults = ArgumentChecker(plan.callable_tools), Faults()
    outputs = [_Output(plan, checker, faults) for _ in choices]
    for output, (choice, message) in zip(outputs, choices, strict=True):
        changed |= _rewrite_message(choice, message, output, shape_for(plan))
        changed |= plan.reasoning_content and with_older_name(message)
    called = bool(outputs) and all(output.called for output in outputs)
    return Rewritten(_encoded(completion) if changed else body, count, usage is not count, faults, called)


def _choices(completion: Json, asked: int) -> list[tuple[Json, Json]]:
    """The choices, each with its message; there have to be as many as were `asked` for, and all complete."""
    choices = completion.get("choices")
    if not isinstance(choices, list) or not choices:
        raise backend_garbage("a completion without choices.")
    for choice in choices:
        if not isinstance(choice, dict) or not isinstance(choice.get("message"), dict):
            raise backend_garbage("a choice without a message.")
        if not isinstance(choice.get("finish_reason"), str):
            raise backend_garbage("a choice without a finish_reason.")
    if len(choices) < asked:
        raise backend_garbage(_too_few(len(choices), asked))
    return [(choice, choice["message"]) for choice in choices]


def _too_few(choices: int, asked: int) -> str:
    return f"{choices} of the {asked} choices that were asked for."


def _rewrite_message(choice: Json, message: Json, output: _Output, shape: CallShape) -> bool:
    said = choice.get("finish_reason")
    parsed = collect([*output.feed(message), *output.close(said)])
    if output.error is not None:
        raise output.error
    content = message.get("content")
    reason = _finish_reason(said, shape, called=bool(parsed.calls))
    called = parsed.calls or message.get("tool_calls")
    if not called and parsed.reasoning is None and (parsed.content or "") == (content or ""):
        choice["finish_reason"] = reason
        return reason != said
    message.pop("tool_calls", None)
    message["content"] = parsed.content
    if parsed.reasoning is not None:
        message["reasoning"] = parsed.reasoning
    if parsed.calls:
        shape.put(message, parsed.calls)
    choice["finish_reason"] = reason
    return True


_CALLED = ("tool_calls", "function_call")


def _finish_reason(said: object, shape: CallShape, *, called: bool) -> object:
    """Why an output ended: a cut-off one stays cut off, otherwise calls are the reason, if the client gets any."""
    if called:
        return said if said in _CUT_OFF else shape.finish_reason
    return "stop" if said in _CALLED else said


def _load(data: bytes) -> Json:
    if len(data) > MOST_NODES and count_nodes(data, MOST_NODES) > MOST_NODES:
        raise backend_garbage(f"it holds more than {MOST_NODES} JSON values.")
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise backend_garbage(f"it is not JSON ({error.msg}).") from None
    if not isinstance(value, dict):
        raise backend_garbage("it is not a JSON object.")
    return value


def _encoded(value: Json) -> bytes:
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        raise backend_garbage("it is nested too deeply.") from None


def _raise_error(data: Json, body: bytes) -> None:
    """An error that came with status 200, or inside a stream."""
    error = data.get("error")
    if not error and data.get("object") != "error":
        return
    code = (error if isinstance(error, dict) else data).get("code")
    raise backend_error(code if isinstance(code, int) and 400 <= code < 600 else 500, body)


class StreamedAnswer:
    """One streamed completion: `feed` the backend's bytes in any cut, then `close`; both return the client's bytes.

    Where it is known what was `sent`, a client that asked for a count gets one in any case.
    """

    def __init__(self, plan: AnswerPlan, sent: Sent | None = None) -> None:
        self._plan = plan
        self._usage = StreamUsage(sent, asked=plan.include_usage)
        self._shape = shape_for(plan)
        self._checker = ArgumentChecker(plan.callable_tools)
        self._decoder = SseDecoder()
        self._outputs: dict[int, _Output] = {}
        self._refusal: ApiError | None = None  # an invalid call, behind the chunk that is being written
        self._ended = False
        self.faults = Faults()
        """The one in `error` is among them."""
        self.error: ApiError | None = None
        """What the client was told in an error event, if anything."""

    @property
    def begun(self) -> bool:
        """Whether the backend has sent anything of an answer."""
        return bool(self._outputs)

    @property
    def ended(self) -> bool:
        """Whatever the backend says now, nothing more comes of it."""
        return self._ended

    @property
    def called(self) -> bool:
        """The model made a call, in each choice, and was not cut off."""
        return bool(self._outputs) and all(output.called for output in self._outputs.values())

    @property
    def usage(self) -> Json | None:
        """The backend's own count, once it came."""
        return self._usage.count

    @property
    def unfinished(self) -> int:
        """How many bytes there are of an event that isn't complete."""
        return self._decoder.held

    @property
    def held(self) -> int:
        """How much of an unfinished event is held, in bytes, and of unfinished calls, in characters."""
        return self._decoder.held + sum(output.held for output in self._outputs.values())

    def feed(self, piece: bytes) -> bytes:
        return b"".join(self.steps(piece))

    def steps(self, piece: bytes) -> Iterator[bytes]:
        """The same in steps, none of which is longer than what a small piece takes; to be used up."""
        if not self._ended:
            yield from self._rewritten(self._decoder.feed(piece))

    def close(self) -> bytes:
        """The backend's stream has ended. A stream that ended before its choices did is an error, and says so."""
        out = b"".join(self._rewritten(self._decoder.close()))
        return out if self._ended else out + self._complete("the stream ended before the answer was complete.")

    def fail(self, error: ApiError) -> bytes:
        """End the stream with an error event; whatever the backend sends after it is dropped."""
        if self._ended:
            return b""
        self.error = error.caught()
        return encode(Data(error.event())) + self._end()

    def _complete(self, otherwise: str) -> bytes:
        """The end of an answer that is whole, or an error that says what is wrong `otherwise`."""
        if not self._outputs or not all(output.finished for output in self._outputs.values()):
            return self.fail(backend_garbage(otherwise))
        if len(self._outputs) < self._plan.choices:
            return self.fail(backend_garbage(_too_few(len(self._outputs), self._plan.choices)))
        chunk = self._usage.last_chunk()
        try:
            last = encode(Data(_encoded(chunk))) if chunk is not None else b""
        except ApiError as error:
            return self.fail(error)
        return last + self._end()

    def _end(self) -> bytes:
        self._ended = True
        return encode(Data(DONE))

    def _rewritten(self, events: list[ServerEvent]) -> Iterator[bytes]:
        out: list[bytes] = []
        for event in events:
            if self._ended:
                break
            match event:
                case Comment():
                    out.append(encode(event))
                case Data(data) if data.strip() == DONE:
                    out.append(self._complete("the stream ended without a finish_reason."))
                case Data(data):
                    try:
                        chunk = self._read(data)
                        if renamed(chunk, self._plan):
                            data = _encoded(chunk)
                        if len(data) > _LARGE_CHUNK:
                            for part in parts_of_chunk(chunk):
                                yield b"".join(out)
                                out = [self._chunk(part, orjson.dumps(part))]
                        else:
                            out.append(self._chunk(chunk, data))
                    except ApiError as error:
                        out.append(self.fail(error))
        yield b"".join(out)

    def _read(self, data: bytes) -> Json:
        chunk = _load(data)
        _raise_error(chunk, data)
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            raise backend_garbage("a chunk without choices.")
        if len(choices) > _MOST_CHOICES:
            raise backend_garbage(f"a chunk with more than {_MOST_CHOICES} choices.")
        return chunk

    def _chunk(self, chunk: Json, data: bytes) -> bytes:
        """`data` is what the backend wrote."""
        if self._ended:
            return b""
        choices = chunk["choices"]
        self._usage.take(chunk)
        if not choices:
            return b""
        if len(choices) == 1 and self._usage.may_pass(chunk):
            rewritten = self._choice(choices[0])
            if rewritten is None:
                return encode(Data(data))
        else:
            rewritten = []
            for choice in choices:
                new = self._choice(choice)
                rewritten += [choice] if new is None else new
                if self._refusal is not None:
                    break
        envelope = self._usage.envelope(chunk)
        out = b"".join(encode(Data(_encoded({**envelope, "choices": [choice]}))) for choice in rewritten)
        return out if self._refusal is None else out + self.fail(self._refusal)

    def _choice(self, choice: Any) -> list[Json] | None:
        """What one choice of a chunk becomes: None for "as it is", else any number of choices."""
        delta = choice.get("delta") if isinstance(choice, dict) else None
        if not isinstance(delta, dict):
            raise backend_garbage("a choice without a delta.")
        index = choice.get("index", 0)
        if not isinstance(index, int):
            raise backend_garbage("a choice whose index is no number.")
        content = delta.get("content")
        output = self._outputs.get(index)
        if output is None:
            output = self._outputs[index] = _Output(self._plan, self._checker, self.faults)
        self._usage.wrote(index, delta)
        said_twice = self._plan.reasoning_content and with_older_name(delta)
        said = choice.get("finish_reason")
        events = output.feed(delta)
        if said is not None:
            events += output.close(said)
        self._refusal = output.error
        finish_reason = _finish_reason(said, self._shape, called=output.calls.given > 0) if said is not None else None
        role_only = "role" in delta and not content
        unchanged = (events == [Text(content)] if content else not events) and not delta.get("tool_calls")
        if unchanged and not (role_only or said_twice) and finish_reason == said and self._refusal is None:
            return None
        rest = output.rest(delta)
        rewritten: list[Json] = []
        if "role" in rest:
            # As OpenAI does when a call may follow: no content yet, not an empty one.
            rewritten.append(_choice(index, {**rest, "content": None}))
            rest = {}
        deltas = [new for event in events if (new := _delta(event, self._shape)) is not None]
        if self._plan.reasoning_content:
            for new in deltas:
                with_older_name(new)
        rewritten += [_choice(index, new) for new in deltas]
        if self._refusal is not None:
            return rewritten
        if said is not None:
            rewritten.append({**choice, "delta": rest, "logprobs": None, "finish_reason": finish_reason})
        elif rest:
            rewritten.append(_choice(index, rest))
        return rewritten


def _choice(index: int, delta: Json) -> Json:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}


def _delta(event: Event, shape: CallShape) -> Json | None:
    match event:
        case ArgumentsDelta(index, json):
            return shape.arguments(index, json)
        case Text(text):
            return {"content": text}
        case Reasoning(text):
            return {"reasoning": text}
        case CallStart():
            return shape.start(event)
        case CallEnd():
            return None
