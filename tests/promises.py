"""What a client got, and what it can be promised to get: the vocabulary of test_trouble.py."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx


@dataclass(frozen=True)
class Got:
    """What a client got."""

    request_id: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    cut: bool
    """The connection was closed before the answer's end."""

    @property
    def events(self) -> list[Any]:
        *complete, _ = self.body.decode(errors="replace").split("\n\n")
        data = [event.removeprefix("data: ") for event in complete]
        return [event if event == "[DONE]" else json.loads(event) for event in data]

    @property
    def deltas(self) -> list[Any]:
        """The choices of the chunks."""
        return [event["choices"][0] for event in self.events if event != "[DONE]" and event.get("choices")]

    @property
    def reasons(self) -> list[str]:
        return [choice["finish_reason"] for choice in self.deltas if choice["finish_reason"] is not None]

    @property
    def content(self) -> str:
        return "".join(choice["delta"].get("content") or "" for choice in self.deltas)


Promise = Callable[[Got], None]


def error(status: int, code: str | None, retry_after: str | None = None) -> Promise:
    """An error in OpenAI's shape, in the place of an answer."""

    def check(got: Got) -> None:
        assert (got.status, got.cut) == (status, False)
        assert got.headers["content-type"] == "application/json"
        assert got.headers.get("retry-after") == retry_after
        value = json.loads(got.body)
        assert set(value) == {"error"}
        assert set(value["error"]) == {"message", "type", "param", "code"}
        assert value["error"]["code"] == code
        assert not re.search(r"<\w+>|[{\"]error", value["error"]["message"]), "words, and no page or object in them"

    return check


def broken_off(got: Got) -> None:
    """The connection is cut; if nothing had been sent by then, there is an error instead."""
    if got.status != 200:
        error(502, "backend_disconnected")(got)
        return
    assert got.cut
    assert not re.search(rb'"finish_reason":\s*"|\[DONE\]', got.body)


def error_event(code: int) -> Promise:
    """A stream that says in its last event why it ends."""

    def check(got: Got) -> None:
        assert (got.status, got.cut) == (200, False)
        assert got.reasons == []
        *_, last, done = got.events
        assert done == "[DONE]"
        assert set(last["error"]) == {"message", "type", "param", "code"}
        assert last["error"]["code"] == code

    return check


def finished(reason: str, content: str, arguments: str | None = None) -> Promise:
    """A complete stream, of these words and at most one call."""

    def check(got: Got) -> None:
        assert (got.status, got.cut) == (200, False)
        assert (got.reasons, got.content, got.events[-1]) == ([reason], content, "[DONE]")
        calls = [call["function"] for choice in got.deltas for call in choice["delta"].get("tool_calls", ())]
        assert [call["name"] for call in calls if "name" in call] == ([] if arguments is None else ["get_weather"])
        assert "".join(call.get("arguments", "") for call in calls) == (arguments or "")

    return check


def completed(reason: str, content: str | None, arguments: str | None = None) -> Promise:
    """The same as a whole answer."""

    def check(got: Got) -> None:
        assert (got.status, got.cut) == (200, False)
        [choice] = json.loads(got.body)["choices"]
        calls = [(call["function"]["name"], call["function"]["arguments"]) for call in _calls(choice)]
        assert (choice["finish_reason"], choice["message"]["content"]) == (reason, content)
        assert calls == ([] if arguments is None else [("get_weather", arguments)])

    return check


def _calls(choice: Mapping[str, Any]) -> list[Any]:
    return choice["message"].get("tool_calls") or []


def as_it_came(got: Got) -> None:
    """The backend's answer, which is nobody else's business."""
    assert (got.status, got.cut) == (200, False)


def rest_of(pieces: Iterator[bytes]) -> tuple[bytes, bool]:
    """What is still to come of a body, and whether it is cut off."""
    received = b""
    try:
        for piece in pieces:
            received += piece
    except httpx.RemoteProtocolError:
        return received, True
    return received, False
