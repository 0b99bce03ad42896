"""What is found in an exchange."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

MOST_QUOTED = 160
"""Characters of what was said that a finding quotes."""


class Severity(Enum):
    """How much it takes from the client."""

    ERROR = "error"
    """The client got no answer, or not all of it."""
    WARNING = "warning"
    """It got an answer that does little for it: no call where one was meant, or a wrong one."""
    NOTE = "note"
    """Worth knowing; it may be as it should."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause, and what shows it."""

    cause: str
    """Its name in `causes.CAUSES`, where the words are."""
    shown_by: str
    """In numbers, names of settings, and words of the gateway's own."""
    quoted: str = ""
    """Of what the model or the client said, the place that shows it: for nobody who may not see that."""
    change: str = ""
    """What to change here, where that can be said more closely than `CAUSES` does."""


def excerpt(text: str, at: int = 0) -> str:
    """What stands around this place, on one line."""
    begin = max(0, at - MOST_QUOTED // 4)
    piece = " ".join(text[begin : begin + MOST_QUOTED].split())
    return f"{'... ' * (begin > 0)}{piece}{' ...' * (begin + MOST_QUOTED < len(text))}"
