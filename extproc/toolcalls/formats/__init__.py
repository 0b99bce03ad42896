"""The formats that the parser knows.

Every module here that has a tuple `FORMATS` adds its formats: a new one is a new file, and nothing else changes
(docs/adding-a-format.md).
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterator

from extproc.toolcalls.table import Format


def _formats() -> Iterator[Format]:
    for module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        yield from getattr(importlib.import_module(f"{__name__}.{module}"), "FORMATS", ())


FORMATS: tuple[Format, ...] = tuple(sorted(_formats(), key=lambda format_: format_.name))


def _by_name() -> dict[str, Format]:
    names: dict[str, Format] = {}
    for format_ in FORMATS:
        for name in (format_.name, *format_.aliases):
            if name in names:
                raise ValueError(f"two formats are named {name}")
            names[name] = format_
    return names


_NAMES = _by_name()


class UnknownFormatError(ValueError):
    """No format has this name; the text lists near ones."""

    def __init__(self, name: str) -> None:
        near = difflib.get_close_matches(name, _NAMES, n=3, cutoff=0.6)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"there are: {', '.join(sorted(_NAMES))}"
        super().__init__(f"no tool-call format is named {name!r}; {hint}")


def get_format(name: str) -> Format:
    """The format of this name or alias. Raises UnknownFormatError."""
    try:
        return _NAMES[name]
    except KeyError:
        raise UnknownFormatError(name) from None
