"""What follows a value that was never closed: the next call, and as much of it as tells it from a text about tags.

The tags between two calls show it only if the next call's name stands behind them, or the bracket of its object. That
call is read again from there on.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from extproc.toolcalls.formats.tag_values import in_block
from extproc.toolcalls.states import State, StateName
from extproc.toolcalls.table import WHITE_SPACE, Behind, Gap, Marker, Rules, Transition, Transitions

_WORD = re.compile(r"[\w.:/-]*")


def behind_unclosed_function(opening: str, name_ends: Collection[str], *, then: StateName) -> dict[StateName, Rules]:
    """The function's tag stands in the block, or a JSON object."""
    again = Transition(then, Marker.AGAIN)
    name = re.compile(rf"{re.escape(opening)}\w[^<>]*\Z")
    return {
        State.UNCLOSED_BLOCK: _gap(
            {"{": Transition(State.UNCLOSED_OBJECT), opening: Transition(State.UNCLOSED_NAME)}, WHITE_SPACE
        ),
        State.UNCLOSED_NAME: _gap(dict.fromkeys(name_ends, again), _WORD, name),
        State.UNCLOSED_OBJECT: _object(again),
    }


def behind_unclosed_name(name_ends: Collection[str], *, then: StateName) -> dict[StateName, Rules]:
    """The name stands in the block right away, or a JSON object."""
    again = Transition(then, Marker.AGAIN)
    ends: Transitions = {**dict.fromkeys(name_ends, again), "{": Transition(State.UNCLOSED_OBJECT)}
    name = re.compile(r"\W\s*\w[\w.:/-]*\s*\Z")
    return {
        State.UNCLOSED_BLOCK: _gap({**ends, "\n": Transition(State.UNCLOSED_NAME)}, _WORD, name),
        State.UNCLOSED_NAME: _gap(ends, WHITE_SPACE, name),
        State.UNCLOSED_OBJECT: _object(again),
    }


def behind_unclosed_invoke(opening: str, *, then: StateName) -> Gap:
    """The name is an attribute of the call's tag."""
    name = re.compile(rf"{re.escape(opening)}\s*[\"']?[^\"'<>{{}}]+[\"']?\s*/?\Z")
    again = Transition(then, Marker.AGAIN)
    return Gap({">": again}, State.VALUE, re.compile(r"[^<>\n]*"), Behind.VALUE, skipped=name)


def _object(again: Transition) -> Gap:
    return _gap(dict.fromkeys("\"'}", again), WHITE_SPACE)


def _gap(transitions: Transitions, junk: re.Pattern[str], skipped: re.Pattern[str] | None = None) -> Gap:
    # What is none of these has opened a block in the value.
    return Gap(transitions, in_block(State.VALUE), junk, Behind.VALUE, skipped=skipped)
