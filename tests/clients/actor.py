"""A vLLM whose model does a task: one step at each turn, its calls written as text in the format of its family.

Which step is due is read off the conversation, as a model would: so many turns of the assistant since the task was
given. A queue of answers wouldn't do, because clients also ask for titles and summaries at the same time, and ask again
after a failure. The number of answers is bounded, because there are clients that ask for ever.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scripted_vllm import Fail, Reply, ScriptedVLLM, Trouble
from scripted_vllm.checks import ChatRequest
from scripted_vllm.connection import Received
from scripted_vllm.tokens import message_text
from tests.format_writers import WRITERS, Call, Output, Writer

MODEL = "actor"
"""The model's name at the vLLM."""
ASIDE = "A few words."
"""The answer to whatever isn't the task."""
_CONTEXT = 262_144
"""Tokens; some clients ask for 64,000 on top of a prompt of 17,000."""
_ASIDES_AT_MOST = 12
_TRIES_AT_MOST = 3

WRITER_OF = {writer.format: writer for writer in reversed(WRITERS)}
"""Of several variants, the first."""


@dataclass(frozen=True, slots=True)
class Step:
    """What the model does at one of its turns."""

    calls: tuple[Call, ...]
    says: str = ""
    """Before the calls; alone, it is the last word."""
    sees: tuple[str, ...] = ()
    """What has to have come since the model's last turn, or the model doesn't go on."""
    raw: str | None = None
    """Exactly this, in place of calls in the model's format."""
    troubles: tuple[Trouble, ...] = ()
    """What goes wrong at the first tries."""
    pace: float = 0.0
    """Seconds between two tokens: what has been written has then reached the client before the next comes."""
    served: bool = False
    """Its calls are all run by the gateway, and clients may leave them out when they tell the conversation again."""


@dataclass(frozen=True, slots=True)
class Said:
    """What the model says at a turn, whatever way it is written."""

    content: str
    calls: tuple[tuple[str, Any], ...] = ()
    """Names and arguments."""


def step(
    *calls: Call,
    says: str = "",
    sees: str | Sequence[str] = (),
    raw: str | None = None,
    troubles: Sequence[Trouble] = (),
    pace: float = 0.0,
    served: bool = False,
) -> Step:
    """A step, as it is best read in a test."""
    return Step(calls, says, (sees,) if isinstance(sees, str) else tuple(sees), raw, tuple(troubles), pace, served)


@dataclass(slots=True)
class _Performance:
    """A script under way."""

    task: str
    steps: tuple[Step, ...]
    writer: Writer | None
    """None: the server has a tool parser, and its calls are no text."""
    played: list[int] = field(default_factory=list)
    asides: list[ChatRequest] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    over: bool = False
    """The last step has gone out and nothing was wrong with it."""

    def reply(self, request: ChatRequest) -> Reply:
        at_most = _TRIES_AT_MOST * len(self.steps) + _ASIDES_AT_MOST
        if len(self.played) + len(self.asides) >= at_most:
            return self._refuse(f"there were {at_most} requests already")
        turn = self._turn(request)
        if turn is None or turn >= len(self.steps):
            self.asides.append(request)
            return Reply(ASIDE)
        step = self.steps[turn]
        told = _since_last_turn(request)
        if missing := [text for text in step.sees if text not in told]:
            return self._refuse(f"step {turn} waits for {missing}, and this came: {told[:600]}")
        tries = self.played.count(turn)
        self.played.append(turn)
        trouble = step.troubles[tries] if tries < len(step.troubles) else None
        self.over = turn == len(self.steps) - 1 and trouble is None
        return self._answer(step, turn, trouble)

    def _turn(self, request: ChatRequest) -> int | None:
        """How many turns the model has had since it was given the task. None: this is about something else."""
        calls = [call for step in self.steps for call in step.calls]
        if self.over or (calls and not any(_is_offered(call, request) for call in calls)):
            return None
        texts = [message_text(message) for message in request.messages]
        roles = [message["role"] for message in request.messages]
        given = [at for at, text in enumerate(texts) if self.task in text and roles[at] == "user"]
        if not given:
            return None
        turn = 0
        for message in request.messages[given[0] :]:
            if message["role"] == "assistant":
                turn = self._step_of(message, turn) + 1
        return turn

    def _step_of(self, message: Mapping[str, Any], turn: int) -> int:
        """Which step it was that this message tells: `turn`, or a later one if that isn't told."""
        told = json.dumps(message)
        while turn < len(self.steps) and self.steps[turn].served and self.steps[turn].calls[0].name not in told:
            turn += 1
        return turn

    def _answer(self, step: Step, turn: int, trouble: Trouble | None) -> Reply:
        if step.raw is not None:
            return Reply(step.raw, trouble=trouble)
        if self.writer is None:
            found = [(call.name, json.dumps(call.arguments, ensure_ascii=False)) for call in step.calls]
            return Reply(step.says, calls=found, trouble=trouble, pace=step.pace)
        if not step.calls:
            return Reply(step.says, trouble=trouble, pace=step.pace)
        # Some formats number the calls of a conversation.
        earlier = sum(len(done.calls) for done in self.steps[:turn])
        calls = tuple(Call(call.name, call.arguments, earlier + at) for at, call in enumerate(step.calls))
        return Reply(self.writer.write(Output(calls=calls, before=step.says)), trouble=trouble, pace=step.pace)

    def _refuse(self, problem: str) -> Reply:
        self.problems.append(problem)
        return Reply(trouble=Fail(400, message=problem[:200]))


