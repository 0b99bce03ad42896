"""How sure a model was of what it began its answer with: the geometric mean of the probabilities of its first tokens.

A small model that calls a tool although none helps makes up the arguments as it writes them, and its probabilities show
it; those of a call that is meant are mostly near 1 (docs/prompt-mode.md has the measurement). More tokens tell hardly
more, and cost time: a stream is held until these have come. A long text in an argument is nothing to be sure of.

Source of the shape: OpenAI's API reference, `choices[].logprobs.content[].logprob`, natural logarithms. vLLM tells
those of the model itself, before temperature and grammars (`--logprobs-mode raw_logprobs`).
"""

from __future__ import annotations

from math import exp
from typing import Any

MOST_TOKENS = 48
_UNKNOWN = -9999.0
"""What stands for a token that isn't among the likely ones."""


class Confidence:
    """Of one choice: `take` what comes with its text, in any cut."""

    __slots__ = ("_least", "_logarithms", "_tokens")

    def __init__(self, least: float) -> None:
        """`least` is the mean that is high enough, between 0 and 1."""
        self._least = least
        self._logarithms = 0.0
        self._tokens = 0

    def take(self, logprobs: Any) -> None:
        """The member `logprobs` of a choice. What isn't as OpenAI's says nothing."""
        tokens = logprobs.get("content") if isinstance(logprobs, dict) else None
        for token in tokens if isinstance(tokens, list) else ():
            if self._tokens == MOST_TOKENS:
                break
            logarithm = token.get("logprob") if isinstance(token, dict) else None
            if type(logarithm) is not bool and isinstance(logarithm, (int, float)) and _UNKNOWN < logarithm <= 0:
                self._logarithms += logarithm
                self._tokens += 1

    @property
    def mean(self) -> float | None:
        """None where nothing is told."""
        return exp(self._logarithms / self._tokens) if self._tokens else None

    @property
    def is_low(self) -> bool:
        """By the tokens that came so far."""
        mean = self.mean
        return mean is not None and mean < self._least

    @property
    def is_complete(self) -> bool:
        """No token that comes now counts any more."""
        return self._tokens == MOST_TOKENS
