"""Reads the answers of OpenAI's chat completions, whole and streamed, and notes what is wrong with their form.

The form is OpenAI's API reference: ids and types of calls, indexes, one `finish_reason`, usage, the end of a stream.
Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_MOST_FAULTS = 5


@dataclass(frozen=True, slots=True)
class Call:
    """A call as it came; `arguments` is text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one request."""

    status: int
    """HTTP's; 0 where the connection broke or the time was up."""
    content: str = ""
    calls: tuple[Call, ...] = ()
    finish_reason: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    faults: tuple[str, ...] = ()
    """What is wrong with the form."""
    error: str = ""

    @property
    def is_answer(self) -> bool:
        return self.status == 200 and not self.error

    @property
    def is_cut_off(self) -> bool:
        return self.finish_reason == "length"

    def as_json(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "content": self.content,
            "calls": [[call.id, call.name, call.arguments] for call in self.calls],
            "finish_reason": self.finish_reason,
            "tokens": [self.prompt_tokens, self.completion_tokens],
            "faults": list(self.faults),
            "error": self.error,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Answer:
        calls = tuple(Call(*call) for call in data["calls"])
        prompt, completion = data["tokens"]
        faults = tuple(data["faults"])
        return cls(
            data["status"], data["content"], calls, data["finish_reason"], prompt, completion, faults, data["error"]
        )


def read(status: int, body: str, *, stream: bool) -> Answer:
    """The answer that the server's bytes are."""
    if status != 200:
        return Answer(status, error=_message(body))
    try:
        return _streamed(body) if stream else _whole(body)
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        return Answer(status, error=f"no chat completion: {type(error).__name__}: {error}"[:200])


def _message(body: str) -> str:
    try:
        return str(json.loads(body)["error"]["message"])[:200]
    except (LookupError, TypeError, ValueError):
        return body[:200]


@dataclass(slots=True)
class _Faults:
    found: list[str] = field(default_factory=list)

    def unless(self, right: object, fault: str) -> None:
        if not right and fault not in self.found and len(self.found) < _MOST_FAULTS:
            self.found.append(fault)


def _whole(body: str) -> Answer:
    faults = _Faults()
    answer = json.loads(body)
    faults.unless(answer.get("object") == "chat.completion", f"object is {answer.get('object')!r}")
    faults.unless(_is_text(answer.get("id")), "no id")
    (choice,) = answer["choices"]
    faults.unless(choice.get("index") == 0, f"the choice's index is {choice.get('index')!r}")
    message = choice["message"]
    faults.unless(message.get("role") == "assistant", f"role is {message.get('role')!r}")
    calls = []
    for call in message.get("tool_calls") or ():
        faults.unless(call.get("type") == "function", f"a call's type is {call.get('type')!r}")
        function = call["function"]
        faults.unless(isinstance(function["arguments"], str), "arguments are no text")
        calls.append(Call(_text(call.get("id")), _text(function["name"]), _text(function["arguments"])))
    return _answer(message.get("content"), calls, choice.get("finish_reason"), answer.get("usage"), faults)


def _streamed(body: str) -> Answer:
    faults = _Faults()
    content: list[str] = []
    calls: list[_Growing] = []
    finish: list[str] = []
    ids = set()
    usage = None
    for chunk in _chunks(body, faults):
        faults.unless(chunk.get("object") == "chat.completion.chunk", f"object is {chunk.get('object')!r}")
        ids.add(chunk.get("id"))
        usage = chunk.get("usage") or usage
        for choice in chunk["choices"]:
            faults.unless(not finish, "a chunk of the choice behind its finish_reason")
            delta = choice.get("delta") or {}
            content.append(delta.get("content") or "")
            for piece in delta.get("tool_calls") or ():
                _grow(calls, piece, faults)
            if choice.get("finish_reason") is not None:
                finish.append(choice["finish_reason"])
    faults.unless(len(ids) == 1 and all(map(_is_text, ids)), "the chunks don't have one id")
    faults.unless(finish, "no finish_reason")
    done = [Call(call.id, call.name, "".join(call.pieces)) for call in calls]
    return _answer("".join(content), done, finish[0] if finish else None, usage, faults)


def _chunks(body: str, faults: _Faults) -> Iterator[dict[str, Any]]:
    """The events' data, up to `[DONE]`. Raises ValueError for an error in the stream."""
    ended = False
    for line in body.replace("\r\n", "\n").split("\n"):
        if not line.startswith("data:"):
            continue
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            ended = True
            continue
        faults.unless(not ended, "a chunk behind [DONE]")
        chunk = json.loads(data)
        if chunk.get("error"):
            raise ValueError(f"an error in the stream: {chunk['error']}")
        yield chunk
    faults.unless(ended, "no [DONE]")


@dataclass(slots=True)
class _Growing:
    id: str
    name: str
    pieces: list[str]


def _grow(calls: list[_Growing], piece: Mapping[str, Any], faults: _Faults) -> None:
    function = piece.get("function") or {}
    index = piece.get("index")
    if index == len(calls):
        faults.unless(piece.get("type") == "function", f"a call's type is {piece.get('type')!r}")
        faults.unless(_is_text(function.get("name")), "a call begins without a name")
        calls.append(_Growing(_text(piece.get("id")), _text(function.get("name")), []))
    elif not isinstance(index, int) or not 0 <= index < len(calls):
        faults.unless(False, f"a call's index is {index!r} after {len(calls)} calls")
        return
    else:
        # vLLM and others repeat neither; OpenAI's client would join them.
        faults.unless(not piece.get("id") or piece["id"] == calls[index].id, "a call's id changes")
        faults.unless(not function.get("name"), "a call's name comes again")
    calls[index].pieces.append(function.get("arguments") or "")


def _answer(content: Any, calls: list[Call], finish: Any, usage: Any, faults: _Faults) -> Answer:
    faults.unless(content is None or isinstance(content, str), "content is no text")
    ids = [call.id for call in calls]
    faults.unless(all(map(_is_text, ids)), "a call without an id")
    faults.unless(len(set(ids)) == len(ids), "two calls with one id")
    prompt, completion = _counts(usage, faults)
    finish_reason = finish if isinstance(finish, str) else None
    faults.unless(
        finish_reason in (None, "stop", "length", "tool_calls", "content_filter"), f"finish_reason {finish!r}"
    )
    return Answer(200, content or "", tuple(calls), finish_reason, prompt, completion, tuple(faults.found))


def _counts(usage: Any, faults: _Faults) -> tuple[int, int]:
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    found = [usage.get(name) for name in names] if isinstance(usage, Mapping) else []
    counts = [count for count in found if isinstance(count, int) and count >= 0]
    if len(counts) != len(names):
        faults.unless(False, "no usage" if usage is None else "usage isn't three counts")
        return 0, 0
    prompt, completion, total = counts
    faults.unless(total == prompt + completion, "usage doesn't add up")
    return prompt, completion


def _text(value: object) -> str:
    """A string as it is; anything else, which has no place there, as JSON."""
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)
