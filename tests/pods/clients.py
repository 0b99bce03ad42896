"""Clients that say of each answer whether it was whole, an error, cut, or passed off as whole."""

from __future__ import annotations

import enum
import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

CHAT = "/v1/chat/completions"
MODEL = "qwen-coder"
TEXT = " ".join(str(number) for number in range(10))
"""What the model always says."""
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
PATIENCE = 30


@dataclass(frozen=True, slots=True)
class Kind:
    """What is asked for."""

    stream: bool
    tools: bool

    def __str__(self) -> str:
        return f"{'stream' if self.stream else 'whole answer'} {'with' if self.tools else 'without'} tools"

    def body(self) -> bytes:
        fields: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "Count."}]}
        return json.dumps(fields | {"stream": self.stream} | ({"tools": TOOLS} if self.tools else {})).encode()


class Verdict(enum.Enum):
    """What the client can make of it."""

    WHOLE = "whole"
    ERROR = "an error, told as one"
    CUT = "a connection that broke"
    MISTAKABLE = "not whole, and nothing shows it"


@dataclass(slots=True)
class Answer:
    """What came, as far as it came."""

    status: int = 0
    body: bytes = b""
    broken: str = ""
    """How the connection broke, if it did."""
    longest_gap: float = 0.0
    """Seconds between two pieces."""

    def verdict(self) -> Verdict:
        if self.broken:
            return Verdict.CUT
        events = [json.loads(each) for each in self._events()]
        if self.status >= 400 or any("error" in event for event in events):
            assert "error" in events[-1], f"{self.status}: {self.body!r} isn't in OpenAI's form"
            return Verdict.ERROR
        said = "".join(_content(choice) for event in events for choice in event["choices"])
        finished = any(choice["finish_reason"] for event in events for choice in event["choices"])
        ended = not self._streamed or self.body.endswith(b"\ndata: [DONE]\n\n")
        return Verdict.WHOLE if said == TEXT and finished and ended else Verdict.MISTAKABLE

    @property
    def _streamed(self) -> bool:
        return self.body.startswith(b"data:")

    def _events(self) -> Iterator[bytes]:
        if not self._streamed:
            yield self.body
            return
        for line in self.body.splitlines():
            if line not in (b"", b"data: [DONE]"):
                yield line.removeprefix(b"data: ")


def _content(choice: dict[str, Any]) -> str:
    return (choice.get("delta") or choice.get("message") or {}).get("content") or ""


class Client:
    """One connection at a time, kept as long as the server keeps it; each new one goes where `url` says."""

    def __init__(self, url: Callable[[], str]) -> None:
        self._url = url
        self._connection: http.client.HTTPConnection | None = None
        self.connections = 0

    def ask(self, kind: Kind, begun: Callable[[], object] = lambda: None) -> Answer:
        """Send a request and read its answer; `begun` is called at the first byte of the answer's body."""
        answer = Answer()
        try:
            if self._connection is None:
                self.connections += 1
                address = self._url().removeprefix("http://")
                self._connection = http.client.HTTPConnection(address, timeout=PATIENCE)
            self._connection.request("POST", CHAT, kind.body(), {"content-type": "application/json"})
            response = self._connection.getresponse()
            answer.status = response.status
            last = time.monotonic()
            # Of a body with a length, read1 would neither notice the end nor miss what doesn't come.
            while piece := response.read1(65536) if response.chunked else response.read():
                now = time.monotonic()
                if answer.body:
                    answer.longest_gap = max(answer.longest_gap, now - last)
                else:
                    begun()
                last = now
                answer.body += piece
            if response.will_close:
                self.close()
        except (OSError, http.client.HTTPException) as error:
            answer.broken = repr(error)
            self.close()
        return answer

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@dataclass(slots=True)
class Load:
    """Clients that ask for one stream after the other until they are told to stop."""

    answers: list[Answer] = field(default_factory=list)
    connections: int = 0
    clients: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: threading.Event = field(default_factory=threading.Event)

    def verdicts(self) -> Counter[Verdict]:
        return Counter(answer.verdict() for answer in self.answers)

    @contextmanager
    def from_clients(self, number: int, url: Callable[[], str]) -> Iterator[None]:
        """Have so many clients, each with its first stream begun, inside the block; afterwards all have ended."""
        self.clients = number
        begun = threading.Semaphore(0)
        with ThreadPoolExecutor(number) as threads:
            running = [threads.submit(self._client, url, begun.release) for _ in range(number)]
            try:
                for _ in range(number):
                    assert begun.acquire(timeout=PATIENCE)
                yield
            finally:
                self._stopped.set()
        for each in running:
            each.result()

    def _client(self, url: Callable[[], str], begun: Callable[[], object]) -> None:
        with closing(Client(url)) as client:
            while not self._stopped.is_set():
                answer = client.ask(Kind(stream=True, tools=True), begun)
                with self._lock:
                    self.answers.append(answer)
            with self._lock:
                self.connections += client.connections


class Asked:
    """One request that is under way."""

    def __init__(self, threads: ThreadPoolExecutor, kind: Kind, url: str) -> None:
        self.kind = kind
        self.begun = threading.Event()
        self._answer: Future[Answer] = threads.submit(self._ask, url)

    def answer(self) -> Answer:
        return self._answer.result(PATIENCE)

    @property
    def under_way(self) -> bool:
        return not self._answer.done()

    def _ask(self, url: str) -> Answer:
        with closing(Client(lambda: url)) as client:
            return client.ask(self.kind, self.begun.set)
