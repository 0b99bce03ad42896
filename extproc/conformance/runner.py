"""A run: the chosen cases, one after another, with a server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from extproc.conformance.cases import CASES
from extproc.conformance.cases.case import Case, Session
from extproc.conformance.client import GrpcServer, UnreachableError, is_local
from extproc.conformance.driver import TooManyRepliesError, play
from extproc.conformance.host.outcome import Ending
from extproc.conformance.host.settings import BodyMode, HostSettings
from extproc.conformance.recipe import Recipe
from extproc.conformance.verdicts import Finding, Report, Result, Verdict

SUITE = "2"
"""The version of the catalogue: one more with each case that judges otherwise."""

_BASELINES = tuple(
    HostSettings(request, response)
    for request, response in (
        (BodyMode.BUFFERED, BodyMode.BUFFERED),
        (BodyMode.BUFFERED, BodyMode.NONE),
        (BodyMode.FULL_DUPLEX_STREAMED, BodyMode.FULL_DUPLEX_STREAMED),
        (BodyMode.STREAMED, BodyMode.STREAMED),
        (BodyMode.NONE, BodyMode.NONE),
    )
)


def chosen(profiles: Sequence[str], patterns: Sequence[str] = ()) -> Iterator[Case]:
    """The cases of these profiles whose id fits one of the patterns (`LAY-*`), if there are any."""
    for case in CASES:
        if case.profile in profiles and (not patterns or any(fnmatchcase(case.id, pattern) for pattern in patterns)):
            yield case


async def at_home(session: Session) -> Session:
    """With the first layout that the server doesn't refuse, and how it answers the recipe's passing exchange there, if
    it does so itself, or fails it."""
    for settings in _BASELINES:
        outcome = await play(settings, session.recipe.passes, session.open())
        if outcome.ending is not Ending.REFUSED:
            status = outcome.status if outcome.ending is Ending.IMMEDIATE else None
            well = outcome.ending in (Ending.COMPLETE, Ending.LEFT, Ending.IMMEDIATE)
            return replace(session, home=settings, ordinary=status, fails="" if well else outcome.ending.value)
    return session


async def judge(case: Case, session: Session) -> Result:
    """One case, within its time."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(session.recipe.limits.case):
            finding = await case.judge(session)
    except TimeoutError:
        finding = Finding(Verdict.FAIL, f"isn't over in {session.recipe.limits.case:g} seconds")
    except TooManyRepliesError as error:
        finding = Finding(Verdict.FAIL, str(error))
    seconds = time.monotonic() - began
    return Result(case.id, case.level, case.profile, case.title, case.source, case.layout, finding, seconds)


async def run(
    target: str,
    recipe: Recipe,
    *,
    patterns: Sequence[str] = (),
    allow_remote: bool = False,
    told: Callable[[Result], None] = lambda _: None,
) -> Report:
    """All chosen cases; `told` hears of each. Raises UnreachableError."""
    if not allow_remote and not is_local(target):
        raise UnreachableError(
            f"{target} is not on this machine's loopback interface: say --allow-remote if it is yours"
        )
    results = []
    async with GrpcServer(target, recipe.limits, recipe.metadata, recipe.metadata_context) as server:
        session = await at_home(Session(recipe, server.open, server))
        for case in chosen(recipe.profiles, patterns):
            result = await judge(case, session)
            results.append(result)
            told(result)
    return Report(target, SUITE, recipe.profiles, recipe.name, tuple(results))
