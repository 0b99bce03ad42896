"""What came of a run, as text for a terminal, as markdown and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from extproc.model_checks.judging import CHECKS, SERVER_CHECKS, Judgement
from extproc.model_checks.scores import WAYS, Rate, by_feature, scores


@dataclass(frozen=True, slots=True)
class Report:
    """One run: what was asked, and what is to be said of each case."""

    run: Mapping[str, Any]
    judgements: Mapping[str, Sequence[Judgement]]
    """By the set: `cases`, `bfcl`."""

    @property
    def keeps_form(self) -> bool:
        """Whether nothing is wrong that no model is to blame for."""
        return not any(
            reason
            for judgements in self.judgements.values()
            for one in judgements
            for checks in (one.whole, one.streamed)
            for name, reason in checks.items()
            if name in SERVER_CHECKS
        )

    def as_json(self) -> dict[str, Any]:
        return {"run": dict(self.run), "sets": {name: _set(ones) for name, ones in self.judgements.items()}}

    def as_markdown(self) -> str:
        lines = [f"Model `{self.run.get('model')}`, temperature 0, at most {self.run.get('max_tokens')} tokens."]
        for name, judgements in self.judgements.items():
            lines += ["", f"## {name}: {len(judgements)} cases", "", *_table(judgements), "", *_features(judgements)]
        return "\n".join(lines) + "\n"

    def as_text(self) -> str:
        """A line for each thing that is wrong, then what markdown has."""
        found = [line for judgements in self.judgements.values() for one in judgements for line in _wrong(one)]
        return "\n".join([*found, self.as_markdown()])


def _set(judgements: Sequence[Judgement]) -> dict[str, Any]:
    return {
        **{how: scores(judgements, how).as_json() for how in WAYS},
        "features": {
            feature: {how: scores(ones, how).as_json() for how in WAYS}
            for feature, ones in by_feature(judgements).items()
        },
        "wrong": {
            one.case.id: {
                how: {name: reason for name, reason in checks.items() if reason}
                for how, checks in (("whole", one.whole), ("streamed", one.streamed))
                if any(checks.values())
            }
            for one in judgements
            if any(one.whole.values()) or any(one.streamed.values())
        },
    }


def _wrong(one: Judgement) -> Iterator[str]:
    for how, checks in (("whole", one.whole), ("streamed", one.streamed)):
        for name, reason in checks.items():
            if reason:
                yield f"{one.case.id} {how} {name}: {reason}"


def _table(judgements: Sequence[Judgement]) -> Iterator[str]:
    found = [scores(judgements, how) for how in WAYS]
    yield "| | whole | streamed |"
    yield "| --- | --: | --: |"
    calling = [one.calling for one in found]
    yield _row("precision of calling", [with_interval(one.precision) for one in calling])
    yield _row("recall of calling", [with_interval(one.recall) for one in calling])
    yield _row("F1 of calling", [share(one.f1, one.f1_interval) for one in calling])
    for name, meaning in CHECKS.items():
        if any(one.checks[name].of for one in found):
            yield _row(f"`{name}`: {meaning}", [counted(one.checks[name]) for one in found])
    yield _row("cut off at the most tokens", [str(one.cut_off) for one in found])


def _features(judgements: Sequence[Judgement]) -> Iterator[str]:
    yield "| about | cases | `decision` | `schema` | `match` |"
    yield "| --- | --: | --: | --: | --: |"
    for feature, ones in by_feature(judgements).items():
        checks = scores(ones, "whole").checks
        cells = [f"{checks[name].right}/{checks[name].of}" if checks[name].of else "-" for name in _OF_FEATURES]
        yield _row(feature, [str(len(ones)), *cells])


_OF_FEATURES = ("decision", "schema", "match")


def _row(title: str, cells: Sequence[str]) -> str:
    return f"| {title} | {' | '.join(cells)} |"


def counted(rate: Rate) -> str:
    """As in `190 of 212, 90 % (85-93)`."""
    return f"{rate.right} of {rate.of}, {with_interval(rate)}" if rate.of else "-"


def with_interval(rate: Rate) -> str:
    return share(rate.value, rate.interval)


def share(value: float | None, interval: tuple[float, float] | None) -> str:
    """As in `90 % (85-93)`."""
    if value is None or interval is None:
        return "-"
    low, high = interval
    return f"{100 * value:.0f} % ({100 * low:.0f}-{100 * high:.0f})"