class Actor(ScriptedVLLM):
    """The server, with a model that performs what it is told to, and what came of it."""

    def __init__(self, *, tool_parser: bool = False) -> None:
        """With a tool parser it finds its own calls, and none of them is ever text."""
        super().__init__(MODEL, _CONTEXT, tool_parser=tool_parser, speak=self._perform)
        self._tool_parser = tool_parser
        self._lock = threading.Lock()
        self._performance = _Performance("", (), None)

    def perform(self, task: str, *steps: Step, format: str = "hermes") -> None:  # noqa: A002 - as in configurations
        """From now on, take `steps` when a conversation gives `task`. All from before is forgotten."""
        with self._lock:
            self.forget()
            self._performance = _Performance(task, steps, None if self._tool_parser else WRITER_OF[format])

    @property
    def played(self) -> list[int]:
        """The steps in the order in which they went out; one that was tried again is there again."""
        with self._lock:
            return list(self._performance.played)

    @property
    def said(self) -> list[Said]:
        """What has been said in these steps."""
        with self._lock:
            steps = [self._performance.steps[turn] for turn in self._performance.played]
        return [Said(step.says, tuple((call.name, call.arguments) for call in step.calls)) for step in steps]

    @property
    def asides(self) -> list[ChatRequest]:
        """The requests that were about something else, or that came after the last step."""
        with self._lock:
            return list(self._performance.asides)

    @property
    def problems(self) -> list[str]:
        """What was wrong with the requests."""
        with self._lock:
            return list(self._performance.problems)

    @property
    def requests(self) -> list[Received]:
        """Those of clients: the gateway asks for models now and then."""
        return [request for request in super().requests if request.route != "/v1/models"]

    def _perform(self, request: ChatRequest) -> Reply:
        with self._lock:
            return self._performance.reply(request)


def _is_offered(call: Call, request: ChatRequest) -> bool:
    """Whether the model is shown this tool: among the request's tools, or in a prompt that describes it."""
    if request.tools:
        return any(tool["function"]["name"] == call.name for tool in request.tools)
    described = "\n".join(message_text(message) for message in request.messages if message["role"] != "user")
    return call.name in described and all(
        f'"{argument}"' in described or f"- {argument} (" in described for argument in call.arguments
    )


def _since_last_turn(request: ChatRequest) -> str:
    """What the model is told after its own last turn."""
    told: list[str] = []
    for message in reversed(request.messages):
        if message["role"] == "assistant":
            break
        told.insert(0, message_text(message))
    return "\n".join(told)
