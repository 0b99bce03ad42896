"""One run: a client's request, from its first model round to its last, with the tools that run on our side in between.

A machine without I/O, clock or random numbers. It is told what the model says, what tools come to and what happens
besides, and returns what the client is to see and what is to be done next. Whoever drives it performs the effects in
any way that suits (`extproc.runner.driver`).

The rules:

- A call is ours if we offer its tool and may run it; every other goes to the client, as the model wrote it.
- A round whose calls are all ours is followed by another, with their results in the order of the calls. One with any
  other end is the last: words, calls of the client's tools, what was cut off. Calls of ours in a round that also has
  the client's are not run: the client can't be told their results, and the model calls again when it has the client's.
- Tools run when their round is complete, each call once, as many at a time as the limits allow.
- The client sees one answer: one role, one end, texts of several rounds with a blank line between them.
- Whatever comes after the end, or twice, or of another round, is of no concern.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from extproc.config import Runs
from extproc.contract.errors import ApiError, backend_garbage, in_seconds
from extproc.contract.json_body import is_object
from extproc.runner.steps import (
    AskModel,
    CallTool,
    CancelAll,
    ClientGone,
    Complete,
    Effect,
    End,
    Gone,
    Input,
    ModelEnded,
    ModelSaid,
    Offered,
    Step,
    TimedOut,
    ToolEnded,
)
from extproc.runner.tools import ToolResult
from extproc.toolcalls import ArgumentsDelta, CallEnd, CallStart, Reasoning, Text
from extproc.turn.output import CALLED, Said
from extproc.turn.served import ServedCall, ServedResult
from extproc.turn.usage import after_last_prompt, summed

Json: TypeAlias = dict[str, Any]

TOO_MANY_ROUNDS, TOO_LARGE, TIMED_OUT = "too_many_rounds", "run_too_large", "run_timeout"
"""The codes of the errors by which a run ends that comes to its limits."""


@dataclass(slots=True)
class _Call:
    """A call of the round that is being read, or run."""

    id: str | None
    name: str
    ours: Offered | None
    pieces: list[str] = field(default_factory=list)
    result: ToolResult | None = None

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)


@dataclass(slots=True)
class _Round:
    """What the model has said in this round."""

    number: int
    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[_Call] = field(default_factory=list)
    held: list[Any] = field(default_factory=list)
    """Texts that the client doesn't get if another round follows."""
    given: int = 0
    """How many calls went to the client."""
    finished: bool = False
    goes_on: bool = False
    """It ended with calls of ours, and nothing else."""


