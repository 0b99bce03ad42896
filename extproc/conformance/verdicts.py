"""What is said of a case, and of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from extproc.conformance.invariants import Level


class Verdict(Enum):
    """Of a case, the worst last."""

    PASS = "PASS"  # noqa: S105
    SKIP = "SKIP"
    """Not played: the recipe doesn't say what it takes, or it can't be played from outside."""
    REFUSES = "REFUSES"
    """The processor refuses the layout by a gRPC status in place of its first reply: it may."""
    WARN = "WARN"
    """A SHOULD isn't held."""
    FAIL = "FAIL"


_RANK = {verdict: rank for rank, verdict in enumerate(Verdict)}


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict and its reason. `trace` tells the messages, where there is something to explain."""

    verdict: Verdict
    reason: str = ""
    broken: tuple[str, ...] = ()
    """Ids of the invariants that were broken."""
    trace: tuple[str, ...] = ()


PASSED = Finding(Verdict.PASS)


def passed(note: str = "") -> Finding:
    return Finding(Verdict.PASS, note)


def skipped(reason: str) -> Finding:
    return Finding(Verdict.SKIP, reason)


def complaint(level: Level, reason: str, trace: tuple[str, ...] = ()) -> Finding:
    """What a case of that level finds wrong."""
    verdict = {Level.MUST: Verdict.FAIL, Level.SHOULD: Verdict.WARN, Level.MAY: Verdict.PASS}[level]
    return Finding(verdict, reason, (), trace)


def worst(findings: Sequence[tuple[str, Finding]]) -> Finding:
    """Of a case's variants, each with a label: the worst verdict, with the reasons of all that have it. Refused layouts
    don't count where another one is played, and neither do variants that aren't played."""
    for verdict in (Verdict.SKIP, Verdict.REFUSES):
        if any(finding.verdict is not verdict for _, finding in findings):
            findings = [(label, finding) for label, finding in findings if finding.verdict is not verdict]
    [verdict] = {max((finding.verdict for _, finding in findings), key=_RANK.__getitem__)}
    those = [(label, finding) for label, finding in findings if finding.verdict is verdict]
    reasons = [f"{label}: {finding.reason}" if label else finding.reason for label, finding in those if finding.reason]
    broken = dict.fromkeys(each for _, finding in those for each in finding.broken)
    return Finding(verdict, "; ".join(dict.fromkeys(reasons)), tuple(broken), those[0][1].trace)


@dataclass(frozen=True, slots=True)
class Result:
    """Of one case in one run."""

    id: str
    level: Level
    profile: str
    title: str
    source: str
    layout: str
    """`REQUEST/RESPONSE` body modes, for the cases of the layout matrix; else empty."""
    finding: Finding
    seconds: float

    @property
    def verdict(self) -> Verdict:
        return self.finding.verdict


@dataclass(frozen=True, slots=True)
class Report:
    """One run."""

    target: str
    suite: str
    """The suite's version."""
    profiles: tuple[str, ...]
    recipe: str
    """Its file's name, or `defaults`."""
    results: tuple[Result, ...]

    def count(self, verdict: Verdict) -> int:
        return sum(result.verdict is verdict for result in self.results)

    @property
    def conforms(self) -> bool:
        """No failure, and not everything refused or skipped."""
        good = self.count(Verdict.PASS) + self.count(Verdict.WARN)
        return not self.count(Verdict.FAIL) and good > 0

    @property
    def summary(self) -> str:
        counts = [f"{self.count(verdict)} {verdict.value}" for verdict in reversed(Verdict) if self.count(verdict)]
        return ", ".join(counts) or "no case was chosen"
