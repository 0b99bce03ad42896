"""What is wrong with a response template, told by the part of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class ResponseTemplateError(ValueError):
    """It can't be compiled: no table can say it, or it is none. The text names the part."""


@contextmanager
def in_part(name: str) -> Iterator[None]:
    """Violations in here are in this part."""
    try:
        yield
    except ResponseTemplateError as error:
        raise ResponseTemplateError(f"{name}: {error}") from None
