"""What the suite makes of servers that break in ways of their own, and of those that are right in unusual ways."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import NoReturn

import pytest

from extproc.conformance.cases import CASES
from extproc.conformance.cases.case import Case, Session
from extproc.conformance.cases.case import judged as judge_outcome
from extproc.conformance.cases.mutating import _decodable
from extproc.conformance.driver import DirectLink, Link
from extproc.conformance.faults import FAULTS
from extproc.conformance.faults import Broken as Faulty
from extproc.conformance.host.outcome import Closed, Ending, Outcome
from extproc.conformance.host.settings import BodyMode, HostSettings, HttpMessage
from extproc.conformance.invariants import Level, Violation
from extproc.conformance.pings import pings
from extproc.conformance.recipe import Recipe
from extproc.conformance.reference import Reference, body_reply, streamed
from extproc.conformance.runner import at_home, judge
from extproc.conformance.verdicts import Finding, Verdict
from extproc.wire import BodyMutation, ProcessingRequest, ProcessingResponse
from tests.conformance_servers import FULL, Broken, Seen, crash, silent
from tests.test_conformance_cases import RECIPE


def judged(id_: str, session: Session) -> Finding:
    [case] = [case for case in CASES if case.id == id_]
    return asyncio.run(case.judge(session))


def refused(_: object) -> list[ProcessingResponse | Closed]:
    return [Closed("FAILED_PRECONDITION", "not here")]


def session(make: Callable[[], Reference]) -> Session:
    return Session(RECIPE, lambda: DirectLink(make()))


@pytest.mark.parametrize(("rests", "seconds"), [(False, "0.01"), (True, "0.03")])
def test_a_case_that_takes_too_long_is_told_its_time(rests: bool, seconds: str) -> None:
    async def forever(_: Session) -> NoReturn:
        await asyncio.Event().wait()
        raise AssertionError

    case = Case("LIV-00", Level.MUST, "a title", "a source", forever, rests=rests)
    recipe = replace(RECIPE, limits=replace(RECIPE.limits, case=0.01, silence=0.02))
    result = asyncio.run(judge(case, Session(recipe, lambda: DirectLink(Reference()))))
    assert result.finding == Finding(Verdict.FAIL, f"isn't over in {seconds} seconds")


class Sulking(DirectLink):
    """To a server that answers every call with INTERNAL once one was cancelled in the middle."""

    sulks = False

    def cancel(self) -> None:
        Sulking.sulks |= self._over is None
        super().cancel()

    async def send(self, message: object) -> None:
        if self.sulks:
            self._take([Closed("INTERNAL")])
        else:
            await super().send(message)  # type: ignore[arg-type]


def test_a_server_that_breaks_for_good_is_not_taken_for_one_that_refuses() -> None:
    def opened() -> Link:
        return Sulking(Reference())

    assert judged("LIV-02", Session(RECIPE, opened)).verdict is Verdict.FAIL
    for id_, wanted in {
        "LIV-02": "FAIL",
        "LIV-04": "FAIL",
        "LIV-13": "FAIL",
        "UNK-01": "FAIL",
        "UNK-03": "WARN",
    }.items():
        found = judged(id_, session(lambda: Broken(lambda _: True, crash)))
        assert (id_, found.verdict.value) == (id_, wanted), found


def test_a_layout_that_is_refused_is_no_failure_of_what_else_is_tried() -> None:
    refusing = session(lambda: Broken(lambda _: True, refused))
    for id_ in ("LIV-02", "LIV-04", "UNK-01", "UNK-03"):
        found = judged(id_, refusing)
        assert (found.verdict, found.reason) == (Verdict.SKIP, "the layout is refused: FAILED_PRECONDITION: not here")


def test_a_server_that_dies_fails_a_case_and_the_run_goes_on() -> None:
    async def dies(_: Session) -> NoReturn:
        raise ConnectionRefusedError(111, "Connection refused")

    found = asyncio.run(judge(Case("X-01", Level.MUST, "", "", dies), session(Reference)))
    assert (found.verdict, found.finding.reason) == (Verdict.FAIL, "[Errno 111] Connection refused")
    assert (asyncio.run(pings("127.0.0.1:1", "/", 1, 0.01)) or "").startswith("no connection: ")
    assert (asyncio.run(pings("unix:/nobody/there", "/", 1, 0.01)) or "").startswith("no connection: ")


def test_an_exchange_that_the_host_ends_with_an_error_is_a_failure_whatever_was_broken() -> None:
    fault = next(fault for fault in FAULTS if fault.invariant == "INV-18")
    found = judged("LAY-06", Session(RECIPE, lambda: DirectLink(Faulty(fault))))
    assert (found.verdict, found.broken) == (Verdict.FAIL, ("INV-18",))
    lost = Outcome(Ending.HUNG, None, None, (Violation("INV-25", "a mutation"),))
    found = judge_outcome(lost, session(Reference), HostSettings(), odd=False, may_answer=False, claimed=False)
    assert (found.verdict, found.broken) == (Verdict.FAIL, ("INV-25",))
    assert found.reason.startswith("ends as hung; INV-25: a mutation")


def test_what_no_envoy_sends_is_at_most_warned_of() -> None:
    """A reply is missing to the empty body of END-06, and one too many comes to the second end of END-11."""

    def silent_at_the_second(seen: Seen) -> bool:
        return seen.kind.endswith("_body") and seen.kind in seen.kinds

    for id_, what in {"END-06": silent, "END-11": lambda _: [body_reply("request", streamed(b"", end=True))]}.items():
        found = judged(id_, session(lambda what=what: Broken(silent_at_the_second, what)))  # type: ignore[misc]
        assert (id_, found.verdict) == (id_, Verdict.WARN), found
        assert found.broken
        refused = judged(id_, session(lambda: Broken(silent_at_the_second, lambda _: [Closed("INVALID_ARGUMENT")])))
        assert (id_, refused.verdict) == (id_, Verdict.PASS)


def test_a_server_may_leave_once_it_has_mutated() -> None:
    """Its recipe says what becomes of the request; of the response it has seen nothing."""
    mutated = replace(RECIPE.mutated, response_body=None) if RECIPE.mutated else None
    recipe = replace(RECIPE, mutated=mutated)

    def leaving(seen: Seen) -> bool:
        return seen.kind == "request_body" and FULL not in seen.modes and seen.message.request_body.end_of_stream

    for id_ in ("MUT-03", "MUT-13"):
        leaves = Session(recipe, lambda: DirectLink(Broken(leaving, lambda replies: [*replies, Closed("OK")])))
        assert judged(id_, leaves).verdict is Verdict.PASS
        early = Session(recipe, lambda: DirectLink(Broken(leaving, lambda _: [Closed("OK")])))
        found = judged(id_, early)
        assert (found.verdict, "the request's body isn't what" in found.reason) == (Verdict.FAIL, True), found


class Picker(Reference):
    """As endpoint pickers do: full duplex and nothing else, and headers are answered with the body's end."""

    def __init__(self) -> None:
        super().__init__()
        self._held: list[ProcessingResponse | Closed] = []

    def receive(self, message: ProcessingRequest) -> list[ProcessingResponse | Closed]:
        replies = super().receive(message)
        if self.over:
            return replies
        kind = str(message.WhichOneof("request"))
        if kind.endswith("_trailers") or getattr(message, kind).end_of_stream:
            held, self._held = self._held, []
            return [*held, *replies]
        self._held += replies
        return []


