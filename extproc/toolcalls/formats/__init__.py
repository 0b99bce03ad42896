"""The formats that the parser knows.

Every module here that has a tuple `FORMATS` adds its formats: a new one is a new file, and nothing else changes
(docs/adding-a-format.md).
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from functools import lru_cache
from json import loads  # there is a format of that name
from types import MappingProxyType

from extproc.toolcalls.checkpoint.response_template import compile_template
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.table import Format, Variant


def _formats() -> Iterator[Format]:
    for module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        yield from getattr(importlib.import_module(f"{__name__}.{module}"), "FORMATS", ())


FORMATS: tuple[Format, ...] = tuple(sorted(_formats(), key=lambda format_: format_.name))


def _entries(format_: Format) -> tuple[Format | Variant, ...]:
    return (format_, *format_.variants)


NAMED: tuple[Format | Variant, ...] = tuple(
    sorted((one for format_ in FORMATS for one in _entries(format_)), key=lambda one: one.name)
)
"""All names that stand in a configuration, but aliases, and what they stand for."""


def _by_name() -> Mapping[str, tuple[Format, Format | Variant]]:
    names: dict[str, tuple[Format, Format | Variant]] = {}
    for format_ in FORMATS:
        for one in _entries(format_):
            for name in (one.name, *one.aliases):
                if name in names:
                    raise ValueError(f"two formats are named {name}")
                names[name] = format_, one
    return names


_NAMES = _by_name()


class UnknownFormatError(ValueError):
    """No format has this name; the text offers those that begin with it, or else near ones."""

    def __init__(self, name: str) -> None:
        self.hint = _hint(name)
        """The last part of the text, with nothing of the name in it but what is a format's."""
        super().__init__(f"no tool-call format is named {name!r}; {self.hint}")


def _hint(name: str) -> str:
    if name == CHECKPOINT:
        return "it comes with a checkpoint, as a file that a model's `response_template` names in a configuration"
    typed = name.lower().replace("-", "_")
    begin = [known for known in sorted(_NAMES) if typed and known.startswith(typed)]
    near = begin[:_MOST_OFFERED] or difflib.get_close_matches(typed, _NAMES, n=3, cutoff=0.7)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else "see `extproc formats`"


_MOST_OFFERED = 6


def get_format(name: str) -> Format:
    """How calls are read in the format of this name, variant or alias. Raises UnknownFormatError."""
    return _named(name)[0]


def entry(name: str) -> Format | Variant:
    """What is listed under this name or alias. Raises UnknownFormatError."""
    return _named(name)[1]


def call_syntax(name: str) -> CallSyntax | None:
    """How calls are written there; None when nobody here knows. Raises UnknownFormatError."""
    return entry(name).syntax


CHECKPOINT = "hf"
"""What stands in a configuration for a format that comes with a checkpoint, as vLLM names its parser for it."""


def checkpoint_format(template: str) -> str:
    """The name of the format that a response template describes, as JSON text: the text is a part of the name, so that
    it says what is meant in every process."""
    return f"{CHECKPOINT} {template}"


@lru_cache(maxsize=64)
def _compiled(template: str) -> Format:
    return compile_template(loads(template))


def _named(name: str) -> tuple[Format, Format | Variant]:
    kind, _, template = name.partition(" ")
    if kind == CHECKPOINT and template:
        format_ = _compiled(template)
        return format_, format_
    try:
        return _NAMES[name]
    except KeyError:
        raise UnknownFormatError(name) from None


SYNTAXES: Mapping[str, CallSyntax] = MappingProxyType({one.name: one.syntax for one in NAMED if one.syntax})
"""By the same names."""
