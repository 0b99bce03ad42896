"""MUT: servers that change bodies. The recipe's `mutated` is such an exchange, and `passes` one that stays as it is."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from dataclasses import replace

from extproc.conformance.cases.case import (
    Case,
    Session,
    Variant,
    chain,
    hosted,
    judged,
    shaped,
    with_header,
    with_pieces,
)
from extproc.conformance.host.likeness import same_but_for_words
from extproc.conformance.host.outcome import WELL, Ending, Outcome
from extproc.conformance.host.settings import BodyMode, HostSettings, HttpExchange, HttpMessage
from extproc.conformance.invariants import Level
from extproc.conformance.verdicts import Finding, Verdict, complaint, passed, skipped, worst

NONE, STREAMED, BUFFERED, PARTIAL, FULL = BodyMode
_WHOLE, _DUPLEX = HostSettings(BUFFERED, BUFFERED), HostSettings(FULL, FULL)
_LAYOUTS = (HostSettings(BUFFERED, NONE), _WHOLE, HostSettings(STREAMED, STREAMED), _DUPLEX)
_PROFILE = "mutating"
_MUST, _SHOULD = Level.MUST, Level.SHOULD
_UNTOLD = with_header(without=("content-length",))


def _as_told(outcome: Outcome, _exchange: HttpExchange, session: Session) -> str | None:
    told = session.recipe.mutated
    assert told is not None
    whole = outcome.ending in (Ending.COMPLETE, Ending.LEFT)  # whoever leaves may have changed what it was to change
    if not whole or outcome.upstream is None or outcome.client is None:
        return None if outcome.ending is Ending.IMMEDIATE else f"ends as {outcome.ending.value}"
    if told.request_body is not None and outcome.upstream.body != told.request_body:
        return "the request's body isn't what the recipe says"
    if told.response_body is not None and outcome.client.body != told.response_body:
        return "the response's body isn't what the recipe says"
    return None


_CODINGS: dict[bytes, Callable[[bytes], bytes]] = {b"gzip": gzip.decompress, b"deflate": zlib.decompress}


def _decodable(outcome: Outcome, exchange: HttpExchange, _session: Session) -> str | None:
    """The body still is what its `content-encoding` says, or nothing says it any more."""
    if outcome.client is None or outcome.ending is Ending.IMMEDIATE:
        return None
    coding, body = outcome.client.first("content-encoding"), outcome.client.body
    if coding is None:
        return "content-encoding is gone, and the body still compressed" if body == exchange.response.body else None
    if body == exchange.response.body:
        return None
    if (decode := _CODINGS.get(coding)) is None:
        return None  # one of the server's own choice, such as br
    try:
        decode(body)
    except (OSError, zlib.error, EOFError):
        return f"the body says {coding.decode('latin-1')}, and isn't"
    return None


def _coded(coding: bytes, encode: Callable[[bytes], bytes]) -> Callable[[HttpMessage], HttpMessage]:
    def change(message: HttpMessage) -> HttpMessage:
        body = encode(message.body)
        length = str(len(body)).encode()
        return with_header(("content-encoding", coding), ("content-length", length))(replace(message, pieces=(body,)))

    return change


def _head(exchange: HttpExchange) -> HttpExchange:
    request = with_pieces()(with_header((":method", b"HEAD"), without=("content-type",))(exchange.request))
    return HttpExchange(request, with_pieces()(exchange.response))


def _bodiless(outcome: Outcome, _exchange: HttpExchange, _session: Session) -> str | None:
    if outcome.client is not None and outcome.ending is not Ending.IMMEDIATE and outcome.client.body:
        return "a body is made up"
    return None


def _kept_status(status: int) -> Callable[[Outcome, HttpExchange, Session], str | None]:
    """Not a success, at least."""

    def check(outcome: Outcome, _exchange: HttpExchange, _session: Session) -> str | None:
        if outcome.status is not None and outcome.status < 400:
            return f"the upstream's {status} becomes {outcome.status}"
        return None

    return check


def _untouched(outcome: Outcome, exchange: HttpExchange, _session: Session) -> str | None:
    if outcome.ending is Ending.IMMEDIATE or outcome.upstream is None or outcome.client is None:
        return None
    if outcome.upstream.body != exchange.request.body:
        return "the request's body is changed"
    return "the response's body is changed" if outcome.client.body != exchange.response.body else None


def _untouched_response(outcome: Outcome, exchange: HttpExchange, _session: Session) -> str | None:
    if outcome.client is None or outcome.ending is Ending.IMMEDIATE or (outcome.status or 0) >= 400:
        return None
    return None if outcome.client.body == exchange.response.body else "it is changed, and said to be a success"


def _longer(exchange: HttpExchange, mib: int) -> HttpExchange:
    """The request with white space behind its body."""
    body = exchange.request.body + b" " * (mib << 20)
    length = ("content-length", str(len(body)).encode())
    return HttpExchange(with_header(length)(replace(exchange.request, pieces=(body,))), exchange.response)


def _unplayable(session: Session) -> str | None:
    """Why a large request can't be judged, if it can't."""
    if session.fails:
        return f"any exchange ends as {session.fails}"
    return "the home layout doesn't show a request's body" if session.home.request_body is NONE else None


def _large(mib: int) -> Case:
    """The recipe's passing request, longer by white space."""

    async def judge(session: Session) -> Finding:
        if mib > session.recipe.limits.body_mib:
            return skipped(f"limits.body_mib is {session.recipe.limits.body_mib}")
        if (why := _unplayable(session)) is not None:
            return skipped(why)
        outcome = await session.play(session.home, _longer(session.recipe.passes, mib))
        if outcome.ending is Ending.IMMEDIATE and outcome.status == 413:
            return passed("413")
        if outcome.ending in WELL:
            return passed()
        return complaint(_SHOULD, f"ends as {outcome.ending.value}: {outcome.closed or 'no reply'}", outcome.trace)

    title = f"a buffered request of {mib} MiB (gRPC's default is 4): taken, or a 413"
    return Case(f"MUT-09.{mib}", _SHOULD, title, "gRPC's max_receive_message_length", judge)


