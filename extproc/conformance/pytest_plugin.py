"""The cases as tests: `pytest --extproc-target HOST:PORT`, and `--extproc-` before the command's options.

Without the first option it does nothing. Each case is a test; a failure shows its reason and its messages, a refused
layout and what isn't played are skipped, and a warning is a warning.
"""

from __future__ import annotations

import asyncio
import warnings
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from extproc.conformance.recipe import PROFILES

if TYPE_CHECKING:
    from extproc.conformance.cases.case import Case, Session


class ConformanceWarning(UserWarning):
    """A SHOULD that isn't held."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("extproc", "ext_proc conformance")
    group.addoption("--extproc-target", metavar="HOST:PORT", help="judge this ext_proc server: each case is a test")
    group.addoption("--extproc-recipe", metavar="FILE", type=Path, help="what it lets pass, refuses and mutates")
    group.addoption(
        "--extproc-profile", action="append", choices=PROFILES, help="cases of this profile, instead of the recipe's"
    )
    group.addoption("--extproc-only", metavar="ID", action="append", default=[], help="only these cases, as LAY-*")
    group.addoption("--extproc-except", metavar="ID", action="append", default=[], help="leave these cases out")
    group.addoption("--extproc-envoy", metavar="VERSION", help="play the cases through this real Envoy too")
    group.addoption("--extproc-allow-remote", action="store_true", help="the server isn't on the loopback interface")


class _Run:
    """The connection that all cases share, and the loop that it lives in."""

    def __init__(self, config: pytest.Config) -> None:
        from extproc.conformance.client import is_local
        from extproc.conformance.recipe import Recipe, RecipeError, load

        self.target: str = config.getoption("--extproc-target")
        path: Path | None = config.getoption("--extproc-recipe")
        if not config.getoption("--extproc-allow-remote") and not is_local(self.target):
            raise pytest.UsageError(f"{self.target} is not on the loopback interface: --extproc-allow-remote")
        try:
            self.recipe = Recipe() if path is None else load(path)
        except (RecipeError, OSError) as error:
            raise pytest.UsageError(str(error)) from None
        if profiles := config.getoption("--extproc-profile"):
            self.recipe = replace(self.recipe, profiles=tuple(dict.fromkeys(profiles)))
        self._envoy: str | None = config.getoption("--extproc-envoy")
        self._runner = asyncio.Runner()
        self._open = AsyncExitStack()
        self._session: Session | None = None

    def judge(self, case: Case) -> Any:
        from extproc.conformance.client import UnreachableError
        from extproc.conformance.driver import HostError
        from extproc.conformance.runner import judge

        if self._session is None:
            try:
                self._session = self._runner.run(self._connect())
            except (UnreachableError, HostError) as error:  # it would be for each case, after as many waits
                pytest.exit(str(error), returncode=pytest.ExitCode.USAGE_ERROR)
        return self._runner.run(judge(case, self._session)).finding

    async def _connect(self) -> Session:
        from extproc.conformance.cases.case import Session
        from extproc.conformance.client import GrpcServer
        from extproc.conformance.runner import at_home, through_envoy

        server = await self._open.enter_async_context(
            GrpcServer(self.target, self.recipe.limits, self.recipe.metadata, self.recipe.metadata_context)
        )
        session = Session(self.recipe, server.open, server)
        if self._envoy is not None:
            session, _ = await through_envoy(session, self._envoy, self.target, self._open)
        return await at_home(session)

    def close(self) -> None:
        self._runner.run(self._open.aclose())
        self._runner.close()


_RUN = pytest.StashKey[_Run]()


class CaseItem(pytest.Item):
    """One case."""

    case: Case
    run: _Run

    def runtest(self) -> None:
        from extproc.conformance.verdicts import Verdict

        finding = self.run.judge(self.case)
        match finding.verdict:
            case Verdict.FAIL:
                raise NotConformingError("\n".join([finding.reason, *(f"    {step}" for step in finding.trace)]))
            case Verdict.WARN:
                warnings.warn(ConformanceWarning(f"{self.case.id}: {finding.reason}"), stacklevel=1)
            case Verdict.SKIP | Verdict.REFUSES:
                pytest.skip(f"{finding.verdict.value}: {finding.reason}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *_: object, **__: object) -> Any:
        if isinstance(excinfo.value, NotConformingError):
            return f"{self.case.id} ({self.case.level.value}) {self.case.title}\n{self.case.source}\n{excinfo.value}"
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return Path(__file__), None, f"{self.case.id} {self.case.title}"


class NotConformingError(Exception):
    """The reason, and the messages."""


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--extproc-target") is None:
        return
    from extproc.conformance.runner import ChoiceError, checked

    run = config.stash[_RUN] = _Run(config)
    only, left_out = config.getoption("--extproc-only"), config.getoption("--extproc-except")
    try:
        cases = checked(run.recipe.profiles, only, left_out, "--extproc-except")
    except ChoiceError as error:
        raise pytest.UsageError(str(error)) from None
    for case in cases:
        item: CaseItem = CaseItem.from_parent(session, name=case.id)
        item.case, item.run = case, run
        items.append(item)


def pytest_unconfigure(config: pytest.Config) -> None:
    if (run := config.stash.get(_RUN, None)) is not None:
        run.close()
