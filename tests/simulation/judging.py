"""What may come of an exchange: what its client and its backend get, and nothing of any other's."""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass, replace
from typing import Any

import orjson

from extproc.config.backend import BATCH_PRIORITY
from extproc.conformance.host.outcome import Ending, Outcome
from extproc.conformance.host.settings import HttpMessage
from extproc.names import FALLBACK_HEADER, MODEL_HEADER
from tests.simulation.checking import check
from tests.simulation.configurations import ALIASES, upstream_of
from tests.simulation.plans import Fate, Plan
from tests.test_dialects import of_stream, of_whole

MARKER = re.compile(rb"mark\d{4}mark")
_CLEAN_ENDS = (b"data: [DONE]", b"event: message_stop", b"event: response.completed")
_ERRORS = (b'"error"', b"event: error", b"event: response.failed")
_BROKEN = (Ending.REFUSED, Ending.BROKEN_OFF, Ending.CUT, Ending.ERROR)
_SLACK = 1e-6


@dataclass(frozen=True, slots=True)
class Seen:
    """What happened around an exchange."""

    version: int
    """The configuration that it went by."""
    seconds: float
    """Since it began."""
    comes_in: bool = True
    """Its key was one of those in force."""
    lost: bool = False
    """A worker that had it died, or had others for too long."""
    cut: bool = False
    """The processor was stopped, and its time was over."""
    asked_again: bool = False
    forbidden: bool = False
    """Its client's team may not ask the model."""
    counted: bool = False
    """All answers are read for what they cost."""


def judge(plan: Plan, outcome: Outcome, seen: Seen) -> None:
    """Raises WrongError unless it is as it has to be."""
    for message in (outcome.upstream, outcome.client):
        if message is not None:
            only_own(plan, _plain(message))
    if outcome.closed is not None and outcome.closed.status != "OK":
        _check_closed(plan, outcome.closed.status, seen)
        if outcome.ending in _BROKEN:
            return
        check({one.id for one in outcome.violations} <= {"INV-23"}, f"the protocol is broken: {outcome.violations}")
    else:
        check(not outcome.violations, f"the protocol is broken: {outcome.violations}")
    if outcome.ending is Ending.IMMEDIATE and _may_be_refused(plan, outcome.status, seen):
        return
    if not seen.comes_in:
        check(False, f"a client without a key comes in: {outcome.ending}")
    check(not seen.forbidden, f"a team asks what it may not: {outcome.ending}, {outcome.status}")
    match plan.fate:
        case Fate.CUT | Fate.STALLED:  # and what was to fall silent, and had but one piece
            _cut(plan, outcome, seen)
        case Fate.REFUSED:
            check(outcome.ending is Ending.IMMEDIATE, f"a wrong request is {outcome.ending}")
            check(outcome.status == 400, f"a wrong request has status {outcome.status}")
        case _:  # who was to leave, and came too late, is among them
            _whole(plan, outcome, seen)


def only_own(plan: Plan, body: bytes) -> None:
    """Nothing of another exchange is in it."""
    check(set(MARKER.findall(body)) <= {plan.marker}, f"another's words are in it: {MARKER.findall(body)}")


def not_as_if_whole(plan: Plan, body: bytes) -> None:
    """A stream that was cut says so: it has an error, and no end of its dialect."""
    check(any(error in body for error in _ERRORS), "a stream that was cut names no error")
    clean = _CLEAN_ENDS[1:] if plan.dialect == "chat" else _CLEAN_ENDS  # which has its [DONE] behind an error
    check(not any(end in body for end in clean), "a stream that was cut ends as if it were whole")
    check(b'"finish_reason":"stop"' not in body, "a stream that was cut has a finish_reason")
    only_own(plan, body)


def heard(plan: Plan, client: HttpMessage) -> tuple[str, list[tuple[str, Any]]]:
    """Text and calls as the client has them."""
    said = (of_stream if plan.stream else of_whole)(plan.dialect, _plain(client))
    return said.text, said.calls


def _check_closed(plan: Plan, status: str, seen: Seen) -> None:
    match status:
        case "DEADLINE_EXCEEDED":
            check(plan.deadline is not None, "a deadline that there isn't has passed")
            check(seen.seconds >= (plan.deadline or 0) - _SLACK, f"the deadline passes after {seen.seconds} s")
        case "UNAVAILABLE":
            check(seen.cut, "a call is ended by a processor that isn't stopped, or had to wait for it")
        case _:
            check(False, f"a call ends with {status}")