def _too_large() -> Case:
    async def judge(session: Session) -> Finding:
        if not (mib := session.recipe.limits.too_large_mib):
            return skipped("the recipe doesn't say limits.too_large_mib")
        if (why := _unplayable(session)) is not None:
            return skipped(why)
        outcome = await session.play(session.home, _longer(session.recipe.passes, mib))
        if outcome.differs is not None:
            return complaint(_MUST, f"Envoy isn't as simulated: {outcome.differs}", outcome.trace)
        if outcome.ending is not Ending.IMMEDIATE or outcome.status != 413:
            ended = outcome.status or outcome.closed or "no reply"
            return complaint(_SHOULD, f"ends as {outcome.ending.value}: {ended}", outcome.trace)
        usual = await session.play(session.home, session.recipe.passes)
        wrong = f"the next exchange ends as {usual.ending.value}"
        return passed("413") if usual.ending in WELL else complaint(_SHOULD, wrong, usual.trace)

    title = "a request that is over the server's own limit: a 413, and the next exchange is served"
    return Case("MUT-10", _SHOULD, title, "RFC 9110, 15.5.14; limits.too_large_mib", judge)


def _members() -> Case:
    """Compared with the same answer without a coding."""

    async def judge(session: Session) -> Finding:
        if session.recipe.mutated is None:
            return skipped("the recipe names no exchange that is mutated")
        findings = []
        told = session.recipe.mutated.exchange
        for settings in (_WHOLE, _DUPLEX):
            plain = [await session.play(settings, told) for _ in range(2)]
            for label, encode in (("two members", _two_members), ("cut off", _cut_off)):
                coded = HttpExchange(told.request, _coded(b"gzip", encode)(told.response))
                outcome = await session.play(settings, coded)
                finding = judged(outcome, session, settings, False, True, False)
                if finding.verdict in (Verdict.PASS, Verdict.WARN):
                    wrong = _of_half(outcome, coded, plain, whole=encode is _two_members)
                    finding = finding if wrong is None else complaint(_SHOULD, wrong, outcome.trace)
                elif finding.verdict is Verdict.FAIL and outcome.ending is Ending.CUT and encode is _cut_off:
                    finding = passed("the response is cut")
                findings.append((f"{label} {settings.layout}", finding))
        return worst(findings)

    title = "a response in gzip of two members, or cut off: no part of it passes for the whole"
    return Case("MUT-06", _SHOULD, title, "RFC 1952, 2.2", judge, _PROFILE)


def _two_members(body: bytes) -> bytes:
    half = len(body) // 2
    return gzip.compress(body[:half]) + gzip.compress(body[half:])


