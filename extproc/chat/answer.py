"""Turns a backend's answer, whose calls are text, into the answer that OpenAI's API would give.

A stream is rewritten event by event: whatever the parser leaves as it is passes on byte for byte, everything else
becomes chunks with the same envelope. A completion is rewritten whole, by the same parser. The stream never ends
as if all were well when it isn't: what can't be understood becomes an error event.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import orjson

from extproc.chat.call_shapes import CallShape, shape_for
from extproc.chat.calls import CheckedCalls
from extproc.chat.plan import AnswerPlan
from extproc.openai.arguments import ArgumentChecker
from extproc.openai.errors import ApiError, backend_error, backend_garbage
from extproc.openai.sse import DONE, Comment, Data, ServerEvent, SseDecoder, encode
from extproc.toolcalls import ArgumentsDelta, CallEnd, CallStart, Event, Parser, Reasoning, Text
from extproc.toolcalls.events import collect

Json = dict[str, Any]

_CUT_OFF = ("length", "content_filter")
"""The finish reasons of an output that the backend ended before the model did."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A whole completion, as the client gets it."""

    body: bytes
    """The very bytes of the backend when nothing had to change."""
    usage: Json | None
    """The backend's own count, if it sent one."""
    faults: Counter[str]
    """By code, how many of the model's calls had a fault."""


class _Output:
    """What the model says in one choice: its text, parsed and its calls checked."""

    __slots__ = ("_parser", "calls", "finished")

    def __init__(self, plan: AnswerPlan, checker: ArgumentChecker, faults: Counter[str]) -> None:
        self._parser = Parser(format=plan.format, tools=plan.tools)
        self.calls = CheckedCalls(plan, checker, faults)
        self.finished = False

    def feed(self, text: str) -> list[Event]:
        return self.calls.take(self._parser.feed(text))

    def close(self, finish_reason: object) -> list[Event]:
        """`finish_reason` is the backend's."""
        self.finished = True
        return self.calls.take(self._parser.close(), cut_off=finish_reason in _CUT_OFF)


def rewrite_completion(body: bytes, plan: AnswerPlan) -> Rewritten:
    """The completion that the client gets for the backend's.

    Raises ApiError (502) when the body is no chat completion, or holds a call that the client is not to get. The
    latter has the call's fault as its code, and counts as that one fault.
    """
    completion = _load(body)
    _raise_error(completion, body)
    choices = completion.get("choices")
    if not isinstance(choices, list):
        raise backend_garbage("a completion without choices.")
    checker, faults = ArgumentChecker(plan.tools), Counter[str]()
    changed = False
    for choice in choices:
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(message, dict):
            raise backend_garbage("a choice without a message.")
        if isinstance(message.get("content"), str):
            changed |= _rewrite_message(choice, message, _Output(plan, checker, faults), shape_for(plan))
    usage = completion.get("usage")
    return Rewritten(_encoded(completion) if changed else body, usage if isinstance(usage, dict) else None, faults)


def _rewrite_message(choice: Json, message: Json, output: _Output, shape: CallShape) -> bool:
    content: str = message["content"]
    said = choice.get("finish_reason")
    parsed = collect([*output.feed(content), *output.close(said)])
    if output.calls.error is not None:
        raise output.calls.error
    if not parsed.calls and parsed.reasoning is None and (parsed.content or "") == content:
        return False
    message["content"] = parsed.content
    if parsed.reasoning is not None:
        message["reasoning"] = parsed.reasoning
    if parsed.calls:
        shape.put(message, parsed.calls)
        choice["finish_reason"] = _finish_reason(said, shape)
    return True


def _finish_reason(said: object, shape: CallShape) -> object:
    """Why an output with calls ended: a cut-off one stays cut off, otherwise the calls are the reason."""
    return said if said in _CUT_OFF else shape.finish_reason


