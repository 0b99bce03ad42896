"""Drives one run: performs its effects, each as a task, and tells it what comes of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from extproc.contract.errors import ApiError
from extproc.runner.run import Run
from extproc.runner.steps import (
    AskModel,
    CallTool,
    CancelAll,
    Effect,
    Input,
    ModelEnded,
    ModelSaid,
    Step,
    TimedOut,
    ToolEnded,
)
from extproc.runner.tools import ToolResult, ToolSource

log = logging.getLogger(__name__)

_AHEAD = 16
"""What the model may have said that the client hasn't read, in pieces: more waits at the backend."""
TO_END = 0.1
"""Seconds for a stream to end that has said its last word: then its connection serves other rounds."""


class Rounds(Protocol):
    """Where the model is asked."""

    def ask(self, asked: AskModel) -> AsyncGenerator[ModelSaid | ModelEnded, None]:
        """One round; `ModelEnded` is the last of it. Raises ApiError where there is no answer."""


@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing has come for a while: the client is to see that the connection is alive."""


@dataclass(frozen=True, slots=True)
class ToolRun:
    """One call that was run, for metrics and the audit log."""

    call: CallTool
    result: ToolResult
    seconds: float


OnTool: TypeAlias = Callable[[ToolRun], None]


class Driver:
    """Of one run. Whoever stops iterating over its `steps` has to close them: then nothing of the run goes on."""

    def __init__(
        self,
        run: Run,
        rounds: Rounds,
        sources: Mapping[str, ToolSource],
        on_tool: OnTool,
        *,
        seconds: float,
        keep_alive: float,
    ) -> None:
        self._run = run
        self._rounds = rounds
        self._sources = sources
        self._on_tool = on_tool
        self._seconds = seconds
        self._keep_alive = keep_alive
        self._inputs = asyncio.Queue[Input](_AHEAD)
        self._tasks = set[asyncio.Task[None]]()
        self._stopping = False  # whatever was under way is cancelled
        self._ending = set[asyncio.Task[None]]()
        """Those of rounds that are over, but for the end of their streams."""

    async def steps(self) -> AsyncGenerator[Step | Silence, None]:
        """What the client is to see, step by step; the last one has an end."""
        loop = asyncio.get_running_loop()
        seen = loop.time()
        deadline = seen + self._seconds
        try:
            step = self._run.start()
            while True:
                for effect in step.effects:
                    self._perform(effect)
                if step.out or step.end is not None:
                    yield step
                    seen = loop.time()
                if step.end is not None:
                    return
                while (told := await self._next(deadline, seen + self._keep_alive)) is None:
                    yield Silence()
                    seen = loop.time()
                step = self._run.receive(told)
        finally:
            await self._cancel()

    async def _next(self, deadline: float, silent: float) -> Input | None:
        """What happens next; None from the time on at which the client has seen nothing for too long."""
        # Whatever goes on, be it a call of ours that the model takes minutes to write, stops neither clock.
        now = asyncio.get_running_loop().time()
        if now < deadline and now < silent:
            if not self._inputs.empty():
                return self._inputs.get_nowait()
            try:
                async with asyncio.timeout_at(min(deadline, silent)):
                    return await self._inputs.get()
            except TimeoutError:
                now = min(deadline, silent)
        return TimedOut() if now >= deadline else None

    def _perform(self, effect: Effect) -> None:
        match effect:
            case AskModel():
                self._begin(self._ask(effect))
            case CallTool():
                self._begin(self._call(effect))
            case CancelAll():
                self._stop()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(self._ending.discard)

    async def _ask(self, asked: AskModel) -> None:
        current = asyncio.current_task()
        assert current is not None
        try:
            async with aclosing(self._rounds.ask(asked)) as said:
                async for one in said:
                    await self._put(one)
                    if isinstance(one, ModelEnded) and one.error is None:
                        self._ending.add(current)
        except ApiError as error:
            await self._put(ModelEnded(asked.round, error=error.caught()))
        except (Exception, asyncio.CancelledError) as bug:
            if self._cancelled(bug):
                raise
            _tell(bug)
            await self._put(ModelEnded(asked.round, error=_BUG))

    async def _call(self, call: CallTool) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        result = ToolResult("Error: the call was cancelled", "cancelled")
        try:
            result = await self._sources[call.offered.source].call(call.name, call.arguments)
        except (Exception, asyncio.CancelledError) as bug:
            if self._cancelled(bug):
                raise
            _tell(bug)
            result = ToolResult("Error: the tool failed", "failed")
        finally:
            self._on_tool(ToolRun(call, result, loop.time() - began))
        await self._put(ToolEnded(call.id, result))

    async def _put(self, told: Input) -> None:
        if not self._stopping:  # else nobody takes it, and nothing would end a wait for room
            await self._inputs.put(told)

    def _cancelled(self, raised: BaseException) -> bool:
        """Whether it is this task that was to end: the cancellation of another may come out of a tool's library."""
        task = asyncio.current_task()
        to_end = self._stopping or (task is not None and task.cancelling() > 0)
        return to_end and isinstance(raised, asyncio.CancelledError)

    def _stop(self) -> None:
        """Cancel all, each once: a second time would interrupt what a tool does to end."""
        if not self._stopping:
            self._stopping = True
            for task in self._tasks - self._ending:
                task.cancel()

    async def _cancel(self) -> None:
        """Have nothing go on. What was cancelled has to end before anything else does: it holds processes."""
        self._stop()
        interrupted: asyncio.CancelledError | None = None
        patience: float | None = TO_END
        while self._tasks:
            try:
                await asyncio.wait(self._tasks, timeout=patience)
            except asyncio.CancelledError as error:  # a client that leaves just now doesn't change that
                interrupted = error
            if patience is not None:
                patience = None
                for task in self._ending:
                    task.cancel()
        if interrupted is not None:
            raise interrupted


_BUG = ApiError(500, "The gateway failed. Its log says where.", "server_error", code="internal_error")


def _tell(bug: BaseException) -> None:
    log.error("bug: %s", type(bug).__name__, exc_info=bug)
