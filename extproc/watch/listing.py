"""The list of exchanges in its order, and what of it is wanted. (The page has this in its scripts.)"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from extproc.watch.summary import Summary

OUTCOMES: Mapping[str, str] = MappingProxyType(
    {
        "running": "running",
        "failed": "failed",
        "invalid": "bad call",
        "left": "left",
        "called": "called",
        "answered": "answered",
        "passed": "passed by",
    }
)
"""How an exchange ended, in words, by its State."""
URGENT: Mapping[str, int] = MappingProxyType({"running": 0, "failed": 1})
"""Which come first, in which order."""


def outcome_of(summary: Summary) -> str:
    """In words; of one whose tools run on our side the rounds tell it."""
    return "run" if summary.is_run and summary.state == "passed" else OUTCOMES[summary.state]


@dataclass(frozen=True, slots=True)
class Filter:
    """What is wanted; "" is anything."""

    search: str = ""
    """Words, all of which have to be found."""
    outcome: str = ""
    """A State."""
    model: str = ""
    client: str = ""
    """The name of a key."""

    def matching(self, summaries: Iterable[Summary]) -> Iterator[Summary]:
        """Those that are wanted."""
        if self == _ANYTHING:
            yield from summaries
            return
        words = self.search.lower().split()
        for each in summaries:
            if (
                (not self.outcome or each.state == self.outcome)
                and (not self.model or each.model == self.model)
                and (not self.client or each.client == self.client)
                and (not words or _has(each, words))
            ):
                yield each


_ANYTHING = Filter()


@dataclass(frozen=True, slots=True)
class Line:
    """One exchange in the list."""

    summary: Summary
    under: bool = False
    """It is a round, and stands under its run."""


def arranged(summaries: Sequence[Summary], wanted: Filter) -> list[Line]:
    """Those that are wanted, of all, of which the oldest come first.

    Running and failed ones are first, then the newest; the rounds of a run are under it.
    """
    runs = {each.request_id: each for each in summaries if each.is_run and each.request_id}
    found = list(wanted.matching(summaries))
    wanted_runs = {each.request_id for each in found if each.is_run and runs.get(each.request_id) is each}
    rounds: dict[str, list[Line]] = {}
    groups: tuple[list[Line], list[Line], list[Line]] = ([], [], [])
    for each in found:
        if each.round is not None and each.request_id in wanted_runs:
            rounds.setdefault(each.request_id, []).append(Line(each, under=True))
    for each in reversed(found):
        if each.round is not None and each.request_id in wanted_runs:
            continue  # it stands under its run
        group = groups[URGENT.get(each.state, 2)]
        group.append(Line(each))
        if each.is_run:
            group += rounds.get(each.request_id, ())
    return [line for group in groups for line in group]


def rounds_of(run: Summary, summaries: Iterable[Summary]) -> list[Summary]:
    """The rounds of a run, in their order."""
    found = [(each.round, each) for each in summaries if each.round is not None and each.request_id == run.request_id]
    return [each for _, each in sorted(found, key=lambda numbered: numbered[0])]


def _has(summary: Summary, words: Sequence[str]) -> bool:
    fields = (
        summary.words,
        summary.model,
        summary.path,
        summary.request_id,
        summary.error,
        summary.client,
        summary.status,
        *summary.calls,
    )
    hay = "\n".join(str(field) for field in fields if field is not None).lower()
    return all(word in hay for word in words)
