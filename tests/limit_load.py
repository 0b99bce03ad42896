"""Clients that spend tokens, and what became of each of their requests: no two cost the same, so that a count can be
told by its number."""

from __future__ import annotations

import http.client
import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from extproc.envoy.clusters import COUNTING
from tests.gateway import Gateway

PATIENCE = 60
"""Seconds for one answer: the machine may have other work."""
COUNTING_NOW = (f"cluster.{COUNTING}.upstream_rq_active", f"cluster.{COUNTING}.upstream_rq_pending_active")
"""Envoy's gauges of what the service that counts hasn't answered: calls under way, and those without a connection."""
TOOLS: list[Any] = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]

Outcome: TypeAlias = Literal["whole", "refused", "cut", "unreached"]
"""An answer to its end, an error in the place of one, one that had begun and has no end, not a byte of one."""


def key_of(name: str) -> str:
    return f"{name}-has-a-key-that-is-long-enough"


def costing(tokens: int) -> str:
    """Words that are answered at this cost."""
    return f"Spend {tokens} tokens."


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. Its times are those of `time.monotonic`."""

    name: str
    """Of its key."""
    cost: int
    gateway: str
    """The URL."""
    began: float
    ended: float
    outcome: Outcome
    status: int
    code: str | None
    """Of the error."""
    thread: int = field(default_factory=threading.get_ident)
    """Which asked: each has one connection to a gateway."""


@dataclass
class Requests:
    """Whatever was asked, by any thread, each of which has connections of its own. Close it when they have ended."""

    made: list[Asked] = field(default_factory=list)
    _own: threading.local = field(default_factory=threading.local)
    _open: list[http.client.HTTPConnection] = field(default_factory=list)

    def close(self) -> None:
        for connection in self._open:
            connection.close()

    def ask(self, gateway: Gateway, name: str, cost: int, number: int, *, slowly: bool = False) -> Asked:
        """The number says how: every second two are streams, every second four have tools."""
        stream = bool(number & 2)
        body: dict[str, Any] = {
            "model": "small",
            "messages": [{"role": "user", "content": costing(cost) + (" slowly" if slowly else "")}],
        }
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        if number & 4:
            body["tools"] = TOOLS
        began = time.monotonic()
        outcome, status, code = self._asked(gateway.url, name, body, cost, stream=stream)
        asked = Asked(name, cost, gateway.url, began, time.monotonic(), outcome, status, code)
        self.made.append(asked)
        return asked

    def _asked(self, url: str, name: str, body: Any, cost: int, *, stream: bool) -> tuple[Outcome, int, str | None]:
        connection = self._connection(url)
        try:
            if connection.sock is None:
                connection.connect()
        except OSError:
            return "unreached", 0, None
        headers = {"authorization": f"Bearer {key_of(name)}", "content-type": "application/json"}
        status = 0
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
            answer = connection.getresponse()
            status = answer.status
            content = answer.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            return "cut" if status else "unreached", status, None
        if status != 200:
            return "refused", status, json.loads(content)["error"]["code"]
        if stream:
            events = [line.removeprefix(b"data: ") for line in content.splitlines() if line]
            if events[-1] != b"[DONE]":
                assert b'"error"' in events[-1], content
                return "cut", status, None
            usage = json.loads(events[-2])["usage"]
        else:
            usage = json.loads(content)["usage"]
        assert usage["total_tokens"] == cost
        return "whole", status, None

    def _connection(self, url: str) -> http.client.HTTPConnection:
        """This thread's own."""
        kept: dict[str, http.client.HTTPConnection] = self._own.__dict__.setdefault("kept", {})
        if url not in kept:
            kept[url] = http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)
            self._open.append(kept[url])
        return kept[url]

    def spent(self, name: str) -> int:
        """What whole answers have cost."""
        return sum(each.cost for each in self.made if each.name == name and each.outcome == "whole")