def lodged(recipe: Recipe, make: Callable[[], Reference]) -> Session:
    return asyncio.run(at_home(Session(recipe, lambda: DirectLink(make()))))


def test_home_is_where_the_server_works_and_what_it_claims_before_all() -> None:
    """A server that knows full duplex alone, and refuses nothing: elsewhere its replies are wrong."""

    assert lodged(RECIPE, lambda: Picker()).home.layout == "FULL_DUPLEX_STREAMED/FULL_DUPLEX_STREAMED"
    claiming = replace(RECIPE, layouts=("STREAMED/NONE", "STREAMED/STREAMED"))
    assert lodged(claiming, Reference).home.layout == "STREAMED/STREAMED", "a baseline before the others"
    assert lodged(replace(RECIPE, layouts=("STREAMED/NONE",)), Reference).home.layout == "STREAMED/NONE"
    assert lodged(RECIPE, Reference).home.layout == "BUFFERED/BUFFERED"
    lost = lodged(RECIPE, lambda: Broken(lambda _: True, silent))
    assert (lost.home.layout, lost.fails) == ("BUFFERED/BUFFERED", "timeout")
    dead = lodged(RECIPE, lambda: Broken(lambda _: True, crash))
    assert dead.fails == "refused"


def test_an_endpoint_picker_in_full_duplex_fails_nothing() -> None:
    class Choosy(Picker):
        """Refuses what it can't do."""

        def receive(self, message: ProcessingRequest) -> list[ProcessingResponse | Closed]:
            told = message.protocol_config
            if not self.began and {int(told.request_body_mode), int(told.response_body_mode)} != {FULL}:
                return [Closed("FAILED_PRECONDITION", "full duplex alone")]
            return super().receive(message)

    picking = lodged(RECIPE, Choosy)
    found = {case.id: asyncio.run(case.judge(picking)) for case in CASES if case.profile == "core" and not case.layout}
    bad = {id_: finding.reason for id_, finding in found.items() if finding.verdict in (Verdict.FAIL, Verdict.WARN)}
    assert bad == {}
    for id_ in ("LIV-01", "LIV-02", "LIV-04", "LIV-13"):
        assert found[id_].verdict is Verdict.PASS, found[id_]


