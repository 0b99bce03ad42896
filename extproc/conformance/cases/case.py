"""What a case is, and how an outcome is judged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from extproc.conformance.driver import Link, UnplayableError, Unread, play
from extproc.conformance.host.outcome import Ending, Outcome
from extproc.conformance.host.settings import BodyMode, HostSettings, HttpExchange, HttpMessage
from extproc.conformance.invariants import Level
from extproc.conformance.recipe import Recipe
from extproc.conformance.verdicts import PASSED, Finding, Verdict, complaint, passed, skipped, worst
from extproc.wire import ProcessingRequest

REFUSALS = frozenset({"FAILED_PRECONDITION", "INVALID_ARGUMENT", "UNIMPLEMENTED", "OUT_OF_RANGE", "PERMISSION_DENIED"})
"""Statuses that say that something isn't offered. INTERNAL, UNKNOWN and the others say that something broke."""


class Server(Protocol):
    """Where the server can be reached beside `Process`."""

    async def health(self, service: str) -> str:
        """`SERVING` or another status of grpc.health.v1, or the gRPC status of the failure."""

    async def pings(self, number: int, seconds: float) -> str | None:
        """PINGs on a connection with a silent exchange, so many, so far apart. What went wrong, if anything did."""

    def clock(self) -> float:
        """Seconds that only go on."""

    def open_compressed(self) -> Link:
        """A call whose messages are compressed with gzip."""

    def open_with_deadline(self, seconds: float) -> Link:
        """A call with a `grpc-timeout`."""

    async def unread(self, messages: Sequence[ProcessingRequest]) -> Unread:
        """A call on which these are sent, as far as the server takes them, and no reply is read."""

    async def rest(self, seconds: float) -> None:
        """Nothing happens for so long."""


Through: TypeAlias = Callable[[HostSettings, HttpExchange, Callable[[], Awaitable[Outcome]]], Awaitable[Outcome]]


@dataclass(frozen=True, slots=True)
class Session:
    """What a case needs to be played: a way to open calls, and the recipe."""

    recipe: Recipe
    open: Callable[[], Link]
    server: Server | None = None
    """None where the processor is an object in this process."""
    ordinary: int | None = None
    """The status with which the server itself answers the recipe's `passes`, where it is shown the body; None: it
    lets it pass."""
    fails: str = ""
    """How the recipe's `passes` goes wrong whatever the case, if it does: then it can't tell what else is wrong."""
    home: HostSettings = field(default_factory=HostSettings)
    """A layout that the server doesn't refuse: cases that aren't about layouts are played in it too."""
    through: Through | None = None
    """A real Envoy that plays each exchange too, and is compared with the simulated host, which it can ask."""
    release: tuple[int, int] = (1, 40)
    """Which Envoy the simulated host is."""

    async def play(self, settings: HostSettings, exchange: HttpExchange) -> Outcome:
        """Raises UnplayableError."""
        settings = replace(settings, release=self.release)

        async def simulated() -> Outcome:
            return await play(settings, exchange, self.open())

        return await (simulated() if self.through is None else self.through(settings, exchange, simulated))


Shape: TypeAlias = Callable[[HttpExchange], HttpExchange]
Expectation: TypeAlias = Callable[[Outcome, HttpExchange, Session], "str | None"]
"""What is wrong, if anything is."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to play a case."""

    settings: HostSettings
    shape: Shape = lambda exchange: exchange
    label: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the catalogue. `judge` plays it."""

    id: str
    level: Level
    title: str
    source: str
    judge: Callable[[Session], Coroutine[Any, Any, Finding]]
    profile: str = "core"
    layout: str = ""
    rests: bool = False
    """It leaves an exchange alone for the recipe's `limits.silence`, beside the time that a case may take."""


