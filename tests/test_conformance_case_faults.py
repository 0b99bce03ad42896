"""Each case of the catalogue has a broken server that it catches: the reference with one fault, in what the case is
about.

A fault is caught by its own case and, where they play the same situation, by those named beside it, and by no other.
The layouts differ: a server that is broken in one of them is caught by whatever is played there, and of the matrix by
that one case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from extproc.conformance.cases import CASES
from extproc.conformance.cases.case import Case, Session
from extproc.conformance.host.settings import BodyMode
from extproc.conformance.reference import HEADER, LARGEST, Reference, body_reply, set_headers, streamed
from extproc.conformance.verdicts import Finding, Verdict
from extproc.wire import HeaderValueOption, ProcessingRequest, ProcessingResponse
from tests.conformance_servers import (
    BUFFERED,
    FULL,
    NONE,
    PARTIAL,
    STREAMED,
    Answers,
    Believes,
    Broken,
    CancelLink,
    Codes,
    Ends,
    FirstMember,
    FrailLink,
    Keeps,
    Repeats,
    Seen,
    Sick,
    What,
    When,
    Wishes,
    alternating,
    crash,
    edited,
    headers_of,
    leaking,
    silent,
    twice,
)
from tests.test_conformance_cases import RAW_TEXT, RECIPE

_SLOW = {"END-14", "MUT-09.1", "MUT-09.5", "MUT-09.30", "MUT-10"}
"""Played with the servers that are theirs alone."""
_EVERY = [case for case in CASES if case.profile != "openai"]


@dataclass(frozen=True)
class Fault:
    case: str
    make: Callable[[], Callable[[], Reference]]
    """Makes a server, which makes an exchange."""
    also: set[str] = field(default_factory=set)
    alone: bool = False
    """It depends on how many exchanges went before: only its own case is played."""


def when(case: str, at: When, what: What, *also: str) -> Fault:
    return Fault(case, lambda: lambda: Broken(at, what), set(also))


def kind(name: str) -> When:
    return lambda seen: seen.kind == name


def _ends(seen: Seen, *, full: bool) -> bool:
    if not seen.kind.endswith("_headers"):
        return False
    return getattr(seen.message, seen.kind).end_of_stream and (seen.mode() == FULL) is full


def _body_is(check: Callable[[Seen, bytes, bool], bool]) -> When:
    return lambda seen: (told := seen.body()) is not None and check(seen, *told)


def _status(*values: bytes) -> When:
    return lambda seen: seen.kind == "response_headers" and seen.headers("response").get(":status", [b""])[0] in values


def _length(seen: Seen) -> bool:
    told = seen.headers("response").get("content-length", [b"1"]) if seen.kind == "response_headers" else [b"1"]
    return len(told) > 1 or not told[0].isdigit()


def _one_cookie(reply: ProcessingResponse) -> None:
    mutation = set_headers([("set-cookie", b"b=2")])
    mutation.set_headers[0].append_action = HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
    reply.response_headers.response.header_mutation.MergeFrom(mutation)


def _success(reply: ProcessingResponse) -> None:
    reply.response_headers.response.header_mutation.MergeFrom(set_headers([(":status", b"200")]))


def _made_up(reply: ProcessingResponse) -> None:
    reply.response_headers.response.status = 1  # type: ignore[assignment]  # CONTINUE_AND_REPLACE
    reply.response_headers.response.body_mutation.body = b"made up"


def _unknown(seen: Seen) -> bool:
    """A field that it doesn't know: what is serialized again without it is shorter."""
    known = ProcessingRequest()
    known.CopyFrom(seen.message)
    known.DiscardUnknownFields()
    return bool(seen.kind) and known.ByteSize() != seen.message.ByteSize()


