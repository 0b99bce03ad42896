"""The runner's HTTP service: an ASGI application that answers a client's request by a run.

    POST  a request for a model's answer; the path that its client asked for is in a header of the processor's
    GET   /v1/models lists the characters, /health tells that the runner works

It speaks to nobody but Envoy, which has limited the request by then, and to the processor.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, aclosing, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import httpx2
import orjson
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from extproc.config import Config
from extproc.contract.errors import ApiError
from extproc.contract.ids import new_tool_call_id
from extproc.exchange.replies import listed
from extproc.names import (
    CHARACTER,
    CHAT_PATH,
    CLIENT_HEADER,
    DROPPED_HEADER,
    HEALTH_PATH,
    MODELS_PATH,
    PATH_HEADER,
    ROUNDS_HEADER,
    TOOLS_HEADER,
    USAGE_HEADER,
)
from extproc.observability.open_telemetry import RUNNER
from extproc.observability.run_metrics import RunMetrics
from extproc.runner.answering import StreamedRun, WholeRun
from extproc.runner.audit import audit, told_of
from extproc.runner.driver import Driver, Silence, ToolRun
from extproc.runner.plan import Character, Plan, plan
from extproc.runner.rounds import ModelRounds
from extproc.runner.run import Run
from extproc.runner.steps import Complete, Step
from extproc.runner.tools import ToolSource
from extproc.surfaces import Surface, surface_of
from extproc.tracing.tracers import Tracers

if TYPE_CHECKING:
    from extproc.tracing.run import TracedRun

log = logging.getLogger(__name__)

Headers: TypeAlias = Mapping[str, str]

_PASSED_ON = ("x-request-id", "traceparent", "tracestate", "user-agent", CLIENT_HEADER)
"""Request headers that each round has too."""
_LONGEST_ID = 128
_LARGE = 32 * 1024
"""Bytes of a request that is read at once: in some 4 ms."""
_TO_END = 1.0
"""Seconds for what is left of a run whose answer is complete: the end of its last round's stream."""
_NO_RETRY = {"x-should-retry": "false"}
"""To OpenAI's and Anthropic's own clients: a tool that ran would run again."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What runs that begin now go by."""

    config: Config
    characters: Mapping[str, Character] = field(default_factory=dict)
    """Those that can be used, by their names without the prefix."""
    servers: Mapping[str, ToolSource] = field(default_factory=dict)
    held: Callable[[Plan], AbstractContextManager[None]] = lambda _: nullcontext()
    """Keeps what a plan uses until its run has ended."""