def _load(data: bytes) -> Json:
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
    """One streamed completion: `feed` the backend's bytes in any cut, then `close`; both return the client's bytes."""

    def __init__(self, plan: AnswerPlan) -> None:
        self._plan = plan
        self._shape = shape_for(plan)
        self._checker = ArgumentChecker(plan.tools)
        self._decoder = SseDecoder()
        self._outputs: dict[int, _Output] = {}
        self._refusal: ApiError | None = None  # an invalid call, behind the chunk that is being written
        self._ended = False
        self.faults = Counter[str]()
        """By code, how many of the model's calls had a fault; the one in `error` is among them."""
        self.usage: Json | None = None
        """The backend's own count, once it came."""
        self.error: ApiError | None = None
        """What the client was told in an error event, if anything."""

    @property
    def held(self) -> int:
        """How much of an unfinished event is held, in bytes, and of unfinished calls, in characters."""
        return self._decoder.held + sum(output.calls.held for output in self._outputs.values())

    def feed(self, piece: bytes) -> bytes:
        return self._rewrite(self._decoder.feed(piece))

    def close(self) -> bytes:
        """The backend's stream has ended. A stream that ended before its choices did is an error, and says so."""
        out = self._rewrite(self._decoder.close())
        if self._ended:
            return out
        if self._finished():
            return out + self._end()
        return out + self.fail(backend_garbage("the stream ended before the answer was complete."))

    def fail(self, error: ApiError) -> bytes:
        """End the stream with an error event; whatever the backend sends after it is dropped."""
        if self._ended:
            return b""
        self.error = error
        return encode(Data(error.event())) + self._end()

    def _finished(self) -> bool:
        return bool(self._outputs) and all(output.finished for output in self._outputs.values())

    def _end(self) -> bytes:
        self._ended = True
        return encode(Data(DONE))

    def _rewrite(self, events: list[ServerEvent]) -> bytes:
        out: list[bytes] = []
        for event in events:
            if self._ended:
                break
            match event:
                case Comment():
                    out.append(encode(event))
                case Data(data) if data.strip() == DONE:
                    out.append(self._done())
                case Data(data):
                    try:
                        out.append(self._chunk(data))
                    except ApiError as error:
                        out.append(self.fail(error))
        return b"".join(out)

    def _done(self) -> bytes:
        if self._finished():
            return self._end()
        return self.fail(backend_garbage("the stream ended without a finish_reason."))

    def _chunk(self, data: bytes) -> bytes:
        chunk = _load(data)
        _raise_error(chunk, data)
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            raise backend_garbage("a chunk without choices.")
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            self.usage = usage
        if not choices:
            return encode(Data(data)) if self._plan.include_usage else b""
        if len(choices) == 1 and (usage is None or self._plan.include_usage):
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
        envelope = {key: value for key, value in chunk.items() if key != "usage" or self._plan.include_usage}
        out = b"".join(encode(Data(_encoded({**envelope, "choices": [choice]}))) for choice in rewritten)
        return out if self._refusal is None else out + self.fail(self._refusal)

    def _choice(self, choice: Any) -> list[Json] | None:
        """What one choice of a chunk becomes: None for "as it is", else any number of choices."""
        delta = choice.get("delta") if isinstance(choice, dict) else None
        if not isinstance(delta, dict):
            raise backend_garbage("a choice without a delta.")
        index = choice.get("index", 0)
        content = delta.get("content")
        if not isinstance(index, int) or not isinstance(content, str | None):
            raise backend_garbage("a choice whose index is no number, or whose content is no text.")
        output = self._outputs.get(index)
        if output is None:
            output = self._outputs[index] = _Output(self._plan, self._checker, self.faults)
        said = choice.get("finish_reason")
        events = output.feed(content) if content else []
        if said is not None:
            events += output.close(said)
        self._refusal = output.calls.error
        finish_reason = said
        if said is not None and output.calls.given:
            finish_reason = _finish_reason(said, self._shape)
        role_only = "role" in delta and not content
        unchanged = events == [Text(content)] if content else not events
        if unchanged and not role_only and finish_reason == said and self._refusal is None:
            return None
        rest = {key: value for key, value in delta.items() if key != "content"}
        rewritten: list[Json] = []
        if "role" in rest:
            # As OpenAI does when a call may follow: no content yet, not an empty one.
            rewritten.append(_choice(index, {**rest, "content": None}))
            rest = {}
        rewritten += [_choice(index, new) for event in events if (new := _delta(event, self._shape)) is not None]
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
        case CallStart(index, name):
            return shape.start(index, name)
        case CallEnd():
            return None
