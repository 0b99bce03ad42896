"""How many tokens an answer cost: the backend's own count, and an estimate where there is none.

What the backend counted goes to the client unchanged, details and all. An estimate is marked: `"estimated": true` is
among its numbers, because it may be known only when a stream's headers have long left. Clients ignore what they don't
know there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from extproc.contract.json_array import JsonArray
from extproc.contract.json_body import encode
from extproc.contract.token_count import LONGEST_WHOLE, Excerpt

Json: TypeAlias = dict[str, Any]

_OF_THE_PROMPT = ("prompt_tokens", "prompt_tokens_details")
_SAID = frozenset({"content", "reasoning", "reasoning_content", "refusal"})
_CALLED = ("name", "arguments")

_AROUND_A_MESSAGE = 5
"""Tokens that a chat template writes around a message: two marks, the role and two line breaks (ChatML)."""
_BEFORE_THE_ANSWER = 3
_AFTER_THE_ANSWER = 1


@dataclass(frozen=True, slots=True)
class Sent:
    """What a backend was sent, as far as counts depend on it; takes little memory, however long it was."""

    messages: Said | JsonArray
    """As their text, where that takes no more memory than what is kept of it: seldom does anybody ask."""
    tools: JsonArray
    """Those that the backend's chat template shows; none when they are in the text."""

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> Sent:
        """`body` is the request, ready for its backend."""
        messages, tools = body["messages"], body.get("tools") or ()
        if not (isinstance(messages, JsonArray) and len(messages.json) <= LONGEST_WHOLE):
            messages = Said.read(messages)
        return cls(messages, tools if isinstance(tools, JsonArray) else JsonArray(encode(tools)))

    @property
    def said(self) -> Said:
        return self.messages if isinstance(self.messages, Said) else Said.read(self.messages)

    def prompt_tokens(self) -> int:
        """How many there are by estimate; images and the template's own words don't count."""
        said = self.said
        tools = Excerpt(encode(tool).decode() for tool in self.tools)
        return said.text.tokens() + tools.tokens() + said.messages * _AROUND_A_MESSAGE + _BEFORE_THE_ANSWER


@dataclass(frozen=True, slots=True)
class Said:
    """So many messages, and what they say."""

    messages: int
    text: Excerpt

    @classmethod
    def read(cls, messages: Sequence[Json]) -> Said:
        text = Excerpt()
        for message in messages:
            for said in _texts(message):
                text.add(said)
                text.add("\n")
        return cls(len(messages), text)


def counted(usage: object) -> Json | None:
    """The count that a backend wrote, with the sum if it left that out; None if it wrote none."""
    if not isinstance(usage, dict):
        return None
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if type(prompt) is not int or type(completion) is not int:  # `true` is an int too
        return None
    if type(usage.get("total_tokens")) is int:
        return usage
    return {**usage, "total_tokens": prompt + completion}


def after_last_prompt(before: Json | None, last: Json | None) -> Json | None:
    """All that the rounds of one answer wrote, and the last one's prompt, which holds what was written and found
    before."""
    both = summed(before, last)
    if both is None or before is None or last is None:
        return both
    of_last = {name: last[name] for name in _OF_THE_PROMPT if name in last}
    both = {name: value for name, value in both.items() if name not in _OF_THE_PROMPT} | of_last
    return counted({**both, "total_tokens": None}) or both


def summed(first: Json | None, second: Json | None) -> Json | None:
    """What both cost together; what only one of them tells is in it too."""
    if first is None or second is None:
        return second if first is None else first
    both = {**first, **second}
    for name, value in first.items():
        other = second.get(name)
        if isinstance(value, dict) and isinstance(other, dict):
            both[name] = summed(value, other)
        elif type(value) is int and type(other) is int:
            both[name] = value + other
        elif other is None:
            both[name] = value
    return both


def estimated(sent: Sent, answers: Iterable[Excerpt]) -> Json:
    """A count of our own; `answers` is what the model wrote, choice by choice."""
    prompt = sent.prompt_tokens()
    completion = sum(answer.tokens() + _AFTER_THE_ANSWER for answer in answers)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "estimated": True,
    }


def written(messages: Iterable[Json]) -> list[Excerpt]:
    """What the model wrote into these messages, as the backend sent them."""
    return [Excerpt(_texts(message)) for message in messages]


class StreamCount:
    """The count of one stream: show it every chunk of the backend's."""

    def __init__(self, sent: Sent | None, *, wanted: bool) -> None:
        """`wanted`: the client is to get one."""
        self._sent = sent
        self._wanted = wanted
        self._answers: dict[int, Excerpt] = defaultdict(Excerpt)
        self.backends: Json | None = None
        """The backend's own, once it came: of several, the latest."""

    def take(self, chunk: Json) -> None:
        self.backends = counted(chunk.get("usage")) or self.backends

    def wrote(self, index: int, delta: Json) -> None:
        """The model went on with this in the choice of that number."""
        if self._wanted and self._sent is not None and self.backends is None:
            answer = self._answers[index]
            for text in _texts(delta):
                answer.add(text)

    @cached_property
    def prompt_tokens(self) -> int:
        """By estimate; 0 where it isn't known what was sent."""
        return self._sent.prompt_tokens() if self._sent is not None else 0

    def total(self) -> Json | None:
        """What a complete answer cost: the backend's count, or an estimate where that is possible."""
        if self.backends is None and self._sent is not None:
            return estimated(self._sent, self._answers.values())
        return self.backends


def _texts(message: Json) -> Iterator[str]:
    """Everything in a message, or in a piece of one, that a model reads or writes; it may be a backend's nonsense."""
    for field, value in message.items():
        if field in _SAID:
            if isinstance(value, str):
                yield value
            elif isinstance(value, list):
                yield from (
                    text for part in value if isinstance(part, dict) and isinstance(text := part.get("text"), str)
                )
        elif field == "tool_calls" and isinstance(value, list):
            for call in value:
                function = call.get("function") if isinstance(call, dict) else None
                if isinstance(function, dict):
                    yield from (text for name in _CALLED if isinstance(text := function.get(name), str))