class Runner:
    """Answers by runs. `application` is what an ASGI server serves."""

    def __init__(
        self,
        terms: Callable[[], Terms],
        connections: httpx2.AsyncBaseTransport,
        metrics: RunMetrics,
        tracers: Tracers | None = None,
    ) -> None:
        """`connections` lead to the gateway itself."""
        self._terms = terms
        self._connections = connections
        self._metrics = metrics
        self._tracers = tracers or Tracers(RUNNER)
        self._idle = asyncio.Event()
        self._idle.set()
        self.under_way = 0
        """How many requests have not been answered yet."""
        self.application = Starlette(
            routes=[
                Route(HEALTH_PATH, self._health),
                Route(MODELS_PATH, self._models),
                Route("/{path:path}", _Answer(self), methods=["POST"]),
            ]
        )

    async def until_idle(self) -> None:
        """Wait until no run is under way."""
        await self._idle.wait()

    async def _health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _models(self, _: Request) -> Response:
        listed = [{"id": f"{CHARACTER}{name}", "object": "model"} for name in self._terms().characters]
        return JSONResponse({"object": "list", "data": listed})

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self.under_way += 1
        self._idle.clear()
        self._metrics.began()
        try:
            yield
        finally:
            self._metrics.left()
            self.under_way -= 1
            if not self.under_way:
                self._idle.set()

    async def answer(self, request: Request, send: Send) -> None:
        """Answer one request, unless its client leaves."""
        try:
            body = await request.body()
        except ClientDisconnect:
            return
        with self._counted():
            said = _Said(send)
            answering = asyncio.create_task(self._answer(request.headers, body, said))
            gone = asyncio.create_task(_until_gone(request.receive))
            try:
                await asyncio.wait((answering, gone), return_when=asyncio.FIRST_COMPLETED)
                if said.all:  # of an answer that is complete the server says that its client has gone, too
                    await asyncio.wait((answering,), timeout=_TO_END)
            finally:
                for task in (answering, gone):
                    task.cancel()
                await asyncio.wait((answering, gone))
            if not answering.cancelled():
                answering.result()

    async def _answer(self, headers: Headers, body: bytes, send: Send) -> None:
        terms = self._terms()
        path = headers.get(PATH_HEADER, CHAT_PATH)
        surface = surface_of(path)
        try:
            planning = partial(plan, body, path, terms.config, terms.characters, terms.servers)
            # In a thread it takes as long, but gives way to the others every few milliseconds.
            planned = await asyncio.to_thread(planning) if len(body) > _LARGE else planning()
        except ApiError as error:
            self._metrics.refused(surface.name, _word(error))
            await _send(send, error.status, surface.error_body(error))
            return
        if planned.spec.counts:
            answer = orjson.dumps({"input_tokens": planned.prompt_tokens})
            await _send(send, 200, answer, {USAGE_HEADER: "estimated"})
            return
        with terms.held(planned):
            traced = self._tracers.run(terms.config, headers, planned.label)
            await _Answering(terms, planned, surface, headers, self._connections, self._metrics, traced).answer(send)


