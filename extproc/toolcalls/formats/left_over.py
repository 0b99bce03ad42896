"""Tags that are left over: closing ones twice or without a call, sections that stay empty, a fence around calls.

Each function here takes the states of a whole format and returns them with what these models' slips need.
"""

from __future__ import annotations

import re
from dataclasses import replace

from extproc.toolcalls.formats.shapes import States, left_over_gap
from extproc.toolcalls.notations.json_call import JsonCall
from extproc.toolcalls.states import State, StateName
from extproc.toolcalls.table import (
    WHITE_SPACE,
    Behind,
    Body,
    Gap,
    Header,
    Marker,
    Name,
    Prose,
    Routes,
    Rules,
    Sink,
    Transition,
    Transitions,
    redirected,
)

_NOTHING = re.compile(r"")
_LANGUAGE = re.compile(r"\s*[A-Za-z0-9_+.-]*\s*")
_ANYTHING = re.compile(r".*", re.DOTALL)
FENCE = "```"


def with_left_over_tokens(states: States, *closing: str) -> States:
    """Closing markers that are tokens: they are markup wherever they stand in text, but in a sentence about them."""
    made = _closed(states, closing, empty=State.CLOSED)
    text = made[State.PROSE]
    assert isinstance(text, Prose)
    tokens = {marker: Transition(State.LEFT_OVER_TOKEN) for marker in closing if marker not in text.transitions}
    return {
        **_given_back(made, text, closing),
        State.PROSE: replace(text, transitions={**text.transitions, **tokens}),
        State.LEFT_OVER_TOKEN: replace(left_over_gap({**_openers(states, text), **tokens}), hides_markers=True),
    }


def with_left_over_tags(states: States, *closing: str) -> States:
    """Closing tags that may stand in prose as well: one is markup where its line ends behind it, unless the text has
    spoken of an opening tag before."""
    made = _closed(states, closing, empty=State.LEFT_OVER)
    text = made[State.PROSE]
    assert isinstance(text, Prose)
    left_over = {marker: Transition(State.LEFT_OVER) for marker in closing}
    return {
        **_given_back(made, text, closing),
        State.PROSE: replace(text, transitions={**text.transitions, **left_over}),
        State.LEFT_OVER: left_over_gap({**_openers(states, text), **left_over}),
    }


def _openers(states: States, text: Prose) -> Transitions:
    return {marker: to for marker, to in text.transitions.items() if not isinstance(states.get(to.to), Prose | None)}


def _closed(states: States, closing: tuple[str, ...], *, empty: StateName) -> States:
    """Behind the end of a call its closing tags may come again; `empty` is the state behind a section without one."""

    def closed_behind(rules: Rules) -> Rules:
        if isinstance(rules, Prose | Body):
            return rules
        behind_call = isinstance(rules, Gap) and rules.behind is Behind.CALL
        transitions = {
            marker: redirected(transition, State.CLOSED if behind_call or transition.ends_call else empty)
            if marker in closing and transition.to is State.PROSE
            else transition
            for marker, transition in rules.transitions.items()
        }
        return replace(rules, transitions=transitions)

    again = {marker: Transition(State.CLOSED) for marker in closing}
    # White space behind it belongs to the text that follows, if any does.
    closed = Gap(again, junk=_NOTHING, behind=Behind.CALL)
    return {**{name: closed_behind(rules) for name, rules in states.items()}, State.CLOSED: closed}


def _given_back(states: States, text: Prose, closing: tuple[str, ...]) -> States:
    """What turns out to be no call has said an opening tag: the closing ones behind it are text too."""
    said = dict.fromkeys(closing, Transition(State.TAG_SAID, Marker.SHOWN))
    made = {name: _says_tag(rules) for name, rules in states.items()}
    return {State.TAG_SAID: replace(text, transitions={**text.transitions, **said}), **made}


def _says_tag(rules: Rules) -> Rules:
    if not isinstance(rules, Gap | Name | Body) or rules.otherwise is not State.PROSE or rules.hides_markers:
        return rules
    if (isinstance(rules, Gap) and rules.behind is not Behind.PART) or (
        isinstance(rules, JsonCall) and rules.offered_only
    ):
        return rules
    return replace(rules, otherwise=State.TAG_SAID)


# A fence right around calls


