"""How often a way of asking was right, and which way is recommended. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from extproc.model_checks.cases import Case
from extproc.model_checks.judging import checks, is_right
from extproc.model_checks.reading import Answer
from extproc.model_checks.scores import Rate
from extproc.probe.measuring.questions import CATEGORIES, NONE
from extproc.probe.measuring.ways import Way

_TOLD_APART = 20
"""One question in so many tells no way from another."""


@dataclass(frozen=True, slots=True)
class Score:
    """What came of all questions, asked in one way."""

    way: Way
    categories: Mapping[str, Rate]
    """Right answers, by the categories of the questions."""
    valid: Rate
    """Answers with calls whose calls are all of offered tools and allowed by their schemas, of those with calls."""
    prompt_tokens: float | None
    """On average; None where the server counts none."""
    failed: int
    """Questions that got no answer."""
    complaint: str = ""
    """What was said instead of the first of those."""
    cut_off: int = 0
    """Answers that reached their token limit: wrong, whatever they were about to say."""
    as_text: int = 0
    """Answers with a call left in their text, which no client reads: of a made-up tool, or in another format."""
    needless: int = 0
    """Answers with a call where there had to be none."""

    @property
    def total(self) -> Rate:
        rates = self.categories.values()
        return Rate(sum(rate.right for rate in rates), sum(rate.of for rate in rates))

    @property
    def is_void(self) -> bool:
        """Too many questions got no answer."""
        return self.failed > self.total.of // _TOLD_APART

    @property
    def right_calls(self) -> int:
        """Right answers in which there had to be a call."""
        return self.total.right - self.categories[NONE].right


def scored(way: Way, cases: Sequence[Case], answers: Sequence[Answer]) -> Score:
    """By `is_right` of the model checks."""
    right = dict.fromkeys(CATEGORIES, 0)
    of = dict.fromkeys(CATEGORIES, 0)
    called = valid = as_text = needless = 0
    for case, answer in zip(cases, answers, strict=True):
        found = checks(case, answer)
        of[case.feature] += 1
        right[case.feature] += is_right(case, answer, found)
        as_text += found.get("text") is not None and not answer.is_cut_off
        if answer.is_answer and answer.calls and not answer.is_cut_off:
            called += 1
            needless += not case.call
            valid += found["schema"] is None
    failures = [answer for answer in answers if not answer.is_answer]
    tokens = [answer.prompt_tokens for answer in answers if answer.is_answer and answer.prompt_tokens]
    return Score(
        way=way,
        categories={name: Rate(right[name], of[name]) for name in CATEGORIES},
        valid=Rate(valid, called),
        prompt_tokens=sum(tokens) / len(tokens) if tokens else None,
        failed=len(failures),
        complaint=failures[0].error if failures else "",
        cut_off=sum(answer.is_answer and answer.is_cut_off for answer in answers),
        as_text=as_text,
        needless=needless,
    )


def recommended(scores: Sequence[Score]) -> tuple[Score | None, str]:
    """The one that is right most often, or None, with why nothing follows from the scores.

    Of those that one question in twenty doesn't tell from it, it is one that is nowhere right less often than the
    server alone, if there is any; then the one that costs the fewest tokens of prompt, then the one with the fewest
    invalid calls, then the plainest, which comes first. With `retry: true` a way costs what it does without: only
    answers that were wrong anyway are asked for again. It is taken if it brings more right answers than without;
    `min_confidence` too, and where that costs right calls, if it can be told from the way without. The server alone
    can't be it: with `repair: true` native mode is that, and more.
    """
    able = [score for score in scores if score.way.settings is not None]
    for score in able:
        if score.is_void:
            return None, f"measured nothing: too many questions got no answer ({score.way.told})"
    if not any(score.right_calls for score in able):
        return None, "measured nothing: in no way was any call right"
    best = max(score.total.right for score in able)
    near = [
        score
        for score in able
        if best - score.total.right <= score.total.of // _TOLD_APART and not _is_outdone(score, able)
    ]

    def costs(score: Score) -> tuple[bool, float, float]:
        once = min((each for each in able if _asks_as(each, score)), key=_demands)
        return bool(worse_than_alone(score, scores)), once.prompt_tokens or 0.0, -(score.valid.value or 0.0)

    return min(near, key=costs), ""


def _is_outdone(score: Score, scores: Iterable[Score]) -> bool:
    """By the same first question with more right answers in the end, or with as many and fewer second questions. What
    asks once more outdoes the same way with a grammar too, with which it wasn't asked."""
    return any(
        _outdoes(other, score)
        for other in scores
        if other.way != score.way
        and (_asks_as(other, score) or (_asks_as(other, score, but="forced") and _demands(other) > _demands(score)))
    )


def _outdoes(other: Score, score: Score) -> bool:
    if other.total.right == score.total.right:
        return _demands(other) < _demands(score)
    return other.total.right > score.total.right and other.right_calls >= score.right_calls


_OF_SECOND = ("retry", "min_confidence")
"""The settings by which the model is asked once more."""


def _asks_as(score: Score, other: Score, but: str = "") -> bool:
    """Whether both ask the same at first, one setting aside."""
    one, another = (
        {name: value for name, value in (each.way.settings or {}).items() if name not in (*_OF_SECOND, but)}
        for each in (score, other)
    )
    return one == another


def _demands(score: Score) -> int:
    """For how many reasons the model is asked once more."""
    return sum(bool((score.way.settings or {}).get(name)) for name in _OF_SECOND)


def worse_than_alone(score: Score, scores: Iterable[Score]) -> list[str]:
    """The categories in which the server alone is right more often."""
    alone = next((each for each in scores if each.way.settings is None), None)
    if alone is None:
        return []
    return [name for name, rate in score.categories.items() if rate.right < alone.categories[name].right]