def hosted(
    id_: str,
    level: Level,
    title: str,
    source: str,
    *variants: Variant,
    which: str = "passes",
    expect: Expectation | None = None,
    odd: bool = False,
    at_home: bool = True,
    profile: str = "core",
    layout: str = "",
) -> Case:
    """A case that the simulated host plays, in the server's home layout too if `at_home`. `which`: the recipe's
    `passes` or its `mutated`; `named` is `passes` where the recipe has it. `odd`: the server may refuse such an
    exchange, but not break; at the level SHOULD it is warned of what breaks then."""

    async def judge(session: Session) -> Finding:
        told = session.recipe.passes
        if which == "mutated":
            if session.recipe.mutated is None:
                return skipped("the recipe names no exchange that is mutated")
            told = session.recipe.mutated.exchange
        if which == "named" and not session.recipe.passes_told:
            return skipped("the recipe names no exchange that passes")
        findings = []
        for variant in _at_home(variants, session.home) if at_home else variants:
            exchange = variant.shape(told)
            label = variant.label or (variant.settings.layout if len(variants) > 1 else "")
            try:
                outcome = await session.play(variant.settings, exchange)
            except UnplayableError as error:
                findings.append((label, skipped(str(error))))
                continue
            claimed = not odd and variant.settings == HostSettings(*variant.settings.modes)
            finding = judged(outcome, session, variant.settings, odd, which == "mutated", claimed)
            if expect is not None and finding.verdict in (Verdict.PASS, Verdict.WARN):
                wrong = expect(outcome, exchange, session)
                finding = finding if wrong is None else complaint(level, wrong, outcome.trace)
            if odd and level is Level.SHOULD and finding.verdict is Verdict.FAIL and outcome.differs is None:
                finding = replace(finding, verdict=Verdict.WARN)
            findings.append((label, finding))
        return worst(findings)

    return Case(id_, level, title, source, judge, profile, layout)


def _at_home(variants: tuple[Variant, ...], home: HostSettings) -> tuple[Variant, ...]:
    """With those that are missing in this layout."""
    if any(variant.settings.modes == home.modes for variant in variants):
        return variants
    request, response = home.modes
    # In full duplex headers may be held back until the body has ended: no upstream answers before that.
    late = request is BodyMode.FULL_DUPLEX_STREAMED
    more = {
        (variant.shape, variant.label): replace(
            variant, settings=replace(variant.settings, request_body=request, response_body=response)
        )
        for variant in variants
        if not (late and variant.settings.early_response)
    }
    return (*variants, *more.values())


def judged(
    outcome: Outcome, session: Session, settings: HostSettings, odd: bool, may_answer: bool, claimed: bool
) -> Finding:
    """By the invariants, and by how the exchange went. `odd`: any refusal is right. `may_answer`: and so is an answer
    of the server's own. `claimed`: a layout that the recipe claims may not be refused."""
    may_answer |= odd
    of_level = {
        each: [violation for violation in outcome.violations if violation.invariant.level is each] for each in Level
    }
    broken = tuple(dict.fromkeys(violation.id for violation in outcome.violations))
    if (by_hosts := _by_hosts(outcome, broken)) is not None:
        return by_hosts
    if must := of_level[Level.MUST]:
        return Finding(Verdict.FAIL, "; ".join(map(str, must[:3])), broken, outcome.trace)
    closed = str(outcome.closed)
    refusal = outcome.closed is not None and outcome.closed.status in REFUSALS
    match outcome.ending:
        case Ending.REFUSED | Ending.BROKEN_OFF | Ending.CUT if odd and refusal:
            return passed(f"refused: {closed}")
        case Ending.REFUSED if refusal:
            if claimed and settings.layout in session.recipe.layouts:
                return Finding(Verdict.FAIL, f"refuses a layout that it claims: {closed}", (), outcome.trace)
            return Finding(Verdict.REFUSES, closed, (), outcome.trace)
        case Ending.BROKEN_OFF if refusal and outcome.upstream is None and not settings.protocol_config:
            # It couldn't know before the body came, and nothing went on.
            return Finding(Verdict.REFUSES, closed, (), outcome.trace)
        case Ending.REFUSED | Ending.BROKEN_OFF | Ending.CUT:
            return Finding(Verdict.FAIL, f"the call breaks off: {closed}", (), outcome.trace)
        case Ending.IMMEDIATE if not may_answer and (session.recipe.passes_told or session.ordinary is None):
            reason = f"answers {outcome.status} itself to an exchange that it lets pass"
            return Finding(Verdict.FAIL, reason, (), outcome.trace)
        case Ending.IMMEDIATE if not may_answer and outcome.status != session.ordinary:
            reason = f"answers {outcome.status} itself, and elsewhere {session.ordinary}"
            return Finding(Verdict.FAIL, reason, (), outcome.trace)
        case Ending.ERROR | Ending.TIMEOUT | Ending.HUNG | Ending.CORRUPT:
            reasons = [f"ends as {outcome.ending.value} {outcome.detail}".rstrip(), *map(str, outcome.violations[:3])]
            return Finding(Verdict.FAIL, "; ".join(reasons), broken, outcome.trace)
    if should := of_level[Level.SHOULD]:
        return Finding(Verdict.WARN, "; ".join(map(str, should[:3])), broken, outcome.trace)
    if may := of_level[Level.MAY]:
        return Finding(Verdict.PASS, str(may[0]), broken, outcome.trace)
    if outcome.ending is Ending.IMMEDIATE:
        return passed(f"answered {outcome.status} by the server itself")
    return PASSED


