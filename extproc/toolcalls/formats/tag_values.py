"""The states of a value between tags, which nothing escapes: what follows a tag tells whether the value holds it.

- A closing tag ends the value if a tag follows that may follow it. One that comes twice ends it once, unless the value
  has opened a tag of that kind itself: then the first closes that one.
- A tag that opens a call, with a tag behind it that may follow there, begins a call that the value quotes. Up to the
  tag that closes that call everything belongs to the value; what closes its block belongs to it as well, unless the
  output ends there.
- A key tag inside a value (`next_key`) is one if a key, its closing tag and a value's tag follow, or a key and its
  closing tag where it begins a line.

So at most a few tags and a word are ever held back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from extproc.toolcalls.states import State, StateName
from extproc.toolcalls.table import Behind, Gap, Marker, Rules, Transition, Transitions, Value

_NOTHING_BUT_A_WORD = re.compile(r"[^\s<>{}]*")


@dataclass(frozen=True, slots=True)
class QuotedCall:
    """What shows that a value quotes a call: its tag, a word up to `head_ends`, and behind that one of `goes_on`."""

    opening: str
    head_ends: str
    goes_on: tuple[str, ...]
    closing: str
    """The tag that closes the call."""
    behind: tuple[str, ...] = ()
    """The tags of its block, which may follow."""
    head: re.Pattern[str] = _NOTHING_BUT_A_WORD


def value_states(
    value: Value,
    close: str,
    followers: Transitions,
    *,
    opens: str,
    unclosed: Transitions,
    quoted: QuotedCall | None = None,
) -> dict[StateName, Rules]:
    """VALUE and what lies behind it. `value` has the transitions that are its format's own.

    `close` is its closing tag and `opens` the beginning of its opening one; `followers` are the tags behind a value,
    and `unclosed` those behind a tag that ends the call before the value was closed (those are in `value`).
    """
    ends = {marker: transition for marker, transition in value.transitions.items() if transition.to in _BEHIND_UNCLOSED}
    begins_quote: Transitions = {} if quoted is None else {quoted.opening: Transition(State.QUOTED_NAME)}
    transitions = {**begins_quote, opens: Transition(State.NESTED_VALUE, Marker.SHOWN), **value.transitions}
    states: dict[StateName, Rules] = {
        State.VALUE: _with(value, {**transitions, close: Transition(State.AFTER_VALUE)}),
        State.NESTED_VALUE: _with(value, {**transitions, close: Transition(State.AFTER_NESTED_VALUE)}),
        State.AFTER_VALUE: _behind_value({close: Transition(State.AFTER_VALUE), **followers}),
        State.AFTER_NESTED_VALUE: _behind_value(followers),
        State.AFTER_UNCLOSED_VALUE: _behind_value({**ends, **unclosed}),
    }
    if quoted is None:
        return states
    goes_on = {tag: Transition(State.QUOTED_CALL, Marker.SHOWN) for tag in quoted.goes_on}
    ends_quote = Transition(State.VALUE, Marker.SHOWN)
    closes = {quoted.closing: Transition(State.AFTER_QUOTED_CALL)}
    return {
        **states,
        State.QUOTED_NAME: Gap(
            {quoted.head_ends: Transition(State.QUOTED_HEAD), quoted.closing: ends_quote, **goes_on},
            otherwise=State.VALUE,
            junk=quoted.head,
            behind=Behind.QUOTE,
        ),
        State.QUOTED_HEAD: Gap(
            {quoted.closing: ends_quote, **goes_on},
            otherwise=State.VALUE,
            behind=Behind.QUOTE,
        ),
        State.QUOTED_CALL: _with(value, {close: Transition(State.AFTER_QUOTED_VALUE), **closes}),
        State.AFTER_QUOTED_VALUE: Gap(closes, otherwise=State.QUOTED_CALL, behind=Behind.VALUE),
        State.AFTER_QUOTED_CALL: _behind_value(
            dict.fromkeys((quoted.closing, *quoted.behind), Transition(State.AFTER_QUOTED_CALL))
        ),
    }


_BEHIND_UNCLOSED = frozenset({State.AFTER_UNCLOSED_VALUE})


def next_key(open_key: str, close_key: str, open_value: str) -> tuple[Transitions, dict[StateName, Rules]]:
    """What in a value begins the next argument when its closing tag is missing, and the states behind that."""
    tag = re.escape(open_key[:-1]) + r"[^<>]*>"
    key = re.compile(rf"{tag}\s*(?P<key>[^<>]*?)\s*(?:{re.escape(close_key[:-1])}[^<>]*>\s*)?(?:<[^<>]*)?\Z")
    opens_value = {open_value: Transition(State.VALUE)}
    return (
        {open_key: Transition(State.NEXT_KEY), f"\n{open_key}": Transition(State.NEXT_KEY_ON_LINE)},
        {
            State.NEXT_KEY: Gap(
                {close_key: Transition(State.NEXT_VALUE), **opens_value},
                otherwise=State.VALUE,
                junk=_NOTHING_BUT_A_WORD,
                behind=Behind.VALUE,
                key=key,
            ),
            State.NEXT_VALUE: Gap(opens_value, otherwise=State.VALUE, behind=Behind.VALUE, key=key),
            State.NEXT_KEY_ON_LINE: Gap(
                {close_key: Transition(State.AFTER_KEY), **opens_value},
                otherwise=State.VALUE,
                junk=re.compile(r"[^<>\n]*"),
                behind=Behind.VALUE,
                key=key,
            ),
        },
    )


def _with(value: Value, transitions: Transitions) -> Value:
    return Value(transitions, value.trim, value.packed_keys)


def _behind_value(transitions: Transitions) -> Gap:
    return Gap(transitions, otherwise=State.VALUE, behind=Behind.VALUE)
