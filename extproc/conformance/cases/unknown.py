"""UNK: messages that no host should send, or not then."""

from __future__ import annotations

from dataclasses import replace

from extproc.conformance.cases.case import REFUSALS, Session, scripted
from extproc.conformance.driver import Link
from extproc.conformance.host import messages
from extproc.conformance.host.machine import Answer, Wait
from extproc.conformance.host.outcome import WELL, Closed, Ending
from extproc.conformance.host.settings import BodyMode, HostSettings, HttpMessage
from extproc.conformance.invariants import Level
from extproc.conformance.recipe import Refused
from extproc.conformance.verdicts import PASSED, Finding, complaint, skipped, worst
from extproc.wire import ProcessingRequest, ProcessingResponse

_UNKNOWN_FIELD = bytes((0xAA, 0x06, 0x01, 0x41))
"""Field 101, one byte long."""
_UNKNOWN_KIND = bytes((0xAA, 0x01, 0x00))
"""Field 21, empty: a kind of message that isn't there yet."""


def request_headers(session: Session, message: HttpMessage | None = None, *, first: bool = True) -> ProcessingRequest:
    """The recipe's passing request, as the first message of an exchange in the server's home layout."""
    told = message or session.recipe.passes.request
    result = messages.headers("request", told.headers, session.home, end=not told.pieces)
    messages.dress(result, session.home, first=first)
    return result


def refused_layout(answer: Answer) -> str | Finding | None:
    """Where the first message alone is refused, there is nothing to be seen. Any other error status is a complaint."""
    if not isinstance(answer, Closed) or answer.status == "OK":
        return None
    return skipped(f"the layout is refused: {answer}") if answer.status in REFUSALS else f"the call ends with {answer}"


async def unserved(session: Session) -> str | Finding | None:
    """Why the recipe's passing exchange isn't answered in the home layout, if it isn't."""
    if session.fails:
        return skipped(f"any exchange ends as {session.fails}")
    outcome = await session.play(session.home, session.recipe.passes)
    if outcome.ending in WELL:
        return None
    refusal = refused_layout(outcome.closed) if outcome.ending is Ending.REFUSED else None
    return refusal or f"a usual exchange ends as {outcome.ending.value}"


def told(answer: Answer) -> str:
    match answer:
        case None:
            return "silence"
        case Closed():
            return f"closed {answer}"
        case _:
            return messages.described(answer)


async def _first(session: Session, message: ProcessingRequest | bytes) -> tuple[Link, Answer]:
    link = session.open()
    await link.send(message)
    return link, await link.receive(Wait.REPLY)


async def _unknown_field(session: Session) -> str | Finding | None:
    if (why := await unserved(session)) is not None:
        return why
    link, usual = await _first(session, request_headers(session))
    link.cancel()
    link, answer = await _first(session, request_headers(session).SerializeToString() + _UNKNOWN_FIELD)
    link.cancel()
    return None if told(answer) == told(usual) else f"{told(answer)}, and {told(usual)} without the field"


async def _unknown_kind(session: Session) -> str | Finding | None:
    link, answer = await _first(session, request_headers(session))
    if (refusal := refused_layout(answer)) is not None:
        return refusal
    await link.send(_UNKNOWN_KIND)
    answer = await link.receive(Wait.PAUSE)
    link.cancel()
    return f"replies {told(answer)}" if isinstance(answer, ProcessingResponse) else None


async def _garbage(session: Session) -> str | Finding | None:
    if (why := await unserved(session)) is not None:
        return why
    link, answer = await _first(session, b"\xff\xff\xff\xff")
    link.cancel()
    if isinstance(answer, Closed) and answer.status != "OK":
        return None
    return f"{told(answer)}, and no error"


async def _headers_twice(session: Session) -> str | Finding | None:
    link, answer = await _first(session, request_headers(session))
    if (refusal := refused_layout(answer)) is not None:
        return refusal
    if not isinstance(answer, ProcessingResponse) or answer.WhichOneof("response") != "request_headers":
        return skipped(f"the headers' reply is {told(answer)}")
    await link.send(request_headers(session, first=False))
    answer = await link.receive(Wait.PAUSE)
    link.cancel()
    return f"replies {told(answer)}" if isinstance(answer, ProcessingResponse) else None