def with_fences(states: States) -> States:
    """A code block that is nothing but calls between tags: its fence is markup at both ends. Any other stays."""
    text = states[State.PROSE]
    assert isinstance(text, Prose)
    openers = {
        marker: transition
        for marker, transition in text.transitions.items()
        if transition.marker is Marker.MARKUP and _is_opener(states[transition.to])
    }
    fenced_openers = {marker: replace(to, to=_fenced(to.to)) for marker, to in openers.items()}
    inside = {name: _in_fence(states[name], fenced_openers) for name in _reached(states, openers)}
    made: States = {**states, **{_fenced(name): rules for name, rules in inside.items()}}
    made[State.IN_FENCE] = Gap(fenced_openers, otherwise=State.CODE)
    header = states.get(State.FENCE)
    routes: Routes = ((_LANGUAGE, State.IN_FENCE), (_ANYTHING, State.CODE))
    if isinstance(header, Header):
        ((call_fence, calls), _) = header.routes
        brackets = {bracket: Transition(calls, Marker.KEPT) for bracket in "{["}
        made[State.IN_CALL_FENCE] = Gap({**fenced_openers, **brackets}, otherwise=State.CODE)
        routes = ((call_fence, State.IN_CALL_FENCE), *routes)
    else:
        header = Header({"\n": Transition(State.CODE), FENCE: Transition(State.PROSE, Marker.SHOWN)}, hidden=False)
        begins = {FENCE: Transition(State.FENCE, line_start=True)}
        for name, rules in states.items():
            if isinstance(rules, Prose) and rules.sink is Sink.CONTENT:
                made[name] = replace(rules, transitions={**rules.transitions, **begins})
    for name, rules in states.items():
        if isinstance(rules, Gap) and rules.behind is Behind.TEXT and isinstance(name, tuple):
            made[name] = replace(rules, otherwise=State.FENCE)  # the end of a fence that may begin a code block
    at_once = {marker: Transition(State.CODE, Marker.KEPT) for marker in openers}
    made[State.FENCE] = replace(header, transitions={**header.transitions, **at_once}, routes=routes)
    code = states.get(State.CODE)
    closes_thinking = {
        marker: transition for marker, transition in text.transitions.items() if transition == Transition(State.PROSE)
    }
    own = code.transitions if isinstance(code, Prose) else closes_thinking
    made[State.CODE] = Prose({FENCE: Transition(State.PROSE, Marker.SHOWN), **openers, **own})
    return _with_said_tag(made)


_AROUND_CODE = (State.FENCE, State.IN_FENCE, State.IN_CALL_FENCE, State.FENCED_CALL, State.CODE)


def _with_said_tag(states: States) -> States:
    """A code block in a text that speaks of an opening tag: behind it the text still does."""
    text = states.get(State.TAG_SAID)
    if not isinstance(text, Prose):
        return states

    def own(name: StateName) -> StateName:
        if name in _AROUND_CODE:
            return (name, "in a text that speaks of a tag")
        return State.TAG_SAID if name is State.PROSE else name

    def own_rules(rules: Rules) -> Rules:
        if isinstance(rules, Body):
            return replace(rules, otherwise=own(rules.otherwise))
        transitions = {marker: replace(to, to=own(to.to)) for marker, to in rules.transitions.items()}
        if isinstance(rules, Gap):
            return replace(rules, transitions=transitions, otherwise=own(rules.otherwise))
        if isinstance(rules, Header):
            routes = tuple((pattern, own(to)) for pattern, to in rules.routes)
            return replace(rules, transitions=transitions, routes=routes, otherwise=own(rules.otherwise))
        return replace(rules, transitions=transitions)

    made = {own(name): own_rules(states[name]) for name in _AROUND_CODE if name in states}
    fences = {marker: replace(to, to=own(to.to)) for marker, to in text.transitions.items() if to.to is State.FENCE}
    return {**states, State.TAG_SAID: replace(text, transitions={**text.transitions, **fences}), **made}


def _reached(states: States, openers: Transitions) -> set[StateName]:
    """All states of a call, from the markers that open one."""
    reached: set[StateName] = set()
    ahead = {transition.to for transition in openers.values()}
    while ahead:
        name = ahead.pop()
        if name not in reached and not _is_text(name):
            reached.add(name)
            ahead |= states[name].targets()
    return reached


def _is_opener(rules: Rules) -> bool:
    return not isinstance(rules, Prose | Header) and not (isinstance(rules, Gap) and rules.behind is not Behind.PART)


def _fenced(name: StateName) -> StateName:
    return (name, FENCE)


def _in_fence(rules: Rules, openers: Transitions) -> Rules:
    """The same in a fence, whose end may follow a call."""
    if isinstance(rules, Body):
        return replace(rules, then=_fenced(rules.then), otherwise=_out_of_call(rules.otherwise))
    transitions = {
        marker: transition if _is_text(transition.to) else redirected(transition, _fenced(transition.to))
        for marker, transition in rules.transitions.items()
    }
    in_call = any(transition.ends_call for transition in transitions.values())
    if isinstance(rules, Gap) and rules.behind is Behind.CALL and not in_call:
        junk = WHITE_SPACE if rules.junk is _NOTHING else rules.junk
        return replace(rules, transitions={**openers, **transitions, FENCE: Transition(State.PROSE)}, junk=junk)
    if isinstance(rules, Gap | Name):
        return replace(rules, transitions=transitions, otherwise=_out_of_call(rules.otherwise))
    return replace(rules, transitions=transitions)


_TEXT = frozenset({State.PROSE, State.THINKING, State.TAG_SAID, State.LEFT_OVER, State.LEFT_OVER_TOKEN, State.CODE})


def _is_text(name: StateName) -> bool:
    return name in _TEXT


def _out_of_call(name: StateName) -> StateName:
    return State.CODE if _is_text(name) else _fenced(name)
