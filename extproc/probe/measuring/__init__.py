"""`extproc probe --measure`: by which settings this very model calls tools best.

questions.py    what it is asked (questions.jsonl), and what is right
ways.py         the settings that are compared
asking.py       asks, by the gateway's own reading and writing
scores.py       counts, and chooses;  table.py: as lines for a person
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from extproc.probe.advice import Advice, Findings
from extproc.probe.measuring.asking import asked
from extproc.probe.measuring.questions import CATEGORIES, chosen
from extproc.probe.measuring.scores import Score, recommended, scored, worse_than_alone
from extproc.probe.measuring.ways import Way, confident, forced, plain, retried
from extproc.probe.server import Server, one_line
from extproc.toolcalls import parse

__all__ = ["CATEGORIES", "Measured", "Measuring", "Score", "Way", "measure", "worse_than_alone"]

_CALL, _THOUGHT = 300, 1500
"""Tokens for an answer, of a model that doesn't think first, and of one that does."""


@dataclass(frozen=True, slots=True)
class Measuring:
    """How it is to be done."""

    questions: int = 40
    """A quarter of each category; there are 80."""
    seed: int = 0
    concurrency: int = 8
    """How many are asked at once."""
    told: Callable[[str, int, int], None] = lambda _way, _done, _of: None
    """Hears which way is asked, and how many of how many questions are answered."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What was found, and what follows from it."""

    scores: tuple[Score, ...]
    """In the order in which the ways were asked."""
    best: Score | None
    """None: nothing follows from them."""
    void: str = ""
    """Why nothing follows."""
    seed: int = 0

    def advised(self, advice: Advice) -> Advice:
        """The advice, with what the measure says of mode, format, wording and forcing."""
        if self.best is None or self.best.way.settings is None:
            return replace(advice, because=f"{advice.because}; {self.void}")
        settings, total = self.best.way.settings, self.best.total
        because = f"measured: right in {total.right} of {total.of} questions (seed {self.seed})"
        if worse := worse_than_alone(self.best, self.scores):
            because += f"; the server alone is right more often where asked for {_listed(worse)}"
        return replace(
            advice,
            tools=settings["tools"],
            because=because,
            format=settings["format"],
            format_because=self._why_format(settings["format"], advice),
            thinking=settings.get("thinking", "tags"),
            example=settings.get("example", False),
            forced=settings.get("forced", False),
            retry=settings.get("retry", False),
            min_confidence=settings.get("min_confidence"),
        )

    def _why_format(self, name: str, advice: Advice) -> str:
        if name == advice.format:
            return advice.format_because
        assert self.best is not None
        own = (score for score in self.scores if score.way.settings and score.way.settings["format"] == advice.format)
        if self.best.total.right > max((score.total.right for score in own), default=0):
            return "measured: a list brings more right answers"
        return "measured: a list brings as many right answers, with a shorter prompt"


def measure(server: Server, findings: Findings, advice: Advice, how: Measuring) -> Measured:
    """Ask the questions in all ways, then in the best one with calls that are held to their schemas, then once more
    where tools are made up, and where they are called needlessly."""
    cases, model = chosen(how.questions, how.seed), findings.card.name
    max_tokens = _THOUGHT if _thinks(findings, advice) else _CALL

    def score(way: Way) -> Score:
        answers = asked(
            server,
            model,
            findings.server,
            way,
            cases,
            max_tokens=max_tokens,
            concurrency=how.concurrency,
            told=lambda done: how.told(f"{one_line(model)}, {way.told}", done, len(cases)),
        )
        return scored(way, cases, answers)

    scores: list[Score] = []
    for way in plain(findings, advice):
        scores.append(score(way))
        if scores[-1].failed == len(cases):
            break  # The other ways would wait for as long.
    best, void = recommended(scores)
    held = forced(best.way, findings) if best is not None else None
    if held is not None:
        scores.append(score(held))
        best, void = recommended(scores)
    again = retried(best.way) if best is not None and best.as_text else None
    if again is not None:
        scores.append(score(again))
        best, void = recommended(scores)
    if best is not None and best.needless:
        for way in confident(best.way, findings):
            tried = score(way)
            if tried.is_void:  # a server that refuses to tell probabilities says nothing of the other ways
                break
            scores.append(tried)
        best, void = recommended(scores)
    return Measured(tuple(scores), best, void, how.seed)


def _thinks(findings: Findings, advice: Advice) -> bool:
    if findings.chat.reasoning_parser or advice.thinking == "open":
        return True
    texts = [offer.text for offer in (findings.auto, findings.none)]
    return any("<think" in text or parse(text, format=advice.format).reasoning is not None for text in texts)


def _listed(categories: list[str]) -> str:
    return ", ".join(CATEGORIES[name] for name in categories)
