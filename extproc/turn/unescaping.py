"""What a model writes, as it was meant: the escape of what it was shown is undone, in its words and in its calls.

Behind the parser, so that what a model repeats of a result is text, and in front of all that looks at calls. Pieces
leave as they come, whatever the cut.
"""

from __future__ import annotations

from extproc.prompts.escaping import JsonUnescaper, Unescaper
from extproc.toolcalls import ArgumentsDelta, CallEnd, CallStart, Event, Reasoning, Text


class UnescapedEvents:
    """The events of one output."""

    __slots__ = ("_arguments", "_reasoning", "_text")

    def __init__(self, openers: str) -> None:
        """`openers` are the escaper's."""
        self._text = Unescaper(openers)
        self._reasoning = Unescaper(openers)
        self._arguments = JsonUnescaper(openers)

    def take(self, events: list[Event]) -> list[Event]:
        """The next events, changed in place; those of which nothing is left are left out."""
        meant: list[Event] = []
        for event in events:
            match event:
                case Text():
                    event.text = self._text.feed(event.text)
                    if event.text:
                        meant.append(event)
                case ArgumentsDelta():
                    event.json = self._arguments.feed(event.json)
                    if event.json:
                        meant.append(event)
                case Reasoning():
                    event.text = self._reasoning.feed(event.text)
                    if event.text:
                        meant.append(event)
                case CallEnd():
                    if held := self._arguments.close():
                        meant.append(ArgumentsDelta(event.index, held))
                    meant.append(event)
                case CallStart():
                    meant.append(event)
        return meant
