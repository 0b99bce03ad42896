"""What is looked for in all that is simulated: that nothing comes of it that may not."""

from __future__ import annotations


class WrongError(AssertionError):
    """Something came of it that may not."""


def check(right: object, what: str) -> None:
    """Raises WrongError, in these words."""
    if not right:
        raise WrongError(what)
