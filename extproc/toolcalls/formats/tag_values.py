"""The states of a value between tags, which nothing escapes: what follows a tag tells whether the value holds it.

- A closing tag ends the value if a tag follows that may follow it. One that comes twice ends it once, unless the value
  has opened a tag of that kind itself: then the first closes that one.
- A tag that opens a call, with a tag behind it that may follow there, begins a call that the value quotes. Up to the
  tag that closes that call everything belongs to the value; what closes its block belongs to it as well, unless the
  output ends there.
- A tag that opens a block without such a call behind it is closed by the next one that closes a block: that one belongs
  to the value as well (`IN_BLOCK`).
- A tag that closes the call ends a value that was never closed only if the next call follows, as far as its name, or
  the output ends. That call is then read from that tag on (`Marker.AGAIN`).
- A key tag inside a value (`next_key`) is one if a key, its closing tag and a value's tag follow, or a key and its
  closing tag where it begins a line; behind a closing tag, if a key and its closing tag follow.

So at most a few tags and a word are ever held back.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from extproc.toolcalls.states import State, StateName
from extproc.toolcalls.table import Behind, Gap, Marker, Rules, Transition, Transitions, Value, redirected

IN_BLOCK = "in a block that the value has opened"


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
    head: re.Pattern[str] = re.compile(r"[^\s<>]*")
    """A prompt that shows how calls are written may have `{name}` for the name."""


@dataclass(frozen=True, slots=True)
class Block:
    """The tags around a call."""

    opening: str
    closing: str


def value_states(
    value: Value,
    close: str,
    followers: Transitions,
    *,
    opens: str,
    unclosed: Transitions,
    quoted: QuotedCall | None = None,
    block: Block | None = None,
) -> dict[StateName, Rules]:
    """VALUE and what lies behind it. `value` has the transitions that are its format's own.

    `close` is its closing tag and `opens` the beginning of its opening one; `followers` are the tags behind a value,
    and `unclosed` those behind a tag that ends the call before the value was closed (those are in `value`). `block`
    is what a value may open, where its closing tag is one of those.
    """
    ends = {marker: transition for marker, transition in value.transitions.items() if transition.to in _BEHIND_UNCLOSED}
    begins_quote: Transitions = {} if quoted is None else {quoted.opening: Transition(State.QUOTED_NAME)}
    begins_block: Transitions = (
        {} if block is None else {block.opening: Transition(in_block(State.VALUE), Marker.SHOWN)}
    )
    nested = {opens: Transition(State.NESTED_VALUE, Marker.SHOWN)}
    transitions = {**begins_block, **begins_quote, **nested, **value.transitions}
    states: dict[StateName, Rules] = {
        State.VALUE: _with(value, {**transitions, close: Transition(State.AFTER_VALUE)}),
        State.NESTED_VALUE: _with(value, {**transitions, close: Transition(State.AFTER_NESTED_VALUE)}),
        State.AFTER_VALUE: _behind_value({close: Transition(State.AFTER_VALUE), **followers}),
        State.AFTER_NESTED_VALUE: _behind_value(followers),
        **(_quoted_call_states(value, close, quoted, block) if quoted is not None else {}),
    }
    if block is not None:
        states |= _states_in_block(states, block)
    return {**states, State.AFTER_UNCLOSED_VALUE: _behind_value({**ends, **unclosed})}


def _quoted_call_states(value: Value, close: str, quoted: QuotedCall, block: Block | None) -> dict[StateName, Rules]:
    goes_on = {tag: Transition(State.QUOTED_CALL, Marker.SHOWN) for tag in quoted.goes_on}
    ends_quote = Transition(State.VALUE, Marker.SHOWN)
    closes = {quoted.closing: Transition(State.AFTER_QUOTED_CALL)}
    is_block = block is not None and block.opening == quoted.opening
    otherwise = in_block(State.VALUE) if is_block else State.VALUE
    return {
        State.QUOTED_NAME: Gap(
            {quoted.head_ends: Transition(State.QUOTED_HEAD), quoted.closing: ends_quote, **goes_on},
            otherwise=otherwise,
            junk=quoted.head,
            behind=Behind.QUOTE,
        ),
        State.QUOTED_HEAD: Gap(
            {quoted.closing: ends_quote, **goes_on},
            otherwise=otherwise,
            behind=Behind.QUOTE,
        ),
        State.QUOTED_CALL: _with(value, {close: Transition(State.AFTER_QUOTED_VALUE), **closes}),
        State.AFTER_QUOTED_VALUE: Gap(closes, otherwise=State.QUOTED_CALL, behind=Behind.VALUE),
        State.AFTER_QUOTED_CALL: _behind_value(
            dict.fromkeys((quoted.closing, *quoted.behind), Transition(State.AFTER_QUOTED_CALL))
        ),
    }


def in_block(state: StateName) -> StateName:
    return (state, IN_BLOCK)


def is_quoted(state: StateName) -> bool:
    """It lies behind a tag of a call that the value quotes."""
    return (state[0] if isinstance(state, tuple) else state) in (State.AFTER_QUOTED_VALUE, State.AFTER_QUOTED_CALL)


def _states_in_block(states: Mapping[StateName, Rules], block: Block) -> dict[StateName, Rules]:
    """The same where the value has opened a block: what closes one closes that."""

    def own(name: StateName) -> StateName:
        return in_block(name) if name in states else name

    made: dict[StateName, Rules] = {}
    closes = {block.closing: Transition(State.AFTER_QUOTED_CALL)}
    for name, rules in states.items():
        assert isinstance(rules, Value | Gap)
        inside = {marker: redirected(to, own(to.to)) for marker, to in rules.transitions.items()}
        if isinstance(rules, Gap):
            ends_block = closes if name is State.AFTER_QUOTED_CALL else {}
            made[in_block(name)] = replace(rules, transitions=inside | ends_block, otherwise=own(rules.otherwise))
        else:
            ends_block = closes if block.closing in rules.transitions and name is not State.QUOTED_CALL else {}
            made[in_block(name)] = _with(rules, inside | ends_block)
    return made


_BEHIND_UNCLOSED = frozenset({State.AFTER_UNCLOSED_VALUE})


def _between(tags: Collection[str], other: str = "") -> str:
    """The pattern of what has no tag in it, and none of the `other` characters."""
    return f"[^<>{re.escape(''.join(sorted({end for tag in tags for end in (tag[0], tag[-1])})))}{other}]*"


def word_between(tags: Collection[str]) -> re.Pattern[str]:
    return re.compile(_between(tags, r"\s"))


def next_key(open_key: str, close_key: str, open_value: str) -> tuple[Transitions, dict[StateName, Rules]]:
    """What in a value begins the next argument when its closing tag is missing, and the states behind that."""
    tags = (open_key, close_key, open_value)
    between, on_line = _between(tags), re.compile(_between(tags, r"\n"))
    # A tag may have a suffix.
    opened, closed = (rf"{re.escape(tag[:-1])}{between}?{re.escape(tag[-1])}" for tag in (open_key, close_key))
    begun = rf"{re.escape(open_value[0])}{between}"
    key = re.compile(rf"{opened}\s*(?P<key>{between}?)\s*(?:{closed}\s*)?(?:{begun})?\Z")
    opens_value = {open_value: Transition(State.VALUE)}
    return (
        {open_key: Transition(State.NEXT_KEY), f"\n{open_key}": Transition(State.NEXT_KEY_ON_LINE)},
        {
            State.NEXT_KEY: Gap(
                {close_key: Transition(State.NEXT_VALUE), **opens_value},
                otherwise=State.VALUE,
                junk=re.compile(_between(tags, r"\s{}")),
                behind=Behind.VALUE,
                key=key,
            ),
            State.BEHIND_KEY: Gap(
                {close_key: Transition(State.AFTER_KEY), **opens_value},
                otherwise=State.VALUE,
                junk=on_line,
                behind=Behind.VALUE,
                key=key,
            ),
            State.NEXT_VALUE: Gap(opens_value, otherwise=State.VALUE, behind=Behind.VALUE, key=key),
            State.NEXT_KEY_ON_LINE: Gap(
                {close_key: Transition(State.AFTER_KEY), **opens_value},
                otherwise=State.VALUE,
                junk=on_line,
                behind=Behind.VALUE,
                key=key,
            ),
        },
    )


def _with(value: Value, transitions: Transitions) -> Value:
    return Value(transitions, value.trim, value.packed_keys)


def _behind_value(transitions: Transitions) -> Gap:
    return Gap(transitions, otherwise=State.VALUE, behind=Behind.VALUE)
