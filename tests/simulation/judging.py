"""What may come of an exchange: what its client and its backend get, and nothing of any other's."""

from __future__ import annotations

import re
from typing import Any

import orjson

from extproc.conformance.host.outcome import Ending, Outcome
from extproc.conformance.host.settings import HttpMessage
from tests.simulation.plans import Fate, Plan
from tests.test_dialects import of_stream, of_whole

_MARKER = re.compile(rb"mark\d{4}mark")
_CLEAN_ENDS = (b"data: [DONE]", b"event: message_stop", b"event: response.completed")
_ERRORS = (b'"error"', b"event: error", b"event: response.failed")


class WrongError(AssertionError):
    """Something came of a history that may not."""


def check(right: object, what: str) -> None:
    if not right:
        raise WrongError(what)


def judge(plan: Plan, outcome: Outcome, version: int) -> None:
    """Raises WrongError unless it is as it has to be. `version`: the configuration that it went by."""
    check(not outcome.violations, f"the protocol is broken: {outcome.violations}")
    match plan.fate:
        case Fate.WHOLE | Fate.GONE:  # who was to leave, and came too late
            _whole(plan, outcome, version)
        case Fate.CUT | Fate.STALLED:  # and what was to fall silent, and had but one piece
            _cut(plan, outcome)
        case Fate.REFUSED:
            check(outcome.ending is Ending.IMMEDIATE, f"a wrong request is {outcome.ending}")
            check(outcome.status == 400, f"a wrong request has status {outcome.status}")
    for message in (outcome.upstream, outcome.client):
        if message is not None:
            only_own(plan, message.body)


def only_own(plan: Plan, body: bytes) -> None:
    """Nothing of another exchange is in it."""
    check(set(_MARKER.findall(body)) <= {plan.marker}, f"another's words are in it: {_MARKER.findall(body)}")


def not_as_if_whole(plan: Plan, body: bytes) -> None:
    """A stream that was cut says so: it has an error, and no end of its dialect."""
    check(any(error in body for error in _ERRORS), "a stream that was cut names no error")
    clean = _CLEAN_ENDS[1:] if plan.dialect == "chat" else _CLEAN_ENDS  # which has its [DONE] behind an error
    check(not any(end in body for end in clean), "a stream that was cut ends as if it were whole")
    check(b'"finish_reason":"stop"' not in body, "a stream that was cut has a finish_reason")
    only_own(plan, body)


def _whole(plan: Plan, outcome: Outcome, version: int) -> None:
    check(outcome.ending in (Ending.COMPLETE, Ending.LEFT), f"{outcome.ending}, {outcome.closed}")
    client, upstream = outcome.client, outcome.upstream
    assert client is not None
    assert upstream is not None
    asked = orjson.loads(upstream.body)
    check(plan.marker in upstream.body, "the backend isn't asked what the client asks")
    check(asked["model"] == f"m{version}", f"it goes by another configuration: {asked['model']} for m{version}")
    check(outcome.status == 200, f"status {outcome.status}")
    text, calls = _heard(plan, client)
    check(text.strip() == plan.content.strip(), f"its text is {text!r} for {plan.content!r}")
    expected = [("look", plan.call)] if plan.call is not None else []
    check(calls == expected, f"its calls are {calls} for {expected}")


def _heard(plan: Plan, client: HttpMessage) -> tuple[str, list[tuple[str, Any]]]:
    heard = (of_stream if plan.stream else of_whole)(plan.dialect, client.body)
    return heard.text, heard.calls


def _cut(plan: Plan, outcome: Outcome) -> None:
    if outcome.ending is Ending.LEFT or (outcome.client is not None and outcome.client == plan.exchange.response):
        check(plan.dialect == "chat", "an answer that is translated passes by")
        return  # what the processor has no part in is as it came
    client = outcome.client
    check(client is not None, f"{outcome.ending}")
    assert client is not None
    if plan.stream:
        not_as_if_whole(plan, client.body)
    else:
        check((outcome.status or 0) >= 500, f"half an answer has status {outcome.status}")
