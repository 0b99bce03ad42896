"""What holds for any text in every format, and whether it does."""

from __future__ import annotations

import enum
import json
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

from tests.fuzz import letters
from tests.fuzz.inputs import Input
from tests.fuzz.reading import Called, Outcome, Said, WrongOrderError, read


class Check(enum.Enum):
    EXCEPTION = "exception"
    """None is raised."""
    ORDER = "order"
    """Events make sense in their order."""
    CUT = "cut"
    """The joined events are the same in every cut."""
    LETTERS = "letters"
    """What the reader or the tool would miss neither vanishes nor comes twice (`letters`)."""
    JSON = "json"
    """The arguments of a call that is said to be whole are valid JSON."""
    UNICODE = "unicode"
    """What can be encoded still can."""
    EARLY = "early"
    """A call that is whole where the output is cut off doesn't go on (`early`)."""
    HELD = "held"
    """Text comes while it is being written (`holding`)."""
    GROWTH = "growth"
    """Twice the text takes twice the work (`growth`)."""


@dataclass(frozen=True, slots=True)
class Failure:
    check: Check
    detail: str
    """Where or how: what fails alike has the same."""
    seen: str
    """What the parser made of it."""
    pieces: tuple[str, ...] = ()
    """The cut in which it made something else of it than of the whole."""


def check_outcome(input_: Input, outcome: Outcome, checks: frozenset[Check]) -> Failure | None:
    """Whether what came of the input can be."""
    if Check.LETTERS in checks and (detail := letters.wrong(input_, outcome)):
        return Failure(Check.LETTERS, detail, repr(outcome))
    if Check.JSON in checks:
        for item in outcome:
            if isinstance(item, Called) and item.whole and (detail := wrong_json(item.arguments)):
                return Failure(Check.JSON, detail, repr(outcome))
    if Check.UNICODE in checks:
        try:
            for item in outcome:
                (item.text if isinstance(item, Said) else item.name + item.arguments).encode()
        except UnicodeEncodeError as error:
            if _encodes(input_.text):
                return Failure(Check.UNICODE, error.reason, repr(outcome))
    return None


def check_cuts(input_: Input, cuts: Sequence[Sequence[str]], checks: frozenset[Check]) -> Failure | None:
    """Whether all is right in every one of `cuts`, and the same in all."""
    first: Outcome | None = None
    for pieces in cuts:
        try:
            outcome = read(input_, pieces)
        except WrongOrderError as error:
            return Failure(Check.ORDER, "", str(error), tuple(pieces))
        except Exception as error:
            return Failure(Check.EXCEPTION, _place(error), repr(error), tuple(pieces))
        if first is None:
            first = outcome
        elif outcome != first:
            shapes = f"{_shape(first)} / {_shape(outcome)}"
            return Failure(Check.CUT, shapes, f"{first}, but in pieces {outcome}", tuple(pieces))
    return None if first is None else check_outcome(input_, first, checks)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


# Numbers aren't built: some are too long for Python's integers.
_decode = json.JSONDecoder(parse_constant=_refuse, parse_int=len, parse_float=len).decode


def wrong_json(arguments: str) -> str | None:
    """Why it is no JSON; None when it is some."""
    try:
        _decode(arguments)
    except RecursionError:
        return None  # deeper than this can tell
    except ValueError as error:
        return error.msg if isinstance(error, json.JSONDecodeError) else str(error)
    return None


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _place(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {frame.filename.rsplit('/', 1)[-1]}:{frame.name}"


def _shape(outcome: Outcome) -> str:
    """The outcome's shape, which what fails alike mostly shares."""
    return "".join(("R" if item.thought else "T") if isinstance(item, Said) else "C" for item in outcome)[:8]
