"""Misbehaviours: the reference with one small fault, for every invariant. What the simulated host and real Envoys make
of them is what is known about the invariants.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from extproc.conformance.host.outcome import Closed, Ending
from extproc.conformance.host.settings import BodyMode, HeaderMode, Headers, HostSettings, HttpExchange, HttpMessage
from extproc.conformance.reference import HEADER, Reference, body_reply, refusal, set_headers, streamed
from extproc.wire import (
    BodyMutation,
    HeaderValue,
    HeaderValueOption,
    ProcessingMode,
    ProcessingRequest,
    ProcessingResponse,
)

NONE, STREAMED, BUFFERED, PARTIAL, FULL = BodyMode
TRAILERS = (("x-checksum", b"1"),)

Replies: TypeAlias = "list[ProcessingResponse | Closed]"
Change: TypeAlias = Callable[[ProcessingRequest, Replies], Replies]


def exchange(wish: str = "", *, trailers: bool = False, pieces: int = 3, lengths: bool = True) -> HttpExchange:
    """What a fault is played with; without `lengths` nothing says how long the bodies are."""
    fields = tuple([(HEADER, wish.encode())] if wish else [])
    sent, answered = [b"one ", b"two ", b"three"][:pieces], [b"uno ", b"dos ", b"tres"][:pieces]
    head = ((":method", b"POST"), (":path", b"/"), (":scheme", b"http"), (":authority", b"a.example"))
    back = ((":status", b"200"), ("set-cookie", b"a=1"), ("set-cookie", b"b=2"))
    end = TRAILERS if trailers else None

    def message(fields: Headers, body: list[bytes]) -> HttpMessage:
        length = (("content-length", str(len(b"".join(body))).encode()),) if lengths else ()
        return HttpMessage((*fields, *length), tuple(body), end)

    return HttpExchange(message((*head, *fields), sent), message(back, answered))


@dataclass(frozen=True)
class Fault:
    """At the first message of kind `at`, `change` makes other replies of the reference's."""

    invariant: str
    name: str
    at: str
    change: Change
    modes: tuple[BodyMode, BodyMode] = (BUFFERED, BUFFERED)
    pieces: int = 3
    trailers: bool = False
    ending: Ending = Ending.ERROR
    always: bool = False
    """At each such message, not at the first alone."""
    lengths: bool = True

    @property
    def exchange(self) -> HttpExchange:
        return exchange(trailers=self.trailers, pieces=self.pieces, lengths=self.lengths)

    @property
    def settings(self) -> HostSettings:
        return HostSettings(*self.modes)

    def __str__(self) -> str:
        return f"{self.invariant} {self.name}"


class Broken:
    """The reference with one fault."""

    def __init__(self, fault: Fault) -> None:
        self._fault, self._reference, self._done = fault, Reference(), False

    def receive(self, message: ProcessingRequest) -> Replies:
        replies = self._reference.receive(message)
        if message.WhichOneof("request") != self._fault.at or (self._done and not self._fault.always):
            return replies
        self._done = True
        changed = self._fault.change(message, replies)
        if self._fault.at == "response_headers":
            for reply in changed:
                if isinstance(reply, ProcessingResponse) and reply.HasField("mode_override"):
                    self._reference.modes["response"] = BodyMode(reply.mode_override.response_body_mode)
        return changed

    def half_closed(self) -> Closed:
        return Closed("UNKNOWN", "EOF") if self._fault.at == "the end" else Closed("OK")


def edited(edit: Callable[[ProcessingResponse], object]) -> Change:
    def change(_: ProcessingRequest, replies: Replies) -> Replies:
        [reply] = replies
        assert isinstance(reply, ProcessingResponse)
        edit(reply)
        return [reply]

    return change


def instead(*replies: ProcessingResponse | Closed) -> Change:
    return lambda _message, _replies: list(replies)


def also(reply: ProcessingResponse) -> Change:
    return lambda _message, replies: [*replies, reply]


