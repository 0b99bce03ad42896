"""Clients that stream one answer after the other from names that stand for several models, and what became of each."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import httpx

from extproc.names import FALLBACK_HEADER, MODEL_HEADER
from scripted_vllm import Reply, ScriptedVLLM
from scripted_vllm.checks import ChatRequest
from tests.gateway import MODEL, free_port, wait_until
from tests.reloadable import CHAT, PATIENCE, TOOLS, request, text_of

STREAMED = "word " * 20

Outcome: TypeAlias = Literal["whole", "refused", "broken", "wrong"]
"""An answer to its end, an error in the place of one, one that had begun and was cut or ended with an error event, and
what should never be: as if all were well, with other words."""


def speak(asked: ChatRequest) -> Reply:
    return Reply(STREAMED, pace=0.02) if asked.stream else Reply("Yes.")


class Server:
    """A vLLM that can go and come back where it was."""

    def __init__(self, speak: Callable[[ChatRequest], Reply] | None = None) -> None:
        self.port = free_port()
        self._speak = speak
        self._running: Any = None
        self.start()

    def start(self) -> None:
        self.vllm = ScriptedVLLM(model=MODEL, port=self.port, speak=self._speak)
        self._running = self.vllm.running()
        self._running.__enter__()

    def stop(self) -> None:
        if self._running is not None:
            self._running.__exit__(None, None, None)
        self._running = None


@dataclass(frozen=True, slots=True)
class Streamed:
    """One stream. Its times are those of `time.monotonic`."""

    name: str
    """That was asked for."""
    text: str
    """Of the user: no two conversations begin alike."""
    model: str | None
    """Whose it is, by its head; None if there was none."""
    fallback: str | None
    began: float
    ended: float
    outcome: Outcome
    status: int
    code: str | None
    """Of the error in the place of an answer."""
    end: Sequence[str]
    """Its last lines."""


@dataclass
class Streaming:
    """What was streamed, by clients that go on until they are told to stop."""

    url: str
    streams: list[Streamed] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def clients(self, *names: str) -> Iterator[None]:
        """One for each of these, which may be given several times. Every second stream has tools."""
        with ThreadPoolExecutor(len(names)) as threads:
            running = [threads.submit(self._client, name, number) for number, name in enumerate(names)]
            try:
                yield
            finally:
                self.stopped.set()
            for each in running:
                each.result()

    def ended(self, *outcomes: Outcome) -> list[Streamed]:
        """Those that did so."""
        return [each for each in self.streams if each.outcome in outcomes]

    def whole(self) -> Counter[str | None]:
        """How many were whole, by their model."""
        return Counter(each.model for each in self.ended("whole"))

    def wait_for(self, model: str, more: int) -> None:
        """Until so many more whole ones are this model's."""
        enough = self.whole()[model] + more
        wait_until(lambda: self.whole()[model] >= enough, 2 * PATIENCE)

    def _client(self, name: str, number: int) -> None:
        with httpx.Client(base_url=self.url, timeout=PATIENCE) as http:
            for count in itertools.count():
                if self.stopped.is_set():
                    return
                text = f"Agent {number}.{count}"
                more: dict[str, Any] = {"tools": TOOLS} if count % 2 else {}
                self.streams.append(stream(http, name, text, **more))


def stream(http: httpx.Client, name: str, text: str, *, says: str = STREAMED, **fields: Any) -> Streamed:
    """One, read to its end."""
    began, status, lines = time.monotonic(), 0, list[str]()
    head, code = httpx.Headers(), None
    outcome: Outcome = "broken"
    with contextlib.suppress(httpx.TransportError):
        with http.stream("POST", CHAT, json=request(name, text, stream=True, **fields)) as answer:
            status, head = answer.status_code, answer.headers
            lines.extend(answer.iter_lines())
        if status != 200:
            outcome, code = "refused", json.loads("".join(lines))["error"]["code"]
        elif '"error"' not in "".join(lines):
            outcome = "whole" if text_of(lines) == says else "wrong"
    told = (head.get(MODEL_HEADER), head.get(FALLBACK_HEADER))
    return Streamed(name, text, *told, began, time.monotonic(), outcome, status, code, lines[-3:])


def trials(seconds: float) -> int:
    """How many requests try whether a backend is back that is away for so long: after 1 s, after 2 more, then 4."""
    number, after = 0, 1.0
    while after <= seconds:
        number, after = number + 1, after + min(30.0, 2.0 ** (number + 1))
    return number
