"""The conformance suite proves itself: a reference keeps every invariant, each small misbehaviour breaks its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

import pytest

from extproc.conformance.driver import DirectLink, play
from extproc.conformance.host.outcome import Closed, Ending, Outcome
from extproc.conformance.host.settings import BodyMode, HostSettings, HttpExchange, HttpMessage
from extproc.conformance.invariants import INVARIANTS
from extproc.conformance.reference import HEADER, REFUSAL, SUFFIX, Reference, body_reply, refusal, set_headers, streamed
from extproc.wire import BodyMutation, HeaderValue, HeaderValueOption, ProcessingRequest, ProcessingResponse

NONE, STREAMED, BUFFERED, PARTIAL, FULL = BodyMode
LAYOUTS = list(product(BodyMode, BodyMode))
TRAILERS = (("x-checksum", b"1"),)

Replies: TypeAlias = "list[ProcessingResponse | Closed]"


def exchange(wish: str = "", *, trailers: bool = False, pieces: int = 3) -> HttpExchange:
    fields = tuple([(HEADER, wish.encode())] if wish else [])
    sent, answered = [b"one ", b"two ", b"three"][:pieces], [b"uno ", b"dos ", b"tres"][:pieces]
    head = ((":method", b"POST"), (":path", b"/"), (":scheme", b"http"), (":authority", b"a.example"), *fields)
    back = ((":status", b"200"), ("set-cookie", b"a=1"), ("set-cookie", b"b=2"))
    end = TRAILERS if trailers else None
    return HttpExchange(
        HttpMessage((*head, ("content-length", str(len(b"".join(sent))).encode())), tuple(sent), end),
        HttpMessage((*back, ("content-length", str(len(b"".join(answered))).encode())), tuple(answered), end),
    )


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


# Misbehaviours: what a reply becomes.


@dataclass(frozen=True)
class Fault:
    """At the first message of kind `at`, `change` makes other replies of the reference's."""

    invariant: str
    name: str
    at: str
    change: Callable[[ProcessingRequest, Replies], Replies]
    modes: tuple[BodyMode, BodyMode] = (BUFFERED, BUFFERED)
    pieces: int = 3
    trailers: bool = False
    ending: Ending = Ending.ERROR
    always: bool = False
    """At each such message, not at the first alone."""


class Broken:
    """The reference with one fault."""

    def __init__(self, fault: Fault) -> None:
        self._fault, self._reference, self._done = fault, Reference(), False

    def receive(self, message: ProcessingRequest) -> Replies:
        replies = self._reference.receive(message)
        if message.WhichOneof("request") != self._fault.at or (self._done and not self._fault.always):
            return replies
        self._done = True
        return self._fault.change(message, replies)

    def half_closed(self) -> Closed:
        return Closed("UNKNOWN", "EOF") if self._fault.at == "the end" else Closed("OK")


def edited(edit: Callable[[ProcessingResponse], object]) -> Callable[[ProcessingRequest, Replies], Replies]:
    def change(_: ProcessingRequest, replies: Replies) -> Replies:
        [reply] = replies
        assert isinstance(reply, ProcessingResponse)
        edit(reply)
        return [reply]

    return change


def instead(*replies: ProcessingResponse | Closed) -> Callable[[ProcessingRequest, Replies], Replies]:
    return lambda _message, _replies: list(replies)


def also(reply: ProcessingResponse) -> Callable[[ProcessingRequest, Replies], Replies]:
    return lambda _message, replies: [*replies, reply]


def mutation_of(reply: ProcessingResponse) -> HeaderValueOption:
    kind = reply.WhichOneof("response")
    option: HeaderValueOption = getattr(reply, str(kind)).response.header_mutation.set_headers.add()
    return option


def setting(name: str, value: bytes) -> Callable[[ProcessingRequest, Replies], Replies]:
    return edited(lambda reply: mutation_of(reply).header.MergeFrom(HeaderValue(key=name, raw_value=value)))


def in_value(raw: bytes) -> Callable[[ProcessingRequest, Replies], Replies]:
    header = HeaderValue(key="x-a", value="b", raw_value=raw)
    return edited(lambda reply: mutation_of(reply).header.MergeFrom(header))