async def _in_flight(session: Session) -> str | Finding | None:
    """In STREAMED and full duplex a host has already sent more when an immediate response arrives."""
    if session.recipe.refused is None:
        return skipped("the recipe names no exchange that is refused")
    if not session.recipe.refused.exchange.request.pieces:
        return skipped("the exchange that is refused has no body, which could be on its way")
    layouts = [session.home] if session.home.request_body in (BodyMode.STREAMED, BodyMode.FULL_DUPLEX_STREAMED) else []
    findings = []
    for settings in dict.fromkeys((*layouts, *_PIPELINED)):
        found = await _answered_in_flight(replace(session, home=settings), session.recipe.refused)
        finding = found if isinstance(found, Finding) else PASSED if found is None else complaint(Level.MUST, found)
        findings.append((settings.layout, finding))
    return worst(findings)


async def _answered_in_flight(session: Session, refused: Refused) -> str | Finding | None:
    link = session.open()
    try:
        await link.send(request_headers(session, refused.exchange.request))
        if session.home.request_body is BodyMode.STREAMED:  # the body waits for the headers' reply
            answer = await link.receive(Wait.REPLY)
            if not isinstance(answer, ProcessingResponse):
                return refused_layout(answer) or skipped(f"the headers' reply is {told(answer)}")
            if answer.WhichOneof("response") == "immediate_response":
                return skipped("it refuses by the headers: nothing else is on its way")
        await link.send(messages.body("request", refused.exchange.request.body, end=False))
        await link.send(messages.body("request", b"", end=True))
        answer = await link.receive(Wait.REPLY)
        while isinstance(answer, ProcessingResponse) and answer.WhichOneof("response") != "immediate_response":
            answer = await link.receive(Wait.REPLY)
        if not isinstance(answer, ProcessingResponse):
            return refused_layout(answer) or skipped(f"no immediate_response, but {told(answer)}")
        if (status := answer.immediate_response.status.code) != refused.status:
            return f"refuses with {status}, and the recipe says {refused.status}"
        await link.half_close()
        after = await link.receive(Wait.REPLY)
        if isinstance(after, ProcessingResponse):
            return f"the immediate response is followed by {told(after)}"
        return None
    finally:
        link.cancel()


async def _behind_its_answer(session: Session) -> str | Finding | None:
    """A response to what never went anywhere."""
    if (refused := session.recipe.refused) is None:
        return skipped("the recipe names no exchange that is refused")
    request, response = refused.exchange.request, refused.exchange.response
    link = session.open()
    try:
        await link.send(request_headers(session, request))
        answer = await link.receive(Wait.REPLY)
        if isinstance(answer, ProcessingResponse) and answer.WhichOneof("response") != "immediate_response":
            await link.send(messages.body("request", request.body, end=True))
            answer = await link.receive(Wait.REPLY)
        if not isinstance(answer, ProcessingResponse) or answer.WhichOneof("response") != "immediate_response":
            return refused_layout(answer) or skipped(f"no immediate_response, but {told(answer)}")
        await link.send(messages.headers("response", response.headers, session.home, end=False))
        await link.send(messages.body("response", response.body, end=True))
        after = await link.receive(Wait.PAUSE)
    finally:
        link.cancel()
    if isinstance(after, ProcessingResponse):
        return f"replies {told(after)}"
    return await unserved(session)


_PIPELINED = (
    HostSettings(BodyMode.STREAMED, BodyMode.STREAMED),
    HostSettings(BodyMode.FULL_DUPLEX_STREAMED, BodyMode.FULL_DUPLEX_STREAMED),
)
_PROTO = "proto3: unknown fields"
UNKNOWN = (
    scripted("UNK-01", Level.MUST, "a field that the server doesn't know is ignored", _PROTO, _unknown_field),
    scripted("UNK-02", Level.SHOULD, "a message of a kind that it doesn't know gets no reply", _PROTO, _unknown_kind),
    scripted("UNK-03", Level.SHOULD, "bytes that are no message end the call with an error", "gRPC", _garbage),
    scripted(
        "UNK-04",
        Level.SHOULD,
        "request headers twice: an error or nothing, and no second reply",
        "external_processor.proto ProcessingRequest",
        _headers_twice,
    ),
    scripted(
        "UNK-05",
        Level.MUST,
        "messages that were on their way when it answered itself are ignored",
        "external_processor.proto ImmediateResponse",
        _in_flight,
    ),
    scripted(
        "UNK-06",
        Level.SHOULD,
        "messages behind its own answer, as no Envoy sends them: no reply, and the next exchange is served",
        "external_processor.proto ImmediateResponse",
        _behind_its_answer,
    ),
)
