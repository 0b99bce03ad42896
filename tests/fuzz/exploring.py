"""Reads mutated inputs of one format, and keeps those that took the parser where none was before."""

from __future__ import annotations

import ast
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from extproc.toolcalls import Event
from extproc.toolcalls.table import Rules
from tests.fuzz import early, growth, holding
from tests.fuzz.checks import Check, Failure, check_cuts, check_outcome
from tests.fuzz.inputs import Input
from tests.fuzz.minimising import smallest
from tests.fuzz.mutation import Mutator
from tests.fuzz.reading import joined
from tests.fuzz.seeds import samples
from tests.fuzz.watching import name_of, rules_of

Trace: TypeAlias = tuple[object, ...]
"""Three states that followed each other, or the last two and what came at the end."""

_LONGEST_KEPT = 400
_EVERY_CHARACTER, _EVERY_SLOW, _EVERY_GROWTH = 8, 16, 4000
"""Of how many inputs one is read character by character, and has what takes longer looked at."""
_TOO_LONG = 20
"""Seconds for one input, after which it is taken to have no end."""
_MOST_ALIKE = 1
"""Failures of one kind that are made small; the others are only counted."""
_SIZES = 1 << 12
_PIECES = (1, 2, 3, 5, 7, 16)


@dataclass(frozen=True, slots=True)
class Finding:
    input: Input
    failure: Failure


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of the work: so many inputs of one format, from what the parts before have learned."""

    format: str
    seed: int
    inputs: int
    checks: frozenset[Check]
    kept: tuple[Input, ...] = ()
    seen: frozenset[Trace] = frozenset()
    known: frozenset[tuple[Check, str]] = frozenset()
    """Failures that were made small already."""


@dataclass(slots=True)
class Learned:
    """What came of a slice."""

    format: str
    inputs: int = 0
    seconds: float = 0.0
    kept: list[Input] = field(default_factory=list)
    seen: set[Trace] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)
    failures: Counter[tuple[Check, str]] = field(default_factory=Counter)


def explore(work: Slice) -> Learned:
    before = signal.signal(signal.SIGALRM, _give_up)
    try:
        return _explored(work)
    finally:
        signal.signal(signal.SIGALRM, before)


def _explored(work: Slice) -> Learned:
    begin = time.monotonic()
    learned = Learned(work.format, work.inputs)
    seen = set(work.seen)
    mutator = Mutator(work.format, work.seed)
    # Samples stay half of what is mutated, or all would drift away from what models write.
    basis = samples()[work.format]
    kept = list(work.kept)
    draw = random.Random(work.seed).random
    cuts = _Cuts(work.seed)
    for number in range(work.inputs):
        input_ = mutator.mutated(kept if kept and draw() < 0.5 else basis)
        text = input_.text
        with _limit():
            pieces = list(text) if number % _EVERY_CHARACTER == 0 else cuts.cut(text)
            failure, traces = _checked(input_, pieces, work.checks)
            if failure is None and number % _EVERY_SLOW == 0:
                failure = _slowly_checked(input_, draw(), draw(), work.checks, grow=number % _EVERY_GROWTH == 0)
        if failure is not None:
            alike = (failure.check, failure.detail)
            learned.failures[alike] += 1
            if alike not in work.known and learned.failures[alike] <= _MOST_ALIKE:
                learned.findings.append(_made_small(input_, failure, work.checks))
        elif not traces <= seen:
            learned.seen |= traces - seen
            seen |= traces
            if len(text) <= _LONGEST_KEPT:
                learned.kept.append(input_)
                kept.append(input_)
    learned.seconds = time.monotonic() - begin
    return learned


def _checked(
    input_: Input, pieces: Sequence[str], checks: frozenset[Check]
) -> tuple[Failure | None, AbstractSet[Trace]]:
    """Whether it is right whole and in these pieces; and the way that the parser took in them."""
    traces: set[Trace] = set()
    try:
        parser = input_.parser()
        events = parser.feed(input_.text)
        events += parser.close(cut_off=input_.cut_off)
        whole = joined(events)
        outcome = joined(_watched(input_, pieces, traces))
    except TimeoutError:
        return Failure(Check.EXCEPTION, "no end", "", tuple(pieces)), traces
    except Exception:
        return check_cuts(input_, ([input_.text], pieces), checks), traces  # it is told apart there
    if outcome != whole:
        return check_cuts(input_, ([input_.text], pieces), checks), traces
    return check_outcome(input_, outcome, checks), traces


def _watched(input_: Input, pieces: Sequence[str], traces: set[Trace]) -> list[Event]:
    parser = input_.parser()
    events: list[Event] = []
    last: Rules | None = None
    one = two = ""
    for piece in pieces:
        events += parser.feed(piece)
        rules = rules_of(parser)
        if rules is not last:
            last = rules
            three = name_of(parser, rules)
            traces.add((one, two, three))
            one, two = two, three
    events += parser.close(cut_off=input_.cut_off)
    traces.add((one, two, *[type(event) for event in events[-2:]]))
    return events


def _slowly_checked(input_: Input, one: float, other: float, checks: frozenset[Check], *, grow: bool) -> Failure | None:
    """What isn't looked at in every input; `one` and `other` choose places in it."""
    start, end = sorted((int(one * len(input_.text)), int(other * len(input_.text))))
    if Check.HELD in checks and (state := holding.wrong(input_, end)):
        return Failure(Check.HELD, state, repr(input_.text[:end]))
    if Check.EARLY in checks and (state := early.wrong(input_, start)):
        return Failure(Check.EARLY, state, repr(input_.text[:start]))
    if grow and Check.GROWTH in checks and (how := growth.wrong(input_, start, end)):
        return Failure(Check.GROWTH, how, repr(input_.text[start:end]))
    return None