def overriding(mode: BodyMode) -> Callable[[ProcessingRequest, Replies], Replies]:
    return edited(lambda reply: setattr(reply.mode_override, "response_body_mode", int(mode)))


def waiting(*milliseconds: int) -> Callable[[ProcessingRequest, Replies], Replies]:
    def change(_: ProcessingRequest, replies: Replies) -> Replies:
        asked: Replies = []
        for each in milliseconds:
            reply = ProcessingResponse()
            reply.override_message_timeout.FromMilliseconds(each)
            asked.append(reply)
        return [*asked, *replies]

    return change


def many(reply: ProcessingResponse) -> None:
    reply.request_headers.response.header_mutation.MergeFrom(set_headers((f"x-{n}", b"1") for n in range(101)))


def endless(reply: ProcessingResponse) -> None:
    reply.response_body.response.body_mutation.streamed_response.end_of_stream = False


TRAILERS_REPLY = ProcessingResponse(request_trailers={})
EMPTY = ProcessingResponse()
HEADERS = ProcessingResponse(request_headers={})
RESPONSE_HEADERS = ProcessingResponse(response_headers={})
FIRST = body_reply("request", streamed(b"one ", end=False))
LENGTH_9 = ("content-length", b"9")


def with_length(_message: ProcessingRequest, _replies: Replies) -> Replies:
    reply = body_reply("request", BodyMutation(body=b"12345"))
    reply.request_body.response.header_mutation.MergeFrom(set_headers([LENGTH_9]))
    return [reply]