class _Answer:
    """An endpoint that is an ASGI application itself: it has to see that its client leaves."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._runner.answer(Request(scope, receive), send)


class _Answering:
    """One run, from its plan to the last byte of its answer."""

    def __init__(
        self,
        terms: Terms,
        planned: Plan,
        surface: Surface,
        headers: Headers,
        connections: httpx2.AsyncBaseTransport,
        metrics: RunMetrics,
        traced: TracedRun | None,
    ) -> None:
        self._plan = planned
        self._surface = surface
        self._limits = limits = terms.config.runs
        self._metrics = metrics
        self._traced = traced
        self._client_name = headers.get(CLIENT_HEADER)
        self._id = headers.get("x-request-id", "")[:_LONGEST_ID]
        backend = terms.config.backends_by_name[terms.config.models_by_name[planned.body["model"]].backend]
        passed_on = {name: headers[name] for name in (*_PASSED_ON, *backend.headers) if name in headers}
        if traced is not None:
            passed_on = traced.below(passed_on)
        self._rounds = ModelRounds(connections, planned.body, planned.tokens_name, passed_on)
        self._run = Run(
            planned.messages,
            planned.offered,
            limits,
            new_tool_call_id,
            tokens=planned.tokens,
            begun=planned.begun,
            joins=planned.spec.dialect != "responses",  # where each is an item
            one_text=planned.turn.text_schema is not None,
        )
        self._driver = Driver(
            self._run,
            self._rounds,
            planned.sources,
            self._tool_ran,
            seconds=limits.seconds,
            keep_alive=limits.keep_alive_seconds,
        )

    async def answer(self, send: Send) -> None:
        began, end = time.monotonic(), "client_left"
        try:
            async with aclosing(self._driver.steps()) as steps:
                whole = not self._plan.turn.stream
                end = await (self._whole(steps, send) if whole else self._stream(steps, send))
        finally:
            if self._traced is not None:
                self._traced.end(end, self._run.rounds)
            self._metrics.ended(
                self._plan.label,
                self._surface.name,
                end,
                seconds=time.monotonic() - began,
                rounds=self._run.rounds,
                deferred=len(self._run.deferred),
            )

    async def _whole(self, steps: AsyncIterator[Step | Silence], send: Send) -> str:
        """How it ended, in a word."""
        answer = WholeRun(self._plan.spec)
        async for step in steps:
            if isinstance(step, Silence):
                continue
            answer.say(step.out)
            if isinstance(step.end, ApiError):
                return await self._fail(step.end, send)
            if isinstance(step.end, Complete):
                try:
                    body = answer.end(self._rounds.envelope, step.end.usage)
                except ApiError as error:
                    return await self._fail(error, send)
                told = {ROUNDS_HEADER: str(self._run.rounds), TOOLS_HEADER: str(self._run.ran)}
                if (step.end.usage or {}).get("estimated"):
                    told[USAGE_HEADER] = "estimated"
                await _send(send, 200, body, {**told, **self._dropped})
        return "complete"

    async def _stream(self, steps: AsyncIterator[Step | Silence], send: Send) -> str:
        """How it ended, in a word."""
        answer: StreamedRun | None = None
        async for step in steps:
            if answer is None:
                if isinstance(step, Silence):
                    continue  # what its status will be isn't known yet
                if isinstance(step.end, ApiError) and not step.out:
                    return await self._fail(step.end, send)
                answer = StreamedRun(self._plan.spec, self._rounds.envelope)
                await _start(send, 200, {**_EVENTS, **self._dropped})
            piece, error = _written(answer, step)
            last = error is not None or (isinstance(step, Step) and step.end is not None)
            if piece or last:
                await send({"type": "http.response.body", "body": piece, "more_body": not last})
            if error is not None:
                return _word(error)
        return "complete"

    async def _fail(self, error: ApiError, send: Send) -> str:
        """Before anything else was said."""
        told = {**self._rounds.kept, **(_NO_RETRY if self._run.ran else {}), **self._dropped}
        await _send(send, error.status, self._surface.error_body(error), told)
        return _word(error)

    @property
    def _dropped(self) -> dict[str, str]:
        turn = self._plan.turn
        by_rounds = (turn.asked_as.get(name, name) for name in self._rounds.dropped)
        dropped = sorted({*self._plan.dropped, *by_rounds})
        return {DROPPED_HEADER: listed(dropped)} if dropped else {}

    def _tool_ran(self, ran: ToolRun) -> None:
        offered = ran.call.offered
        self._metrics.tool(offered.source, offered.name, ran.result.outcome, ran.seconds)
        if self._traced is not None:
            self._traced.tool_ran(told_of(ran, shows_arguments=True), ran.seconds)
        shows = self._limits.log_arguments
        audit(ran, run_id=self._id, client=self._client_name, model=self._plan.label, shows_arguments=shows)


_EVENTS = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}


def _written(answer: StreamedRun, step: Step | Silence) -> tuple[bytes, ApiError | None]:
    """What the client of a stream gets for a step, and why it is the last, if it is for an error."""
    if isinstance(step, Silence):
        return answer.keep_alive(), None
    piece = b""
    try:
        piece = answer.say(step.out)
        if isinstance(step.end, Complete):
            return piece + answer.end(step.end.usage), None
    except ApiError as error:
        return piece + answer.fail(error), error
    if isinstance(step.end, ApiError):
        return piece + answer.fail(step.end), step.end
    return piece, None


class _Said:
    """Passes an answer on, and knows when that was all."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.all = False

    async def __call__(self, message: Message) -> None:
        self.all = message["type"] == "http.response.body" and not message.get("more_body", False)
        await self._send(message)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(send: Send, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
    fields = {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
    await _start(send, status, fields)
    await send({"type": "http.response.body", "body": body})


async def _start(send: Send, status: int, headers: Mapping[str, str]) -> None:
    raw = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})


def _word(error: ApiError) -> str:
    """Of few that there are."""
    return error.code if error.code is not None and error.code in _WORDS else str(error.status)


_WORDS = frozenset(
    "too_many_rounds run_too_large run_timeout model_not_found context_length_exceeded internal_error".split()
)