FAULTS = (
    Fault("LAY-25", lambda: lambda: Believes(NONE), {"LAY-26", "LAY-28"}),
    Fault("LAY-26", lambda: lambda: Believes(NONE), {"LAY-25", "LAY-28"}),
    Fault("LAY-27", lambda: lambda: Believes(FULL), {"LAY-25", "LAY-26", "LAY-28"}),
    when("LAY-28", lambda s: s.message.protocol_config.send_body_without_waiting_for_header_response, twice),
    when("LAY-29", lambda s: s.kind == "request_body" and not s.before, crash),
    when("LAY-30", lambda s: s.kind == "response_headers" and not s.before, crash),
    when("LAY-31", lambda s: s.kind == "response_body" and "response_headers" not in s.kinds, crash),
    when("LAY-32", lambda s: max(s.modes) > FULL, crash),
    when("LAY-33", lambda s: s.message.observability_mode, crash),
    when("END-01", lambda s: _ends(s, full=False), crash, "END-02", "MUT-07"),
    when("END-02", lambda s: _ends(s, full=True), crash, "MUT-07"),
    when("END-03", lambda s: s.kind == "request_trailers" and "request_body" in s.kinds, silent, "END-12"),
    when("END-04", lambda s: s.kind == "response_trailers" and "response_body" in s.kinds, silent, "END-12"),
    when(
        "END-05", lambda s: s.kind.endswith("_trailers") and s.kinds[-1:] == [f"{s.kind.split('_')[0]}_headers"], silent
    ),
    when(
        "END-06",
        _body_is(lambda s, body, end: s.mode() == BUFFERED and not body and end and s.kind in s.kinds),
        silent,
    ),
    when(
        "END-07",
        _body_is(lambda s, body, end: s.kind == "request_body" and not body and end and s.kind not in s.kinds),
        crash,
    ),
    when("END-08", _body_is(lambda s, body, end: not body and not end and s.kind == "request_body"), crash),
    when("END-09", _body_is(lambda s, body, end: not body and not end and s.kind == "response_body"), crash),
    when("END-10", _body_is(lambda _s, body, _end: len(body) == 1), crash),
    when(
        "END-11",
        _body_is(lambda s, body, end: s.mode() == FULL and end and not body and s.kind == "request_body" and s.ended()),
        lambda _: [body_reply("request", streamed(b"", end=True))],
    ),
    when(
        "END-13",
        _body_is(
            lambda s, body, _end: not body and s.headers("response").get("content-type") == [b"text/event-stream"]
        ),
        crash,
    ),
    when(
        "END-12",
        lambda s: (
            s.kind == "response_trailers"
            and any(each.HasField("response_body") and each.response_body.end_of_stream for each in s.before)
        ),
        silent,
    ),
    when("END-14", _body_is(lambda s, _body, _end: s.mode() == FULL and s.kinds.count("request_body") > 100), crash),
    when(
        "END-16",
        lambda s: (
            s.kind == "response_headers"
            and s.modes[0] in (BUFFERED, STREAMED)
            and s.kinds == ["request_headers"]
            and not s.before[0].request_headers.end_of_stream
        ),
        crash,
    ),
    when("END-17", _body_is(lambda s, _body, end: s.mode() == PARTIAL and not end), crash),
    when(
        "HDR-01",
        lambda s: (
            s.kind == "request_headers"
            and any(e.key == ":path" and not e.raw_value for e in s.message.request_headers.headers.headers)
        ),
        crash,
    ),
    when("HDR-02", lambda s: bool(s.message.attributes) and s.kind == "request_headers", crash),
    when(
        "HDR-04",
        lambda s: s.kind.endswith("_headers") and not headers_of(s.message, s.kind.split("_")[0]).headers.headers,
        crash,
    ),
    when(
        "HDR-05",
        lambda s: s.kind.endswith("_headers") and b"\xff\xfe" in s.headers(s.kind.split("_")[0]).get("x-odd", []),
        crash,
    ),
    when("HDR-06", _status(b"abc"), crash),
    when("HDR-07", _length, crash),
    when("HDR-08", lambda s: s.kind == "request_headers" and "X-Request-Id" in s.headers("request"), crash),
    when(
        "HDR-09", lambda s: s.kind == "response_headers" and "set-cookie" in s.headers("response"), edited(_one_cookie)
    ),
    Fault(
        "MUT-01",
        lambda: Keeps,
        {"MUT-07", "MUT-02", "MUT-04", "MUT-06", "MUT-08.404", "MUT-08.503", "MUT-13", "MUT-03", "MUT-05"},
    ),
    when(
        "MUT-02",
        lambda s: (
            s.kind == "request_body"
            and "x-conformance" in s.headers("request")
            and "content-length" not in s.headers("request")
        ),
        crash,
    ),
    when(
        "MUT-03",
        lambda s: (
            s.kind == "response_body"
            and s.modes == (BUFFERED, BUFFERED)
            and s.headers("request").get("x-conformance") == [b"mutate"]
            and "content-length" not in s.headers("response")
            and b"text/event-stream" not in s.headers("response").get("content-type", [])
        ),
        lambda _: [body_reply("response")],
    ),
    Fault("MUT-04", lambda: lambda: Codes(b"gzip"), {"MUT-06"}),
    Fault("MUT-05", lambda: lambda: Codes(b"x-unknown")),
    Fault("MUT-06", lambda: FirstMember),
    when("MUT-07", _status(b"304"), edited(_made_up)),
    when(
        "MUT-07",
        lambda s: s.kind == "response_headers" and s.headers("request").get(":method") == [b"HEAD"],
        edited(_made_up),
    ),
    when("MUT-08.404", _status(b"404"), edited(_success)),
    when("MUT-08.503", _status(b"503"), edited(_success)),
    when("MUT-09.1", _body_is(lambda _s, body, _end: 1 << 20 < len(body) < 2 << 20), crash),
    when("MUT-09.5", _body_is(lambda _s, body, _end: 5 << 20 < len(body) < 6 << 20), crash),
    when("MUT-09.30", _body_is(lambda _s, body, _end: 30 << 20 < len(body) < 31 << 20), crash),
    when("MUT-10", _body_is(lambda _s, body, _end: len(body) > LARGEST), crash),
    Fault("MUT-11", lambda: lambda: Wishes(lambda values: values.get(HEADER) != b"refuse")),
    when(
        "MUT-13",
        lambda s: (
            s.kind == "request_body"
            and s.modes[0] == PARTIAL
            and s.headers("request").get("x-conformance") == [b"mutate"]
        ),
        lambda _: [body_reply("request")],
    ),
    Fault("HDR-03", lambda: lambda: Wishes(lambda values: values.get(HEADER) == b"mutate" and ":path" in values)),
    Fault("MUT-12", alternating, alone=True),
    Fault("LIV-01", lambda: Ends, {"LAY-25", "LAY-33", "LIV-13"}),
    Fault("LIV-02", lambda: leaking(2, forgets=""), alone=True),
    Fault("LIV-02", lambda: leaking(2, forgets="response_body"), alone=True),
    Fault("LIV-02", lambda: leaking(1, forgets="response_trailers"), alone=True),
    Fault("LIV-04", lambda: leaking(32, forgets=None)),
    Fault("UNK-05", lambda: lambda: Answers("request")),
    Fault("UNK-06", lambda: lambda: Answers("response")),
    Fault("UNK-04", lambda: Repeats),
    when("UNK-01", _unknown, crash),
    when("UNK-02", lambda s: not s.kind, lambda _: [ProcessingResponse()]),
)


