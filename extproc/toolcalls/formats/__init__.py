"""The formats that the parser knows: one file each, gathered here by name and alias."""

from __future__ import annotations

import difflib

from extproc.toolcalls.formats import hermes
from extproc.toolcalls.formats import json as json_format
from extproc.toolcalls.table import Format

FORMATS: tuple[Format, ...] = (hermes.FORMAT, json_format.FORMAT)

_by_name = {name: format_ for format_ in FORMATS for name in (format_.name, *format_.aliases)}


class UnknownFormatError(ValueError):
    """No format has this name; the text lists near ones."""

    def __init__(self, name: str) -> None:
        near = difflib.get_close_matches(name, _by_name, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"there are: {', '.join(sorted(_by_name))}"
        super().__init__(f"no tool-call format is named {name!r}; {hint}")


def get_format(name: str) -> Format:
    """The format of this name or alias. Raises UnknownFormatError."""
    try:
        return _by_name[name]
    except KeyError:
        raise UnknownFormatError(name) from None
