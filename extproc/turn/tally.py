"""What one answer came to, for who counts: nothing of it is said to the client."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, Self

from extproc.contract.errors import CALL_VIOLATIONS


class Violations(Counter[str]):
    """By code, how many of the model's calls had a fault."""

    first = ""
    """A sentence about the first one that the client was to get."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),), {"first": self.first}  # a Counter's own leaves out what isn't counted

    def found(self, code: str, message: str) -> None:
        self[code] += 1
        self.first = self.first or message


LAST_PIECES = 64
"""Of a stream: some hundred tokens, and mostly less than 16 kB."""


@dataclass(slots=True)
class Tally:
    """Of one answer, over all of its choices."""

    violations: Violations = field(default_factory=Violations)
    valid: int = 0
    """Calls without a fault, those too that the client doesn't get because it wants one."""
    cut_off: int = 0
    """Calls that were open when the backend ended the output, which nobody checks."""
    finish_reasons: list[str] = field(default_factory=list)
    """Why each choice has ended that has."""
    repairs: Counter[str] = field(default_factory=Counter)
    """By what was repaired first (`toolcalls.repairs`), how many of the valid ones had been malformed."""
    made_up: str | None = None
    """The tool that the answer's text calls at its beginning, although nobody offered it, if that is looked for;"""
    spoke: bool = False
    """then also whether there is a text at all,"""
    begun: str = ""
    """and how it begins: all of a short one."""
    confidence: float | None = None
    """How sure the model was of the call with which the answer begins, if that was asked and told."""
    unsure_of: str | None = None
    """The tool of that call, if the model wasn't sure enough."""
    last: deque[bytes] = field(default_factory=lambda: deque(maxlen=LAST_PIECES))
    """The last bytes that the backend sent, in any cut, where the model might have called: they show why it hasn't."""

    @classmethod
    def of(cls, code: str) -> Self:
        """Of an answer of which nothing is known but this violation."""
        return cls(Violations({code: 1}))

    @property
    def made(self) -> int:
        """Calls that the model made, rightly or not."""
        return self.valid + self.cut_off + sum(self.violations[code] for code in CALL_VIOLATIONS)

    @property
    def called(self) -> bool:
        """It made one."""
        return self.made > 0