async def caught(make: Callable[[], Reference], cases: list[Case]) -> dict[str, Finding]:
    session = Session(RECIPE, lambda: CancelLink(make()))
    found = {case.id: await case.judge(session) for case in cases}
    return {id_: finding for id_, finding in found.items() if finding.verdict in (Verdict.FAIL, Verdict.WARN)}


_MATRIX = [case for case in _EVERY if case.layout]


@pytest.mark.parametrize("layout", [case.layout for case in _MATRIX])
def test_of_the_matrix_one_case_catches_a_server_that_is_broken_in_one_layout(layout: str) -> None:
    modes = tuple(int(BodyMode[name]) for name in layout.split("/"))
    found = asyncio.run(
        caught(lambda: Broken(lambda s: s.modes == modes and s.kind == "response_headers", twice), _MATRIX)
    )
    assert [case.layout for case in _MATRIX if case.id in found] == [layout]


_UNTOLD = {"LAY-21": (FULL, NONE), "LAY-22": (FULL, BUFFERED), "LAY-23": (STREAMED, FULL), "LAY-24": (FULL, STREAMED)}


@pytest.mark.parametrize("case", _UNTOLD)
def test_a_server_that_takes_other_modes_for_granted_is_caught(case: str) -> None:
    found = asyncio.run(caught(lambda: Reference(_UNTOLD[case]), [each for each in _EVERY if each.id == case]))
    assert set(found) == {case}