DUPLEX = (FULL, FULL)
FAULTS = (
    Fault("INV-01", "silent", "request_headers", instead(), ending=Ending.TIMEOUT),
    Fault("INV-01", "silent in full duplex", "request_headers", instead(), DUPLEX, pieces=0, ending=Ending.TIMEOUT),
    Fault("INV-01", "twice", "request_headers", also(HEADERS)),
    Fault("INV-01", "twice at the end", "response_body", also(body_reply("response")), ending=Ending.COMPLETE),
    Fault("INV-01", "no trailers' reply", "response_trailers", instead(), trailers=True, ending=Ending.TIMEOUT),
    Fault("INV-02", "another kind", "request_headers", instead(RESPONSE_HEADERS)),
    Fault("INV-02", "another kind for a body", "request_body", instead(body_reply("response"))),
    Fault(
        "INV-02", "another kind in full duplex", "request_body", instead(TRAILERS_REPLY), DUPLEX, ending=Ending.COMPLETE
    ),
    Fault("INV-03", "no content", "request_headers", instead(EMPTY)),
    Fault("INV-03", "no content in full duplex", "request_body", instead(EMPTY), DUPLEX),
    Fault("INV-04", "no mutation", "request_body", instead(body_reply("request")), DUPLEX),
    Fault(
        "INV-04",
        "a body",
        "response_body",
        instead(body_reply("response", BodyMutation(body=b"x"))),
        DUPLEX,
        ending=Ending.CUT,
    ),
    Fault(
        "INV-05",
        "streamed_response in STREAMED",
        "request_body",
        instead(body_reply("request", streamed(b"x", end=False))),
        (STREAMED, STREAMED),
    ),
    Fault(
        "INV-05",
        "streamed_response in a STREAMED response",
        "response_body",
        instead(body_reply("response", streamed(b"x", end=False))),
        (STREAMED, STREAMED),
        ending=Ending.CUT,
    ),
    Fault(
        "INV-05",
        "streamed_response in a BUFFERED response",
        "response_body",
        instead(body_reply("response", streamed(b"x", end=True))),
        ending=Ending.COMPLETE,
    ),
    Fault(
        "INV-08",
        "an early end of a response",
        "response_body",
        instead(body_reply("response", streamed(b"uno ", end=True))),
        DUPLEX,
        ending=Ending.CORRUPT,
    ),
    Fault(
        "INV-09",
        "leaves a response",
        "response_body",
        instead(body_reply("response", streamed(b"uno ", end=False)), Closed("OK")),
        DUPLEX,
        ending=Ending.CORRUPT,
    ),
    Fault(
        "INV-09",
        "leaves at the end",
        "request_body",
        instead(body_reply("request", streamed(b"one two three", end=False)), Closed("OK")),
        DUPLEX,
        pieces=1,
        ending=Ending.CORRUPT,
    ),
    Fault(
        "INV-05",
        "streamed_response",
        "request_body",
        instead(body_reply("request", streamed(b"x", end=True))),
        ending=Ending.COMPLETE,
    ),
    Fault("INV-06", "no headers", "request_headers", instead(), DUPLEX),
    Fault("INV-06", "body first", "request_headers", instead(FIRST, HEADERS), DUPLEX),
    Fault("INV-06", "headers behind the body", "request_body", also(HEADERS), DUPLEX),
    Fault("INV-07", "no end", "response_body", edited(endless), DUPLEX, ending=Ending.HUNG, always=True),
    Fault(
        "INV-08",
        "an early end",
        "request_body",
        instead(body_reply("request", streamed(b"one ", end=True))),
        DUPLEX,
        ending=Ending.CORRUPT,
    ),
    Fault("INV-09", "leaves", "request_body", instead(FIRST, Closed("OK")), DUPLEX, ending=Ending.CORRUPT),
    Fault("INV-10", "another length", "request_body", with_length),
    Fault("INV-11", "value alone", "request_headers", in_value(b""), ending=Ending.COMPLETE),
    Fault("INV-12", "value twice", "request_headers", in_value(b"c"), ending=Ending.COMPLETE),
    Fault("INV-13", "a name with a space", "request_headers", setting("x a", b"b")),
    Fault("INV-13", "a line break", "request_headers", setting("x-a", b"b\r\nx-evil: 1")),
    Fault("INV-14", "the method", "request_headers", setting(":method", b"GET"), ending=Ending.COMPLETE),
    Fault("INV-15", "a word as status", "response_headers", setting(":status", b"abc"), ending=Ending.COMPLETE),
    Fault("INV-15", "a status there", "request_headers", setting(":status", b"200"), ending=Ending.COMPLETE),
    Fault("INV-16", "status 0", "request_headers", instead(refusal(0)), ending=Ending.IMMEDIATE),
    Fault("INV-17", "an error in mid-stream", "response_body", instead(refusal(500)), DUPLEX, ending=Ending.CUT),
    Fault("INV-18", "101 headers", "request_headers", edited(many)),
    Fault("INV-19", "an override on a body", "request_body", overriding(NONE), ending=Ending.COMPLETE),
    Fault(
        "INV-20",
        "no trailers",
        "response_headers",
        overriding(FULL),
        (BUFFERED, NONE),
        pieces=0,
        ending=Ending.COMPLETE,
    ),
    Fault("INV-21", "no time", "request_headers", waiting(0), ending=Ending.COMPLETE),
    Fault("INV-21", "again", "request_headers", waiting(50, 50), ending=Ending.COMPLETE),
    Fault(
        "INV-22",
        "all at once",
        "response_body",
        instead(body_reply("response", streamed(b"x" * 65537, end=False))),
        DUPLEX,
        ending=Ending.COMPLETE,
    ),
    Fault("INV-23", "UNKNOWN at the end", "the end", instead(), ending=Ending.COMPLETE),
    Fault(
        "INV-24",
        "for nothing",
        "request_headers",
        edited(lambda reply: setattr(reply.request_headers.response, "clear_route_cache", True)),
        ending=Ending.COMPLETE,
    ),
    Fault(
        "INV-25", "headers of a piece", "request_body", setting("x-a", b"b"), (STREAMED, NONE), ending=Ending.COMPLETE
    ),
    Fault(
        "INV-26",
        "no namespace",
        "request_headers",
        edited(lambda reply: reply.dynamic_metadata.update({"a": "b"})),
        ending=Ending.COMPLETE,
    ),
)


def ids(fault: Fault) -> str:
    return f"{fault.invariant} {fault.name}"


@pytest.mark.parametrize("fault", FAULTS, ids=ids)
def test_a_fault_breaks_its_own_invariant_and_no_other(fault: Fault) -> None:
    outcome = played(HostSettings(*fault.modes), exchange(trailers=fault.trailers, pieces=fault.pieces), Broken(fault))
    assert [violation.id for violation in outcome.violations] == [fault.invariant], outcome
    assert outcome.ending is fault.ending


def test_each_invariant_has_a_fault() -> None:
    assert {fault.invariant for fault in FAULTS} == {invariant.id for invariant in INVARIANTS}
