"""The runner beside the processor: its requests come by one exchange, and each of its model rounds is another.

Real are its application, from the request's bytes to the answer's, with plan, run, driver and rounds; the server in
front of it, the tools, and the connections by which it asks the inner listener are simulated.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import httpx2
import orjson

from extproc.config import Config
from extproc.conformance.host.outcome import Ending, Outcome
from extproc.conformance.host.settings import HttpExchange, HttpMessage
from extproc.observability.run_metrics import RunMetrics
from extproc.runner.service import Runner, Terms
from extproc.runner.tools import ToolResult, ToolSource
from tests.responses import response_text
from tests.simulation.answers import Said, in_pieces, streamed
from tests.simulation.checking import WrongError, check
from tests.simulation.configurations import MOST_ROUNDS, RUN_SECONDS
from tests.simulation.judging import MARKER, heard, not_as_if_whole, only_own
from tests.simulation.layouts import INNER
from tests.simulation.plans import SERVED, TEAM_KEYS, Fate, Plan

_METRICS = RunMetrics()
_TOOL = "web__find"
_COMMENT = re.compile(rb"(?m)^:.*\n\n")
_DEFINITION = {
    "type": "function",
    "function": {"name": _TOOL, "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}},
}


@dataclass(slots=True)
class Story:
    """What a run met."""

    begun: float
    key: str
    """Of its client."""
    rounds: list[Said] = field(default_factory=list)
    broken: bool = False
    """A round didn't come whole."""
    called: list[str] = field(default_factory=list)
    """Results of tools, as they came."""
    left: bool = False
    over: bool = False


BeginRound = Callable[[Plan, Callable[[Outcome | None], None]], Callable[[], None] | None]
"""Begins a round's exchange, and tells its outcome; what it returns has its client leave, None: nobody serves."""


class Runs:
    """The runner of a history."""

    def __init__(self, config: Callable[[], Config], begin: BeginRound, rng: random.Random) -> None:
        self._rng = rng
        self._begin = begin
        self.stories: dict[bytes, Story] = {}
        self.wrong: list[str] = []
        self._runner = Runner(
            lambda: Terms(config(), servers={"web": cast(ToolSource, _Tools(self))}), _Connections(self), _METRICS
        )

    def ask(self, plan: Plan, request: HttpMessage) -> Asked:
        """A request comes to the runner."""
        self.stories[plan.marker] = Story(asyncio.get_running_loop().time(), plan.key)
        return Asked(self, plan, request)

    async def serve(self, scope: Any, receive: Any, send: Any) -> None:
        await self._runner.application(scope, receive, send)

    # A model round

    async def round(self, request: httpx2.Request) -> httpx2.Response:
        body = request.read()
        (marked,) = set(MARKER.findall(body))
        story = self.stories[marked]
        check(not story.over, "a round begins behind the end of its run")
        check(len(story.rounds) < MOST_ROUNDS, "there are too many rounds")
        for result in story.called:
            check(result.encode() in body, f"the model isn't told {result!r}")
        plan = self._drawn(marked, len(story.rounds), request, body)
        story.rounds.append(plan.said)
        story.broken |= plan.fate is not Fate.WHOLE
        told: asyncio.Future[Outcome | None] = asyncio.get_running_loop().create_future()

        def ended(outcome: Outcome | None) -> None:
            if not told.done():
                told.set_result(outcome)

        leave = self._begin(plan, ended)
        if leave is None:
            story.broken = True
            raise httpx2.ConnectError("refused")
        try:
            outcome = await told
        except asyncio.CancelledError:
            leave()
            raise
        return self._response(outcome, story)

    def _response(self, outcome: Outcome | None, story: Story) -> httpx2.Response:
        if outcome is None or outcome.client is None:
            story.broken = True
            raise httpx2.ReadError("cut off")
        story.broken |= outcome.ending is not Ending.COMPLETE
        fields = [(name.encode(), value) for name, value in outcome.client.headers if not name.startswith(":")]
        stream = _Body(in_pieces(self._rng, outcome.client.body), self._rng)
        return httpx2.Response(outcome.status or 500, headers=fields, stream=stream)

    def _drawn(self, marked: bytes, number: int, request: httpx2.Request, body: bytes) -> Plan:
        rng, told = self._rng, marked.decode()
        fate = rng.choices((Fate.WHOLE, Fate.CUT, Fate.STALLED), (20, 1, 1))[0]
        many = rng.choice((0, 1, 1, 2)) if number + 1 < MOST_ROUNDS or rng.random() < 0.1 else 0
        calls = tuple((_TOOL, {"q": f"{told} {number}.{place}"}) for place in range(many))
        said = Said(f"{told} round {number}", calls)
        key = self.stories[marked].key
        events = streamed(rng, SERVED, said, cut=fate is not Fate.WHOLE, amid=key in TEAM_KEYS)
        pieces = in_pieces(rng, b"".join(events))
        head = ((":status", b"200"), ("content-type", b"text/event-stream"))
        fields = {":method": "POST", ":path": request.url.path, ":scheme": "http", ":authority": "gateway"}
        told_headers = [*fields.items(), *((name.lower(), value) for name, value in request.headers.items())]
        asked = HttpMessage(tuple((name, value.encode()) for name, value in told_headers), (body,))
        exchange = HttpExchange(asked, HttpMessage(head, tuple(pieces)))
        return Plan(int(told[4:8]), "chat", SERVED, True, True, fate, said, exchange, INNER, key=key)


