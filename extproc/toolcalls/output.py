"""Collects what has become certain of an output, as events in their order.

Keeps what only the output as a whole knows: how many calls there were, where a line begins, and white space. White
space next to a call or behind thinking is markup; it is content only if more content follows. So it waits here.
"""

from __future__ import annotations

from extproc.toolcalls.events import ArgumentsDelta, CallEnd, CallStart, Event, Reasoning, Text
from extproc.toolcalls.line import Line
from extproc.toolcalls.repairs import Repair
from extproc.toolcalls.table import Sink


class Output:
    """The events of one output. `take` returns those that came since the last time."""

    __slots__ = (
        "_events",
        "_gap",
        "_made",
        "_name",
        "_opening",
        "_outside",
        "_said",
        "_sent",
        "_space",
        "_thought",
        "calls",
        "in_call",
        "line",
        "made",
    )

    def __init__(self, *, remembers: bool = False) -> None:
        self.calls = 0
        """How many calls are complete."""
        self.in_call = False
        """A call has been announced and not ended."""
        self.line = Line()
        """Where its text has got to. A call, and a marker that is not shown, stand for a line break."""
        self.made: set[tuple[str, str]] = set()
        """The names and arguments of the calls that are complete, where they are remembered."""
        self._name = ""
        self._made: list[str] | None = [] if remembers else None  # the arguments of the call
        self._events: list[Event] = []
        self._sent = False  # some of its arguments have left
        self._opening: str | None = ""  # they, while they are no more than a bracket
        self._space: list[str] = []
        self._gap: int | None = None  # how much of it came before the last call, if nothing else came since
        self._said = False  # there is content
        self._outside: list[str] = []  # of what may be content
        self._thought = False  # nothing but white space came since the last reasoning

    def take(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def text(self, sink: Sink, text: str) -> None:
        if not text:
            return
        self.line.read(text)
        if sink is Sink.REASONING:
            self._events.append(Reasoning(text))
            self._thought = True
            return
        if sink is Sink.OUTSIDE:
            self._outside.append(text)
            return
        if self._thought:
            # The line breaks between a closing thinking tag and the answer belong to the tag.
            text = text.lstrip()
            self._thought = not text
        solid = text.rstrip()
        if solid:
            self._said = True
            self._gap = None
            if self._space:
                self._events.append(Text("".join([*self._space, solid])))
                self._space.clear()
            else:
                self._events.append(Text(solid))
        if len(solid) < len(text):
            self._space.append(text[len(solid) :])

    def begin_call(self, name: str) -> None:
        """Announce the call, unless it has been."""
        if not self.in_call:
            self.in_call = True
            del self._space[len(self._space) if self._gap is None else self._gap :]  # between two calls
            self._name = name
            self._events.append(CallStart(self.calls, name))

    def arguments(self, piece: str) -> None:
        if piece:
            if self._opening is not None:
                self._sent = True
                opening = self._opening + piece.strip()
                self._opening = opening if opening in ("", "{") else None
            self._events.append(ArgumentsDelta(self.calls, piece))
            if self._made is not None:
                self._made.append(piece)

    def end_call(self, *, whole: bool, repair: Repair | None = None) -> None:
        if not self._sent:
            self._events.append(ArgumentsDelta(self.calls, "{}"))
        self._events.append(CallEnd(self.calls, whole, repair))
        if self._made is not None:
            self.made.add((self._name, "".join(self._made) or "{}"))
            self._made.clear()
        self.calls += 1
        self.in_call = self._sent = False
        self._gap = len(self._space)
        self._opening = ""

    def break_off_call(self) -> None:
        """The output ends inside the call. Its arguments get at least as far as the quote of their first key: clients
        take none at all for `{}`, some take `{` for it, and they would run the tool."""
        if self._opening is not None:
            self.arguments('{"'[len(self._opening) :])
        self.end_call(whole=False)

    def end(self) -> None:
        """The output is complete: an answer without calls keeps the white space at its end."""
        if self._space and not self.calls:
            self._events.append(Text("".join(self._space)))
        self._space.clear()
        if (outside := "".join(self._outside).strip()) and not self._said and not self.calls:
            self._events.append(Text(outside))
