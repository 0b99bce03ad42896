"""LIV: how calls end, many calls at once, and what else a fleet of hosts needs."""

from __future__ import annotations

import asyncio

from extproc.conformance.cases.case import Session, scripted
from extproc.conformance.cases.unknown import refused_layout, request_headers, told, unserved
from extproc.conformance.driver import Link
from extproc.conformance.host import messages
from extproc.conformance.host.machine import Wait
from extproc.conformance.host.outcome import Closed
from extproc.conformance.host.settings import BodyMode
from extproc.conformance.invariants import Level
from extproc.conformance.verdicts import Finding, skipped
from extproc.wire import SERVICE, ProcessingRequest, ProcessingResponse

_STEPS = 3
_MOST_LATE = 1000
"""Replies that are awaited behind a half-close."""


def _steps(session: Session) -> list[ProcessingRequest]:
    """What a host sends one after the other in the home layout."""
    exchange = session.recipe.passes
    shown = exchange.request.pieces and session.home.request_body is not BodyMode.NONE
    body = [messages.body("request", exchange.request.body, end=True)] if shown else []
    return [
        request_headers(session),
        *body,
        messages.headers("response", exchange.response.headers, session.home, end=False),
    ]


def _opening(session: Session) -> list[ProcessingRequest]:
    """What a host sends before it has to get a reply: in full duplex the whole request."""
    steps = _steps(session)
    return steps[:-1] if session.home.request_body is BodyMode.FULL_DUPLEX_STREAMED else steps[:1]


async def _after(session: Session, number: int, link: Link) -> Closed | None:
    """Play so many steps. How the call ended, if it did by then."""
    for message in _steps(session)[:number]:
        await link.send(message)
        answer = await link.receive(Wait.REPLY)
        if isinstance(answer, Closed):
            return answer
        if answer is not None and answer.WhichOneof("response") == "immediate_response":
            return None
    return None


async def _end(link: Link) -> Closed | None:
    """How the call ends, behind what replies are still on their way: in full duplex they may come late."""
    for _ in range(_MOST_LATE):
        answer = await link.receive(Wait.REPLY)
        if not isinstance(answer, ProcessingResponse):
            return answer
    return None


async def _half_close(session: Session) -> str | Finding | None:
    for number in range(_STEPS + 1):
        link = session.open()
        ended = await _after(session, number, link)
        if number == 1 and (refusal := refused_layout(ended)) is not None:
            return refusal
        await link.half_close()
        answer = ended or await _end(link)
        link.cancel()
        if answer != Closed("OK"):
            return f"behind {number} messages: {told(answer)}"
    return None


async def _cancel(session: Session) -> str | Finding | None:
    for number in range(_STEPS + 1):
        link = session.open()
        await _after(session, number, link)
        link.cancel()
    return await unserved(session)


async def _deadline(session: Session) -> str | Finding | None:
    assert session.server is not None
    for number in range(1, _STEPS + 1):
        link = session.server.open_with_deadline(0.1)
        # The client ends the call by itself then, whatever the server does.
        await _after(session, number, link)
        await _end(link)
        link.cancel()
    return await unserved(session)


async def _many(session: Session) -> str | Finding | None:
    number = session.recipe.limits.streams
    links = [session.open() for _ in range(number)]
    try:
        for link in links:
            for message in _opening(session):
                await link.send(message)
        answers = await asyncio.gather(*(link.receive(Wait.REPLY) for link in links))
    finally:
        for link in links:
            link.cancel()
    if (refusal := refused_layout(answers[0])) is not None:
        return refusal
    silent = sum(not isinstance(answer, ProcessingResponse) for answer in answers)
    return f"{silent} of {number} exchanges get no reply while the others are open" if silent else None


async def _apart(session: Session) -> str | Finding | None:
    """One exchange sends garbage; the one beside it goes on."""
    link, broken = session.open(), session.open()
    ended = await _after(session, 1, link)
    if (refusal := refused_layout(ended)) is not None:
        return refusal
    await broken.send(b"\xff\xff\xff\xff")
    await broken.receive(Wait.PAUSE)
    broken.cancel()
    await link.half_close()
    answer = ended or await _end(link)
    link.cancel()
    return None if answer == Closed("OK") else f"the one beside it: {told(answer)}"


async def _health(session: Session) -> str | Finding | None:
    assert session.server is not None
    states = {service: await session.server.health(service) for service in ("", SERVICE)}
    wrong = [f"{service or 'the whole server'}: {state}" for service, state in states.items() if state != "SERVING"]
    return "; ".join(wrong) or None


async def _compressed(session: Session) -> str | Finding | None:
    assert session.server is not None
    link = session.server.open_compressed()
    ended = await _after(session, 1, link)
    link.cancel()
    return None if ended is None else f"the call ends with {ended}"


async def _pings(session: Session) -> str | Finding | None:
    assert session.server is not None
    return await session.server.pings(8, 0.05)


async def _quick(session: Session) -> str | Finding | None:
    assert session.server is not None
    clock = session.server.clock
    slowest = 0.0
    link = session.open()
    for message in _steps(session):
        began = clock()
        await link.send(message)
        answer = await link.receive(Wait.REPLY)
        if not isinstance(answer, ProcessingResponse):
            link.cancel()
            return refused_layout(answer) or skipped(told(answer))
        slowest = max(slowest, clock() - began)
    link.cancel()
    return None if slowest < 0.2 else f"{slowest * 1000:.0f} ms"


_MUST, _SHOULD = Level.MUST, Level.SHOULD
LIVENESS = (
    scripted(
        "LIV-01",
        _MUST,
        "the host half-closes behind each step: the call ends with OK",
        "envoyproxy/envoy#22727",
        _half_close,
    ),
    scripted("LIV-02", _MUST, "the host cancels behind each step: the next exchange is served", "gRPC", _cancel),
    scripted(
        "LIV-03",
        _MUST,
        "a call's deadline runs out behind each step: the next exchange is served",
        "gRPC: grpc-timeout",
        _deadline,
        needs_server=True,
    ),
    scripted("LIV-04", _MUST, "many open exchanges: each gets its reply", "external_processor.proto", _many),
    scripted(
        "LIV-06",
        _SHOULD,
        "HTTP/2 PINGs on a connection whose exchange is silent are no offence",
        "gRFC A8; Envoy connection_keepalive",
        _pings,
        needs_server=True,
    ),
    scripted(
        "LIV-07",
        _SHOULD,
        "each reply to a small message comes within 200 ms",
        "ext_proc.proto message_timeout",
        _quick,
        needs_server=True,
    ),
    scripted(
        "LIV-10",
        _SHOULD,
        "grpc.health.v1 says SERVING for the server and the service",
        "gRPC health checking",
        _health,
        needs_server=True,
    ),
    scripted(
        "LIV-12", Level.MAY, "messages compressed with gzip are understood", "gRPC", _compressed, needs_server=True
    ),
    scripted("LIV-13", _MUST, "an exchange that breaks doesn't touch the one beside it", "robustness", _apart),
)
