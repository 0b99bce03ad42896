"""A run: the chosen cases, one after another, with a server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from fnmatch import fnmatchcase

from extproc.conformance.cases import CASES
from extproc.conformance.cases.case import REFUSALS, Case, Session
from extproc.conformance.client import GrpcServer, UnreachableError, is_local
from extproc.conformance.driver import TooManyRepliesError, UnplayableError, play
from extproc.conformance.host.outcome import WELL, Ending
from extproc.conformance.host.settings import BodyMode, HostSettings
from extproc.conformance.invariants import Level
from extproc.conformance.recipe import Recipe
from extproc.conformance.verdicts import Finding, Report, Result, Verdict, skipped

SUITE = "5"
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


def chosen(profiles: Sequence[str], patterns: Sequence[str] = (), left_out: Sequence[str] = ()) -> Iterator[Case]:
    """The cases of these profiles whose id fits one of the patterns (`LAY-*`), if there are any, and none of those that
    are left out."""
    for case in CASES:
        wanted = not patterns or _fits(case, patterns)
        if case.profile in profiles and wanted and not _fits(case, left_out):
            yield case


def _fits(case: Case, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(case.id, pattern) for pattern in patterns)


class ChoiceError(Exception):
    """Patterns that choose no case, or leave none."""


def checked(profiles: Sequence[str], patterns: Sequence[str], left_out: Sequence[str], option: str) -> list[Case]:
    """The chosen cases. Raises ChoiceError where a pattern fits none of these profiles, or the option by which cases
    are left out leaves none."""
    told = (*patterns, *left_out)
    if strangers := [pattern for pattern in told if not any(chosen(profiles, [pattern]))]:
        raise ChoiceError(f"no case is named {', '.join(strangers)} in {', '.join(profiles)}")
    if not (cases := list(chosen(profiles, patterns, left_out))):
        raise ChoiceError(f"{option} leaves no case")
    return cases


async def at_home(session: Session) -> Session:
    """With the first layout in which the recipe's passing exchange goes well, of those that the recipe claims if it
    does, else of the baselines. If there is none: the first that isn't refused, and how it goes wrong there. With how
    the server answers the exchange there, if it does so itself."""
    homes = []
    for settings in _candidates(session.recipe):
        outcome = await play(replace(settings, release=session.release), session.recipe.passes, session.open())
        if outcome.ending is Ending.REFUSED and outcome.closed is not None and outcome.closed.status in REFUSALS:
            continue
        status = outcome.status if outcome.ending is Ending.IMMEDIATE else None
        well = outcome.ending in WELL
        home = replace(session, home=settings, ordinary=status, fails="" if well else outcome.ending.value)
        if well and not any(violation.invariant.level is Level.MUST for violation in outcome.violations):
            return home
        homes.append(home)
    return homes[0] if homes else session


def _candidates(recipe: Recipe) -> list[HostSettings]:
    """The layouts that the recipe claims, baselines first, and then the other baselines."""
    others = (
        HostSettings(BodyMode[request], BodyMode[response])
        for request, response in (layout.split("/") for layout in recipe.layouts)
    )
    baselines = [settings for settings in _BASELINES if settings.layout in recipe.layouts]
    return list(dict.fromkeys((*baselines, *others, *_BASELINES)))


async def judge(case: Case, session: Session) -> Result:
    """One case, within its time."""
    began, limits = time.monotonic(), session.recipe.limits
    allowed = limits.case + (limits.silence if case.rests else 0)
    try:
        async with asyncio.timeout(allowed):
            finding = await case.judge(session)
    except TimeoutError:
        finding = Finding(Verdict.FAIL, f"isn't over in {allowed:g} seconds")
    except (TooManyRepliesError, OSError) as error:
        finding = Finding(Verdict.FAIL, str(error))
    except UnplayableError as error:
        finding = skipped(str(error))
    seconds = time.monotonic() - began
    return Result(case.id, case.level, case.profile, case.title, case.source, case.layout, finding, seconds)


async def run(
    target: str,
    recipe: Recipe,
    *,
    patterns: Sequence[str] = (),
    left_out: Sequence[str] = (),
    allow_remote: bool = False,
    envoy: str | None = None,
    told: Callable[[Result], None] = lambda _: None,
) -> Report:
    """All cases that are `chosen`; `told` hears of each. `envoy` plays them too, and is a version or a program's path.
    Raises UnreachableError, and with an Envoy ReleaseError and EnvoyError."""
    if not allow_remote and not is_local(target):
        raise UnreachableError(
            f"{target} is not on this machine's loopback interface: say --allow-remote if it is yours"
        )
    results = []
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(
            GrpcServer(target, recipe.limits, recipe.metadata, recipe.metadata_context)
        )
        session = Session(recipe, server.open, server)
        if envoy is not None:
            session, name = await through_envoy(session, envoy, target, stack)
            target = f"{target} through Envoy {name}"
        session = await at_home(session)
        for case in chosen(recipe.profiles, patterns, left_out):
            result = await judge(case, session)
            results.append(result)
            told(result)
    return Report(target, SUITE, recipe.profiles, recipe.name, tuple(results))


async def through_envoy(session: Session, envoy: str, target: str, stack: AsyncExitStack) -> tuple[Session, str]:
    """The session with a real Envoy beside the simulated host, and its version. Raises ReleaseError and EnvoyError."""
    from extproc.conformance.envoys.host import EnvoyHost
    from extproc.conformance.envoys.releases import binary, version

    program = await asyncio.to_thread(binary, envoy)
    name = await asyncio.to_thread(version, program)
    major, minor, _ = name.split(".")
    recipe = session.recipe
    host = EnvoyHost(
        program,
        target,
        recipe.metadata,
        recipe.limits.reply,
        metadata_context=recipe.metadata_context,
        remembering=True,
    )
    await stack.enter_async_context(host)
    return replace(session, through=host.compare, release=(int(major), int(minor))), name
