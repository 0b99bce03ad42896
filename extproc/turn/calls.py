"""What becomes of a model's calls on their way from the parser to the client.

`CheckedCalls` stands behind the parser of one choice. Every call is checked at its end, against the tools that were
offered, and what is wrong with it is counted; then the model's `invalid_calls` decides:

    policy   a call                              one with a fault
    pass     goes on as it comes                 goes on too: the client sees it
    text     is held until it is complete        becomes a line of content, `name(arguments)`
    error    is held until it is complete        ends the whole answer with an error, whichever choice it is in

The rest follows from these rules, for a whole answer as for a stream in any cut:

- What the backend cut off (`length`, `content_filter`) is nobody's fault: a call that was open then is not checked, and
  goes to the client as far as it came, under every policy. `CallEnd.whole` doesn't tell who left it open. One
  that the model itself left unfinished is checked like any other.
- Holding a call changes no order: the parser puts nothing inside a call. Reasoning goes on as it comes; as it is no
  content, it separates no lines.
- Where the client wants one call, it gets the first that remains. Whatever comes after it is dropped: it is checked
  and counted, but can't harm, so it becomes neither text nor an error.
- The calls that the client gets are numbered without gaps.
- An output without the call that the request demands has a fault too, and with `error` is one.
"""

from __future__ import annotations

import re

from extproc.contract.arguments import ArgumentChecker
from extproc.contract.errors import MISSING_CALL, ApiError, invalid_call
from extproc.toolcalls import ArgumentsDelta, CallEnd, CallStart, Event, Reasoning, Text
from extproc.turn.spec import ResponseSpec
from extproc.turn.tally import Tally

_NO_CALL = "The request demands a call, and the model made none."
_LINE_BREAK = re.compile(r"\r\n|\r|\n")


class CheckedCalls:
    """The calls of one choice: `take` what the parser says, in its order, and hand on what it returns."""

    __slots__ = (
        "_arguments",
        "_call_required",
        "_called",
        "_checker",
        "_id",
        "_in_line",
        "_name",
        "_one_call",
        "_owes_break",
        "_policy",
        "_streams",
        "_tally",
        "error",
        "given",
        "held",
    )

    def __init__(self, spec: ResponseSpec, checker: ArgumentChecker, tally: Tally) -> None:
        """`tally` is added to."""
        self.given = 0
        """How many complete calls the client got."""
        self.held = 0
        """How many characters of an unfinished call's arguments are kept, to be checked."""
        self.error: ApiError | None = None
        """Why the answer ends here; nothing comes after it."""
        self._policy = spec.invalid_calls
        self._call_required = spec.required_tool is not None
        self._called = False  # the model did call, rightly or not
        self._one_call = spec.legacy or not spec.parallel_tool_calls
        self._checker = checker
        self._tally = tally
        self._name = ""  # of the call being read
        self._id: str | None = None
        self._arguments: list[str] = []
        self._streams = False  # it leaves while it is being written
        self._in_line = False  # the content so far ends inside a line,
        self._owes_break = False  # which is a call: the next text may not go on with it

    def take(self, events: list[Event], *, ended: bool = False, cut_off: bool = False) -> list[Event]:
        """What the client gets for the reader's next events.

        `ended`: they are the last ones; `cut_off`: the backend ended the output before the model did.
        """
        allowed: list[Event] = []
        for event in events:
            if self.error is not None:
                break
            match event:
                case ArgumentsDelta():
                    self._arguments.append(event.json)
                    self.held += len(event.json)
                    if self._streams:
                        allowed.append(event)
                case Text() if self._policy == "text":
                    allowed.append(self._text(event))
                case Text() | Reasoning():
                    allowed.append(event)
                case CallStart():
                    self._name, self._id = event.name, event.id
                    # Its number is the parser's: nothing was taken out before it.
                    self._streams = self._policy == "pass" and not self._ruled_out
                    if self._streams:
                        allowed.append(event)
                case CallEnd():
                    self._called = True
                    allowed += self._end(event, cut_off=cut_off)
        if ended and self._call_required and not self._called and not cut_off:
            self._tally.violations.found(MISSING_CALL, _NO_CALL)
            if self._policy == "error":
                self.error = invalid_call(MISSING_CALL, _NO_CALL)
        return allowed

    @property
    def _ruled_out(self) -> bool:
        """The client has its one call."""
        return self._one_call and self.given > 0

    def _end(self, end: CallEnd, *, cut_off: bool) -> list[Event]:
        arguments = "".join(self._arguments)
        self._arguments.clear()
        self.held = 0
        violation = None if cut_off else self._checker.violation(self._name, arguments)
        if violation is not None:
            self._tally.violations.found(violation.code, "" if self._ruled_out else violation.message)
        elif cut_off:
            self._tally.cut_off += 1
        else:
            self._tally.valid += 1
            if end.repair is not None:
                self._tally.repairs[end.repair] += 1
        if self._ruled_out:
            return []
        if violation is not None and self._policy == "text":
            return [Text(self._as_line(arguments))]
        if violation is not None and self._policy == "error":
            self.error = invalid_call(violation.code, violation.message)
            return []
        index = self.given
        self.given += 1
        if self._policy == "pass":
            return [end]
        return [CallStart(index, self._name, self._id), ArgumentsDelta(index, arguments), CallEnd(index, end.whole)]

    # Calls as text

    def _as_line(self, arguments: str) -> str:
        line = _LINE_BREAK.sub(" ", f"{self._name}({arguments})")
        separator = "\n" if self._in_line else ""
        self._in_line = self._owes_break = True
        return separator + line

    def _text(self, event: Text) -> Text:
        if self._owes_break:
            self._owes_break = False
            if not event.text.startswith("\n"):
                event = Text(f"\n{event.text}")
        self._in_line = not event.text.endswith("\n")
        return event
