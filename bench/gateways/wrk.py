"""Whole answers: load and times by wrk, a program in C, so that the client isn't what is measured."""

from __future__ import annotations

import http.client
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.gateways.bodies import REQUESTS, Shape, filled
from bench.gateways.peers import Wrk

_SCRIPT = Path(__file__).with_name("load.lua")
CONVERSATIONS = 8
"""That are under way when tenth requests are measured."""
MOST_PER_SECOND = 100_000
"""Requests: more than the backend answers without a gateway."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one run of wrk found; times in microseconds."""

    requests: int
    seconds: float
    p50: float
    p99: float
    p99_9: float


class Numbers:
    """Eight-digit numbers that were never used before in this run: what makes bodies differ."""

    def __init__(self) -> None:
        self._next = 10_000_000

    def take(self, many: int) -> int:
        """The first of so many. Raises RuntimeError when there are no more."""
        first, self._next = self._next, self._next + many
        if self._next > 100_000_000:
            raise RuntimeError("there are no numbers of eight digits left that no request had")
        return first


def begin_conversations(port: int, shape: Shape, model: str, first: int) -> None:
    """Send the nine requests before the tenth, of each conversation in turn."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    templates = [shape.template(request, model=model) for request in range(1, REQUESTS)]
    for conversation in range(CONVERSATIONS):
        for template in templates:
            ask(connection, filled(template, first + conversation))
    connection.close()


def ask(connection: http.client.HTTPConnection, body: bytes) -> bytes:
    """The answer to one request, which must be a good one."""
    connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
    answer = connection.getresponse()
    said = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"status {answer.status}: {said[:500]!r}")
    return said


@dataclass(frozen=True, slots=True)
class Order:
    """What wrk is to send."""

    template: Path
    request: str
    """FIRST or TENTH."""
    number: int
    """The first of the requests'."""
    conversation: int = 0
    """The first of the conversations that were begun."""


def load(wrk: Wrk, port: int, order: Order, connections: int, seconds: int) -> Load:
    """Send requests for so long. Raises RuntimeError unless all were answered."""
    command = [wrk.program, f"-c{connections}", "-t1", f"-d{seconds}s", "-s", _SCRIPT]
    command += [f"http://127.0.0.1:{port}/v1/chat/completions", "--", order.template, order.request]
    command += [order.number, order.conversation, CONVERSATIONS]
    done = subprocess.run(
        list(map(str, command)), env=wrk.environment, capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode:
        raise RuntimeError(f"wrk ended with {done.returncode}: {done.stderr[-500:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    failed, refused = found.pop("failed"), found.pop("refused")
    if failed or refused:
        raise RuntimeError(f"{failed} connections failed, {refused} requests were refused")
    if found["requests"] + connections > MOST_PER_SECOND * seconds:
        raise RuntimeError("it answered more requests than had numbers of their own")
    return Load(**found)