class Asked:
    """A run as its client's exchange sees it (`player.Upstream`)."""

    def __init__(self, runs: Runs, plan: Plan, request: HttpMessage) -> None:
        self.response: HttpMessage | None = None
        self._runs = runs
        self._story = runs.stories[plan.marker]
        self._body: bytes | None = request.body
        self._gone = asyncio.Event()
        self._head: tuple[tuple[str, bytes], ...] = ()
        self._said: list[bytes] = []
        scope = {
            "type": "http",
            "method": "POST",
            "path": (request.first(":path") or b"").decode(),
            "query_string": b"",
            "headers": [(name.encode(), value) for name, value in request.headers if not name.startswith(":")],
        }
        self._task = asyncio.create_task(runs.serve(scope, self._receive, self._send))
        self._task.add_done_callback(self._over)

    def leave(self) -> None:
        self._story.left = True
        self._gone.set()

    async def _receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            fields = tuple((name.decode(), value) for name, value in message["headers"])
            self._head = ((":status", str(message["status"]).encode()), *fields)
        elif message.get("body"):
            self._said.append(message["body"])

    def _over(self, task: asyncio.Task[None]) -> None:
        self._story.over = True
        self.response = HttpMessage(self._head or ((":status", b"500"),), tuple(self._said))
        if task.cancelled() or task.exception() is not None:
            self._runs.wrong.append(f"the runner fails: {'cancelled' if task.cancelled() else task.exception()!r}")


class _Connections(httpx2.AsyncBaseTransport):
    """To the inner listener."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            return await self._runs.round(request)
        except WrongError as error:  # which the driver would take for a bug in a round
            self._runs.wrong.append(str(error))
            raise


class _Body(httpx2.AsyncByteStream):
    def __init__(self, pieces: list[bytes], rng: random.Random) -> None:
        self._pieces = pieces
        self._rng = rng

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            await asyncio.sleep(self._rng.choice((0.0, 0.0, 0.01)))
            yield piece


class _Tools:
    """A server's."""

    name = "web"
    definitions = (_DEFINITION,)

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def runs(self, name: str) -> bool:
        return name == _TOOL

    async def call(self, _name: str, arguments: str) -> ToolResult:
        runs = self._runs
        asked = orjson.loads(arguments)["q"]
        story = runs.stories[asked.split()[0].encode()]
        if story.over:
            runs.wrong.append("a tool is called behind the end of its run")
        await asyncio.sleep(runs._rng.choice((0.0, 0.0, 0.05, 2.0, 40.0)))
        result = f"{asked} found"
        story.called.append(result)
        return ToolResult(result, runs._rng.choice(("ok", "ok", "failed")))


def judge_run(plan: Plan, outcome: Outcome, story: Story, seconds: float) -> None:
    """What a run's client gets. Raises WrongError."""
    client = outcome.client
    check(outcome.ending in (Ending.LEFT, Ending.COMPLETE), f"a run ends as {outcome.ending}: {outcome.trace}")
    assert client is not None
    only_own(plan, client.body)
    calls = [call for said in story.rounds for call in said.calls]
    unfinished = bool(story.rounds and story.rounds[-1].calls)
    if outcome.status == 200 and not story.broken and not unfinished and seconds < RUN_SECONDS:
        text, whole = _text(plan, client), [said.text for said in story.rounds]
        check("".join(text.split()) == "".join("".join(whole).split()), f"the client has {text!r} of {whole}")
        check(len(story.called) == len(calls), f"{len(story.called)} tools ran for {len(calls)} calls")
    elif plan.stream and outcome.status == 200:
        not_as_if_whole(plan, client.body)
    else:
        check(
            story.broken or unfinished or seconds >= RUN_SECONDS, f"a run ends with {outcome.status}: {client.body!r}"
        )
        check((outcome.status or 0) >= 400, "a run that came to nothing looks well")


def _text(plan: Plan, client: HttpMessage) -> str:
    """Of an answer that says what tools were called as well, and that it still goes on."""
    lines = _COMMENT.sub(b"", client.body)
    if plan.stream and plan.dialect == "responses":
        last = next(line for line in reversed(lines.splitlines()) if line.startswith(b"data: {"))
        return response_text(orjson.loads(last[6:])["response"])
    return heard(plan, replace(client, pieces=(lines,)))[0]