def _cut_off(body: bytes) -> bytes:
    """By its last third."""
    coded = gzip.compress(body)
    return coded[: len(coded) * 2 // 3]


def _of_half(outcome: Outcome, coded: HttpExchange, plain: list[Outcome], *, whole: bool) -> str | None:
    """What is wrong with the client's answer to a response in a coding that holds the `whole` of the plain one, which
    was played twice."""
    usual, again = (each.client for each in plain)
    if outcome.client is None or usual is None or again is None or (outcome.status or 0) >= 400:
        return None
    if outcome.client.body == coded.response.body:
        left = outcome.client.first("content-encoding") == b"gzip"
        return None if left else "content-encoding is gone, and the body still compressed"
    if not whole:
        return "what is cut off becomes a success"
    alike = same_but_for_words(usual.body, outcome.client.body, again.body)
    return None if alike else "it isn't what becomes of the same answer without a coding"


def _hidden() -> Case:
    """`forward_rules` may keep any header from a processor."""

    async def judge(session: Session) -> Finding:
        if session.recipe.mutated is None:
            return skipped("the recipe names no exchange that is mutated")
        told = session.recipe.mutated.exchange
        usual = await session.play(session.home, told)
        outcome = await session.play(replace(session.home, hidden=(":path", ":method")), told)
        if usual.ending is not Ending.COMPLETE or _untouched(usual, told, session) is None:
            return skipped("nothing is mutated in the home layout")
        passes = outcome.ending in (Ending.COMPLETE, Ending.LEFT) and _untouched(outcome, told, session) is None
        return complaint(_MUST, "passes what it should mutate, without a sign", outcome.trace) if passes else passed()

    title = "`:path` and `:method` are hidden: what is mutated with them doesn't pass unseen without"
    return Case("HDR-03", _MUST, title, "ext_proc.proto forward_rules", judge, _PROFILE)


def _twice() -> Case:
    async def judge(session: Session) -> Finding:
        if session.recipe.mutated is None:
            return skipped("the recipe names no exchange that is mutated")
        exchange = session.recipe.mutated.exchange
        outcomes = [await session.play(session.home, exchange) for _ in range(3)]
        if outcomes[0].ending is not Ending.COMPLETE or any(outcome.upstream is None for outcome in outcomes):
            return skipped(f"ends as {outcomes[0].ending.value} in the home layout")
        bodies = [outcome.upstream.body for outcome in outcomes if outcome.upstream is not None]
        # Ids and times are the server's to choose.
        alike = same_but_for_words(*bodies) and len({outcome.ending for outcome in outcomes}) == 1
        return passed() if alike else complaint(_SHOULD, "the same request becomes another the second time")

    return Case("MUT-12", _SHOULD, "the same request twice: the same result", "idempotence", judge, _PROFILE)


def _mutated(id_: str, level: Level, title: str, source: str, *variants: Variant, **more: object) -> Case:
    return hosted(id_, level, title, source, *variants, which="mutated", profile=_PROFILE, **more)  # type: ignore[arg-type]


MUTATING = (
    _mutated(
        "MUT-01",
        _MUST,
        "a request with `content-length`, in each layout",
        "processing_mode.proto BUFFERED",
        *(Variant(settings) for settings in _LAYOUTS),
    ),
    _mutated(
        "MUT-02",
        _MUST,
        "a request without `content-length`",
        "processing_mode.proto BUFFERED",
        *(Variant(settings, shaped(_UNTOLD, None)) for settings in _LAYOUTS),
    ),
    _mutated(
        "MUT-03",
        _MUST,
        "a response without `content-length`; both bodies are what the recipe says",
        "processing_mode.proto BUFFERED",
        Variant(_WHOLE, shaped(None, _UNTOLD)),
        expect=_as_told,
        at_home=False,
    ),
    _mutated(
        "MUT-04",
        _MUST,
        "a response in gzip or deflate: decoded without its header, or left alone",
        "RFC 9110, 8.4",
        *(
            Variant(settings, shaped(None, _coded(coding, encode)), f"{coding.decode()} {settings.layout}")
            for coding, encode in ((b"gzip", gzip.compress), (b"deflate", zlib.compress))
            for settings in (_WHOLE, _DUPLEX)
        ),
        expect=_decodable,
    ),
    _mutated(
        "MUT-05",
        _MUST,
        "a response in a coding that nobody knows: left alone, or an error",
        "RFC 9110, 8.4",
        Variant(_WHOLE, shaped(None, _coded(b"x-unknown", lambda body: body[::-1]))),
        expect=_untouched_response,
    ),
    _members(),
    _mutated(
        "MUT-07",
        _MUST,
        "HEAD, 204 and 304: no body is made up",
        "RFC 9110, 6.4.1",
        *(
            Variant(settings, shaped(None, chain(with_pieces(), with_header((":status", status)))), status.decode())
            for status in (b"204", b"304")
            for settings in (_WHOLE, _DUPLEX)
        ),
        *(Variant(settings, _head, "HEAD") for settings in (_WHOLE, _DUPLEX)),
        expect=_bodiless,
    ),
    *(
        _mutated(
            f"MUT-08.{status}",
            _MUST,
            f"the upstream answers {status}: no success is made of it",
            "RFC 9110, 15",
            Variant(_WHOLE, shaped(None, with_header((":status", str(status).encode())))),
            expect=_kept_status(status),
        )
        for status in (404, 503)
    ),
    *(_large(mib) for mib in (1, 5, 30)),
    _too_large(),
    hosted(
        "MUT-11",
        _MUST,
        "what isn't to be changed stays as it is, byte for byte",
        "the recipe's `passes`",
        *(Variant(settings) for settings in _LAYOUTS),
        which="named",
        expect=_untouched,
        profile=_PROFILE,
    ),
    _mutated(
        "MUT-13",
        _MUST,
        "in each layout that shows both bodies they become what the recipe says, or it is refused",
        "external_processor.proto ProtocolConfiguration",
        *(
            Variant(HostSettings(request, response))
            for request in (BUFFERED, PARTIAL, STREAMED, FULL)
            for response in (BUFFERED, STREAMED, FULL)
        ),
        expect=_as_told,
        at_home=False,
    ),
    _hidden(),
    _twice(),
)