def mutation_of(reply: ProcessingResponse) -> HeaderValueOption:
    kind = reply.WhichOneof("response")
    option: HeaderValueOption = getattr(reply, str(kind)).response.header_mutation.set_headers.add()
    return option


def setting(name: str, value: bytes) -> Change:
    return edited(lambda reply: mutation_of(reply).header.MergeFrom(HeaderValue(key=name, raw_value=value)))


def in_value(raw: bytes) -> Change:
    header = HeaderValue(key="x-a", value="b", raw_value=raw)
    return edited(lambda reply: mutation_of(reply).header.MergeFrom(header))


def overriding(mode: BodyMode, trailers: HeaderMode = HeaderMode.DEFAULT) -> Change:
    asked = ProcessingMode(response_body_mode=int(mode), response_trailer_mode=int(trailers))  # type: ignore[arg-type]
    return edited(lambda reply: reply.mode_override.CopyFrom(asked))


def waiting(*milliseconds: int) -> Change:
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
    Fault("INV-01", "silent in full duplex", "request_headers", instead(), DUPLEX, pieces=0, ending=Ending.HUNG),
    Fault("INV-01", "twice", "request_headers", also(HEADERS)),
    Fault("INV-01", "twice at the end", "response_body", also(body_reply("response")), ending=Ending.COMPLETE),
    Fault("INV-01", "no trailers' reply", "response_trailers", instead(), trailers=True, ending=Ending.TIMEOUT),
    Fault("INV-01", "no request trailers' reply", "request_trailers", instead(), trailers=True, ending=Ending.TIMEOUT),
    Fault(
        "INV-01",
        "no trailers' reply in full duplex",
        "response_trailers",
        instead(),
        DUPLEX,
        trailers=True,
        ending=Ending.HUNG,
    ),
    Fault("INV-02", "another kind", "request_headers", instead(RESPONSE_HEADERS)),
    Fault("INV-02", "another kind for a body", "request_body", instead(body_reply("response"))),
    Fault(
        "INV-02", "another kind in full duplex", "request_body", instead(TRAILERS_REPLY), DUPLEX, ending=Ending.CORRUPT
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
        lengths=False,
    ),
    Fault(
        "INV-05",
        "streamed_response in a BUFFERED response with a length",
        "response_body",
        instead(body_reply("response", streamed(b"x", end=True))),
    ),
    Fault(
        "INV-05",
        "streamed_response in BUFFERED",
        "request_body",
        instead(body_reply("request", streamed(b"x", end=True))),
        ending=Ending.COMPLETE,
        lengths=False,
    ),
    Fault(
        "INV-05",
        "streamed_response in BUFFERED with a length",
        "request_body",
        instead(body_reply("request", streamed(b"x", end=True))),
    ),
    Fault("INV-06", "no headers", "request_headers", instead(), DUPLEX),
    Fault("INV-06", "body first", "request_headers", instead(FIRST, HEADERS), DUPLEX),
    Fault("INV-06", "headers behind the body", "request_body", also(HEADERS), DUPLEX),
    Fault("INV-07", "no end", "response_body", edited(endless), DUPLEX, ending=Ending.HUNG, always=True),
    Fault(
        "INV-08",
        "an early end of a response",
        "response_body",
        instead(body_reply("response", streamed(b"uno ", end=True))),
        DUPLEX,
        ending=Ending.CORRUPT,
    ),
    Fault(
        "INV-08",
        "an early end",
        "request_body",
        instead(body_reply("request", streamed(b"one ", end=True))),
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
        overriding(FULL, HeaderMode.SKIP),
        (BUFFERED, NONE),
        pieces=0,
        ending=Ending.COMPLETE,
    ),
    Fault(
        "INV-20",
        "no trailers, and there are some",
        "response_headers",
        overriding(FULL, HeaderMode.SKIP),
        (BUFFERED, NONE),
        trailers=True,
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