class Abrupt(Reference):
    """Ends the call with an error behind its own answer, whatever is on its way."""

    def receive(self, message: ProcessingRequest) -> list[ProcessingResponse | Closed]:
        return [Closed("CANCELLED")] if self.over else super().receive(message)


def test_what_is_on_its_way_behind_an_answer_may_meet_any_end_of_the_call() -> None:
    assert judged("UNK-05", session(Abrupt)).verdict is Verdict.PASS
    buffered = Session(RECIPE, lambda: DirectLink(Broken(lambda seen: FULL in seen.modes, refused)))
    found = judged("UNK-05", buffered)
    assert (found.verdict, found.reason.partition(";")[0]) == (
        Verdict.SKIP,
        "STREAMED/STREAMED: it refuses by the headers: nothing else is on its way",
    )
    wrong = replace(RECIPE, refused=replace(RECIPE.refused, status=401)) if RECIPE.refused else RECIPE
    assert judged("UNK-05", Session(wrong, lambda: DirectLink(Reference()))).verdict is Verdict.FAIL


def test_a_large_body_that_is_not_shown_is_no_proof() -> None:
    unseen = replace(session(Reference), home=HostSettings(BodyMode.NONE, BodyMode.NONE))
    assert judged("MUT-09.1", unseen).verdict is Verdict.SKIP


def test_an_id_of_each_request_in_its_body_is_no_fault() -> None:
    ids = count()

    def numbered(replies: list[ProcessingResponse | Closed]) -> list[ProcessingResponse | Closed]:
        return [body_reply("request", BodyMutation(body=b'{"id": "%d"}' % next(ids))), *replies[1:]]

    assert judged("MUT-12", session(lambda: Broken(_at_the_body, numbered))).verdict is Verdict.PASS


def _at_the_body(seen: Seen) -> bool:
    return seen.kind == "request_body"


def test_a_coding_of_the_servers_own_choice_is_left_alone() -> None:
    def coded(name: bytes) -> Outcome:
        return Outcome(Ending.COMPLETE, None, HttpMessage((("content-encoding", name),), (b"other bytes",)))

    exchange = RECIPE.passes
    assert _decodable(coded(b"br"), exchange, session(Reference)) is None
    assert _decodable(coded(b"gzip"), exchange, session(Reference)) == "the body says gzip, and isn't"
    assert _decodable(coded(b"deflate"), exchange, session(Reference)) == "the body says deflate, and isn't"
