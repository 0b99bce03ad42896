"""A character as it was loaded from its file, and the calls of its tools."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from extproc.names import CHARACTER
from extproc.runner.characters.parameters import ArgumentsError, Parameters
from extproc.runner.characters.pool import BusyError, Pool
from extproc.runner.characters.validation import Definition, Problem, State, checked, failed, named
from extproc.runner.characters.worker import Answer, LoadError, Source, Worker
from extproc.runner.tools import ToolResult

Json: TypeAlias = dict[str, Any]

MOST_ARGUMENTS = 2048
"""Bytes of a call's arguments, as the model wrote them."""
LONGEST_RESULT = 999
"""Characters of what the model gets: fewer than 1,000."""
_CUT = "... [cut]"
_SURROGATES = re.compile("[\ud800-\udfff]")


class Character:
    """What one version of a character's file defines.

    Whoever holds it may go on calling its tools while he says so (`used`), also when there is a new version.
    """

    def __init__(
        self,
        source: Source,
        definition: Definition,
        validators: dict[str, Parameters] | None = None,
        pool: Pool | None = None,
        *,
        is_passing: bool = False,
    ) -> None:
        self._definition = definition
        self._validators = validators or {}
        self._pool = pool
        self._users = 0
        self._is_retired = False
        self.source = source
        self.is_passing = is_passing
        """Whether another try may find the same file to be sound: the machine was at fault."""

    @property
    def character_name(self) -> str:
        return self.source.name

    @property
    def name(self) -> str:
        """As a model's name: `character/NAME`."""
        return CHARACTER + self.source.name

    @property
    def file(self) -> Path:
        return self.source.file

    @property
    def state(self) -> State:
        return self._definition.state

    @property
    def problems(self) -> tuple[Problem, ...]:
        return self._definition.problems

    @property
    def system_prompt(self) -> str | None:
        return self._definition.system_prompt

    @property
    def model(self) -> str | None:
        """The name of a configured model, where the file names one."""
        return self._definition.model

    @property
    def tool_servers(self) -> tuple[str, ...]:
        return self._definition.tool_servers

    @property
    def time_limit(self) -> float:
        """Seconds for one call."""
        return self._definition.time_limit

    @property
    def definitions(self) -> list[Json]:
        return list(self._definition.tools)

    @property
    def pids(self) -> list[int]:
        """Of its workers."""
        return self._pool.pids if self._pool is not None else []

    def runs(self, name: str) -> bool:  # noqa: ARG002 - all of them do
        return True

    @contextmanager
    def used(self) -> Iterator[None]:
        """Its workers stay while this lasts."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self._close_if_done()

    def retire(self) -> None:
        """Nobody gets it any more: when nobody uses it either, its workers end."""
        self._is_retired = True
        self._close_if_done()

    def close(self) -> None:
        """End its workers, whatever they do. `ended` waits for it."""
        if self._pool is not None:
            self._pool.close()

    async def ended(self) -> None:
        """When the workers of a closed character have ended."""
        if self._pool is not None:
            await self._pool.ended()

    def is_closed(self) -> bool:
        """Whether nothing is left of its workers."""
        return self._pool is None or (self._pool.is_closed and not self._pool.pids)

    def _close_if_done(self) -> None:
        if self._is_retired and not self._users:
            self.close()

    async def call(self, name: str, arguments: str) -> ToolResult:
        """Run a tool, as `ToolSource` has it."""
        parameters = self._validators.get(name)
        if parameters is None or self._pool is None:
            return _error(f"Unknown tool: {name}", "unknown_tool")
        try:
            values = parameters.read(_read(arguments))
        except ValueError as error:
            return _error(f"Invalid JSON arguments - {error}", "invalid_arguments")
        except ArgumentsError as error:
            return _error(f"Invalid parameters - {error}", "invalid_arguments")
        with self.used():
            try:
                async with self._pool.lent() as worker:
                    return _result(await worker.call(name, values, self.time_limit))
            except BusyError:
                return _error("Tool is busy", "unavailable")


def _read(arguments: str) -> Json:
    """The arguments as JSON. Raises ValueError."""
    size = len(arguments.encode(errors="surrogatepass"))
    if size > MOST_ARGUMENTS:
        raise ValueError(f"they have {size} bytes, and may have {MOST_ARGUMENTS}")
    try:
        value = json.loads(arguments, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("they are nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("expected an object")
    return value


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


def _result(answer: Answer) -> ToolResult:
    match answer.kind:
        case "text":
            return ToolResult(_text(answer.text))
        case "error":
            return _error(answer.text, "failed")
        case "not_text":
            return _error("Tool must return string", "failed")
        case "timeout":
            return _error("Tool execution timed out", "timeout")
        case "memory":
            return _error("Tool ran out of memory", "memory")
        case "crashed":
            return _error("Tool crashed", "crashed")


def _error(text: str, outcome: Any) -> ToolResult:
    return ToolResult(_text(f"Error: {text}"), outcome)


def _text(text: str) -> str:
    """As a model gets it: cut where it is too long, and without halves of characters, which no UTF-8 has."""
    text = _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)
    return text if len(text) <= LONGEST_RESULT else text[: LONGEST_RESULT - len(_CUT)] + _CUT


async def load(source: Source, memory: int, *, keep: bool = True) -> tuple[Character, str]:
    """Load a file, and what its sandbox lacks. Without `keep`, the workers end: its tools can't be called then."""
    if problem := named(source.name):
        return Character(source, Definition((problem,))), ""
    if source.fault:
        return Character(source, failed(source.fault)), ""
    try:
        worker = await Worker.start(source, memory)
    except LoadError as error:
        return Character(source, failed(str(error)), is_passing=error.is_passing), ""
    try:
        # In a thread, because the models of ten tools may take some milliseconds.
        definition, validators = await asyncio.to_thread(_checked, worker.report)
        if keep and definition.state is State.LOADED_WITH_TOOLS:
            return Character(source, definition, validators, Pool(source, memory, worker)), worker.missing
    except BaseException:
        worker.kill()
        await asyncio.wait((worker.ended,))
        raise
    worker.kill()
    await asyncio.wait((worker.ended,))
    return Character(source, definition, validators), worker.missing


def _checked(report: bytes) -> tuple[Definition, dict[str, Parameters]]:
    definition = checked(report)
    validators, problems = {}, []
    for index, tool in enumerate(definition.tools):
        function = tool["function"]
        try:
            validators[function["name"]] = Parameters(function.get("parameters"))
        except ValueError as error:
            problems.append(Problem("ValidationError", f"tools[{index}].function.parameters", str(error)))
    return (Definition(tuple(problems)), {}) if problems else (definition, validators)