_BESIDE = {"LIV-05", "LIV-06", "LIV-07", "LIV-09", "LIV-10"}


def test_what_is_broken_beside_process_is_caught_by_its_cases() -> None:
    """Of LIV-12, a MAY, it is only told."""
    sick = Sick()
    session = Session(RECIPE, sick.open, sick)
    found = {case.id: asyncio.run(case.judge(session)) for case in _EVERY if case.id not in _SLOW}
    assert {id_ for id_, finding in found.items() if finding.verdict in (Verdict.FAIL, Verdict.WARN)} == _BESIDE
    assert found["LIV-12"].reason == "the call ends with UNIMPLEMENTED"


def test_a_server_that_forgets_calls_whose_deadline_ran_out_is_caught() -> None:
    make = leaking(2, forgets="")
    server = Sick()
    server.open_with_deadline = lambda _seconds: CancelLink(make())  # type: ignore[method-assign]
    session = Session(RECIPE, lambda: CancelLink(make()), server)
    [case] = [case for case in _EVERY if case.id == "LIV-03"]
    assert asyncio.run(case.judge(session)).reason == "a usual exchange ends as timeout"


@pytest.mark.parametrize(("answers", "wanted"), [(False, {"LIV-13"}), (True, {"UNK-03"})])
def test_bytes_that_are_no_message(answers: bool, wanted: set[str]) -> None:
    links: list[FrailLink] = []
    session = Session(RECIPE, lambda: FrailLink(links, answers=answers))
    cases = [case for case in _EVERY if case.id.startswith(("LIV", "UNK"))]
    found = {case.id: asyncio.run(case.judge(session)).verdict for case in cases}
    assert {id_ for id_, verdict in found.items() if verdict in (Verdict.FAIL, Verdict.WARN)} == wanted


def _done(reply: ProcessingResponse) -> None:
    _made_up(reply)
    reply.response_headers.response.body_mutation.body = b"data: [DONE]\n\n"


def _impatient(reply: ProcessingResponse) -> None:
    reply.response_headers.response.header_mutation.remove_headers.append("retry-after")


_OPENAI = {
    "OAI-14": _done,
    "OAI-17": _done,
    "OAI-18": _impatient,
    **{f"OAI-15.{status}": _success for status in (200, 400, 429, 500, 502, 503)},
}


@pytest.mark.parametrize("case", _OPENAI)
def test_a_false_answer_to_an_openai_client_is_caught(case: str) -> None:
    """Those of raw text are in test_conformance_cases.py."""
    cases = [each for each in CASES if each.id == case]
    found = asyncio.run(caught(lambda: Broken(kind("response_headers"), edited(_OPENAI[case])), cases))
    assert set(found) == {case}


def test_every_case_that_can_fail_has_a_server_that_it_catches() -> None:
    elsewhere = {*RAW_TEXT, *_OPENAI, *_UNTOLD, *_BESIDE, "LIV-03", "LIV-13", "UNK-03", *(case.id for case in _MATRIX)}
    assert {fault.case for fault in FAULTS} | elsewhere | {"LIV-12"} == {case.id for case in CASES}, "a MAY can't fail"


def ids(fault: Fault) -> str:
    return fault.case


@pytest.mark.parametrize("fault", FAULTS, ids=ids)
def test_a_fault_is_caught_by_its_case_and_by_no_other(fault: Fault) -> None:
    cases = [case for case in _EVERY if case.id == fault.case or not (case.id in _SLOW or fault.alone)]
    found = asyncio.run(caught(fault.make(), cases))
    assert set(found) == {fault.case, *fault.also}, {id_: finding.reason[:150] for id_, finding in found.items()}