def _by_hosts(outcome: Outcome, broken: tuple[str, ...]) -> Finding | None:
    """What is to be said of the hosts, before anything of the processor."""
    if outcome.differs is not None:
        return Finding(Verdict.FAIL, f"Envoy isn't as simulated: {outcome.differs}", broken, outcome.trace)
    return skipped(outcome.own) if outcome.own else None


def scripted(
    id_: str,
    level: Level,
    title: str,
    source: str,
    script: Callable[[Session], Awaitable[str | Finding | None]],
    *,
    needs_server: bool = False,
    rests: bool = False,
) -> Case:
    """A case that is written out: `script` returns what is wrong, if anything is."""

    async def judge(session: Session) -> Finding:
        if session.through is not None:
            return skipped("the suite writes its messages itself, and not through an Envoy")
        if needs_server and session.server is None:
            return skipped("needs a server over gRPC")
        found = await script(session)
        if isinstance(found, Finding):
            return found
        return PASSED if found is None else complaint(level, found)

    return Case(id_, level, title, source, judge, rests=rests)


# Shapes


def shaped(
    request: Callable[[HttpMessage], HttpMessage] | None, response: Callable[[HttpMessage], HttpMessage] | None
) -> Shape:
    """Change the request, the response, or both."""

    def shape(exchange: HttpExchange) -> HttpExchange:
        return HttpExchange(
            exchange.request if request is None else request(exchange.request),
            exchange.response if response is None else response(exchange.response),
        )

    return shape


def cut(size: int) -> Callable[[HttpMessage], HttpMessage]:
    """The body in pieces of so many bytes."""
    return lambda message: replace(
        message, pieces=tuple(message.body[at : at + size] for at in range(0, len(message.body), size))
    )


def with_trailers(message: HttpMessage) -> HttpMessage:
    return replace(message, trailers=(("x-conformance-trailer", b"1"),))


def with_pieces(*pieces: bytes) -> Callable[[HttpMessage], HttpMessage]:
    def change(message: HttpMessage) -> HttpMessage:
        headers = tuple(pair for pair in message.headers if pair[0] != "content-length")
        return replace(message, headers=headers, pieces=pieces)

    return change


def with_header(*headers: tuple[str, bytes], without: tuple[str, ...] = ()) -> Callable[[HttpMessage], HttpMessage]:
    def change(message: HttpMessage) -> HttpMessage:
        names = {name for name, _ in headers} | set(without)
        return replace(message, headers=(*(pair for pair in message.headers if pair[0] not in names), *headers))

    return change


def chain(*changes: Callable[[HttpMessage], HttpMessage]) -> Callable[[HttpMessage], HttpMessage]:
    def change(message: HttpMessage) -> HttpMessage:
        for one in changes:
            message = one(message)
        return message

    return change
