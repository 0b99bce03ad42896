"""What the model says in one choice of an answer: read from what its backend sends, and held to what the client asked.

Between the reader and the client stand, in this order: the escape of what the model was shown is undone, a text that
has to be JSON is checked, calls are checked. All of it acts on events, so that it holds for every dialect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from extproc.contract.arguments import ArgumentChecker
from extproc.contract.errors import ApiError, backend_garbage
from extproc.toolcalls import Event, Reasoning
from extproc.turn.calls import CheckedCalls
from extproc.turn.confidence import Confidence
from extproc.turn.json_text import JsonText
from extproc.turn.made_up_call import MadeUpCall
from extproc.turn.readers import reader_for
from extproc.turn.served import ServedCall, ServedResult
from extproc.turn.spec import ResponseSpec
from extproc.turn.tally import Tally
from extproc.turn.unescaping import UnescapedEvents

Json: TypeAlias = dict[str, Any]
SaidEvent: TypeAlias = Event | ServedCall | ServedResult

CUT_OFF = ("length", "content_filter")
"""The finish reasons of an output that the backend ended before the model did."""
CALLED = "tool_calls"
"""The finish reason of an output that ended with calls."""
_CALLED_BY_BACKEND = (CALLED, "function_call")


@dataclass(slots=True)
class Said:
    """What one choice says next: all of it for a whole answer."""

    index: int
    """The choice's number."""
    events: list[SaidEvent]
    """What the client may know of it, calls of tools that run on our side among it."""
    source: Json
    """The backend's own message, or delta."""
    choice: Json
    """The backend's object around that."""
    read: frozenset[str]
    """The fields of the source that the events stand for."""
    finish_reason: str | None = None
    """Why the choice has ended, if it has: OpenAI's word, or one of the backend's own. A cut-off choice stays cut off,
    otherwise calls are the reason, if the client gets any."""
    error: ApiError | None = None
    """Why the answer ends here, behind these events."""

    @property
    def own_events(self) -> list[Event]:
        """The model's own: for a dialect whose clients see nothing of tools that run on our side."""
        return [event for event in self.events if not isinstance(event, (ServedCall, ServedResult))]

    @property
    def rest(self) -> Json:
        """What of the source is in no event: the role, a backend's own reasoning, what only it knows."""
        return {key: value for key, value in self.source.items() if key not in self.read}

    def check_alone(self) -> None:
        """For a dialect in which an answer is one choice, and calls have one form. Raises ApiError (502)."""
        if self.index != 0:
            raise backend_garbage("a choice that wasn't asked for.")
        if self.source.get("function_call"):
            raise backend_garbage("a call in the legacy form, function_call.")
        self.check_calls()

    def check_calls(self) -> None:
        """Where the calls are read from the text, the backend finds none. Raises ApiError (502)."""
        if "tool_calls" not in self.read and self.source.get("tool_calls"):
            raise backend_garbage("tool calls that it parsed itself, although it was asked not to.")

    @property
    def refusal(self) -> str:
        """What the backend itself took for one."""
        said = self.source.get("refusal")
        return said if isinstance(said, str) else ""

    @property
    def thinking(self) -> str:
        """What the backend itself took for reasoning."""
        said = self.source.get("reasoning") or self.source.get("reasoning_content")
        return said if isinstance(said, str) else ""


class Output:
    """One choice: `say` what its backend sends, a whole message or delta by delta."""

    __slots__ = (
        "_begin",
        "_calls",
        "_confidence",
        "_cut_off",
        "_hides_logprobs",
        "_json",
        "_reader",
        "_tally",
        "_unescaped",
        "called",
        "finished",
    )

    def __init__(self, spec: ResponseSpec, checker: ArgumentChecker, tally: Tally) -> None:
        """`tally` is added to."""
        self._reader = reader_for(spec)
        self._unescaped = UnescapedEvents(spec.openers) if spec.openers else None
        self._json = JsonText(spec.text_schema, tally.violations) if spec.text_schema is not None else None
        self._calls = CheckedCalls(spec, checker, tally)
        self._begin = MadeUpCall(spec.callable_tools) if spec.finds_made_up else None
        self._confidence = Confidence(spec.min_confidence) if spec.min_confidence is not None else None
        self._hides_logprobs = spec.hides_logprobs
        self._tally = tally
        self._cut_off: str | None = None
        self.finished = False
        self.called = False
        """It made a call, and was not cut off."""

    @property
    def held(self) -> int:
        """How many characters are kept back."""
        return self._reader.held + self._calls.held + (self._json.held if self._json is not None else 0)

    @property
    def begins_well(self) -> bool:
        """It is certain by now that it doesn't begin with a call of a made-up tool, or with one of which the model is
        unsure. Where nobody looks at that, it never is."""
        begin, confidence = self._begin, self._confidence
        if begin is None or begin.undecided or begin.name is not None:
            return False
        if begin.called is None or confidence is None:
            return True
        return (confidence.is_complete or self.finished) and not confidence.is_low

    def say(self, index: int, source: Json, choice: Json) -> Said:
        """What a message or a delta says. A finish reason in its choice is the end. Raises ApiError (502)."""
        events = self._calls.take(self._meant(self._reader.feed(source)))
        said = Said(index, [*events], source, choice, self._reader.takes)
        if (reason := choice.get("finish_reason")) is not None:
            self._end(said, reason)
        if self._begin is not None:
            self._look(self._begin, said)
        if self._hides_logprobs:
            choice["logprobs"] = None
        said.error = self._calls.error or (self._json.error if self._json is not None else None)
        return said

    def _look(self, begin: MadeUpCall, said: Said) -> None:
        """At how the answer begins."""
        begin.take([Reasoning(said.thinking), *said.events] if said.thinking else said.events)
        self._tally.spoke = begin.spoke
        self._tally.made_up = begin.name
        self._tally.begun = begin.text
        if self._confidence is not None:
            self._confidence.take(said.choice.get("logprobs"))
            if begin.called is not None and self._confidence.mean is None:
                self._confidence = None  # the backend tells none, and what comes behind the name isn't the beginning
            elif begin.called is not None and self.finished:
                self._tally.confidence = self._confidence.mean
                self._tally.unsure_of = begin.called if self._confidence.is_low else None

    def _end(self, said: Said, reason: Any) -> None:
        """`reason` is the backend's."""
        self.finished = True
        if reason in CUT_OFF:
            self._cut_off = reason
        reason = self._cut_off or reason  # whatever a backend says behind it
        cut_off = self._cut_off is not None
        events = self._meant(self._reader.close(cut_off=cut_off), ended=True, cut_off=cut_off)
        said.events += self._calls.take(events, ended=True, cut_off=cut_off)
        self.called = self._calls.given > 0 and not cut_off
        if self._calls.given > 0:
            said.finish_reason = reason if cut_off else CALLED
        else:
            said.finish_reason = "stop" if reason in _CALLED_BY_BACKEND else reason
        self._tally.finish_reasons.append(said.finish_reason)

    def _meant(self, events: list[Event], *, ended: bool = False, cut_off: bool = False) -> list[Event]:
        events = events if self._unescaped is None else self._unescaped.take(events)
        return events if self._json is None else self._json.take(events, ended=ended, cut_off=cut_off)
