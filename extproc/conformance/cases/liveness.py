"""LIV: how calls end, many calls at once, and what else a fleet of hosts needs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from extproc.conformance.cases.case import REFUSALS, Session, scripted
from extproc.conformance.cases.unknown import refused_layout, request_headers, told, unserved
from extproc.conformance.driver import Link
from extproc.conformance.host import messages
from extproc.conformance.host.machine import Wait
from extproc.conformance.host.outcome import Closed, Ending
from extproc.conformance.host.settings import BodyMode, HostSettings
from extproc.conformance.invariants import Level
from extproc.conformance.verdicts import PASSED, Finding, Verdict, complaint, passed, skipped, worst
from extproc.wire import SERVICE, ProcessingRequest, ProcessingResponse

_MOST_LATE = 1000
"""Replies that are awaited behind a half-close."""


def _steps(session: Session, *, trailers: bool = False) -> list[ProcessingRequest]:
    """What a host sends one after the other in the home layout, from the request's headers to the response's body,
    or to its trailers if both messages have some."""
    exchange, home = session.recipe.passes, session.home
    steps = [request_headers(session)]
    if exchange.request.pieces and home.request_body is not BodyMode.NONE:
        steps.append(messages.body("request", exchange.request.body, end=not trailers))
    if trailers:
        steps.append(messages.trailers("request", _TRAILERS, home))
    ends = not exchange.response.pieces and not trailers
    steps.append(messages.headers("response", exchange.response.headers, home, end=ends))
    if exchange.response.pieces and home.response_body is not BodyMode.NONE:
        steps.append(messages.body("response", exchange.response.body, end=not trailers))
    if trailers:
        steps.append(messages.trailers("response", _TRAILERS, home))
    return steps


_TRAILERS = (("x-conformance-trailer", b"1"),)


def _kind(message: ProcessingRequest) -> str:
    return message.WhichOneof("request") or ""


def _opening(session: Session) -> list[ProcessingRequest]:
    """What a host sends before it has to get a reply: in full duplex the whole request."""
    steps = _steps(session)
    if session.home.request_body is not BodyMode.FULL_DUPLEX_STREAMED:
        return steps[:1]
    return [message for message in steps if _kind(message).startswith("request")]


async def _after(session: Session, steps: Sequence[ProcessingRequest], link: Link) -> Closed | None:
    """Play these steps. How the call ended, if it did by then."""
    for message in steps:
        await link.send(message)
        answer = await link.receive(_wait(session, message))
        if isinstance(answer, Closed):
            return answer
        if answer is not None and answer.WhichOneof("response") == "immediate_response":
            return None
    return None


def _wait(session: Session, message: ProcessingRequest) -> Wait:
    """In full duplex a body that goes on may have no reply yet."""
    way, _, part = _kind(message).partition("_")
    mode = session.home.request_body if way == "request" else session.home.response_body
    goes_on = part == "body" and not getattr(message, _kind(message)).end_of_stream
    return Wait.PAUSE if goes_on and mode is BodyMode.FULL_DUPLEX_STREAMED else Wait.REPLY


def _beginnings(session: Session) -> list[list[ProcessingRequest]]:
    """Each step is the last one of one of these."""
    plain, with_trailers = _steps(session), _steps(session, trailers=True)
    steps = [plain[:number] for number in range(len(plain) + 1)]
    return [*steps, *(with_trailers[:number] for number in range(2, len(with_trailers) + 1))]


async def _end(link: Link) -> Closed | None:
    """How the call ends, behind what replies are still on their way: in full duplex they may come late."""
    for _ in range(_MOST_LATE):
        answer = await link.receive(Wait.REPLY)
        if not isinstance(answer, ProcessingResponse):
            return answer
    return None


async def _half_close(session: Session) -> str | Finding | None:
    for number, steps in enumerate(_beginnings(session)):
        link = session.open()
        ended = await _after(session, steps, link)
        if number == 1 and (refusal := refused_layout(ended)) is not None:
            return refusal
        await link.half_close()
        answer = ended or await _end(link)
        link.cancel()
        if answer != Closed("OK"):
            return f"behind {_kind(steps[-1]) if steps else 'nothing'}: {told(answer)}"
    return None


async def _cancel(session: Session) -> str | Finding | None:
    for steps in _beginnings(session):
        link = session.open()
        await _after(session, steps, link)
        link.cancel()
    return await unserved(session)


async def _deadline(session: Session) -> str | Finding | None:
    assert session.server is not None
    for steps in _beginnings(session)[1:]:
        link = session.server.open_with_deadline(0.1)
        # The client ends the call by itself then, whatever the server does.
        await _after(session, steps, link)
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
    ended = await _after(session, _steps(session)[:1], link)
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
    ended = await _after(session, _steps(session)[:1], link)
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
        if answer == Closed("OK"):
            break  # it has left, and may
        if not isinstance(answer, ProcessingResponse):
            link.cancel()
            return refused_layout(answer) or skipped(told(answer))
        slowest = max(slowest, clock() - began)
    link.cancel()
    return None if slowest < 0.2 else f"{slowest * 1000:.0f} ms"


async def _unread(session: Session) -> str | Finding | None:
    """What a server can't hand on it has to keep, if it takes more of it. In full duplex: elsewhere replies to what
    stays as it is are a few bytes, which the connection takes whoever reads."""
    full = HostSettings(BodyMode.FULL_DUPLEX_STREAMED, BodyMode.FULL_DUPLEX_STREAMED)
    home = HostSettings(*session.home.modes)
    layouts = (home, full) if home.response_body is BodyMode.FULL_DUPLEX_STREAMED else (full,)
    return worst([(each.layout, await _stuck(replace(session, home=each))) for each in dict.fromkeys(layouts)])


async def _stuck(session: Session) -> Finding:
    """One layout."""
    assert session.server is not None
    outcome = await session.play(session.home, session.recipe.passes)
    if outcome.ending is Ending.REFUSED and outcome.closed is not None and outcome.closed.status in REFUSALS:
        return Finding(Verdict.REFUSES, str(outcome.closed))
    if outcome.ending not in (Ending.COMPLETE, Ending.LEFT):
        return skipped(f"a usual exchange ends as {outcome.ending.value}")
    steps = _steps(session)
    head = next(at for at, message in enumerate(steps) if message.HasField("response_headers"))
    pieces = [messages.body("response", b" " * _PIECE, end=False)] * _PIECES
    steps = [*steps[: head + 1], *pieces]
    unread = await session.server.unread(steps)
    try:
        beside = await session.play(session.home, session.recipe.passes)
        ended = await unread.end() if unread.taken == len(steps) else None
    finally:
        unread.cancel()
    if beside.ending not in (Ending.COMPLETE, Ending.LEFT):
        return complaint(_SHOULD, f"an exchange beside it ends as {beside.ending.value}")
    if ended is not None:
        return passed(f"it ends the call: {ended}")
    if unread.taken == len(steps):
        return complaint(_SHOULD, f"takes {_PIECE * _PIECES >> 20} MiB while nobody reads its replies")
    return PASSED


async def _silence(session: Session) -> str | Finding | None:
    """Between a request and its response, as while a model reads."""
    assert session.server is not None
    if session.ordinary is not None:
        return skipped(f"it answers {session.ordinary} itself: nothing is waited for")
    if (why := await unserved(session)) is not None:
        return why
    steps = _steps(session)
    asked = [message for message in steps if _kind(message).startswith("request")]
    link = session.open()
    ended = await _after(session, asked, link)
    await session.server.rest(session.recipe.limits.silence)
    ended = ended or await _after(session, steps[len(asked) :], link)
    await link.half_close()
    answer = ended or await _end(link)
    link.cancel()
    return None if answer == Closed("OK") else told(answer)


_MUST, _SHOULD = Level.MUST, Level.SHOULD
_PIECE, _PIECES = 1 << 16, 1024
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
        "LIV-05",
        _SHOULD,
        "full duplex, nobody reads the replies to 64 MiB: it stops taking more, and serves the exchange beside it",
        "envoyproxy/envoy#39514; HTTP/2 flow control",
        _unread,
        needs_server=True,
    ),
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
        "LIV-09",
        _MUST,
        "silence between a request and its response, as while a model reads: the call stays open",
        "external_processor.proto; limits.silence",
        _silence,
        needs_server=True,
        rests=True,
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
