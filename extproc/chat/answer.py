"""Turns a backend's answer, whose calls are text, into the answer that OpenAI's API would give.

A stream is rewritten event by event: whatever the parser leaves as it is passes on byte for byte, everything else
becomes chunks with the same envelope. A completion is rewritten whole, by the same parser. The stream never ends
as if all were well when it isn't: what can't be understood becomes an error event.
"""

from __future__ import annotations

from typing import Any

import orjson

from extproc.chat.plan import AnswerPlan
from extproc.openai.errors import ApiError, backend_error, backend_garbage
from extproc.openai.ids import new_tool_call_id
from extproc.openai.sse import DONE, Comment, Data, ServerEvent, SseDecoder, encode
from extproc.toolcalls import ArgumentsDelta, CallEnd, CallStart, Event, Parser, Reasoning, Text, parse

Json = dict[str, Any]


def rewrite_completion(body: bytes, plan: AnswerPlan) -> tuple[bytes, Json | None]:
    """A whole completion and its usage; the very same bytes when it holds no call.

    Raises ApiError (502) when the body is no chat completion.
    """
    completion = _load(body)
    _raise_error(completion, body)
    choices = completion.get("choices")
    if not isinstance(choices, list):
        raise backend_garbage("a completion without choices.")
    changed = False
    for choice in choices:
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(message, dict):
            raise backend_garbage("a choice without a message.")
        if isinstance(message.get("content"), str):
            changed |= _rewrite_choice(choice, message, plan)
    usage = completion.get("usage")
    return (_encoded(completion) if changed else body), usage if isinstance(usage, dict) else None


def _rewrite_choice(choice: Json, message: Json, plan: AnswerPlan) -> bool:
    content: str = message["content"]
    parsed = parse(content, format=plan.format, tools=plan.tools)
    if not parsed.calls and parsed.reasoning is None and (parsed.content or "") == content:
        return False
    message["content"] = parsed.content
    if parsed.reasoning is not None:
        message["reasoning"] = parsed.reasoning
    calls = parsed.calls if plan.parallel_tool_calls else parsed.calls[:1]
    if calls:
        message["tool_calls"] = [
            {
                "id": new_tool_call_id(),
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in calls
        ]
    choice["finish_reason"] = _finish_reason(choice.get("finish_reason"), called=bool(calls))
    return True


def _finish_reason(said: Any, *, called: bool) -> Any:
    """A cut-off answer stays cut off; otherwise calls are the reason to stop."""
    return "tool_calls" if called and said not in ("length", "content_filter") else said


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


class _Choice:
    """One choice of a stream: its parser, and what has been told of it."""

    __slots__ = ("_parallel", "_parser", "calls", "finished")

    def __init__(self, plan: AnswerPlan) -> None:
        self._parser = Parser(format=plan.format, tools=plan.tools)
        self._parallel = plan.parallel_tool_calls
        self.calls = 0
        self.finished = False

    def feed(self, text: str) -> list[Event]:
        return self._allowed(self._parser.feed(text))

    def close(self) -> list[Event]:
        self.finished = True
        return self._allowed(self._parser.close())

    def _allowed(self, events: list[Event]) -> list[Event]:
        """The events without the calls that `parallel_tool_calls: false` rules out."""
        for event in events:
            if isinstance(event, CallStart):
                self.calls += 1
        if self._parallel or self.calls < 2:
            return events
        return [event for event in events if isinstance(event, Text | Reasoning) or event.index == 0]


class StreamedAnswer:
    """One streamed completion: `feed` the backend's bytes in any cut, then `close`; both return the client's bytes."""

    def __init__(self, plan: AnswerPlan) -> None:
        self._plan = plan
        self._decoder = SseDecoder()
        self._choices: dict[int, _Choice] = {}
        self._ended = False
        self.usage: Json | None = None
        """The backend's own count, once it came."""
        self.error: ApiError | None = None
        """What the client was told in an error event, if anything."""

    @property
    def held(self) -> int:
        """How many bytes of an unfinished event are held."""
        return self._decoder.held

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
        return bool(self._choices) and all(choice.finished for choice in self._choices.values())

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
        envelope = {key: value for key, value in chunk.items() if key != "usage" or self._plan.include_usage}
        return b"".join(encode(Data(_encoded({**envelope, "choices": [choice]}))) for choice in rewritten)

    def _choice(self, choice: Any) -> list[Json] | None:
        """What one choice of a chunk becomes: None for "as it is", else any number of choices."""
        delta = choice.get("delta") if isinstance(choice, dict) else None
        if not isinstance(delta, dict):
            raise backend_garbage("a choice without a delta.")
        index = choice.get("index", 0)
        content = delta.get("content")
        if not isinstance(index, int) or not isinstance(content, str | None):
            raise backend_garbage("a choice whose index is no number, or whose content is no text.")
        state = self._choices.get(index)
        if state is None:
            state = self._choices[index] = _Choice(self._plan)
        said = choice.get("finish_reason")
        events = state.feed(content) if content else []
        if said is not None:
            events += state.close()
        role_only = "role" in delta and not content
        if not role_only and (events == [Text(content)] if content else not events):
            finish_reason = _finish_reason(said, called=state.calls > 0)
            if finish_reason == said:
                return None
        rest = {key: value for key, value in delta.items() if key != "content"}
        rewritten: list[Json] = []
        if "role" in rest:
            # As OpenAI does when a call may follow: no content yet, not an empty one.
            rewritten.append(_choice(index, {**rest, "content": None}))
            rest = {}
        rewritten += [_choice(index, delta) for event in events if (delta := _delta(event)) is not None]
        if said is not None:
            finish_reason = _finish_reason(said, called=state.calls > 0)
            rewritten.append({**choice, "delta": rest, "logprobs": None, "finish_reason": finish_reason})
        elif rest:
            rewritten.append(_choice(index, rest))
        return rewritten


def _choice(index: int, delta: Json) -> Json:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}


def _delta(event: Event) -> Json | None:
    match event:
        case Text(text):
            return {"content": text}
        case Reasoning(text):
            return {"reasoning": text}
        case CallStart(index, name):
            function = {"name": name, "arguments": ""}
            call = {"index": index, "id": new_tool_call_id(), "type": "function", "function": function}
            return {"tool_calls": [call]}
        case ArgumentsDelta(index, json):
            return {"tool_calls": [{"index": index, "function": {"arguments": json}}]}
        case CallEnd():
            return None
