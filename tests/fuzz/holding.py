"""Whether text leaves while it is being written: behind any beginning, prose comes out before all of it has come.

A call that has begun may hold it: a value that need not be a string has to be complete before it can be typed. So may
the value of an object whose name has not come yet, an object in the place of elements, a call that is perhaps said
once more, and what is said to a tool and is no object.
"""

from __future__ import annotations

from extproc.toolcalls import CallEnd, CallStart, Event, Reasoning, Text
from extproc.toolcalls.notations.repeated_call import RepeatedCall
from extproc.toolcalls.table import Body
from tests.fuzz.inputs import Input
from tests.fuzz.watching import is_object, is_plain, part_of_object, reader_of, rules_of, state_of

_LINE = "가나다 라마바 사아자 차카타 파하고, 노도 로모보 소오.\n"
_PROSE = _LINE * 40
_PIECE = 16


def wrong(input_: Input, at: int) -> str | None:
    """The state in which nothing leaves any more behind `text[:at]`; None when it does."""
    parser = input_.parser()
    events: list[Event] = parser.feed(input_.text[:at])
    begun = len(events)
    for start in range(0, len(_PROSE), _PIECE):
        events += parser.feed(_PROSE[start : start + _PIECE])
    if any(isinstance(event, Text | Reasoning) and event.text.strip() for event in events[begun:]):
        return None
    if sum(isinstance(event, CallStart) for event in events) > sum(isinstance(event, CallEnd) for event in events):
        return None
    reader = reader_of(parser)
    if isinstance(rules_of(parser), Body) and (
        part_of_object(reader) not in ("", "IN_KEY", "IN_NAME")
        or is_object(reader)
        or is_plain(reader)
        or isinstance(reader, RepeatedCall)
    ):
        return None
    return state_of(parser)
