"""The members of a call's object that no key says to be the arguments, and the arguments that they make."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from extproc.toolcalls.notations.quoted_text import json_text


@dataclass(slots=True)
class Member:
    """One that may belong to the arguments."""

    key: str
    is_object: bool
    pieces: list[str] = field(default_factory=list)
    """Its value."""


def arguments_of(members: Sequence[Member], parameters: Collection[str], *, closing: str) -> str:
    """The arguments of a tool with these parameters; `closing` is what ends them."""
    # Models misspell the key. An object under another one is rather the arguments than one of them.
    if not any(member.key in parameters for member in members):
        for member in members:
            if member.is_object:
                return "".join(member.pieces)
    if not members:
        return ""
    return "{" + ", ".join(f"{json_text(member.key)}: {''.join(member.pieces)}" for member in members) + closing