class Run:
    """`start` it, then `receive` whatever happens until a step has an `end`."""

    def __init__(
        self,
        messages: Sequence[Json],
        offered: Mapping[str, Offered],
        limits: Runs,
        new_id: Callable[[], str],
        *,
        tokens: int | None = None,
        begun: bool = False,
        joins: bool = True,
        one_text: bool = False,
    ) -> None:
        """`tokens`: the most that the answer may have. `begun`: the last message is the beginning of the answer.

        `joins`: the client gets the texts of all rounds as one. `one_text`: it gets the last round's alone: it has
        asked for JSON.
        """
        self._messages = list(messages)
        self._offered = offered
        self._limits = limits
        self._new_id = new_id
        self._tokens = tokens
        self._begun = begun
        self._joins = joins
        self._one_text = one_text
        self._round = _Round(0)
        self._waiting: list[_Call] = []
        self._running: dict[str, _Call] = {}
        self._retained = 0
        self._said_role = False
        self._tail = ""  # the last two characters of the text that the client has
        self._ended = False
        self.usage: Json | None = None
        """Of the rounds that are over."""
        self.ran = 0
        """How many calls were run."""
        self.deferred: list[str] = []
        """The names of calls of ours that weren't run, because the client's tools were called beside them."""

    @property
    def rounds(self) -> int:
        """How many have begun."""
        return self._round.number

    def start(self) -> Step:
        """The first round."""
        return Step(effects=(self._next_round(),))

    def receive(self, told: Input) -> Step:
        """What follows from it."""
        if self._ended:
            return Step()
        match told:
            case ModelSaid(number, said) if number == self.rounds and not self._round.finished:
                return self._heard(said)
            case ModelEnded(number, usage, error) if number == self.rounds and not (self._running or self._waiting):
                return self._round_over(usage, error)
            case ToolEnded(id_, result) if id_ in self._running:
                return self._tool_ended(self._running.pop(id_), id_, result)
            case TimedOut():
                message = f"The answer took longer than the {in_seconds(self._limits.seconds)} that a run may take."
                return self._end(ApiError(504, message, "server_error", code=TIMED_OUT))
            case ClientGone():
                return self._end(Gone())
            case _:
                return Step()

    # What the model says

    def _heard(self, said: Said) -> Step:
        events: list[Any] = []
        for event in said.events:
            match event:
                case Text(text) if self._one_text:
                    self._round.texts.append(text)
                    self._round.held.append(event)
                case Text(text):
                    events.append(Text(self._joined(text)))
                    self._round.texts.append(text)
                case Reasoning(text):
                    events.append(event)
                    self._round.thoughts.append(text)
                case CallStart():
                    events += self._call_begins(event)
                case ArgumentsDelta(index, json):
                    call = self._round.calls[index]
                    call.pieces.append(json)
                    if not self._is_ours(call):
                        events.append(ArgumentsDelta(self._round.given - 1, json))
                case CallEnd(index, whole):
                    call = self._round.calls[index]
                    if not self._is_ours(call):
                        events.append(CallEnd(self._round.given - 1, whole))
        reason = said.finish_reason
        if reason is not None:
            reason = self._finished(reason)
        if self._round.held and (reason is not None or self._round.given):  # it is the last one
            events, self._round.held = [*self._round.held, *events], []
        return Step(out=self._shown(said, events, reason))

    def _joined(self, text: str) -> str:
        """With a blank line before the first words of a later round."""
        if self._joins and self._tail and not self._round.texts:
            breaks = len(self._tail) - len(self._tail.rstrip("\n")) + text.startswith("\n")
            text = "\n" * (2 - breaks) + text
        self._tail = (self._tail + text)[-2:]
        return text

    def _is_ours(self, call: _Call) -> bool:
        return call.ours is not None and call.ours.runs

    def _call_begins(self, start: CallStart) -> list[Any]:
        call = _Call(start.id, start.name, self._offered.get(start.name))
        self._round.calls.append(call)
        if self._is_ours(call):
            return []
        self._round.given += 1
        return [CallStart(self._round.given - 1, start.name, start.id)]

    def _finished(self, reason: str) -> str | None:
        """The round's finish reason, as it is for the client; None where the answer goes on."""
        current = self._round
        current.finished = True
        ours = [call for call in current.calls if self._is_ours(call)]
        if reason != CALLED or not ours:
            return reason
        if current.given:
            self.deferred += [call.name for call in ours]
            return reason
        current.goes_on = True
        return None

    def _shown(self, said: Said, events: list[Any], reason: str | None) -> list[Said]:
        """What the client sees of it, if anything."""
        hidden = {"tool_calls"} if not self._said_role else {"tool_calls", "role"}
        source = {name: value for name, value in said.source.items() if name not in hidden}
        if source.get("content") and events != [Text(source["content"])]:
            del source["content"]
        if not (events or reason or any(source.values())):
            return []
        self._said_role = self._said_role or "role" in source
        choice = {**said.choice, "delta": source, "finish_reason": reason}
        return [Said(0, events, source, choice, said.read, reason)]

    # Between two rounds

    def _round_over(self, usage: Json | None, error: ApiError | None) -> Step:
        added = summed if self._limits.usage == "sum" else after_last_prompt
        self.usage = added(self.usage, usage)
        current = self._round
        if error is None and not current.finished:
            error = backend_garbage("the stream ended before the answer was complete.")
        if error is not None:
            return self._end(error)
        if not current.goes_on:
            return self._end(Complete(self.usage))
        if current.number >= self._limits.rounds:
            message = f"The model still asked for tools in round {current.number}, the last that a run may have."
            return self._end(ApiError(502, message, "server_error", code=TOO_MANY_ROUNDS))
        self._remember_calls()
        if (too_large := self._too_large()) is not None:
            return self._end(too_large)
        self._waiting = list(current.calls)
        return self._call_more()

    def _remember_calls(self) -> None:
        """In the conversation, as the model's own words."""
        current = self._round
        text, thought = "".join(current.texts), "".join(current.thoughts)
        if self._begun:  # its words go on with what is there
            text = f"{self._messages.pop().get('content') or ''}{text}"
            self._begun = False
        calls: list[Json] = []
        for call in current.calls:
            call.id = self._new_id()  # a backend may number its calls anew in each round
            # What is no object no template can show; the result says what was wrong.
            arguments = call.arguments if is_object(call.arguments) else "{}"
            function = {"name": call.name, "arguments": arguments}
            calls.append({"id": call.id, "type": "function", "function": function})
            self._retained += _size(arguments)
        message: Json = {"role": "assistant", "content": text or None, "tool_calls": calls}
        if thought:
            message["reasoning"] = thought
        self._retained += _size(text) + _size(thought)
        self._messages.append(message)

    def _call_more(self, shown: Sequence[Any] = ()) -> Step:
        """Run what waits, as far as there is room."""
        events, effects = list(shown), list[Effect]()
        while self._waiting and len(self._running) < self._limits.calls_at_once:
            call = self._waiting.pop(0)
            assert call.ours is not None  # none but these wait
            assert call.id is not None
            self._running[call.id] = call
            self.ran += 1
            events.append(ServedCall(call.id, call.ours.source, call.ours.name, call.arguments))
            effects.append(CallTool(call.id, call.ours, call.name, call.arguments))
        return Step(out=_between(events), effects=effects)

    def _tool_ended(self, call: _Call, id_: str, result: ToolResult) -> Step:
        # Neither a request nor an answer can hold half of a surrogate pair, which a tool's string may.
        text = result.text.encode(errors="replace").decode()
        call.result = replace(result, text=text)
        self._retained += _size(text)
        shown = [ServedResult(id_, text, failed=result.outcome != "ok")]
        if (too_large := self._too_large()) is not None:
            return self._end(too_large, _between(shown))
        if self._waiting:
            return self._call_more(shown)
        if self._running:
            return Step(out=_between(shown))
        for one in self._round.calls:
            assert one.result is not None
            self._messages.append({"role": "tool", "tool_call_id": one.id, "content": one.result.text})
        if self._left() == 0:
            # All that the answer may have was spent on calls.
            cut = Said(0, [], {}, {"index": 0, "delta": {}, "finish_reason": "length"}, frozenset(), "length")
            return self._end(Complete(self.usage), [*_between(shown), cut])
        return Step(out=_between(shown), effects=(self._next_round(),))

    def _next_round(self) -> AskModel:
        self._round = _Round(self.rounds + 1)
        return AskModel(self.rounds, list(self._messages), self._left())

    def _left(self) -> int | None:
        """How many tokens the answer may still have."""
        if self._tokens is None:
            return None
        spent = (self.usage or {}).get("completion_tokens")
        return max(self._tokens - (spent if isinstance(spent, int) else 0), 0)

    def _too_large(self) -> ApiError | None:
        if self._retained <= self._limits.retained_bytes:
            return None
        message = f"The run's calls and results have more than {self._limits.retained_bytes} bytes."
        return ApiError(502, message, "server_error", code=TOO_LARGE)

    def _end(self, end: End, out: Sequence[Said] = ()) -> Step:
        self._ended = True
        self._waiting.clear()
        self._running.clear()
        return Step(out=out, effects=() if isinstance(end, Complete) else (CancelAll(),), end=end)


def _size(text: str) -> int:
    """In bytes."""
    return len(text.encode())


def _between(events: Sequence[Any]) -> list[Said]:
    """Events that are no model's."""
    if not events:
        return []
    choice: Json = {"index": 0, "delta": {}, "finish_reason": None}
    return [Said(0, list(events), {}, choice, frozenset())]