def _may_be_refused(plan: Plan, status: int | None, seen: Seen) -> bool:
    if not seen.comes_in:
        check(status == 401, f"a client without a key gets {status}")
        return True
    if seen.forbidden and status == 404:
        return True
    if status == 429:
        return plan.team is not None  # which its team has a say in
    if not plan.layout.ours and status == 503:
        return True  # clients that leave look as if the host ignored overrides
    return plan.heavy is not None and seen.lost and status in (413, 502, 503)


def _whole(plan: Plan, outcome: Outcome, seen: Seen) -> None:
    check(outcome.ending in (Ending.COMPLETE, Ending.LEFT), f"{outcome.ending}, {outcome.closed}, {outcome.trace}")
    client, upstream = outcome.client, outcome.upstream
    assert client is not None
    assert upstream is not None
    asked = orjson.loads(upstream.body)
    version = seen.version
    check_priority(plan, asked)
    check(plan.marker in upstream.body, "the backend isn't asked what the client asks")
    known = {upstream_of(model, version) for model in (ALIASES[plan.alias][0] if plan.alias else (plan.mode,))}
    if plan.alias is not None:
        known |= {upstream_of(model, version) for model in ALIASES[plan.alias][1]}
    check(asked["model"] in known, f"it goes by another configuration: {asked['model']} for {' or '.join(known)}")
    if plan.trouble is not None:
        check(outcome.status == 503, f"a backend that doesn't answer has status {outcome.status}")
        check(any(error in client.body for error in _ERRORS), "a backend that doesn't answer is no error")
        return
    if (plan.rewritten or seen.counted) and not plan.layout.rewrites:
        check((outcome.status or 0) >= 500, f"what can't be rewritten goes to the client with {outcome.status}")
        return
    check(outcome.status == 200, f"status {outcome.status}")
    text, calls = heard(plan, client)
    said = plan.said
    if plan.second is not None:
        check(seen.asked_again, "a demanded call isn't asked for once more, or an answer with a made-up one")
        said = plan.again if plan.second_helps else said
    check(text.strip() == said.text.strip(), f"its text is {text!r} for {said.text!r}")
    check(calls == list(said.calls), f"its calls are {calls} for {said.calls}")


def _without_length(message: HttpMessage) -> list[tuple[str, bytes]]:
    return [field for field in message.headers if field[0] != "content-length"]


def check_priority(plan: Plan, asked: dict[str, Any]) -> None:
    """Of what a backend is asked."""
    expected = BATCH_PRIORITY if plan.team is not None else None
    check(asked.get("priority") == expected, f"{plan.client}'s request has the priority {asked.get('priority')}")


def _plain(message: HttpMessage) -> bytes:
    return gzip.decompress(message.body) if message.first("content-encoding") == b"gzip" else message.body


def _as_said(client: HttpMessage | None) -> HttpMessage | None:
    """Without what the processor says of the alias."""
    if client is None:
        return None
    told = (MODEL_HEADER, FALLBACK_HEADER)
    return replace(client, headers=tuple(field for field in client.headers if field[0] not in told))


def _cut(plan: Plan, outcome: Outcome, seen: Seen) -> None:
    client, response = _as_said(outcome.client), plan.exchange.response
    if outcome.upstream is not None:
        check_priority(plan, orjson.loads(outcome.upstream.body))
    passes = outcome.ending is Ending.LEFT or (client is not None and client == response)
    shown = seen.counted or not plan.layout.ours  # though nothing of it is to be changed, but its length
    if not passes and client is not None and shown and not plan.rewritten and outcome.status == 200:
        passes = client.body == response.body and _without_length(client) == _without_length(response)
    if passes:
        check(plan.dialect == "chat", "an answer that is translated passes by")
        return  # what the processor has no part in is as it came
    check(client is not None, f"{outcome.ending}")
    assert client is not None
    if plan.stream and (outcome.status or 0) < 500:
        not_as_if_whole(plan, client.body)
    else:
        check((outcome.status or 0) >= 500, f"half an answer has status {outcome.status}")
