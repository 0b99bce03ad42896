"""The conformance suite proves itself: a reference keeps every invariant, each small misbehaviour breaks its own."""

from __future__ import annotations

import asyncio
from itertools import product

import pytest

from extproc.conformance.checks import Place, content
from extproc.conformance.driver import DirectLink, play
from extproc.conformance.faults import FAULTS, Broken, Fault, exchange
from extproc.conformance.host.outcome import Closed, Ending, Outcome
from extproc.conformance.host.settings import BodyMode, HostSettings, HttpExchange
from extproc.conformance.invariants import INVARIANTS, Level
from extproc.conformance.reference import REFUSAL, SUFFIX, Reference, set_headers
from extproc.wire import HeadersResponse, ProcessingResponse

NONE, STREAMED, BUFFERED, PARTIAL, FULL = BodyMode
LAYOUTS = list(product(BodyMode, BodyMode))


def played(settings: HostSettings, what: HttpExchange, processor: Reference | Broken) -> Outcome:
    return asyncio.run(play(settings, what, DirectLink(processor)))


@pytest.mark.parametrize("trailers", [False, True])
@pytest.mark.parametrize(("request_body", "response_body"), LAYOUTS)
def test_the_reference_breaks_nothing_and_changes_nothing(
    request_body: BodyMode, response_body: BodyMode, trailers: bool
) -> None:
    what = exchange(trailers=trailers)
    outcome = played(HostSettings(request_body, response_body), what, Reference())
    assert (outcome.ending, outcome.violations, outcome.closed) == (Ending.COMPLETE, (), Closed("OK"))
    assert outcome.upstream is not None
    assert outcome.client is not None
    assert outcome.upstream.body == what.request.body
    assert outcome.client.body == what.response.body
    assert outcome.client.all("set-cookie") == [b"a=1", b"b=2"]
    assert (outcome.upstream.trailers, outcome.client.trailers) == (what.request.trailers, what.response.trailers)


@pytest.mark.parametrize(("request_body", "response_body"), LAYOUTS)
def test_the_reference_mutates_where_it_is_shown_a_body(request_body: BodyMode, response_body: BodyMode) -> None:
    what = exchange("mutate")
    outcome = played(HostSettings(request_body, response_body), what, Reference())
    assert outcome.violations == ()
    assert outcome.upstream is not None
    assert outcome.client is not None
    assert outcome.upstream.body == what.request.body + (b"" if request_body is NONE else SUFFIX)
    assert outcome.client.body == what.response.body + (b"" if response_body is NONE else SUFFIX)


def test_the_reference_refuses() -> None:
    outcome = played(HostSettings(), exchange("refuse"), Reference())
    assert (outcome.ending, outcome.status, outcome.upstream, outcome.violations) == (
        Ending.IMMEDIATE,
        REFUSAL,
        None,
        (),
    )


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_breaks_its_own_invariant_and_no_other(fault: Fault) -> None:
    outcome = played(fault.settings, fault.exchange, Broken(fault))
    assert [violation.id for violation in outcome.violations] == [fault.invariant], outcome
    assert outcome.ending is fault.ending


def test_each_invariant_has_a_fault() -> None:
    assert {fault.invariant for fault in FAULTS} == {invariant.id for invariant in INVARIANTS}


@pytest.mark.parametrize(("set_", "removed", "broken"), [(60, 60, 0), (100, 100, 0), (101, 0, 1), (0, 101, 1)])
def test_headers_that_are_set_and_removed_are_counted_apart(set_: int, removed: int, broken: int) -> None:
    reply = ProcessingResponse(request_headers=HeadersResponse())
    mutation = reply.request_headers.response.header_mutation
    mutation.MergeFrom(set_headers((f"x-{at}", b"1") for at in range(set_)))
    mutation.remove_headers.extend(f"y-{at}" for at in range(removed))
    found = list(content(reply, Place("request", BUFFERED, HostSettings(), client_has_headers=False)))
    assert [violation.id for violation in found] == ["INV-18"] * broken


def test_what_envoy_ignores_and_goes_on_is_no_must() -> None:
    ignored = [each for each in INVARIANTS if each.consequence.startswith("ignored")]
    assert [each.id for each in ignored if each.level is Level.MUST] == []
    assert {"INV-14", "INV-15", "INV-19", "INV-21"} <= {each.id for each in ignored}
