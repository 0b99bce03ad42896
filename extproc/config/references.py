"""Names by which one setting means another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extproc.config.base import FieldError


def broken_references(
    models: Sequence[str], their_backends: Sequence[str | None], backends: Sequence[str], recorded: str | None
) -> Iterator[FieldError]:
    """Names that two have, and names that nothing has. None stands for one that isn't known."""
    for field, names in (("models", models), ("backends", backends)):
        for index, name in enumerate(names):
            if name in names[:index]:
                yield FieldError((field, index, "name"), f"{name!r} is used twice")
    for index, wanted in enumerate(their_backends):
        if wanted not in (None, *backends):
            there_are = ", ".join(sorted(set(backends)))
            yield FieldError(("models", index, "backend"), f"no backend is named {wanted!r}; there are: {there_are}")
    if recorded not in (None, *models):
        yield FieldError(("recording", "model"), f"no model is named {recorded!r}")