@contextmanager
def _limit() -> Iterator[None]:
    """Raises TimeoutError in what takes too long."""
    signal.setitimer(signal.ITIMER_REAL, _TOO_LONG)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _give_up(_signal: int, _frame: object) -> None:
    raise TimeoutError


class _Cuts:
    """Random cuts, without the cost of drawing each piece's size."""

    def __init__(self, seed: int) -> None:
        source = random.Random(seed)
        self._sizes = [source.choice((1, 1, 2, 3, 5, 8, 13, 21)) for _ in range(_SIZES)]
        self._at = 0

    def cut(self, text: str) -> list[str]:
        sizes, place = self._sizes, self._at
        pieces = []
        at = 0
        size = len(text)
        while at < size:
            place = (place + 1) % _SIZES
            end = at + sizes[place]
            pieces.append(text[at:end])
            at = end
        self._at = place
        return pieces


def _early(input_: Input) -> Iterator[Failure]:
    for at in range(len(input_.text)):
        if state := early.wrong(input_, at):
            yield Failure(Check.EARLY, state, repr(input_.text[:at]))


def _made_small(input_: Input, failure: Failure, checks: frozenset[Check]) -> Finding:
    """The smallest input that fails the same check, if it fails again."""

    def failing(candidate: Input) -> Failure | None:
        text = candidate.text
        with _limit():
            if failure.check is Check.HELD:
                state = holding.wrong(candidate, len(text))
                return Failure(Check.HELD, state, "") if state else None
            if failure.check is Check.EARLY:
                return next(_early(candidate), None)
            cuts = [[text], *([text[at : at + size] for at in range(0, len(text), size)] for size in _PIECES)]
            cuts += [_Cuts(seed).cut(text) for seed in range(2)]
            found = check_cuts(candidate, cuts, checks)
        return found if found is not None and found.check is failure.check else None

    if failure.check is Check.GROWTH or failure.detail == "no end":
        return Finding(input_, failure)
    if failure.check is Check.HELD:
        input_ = replace(input_, text=ast.literal_eval(failure.seen))
    if failing(input_) is None:
        return Finding(input_, failure)
    small = smallest(input_, lambda candidate: failing(candidate) is not None)
    return Finding(small, failing(small) or failure)
