"""Reads what a message's header says, in formats with channels."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from extproc.toolcalls.names import offered_name
from extproc.toolcalls.states import StateName
from extproc.toolcalls.table import Routes

LONGEST_HEADER = 512
"""What is longer never gets its end."""


class Route(NamedTuple):
    """Where a header leads, and which tool it calls."""

    to: StateName
    name: str | None = None
    name_end: int = 0
    """Where the name ends in the header."""


def route(routes: Routes, header: str, offered: Collection[str]) -> Route | None:
    """The first of `routes` that fits the header."""
    for pattern, to in routes:
        if (routed := pattern.fullmatch(header)) is None:
            continue
        if "name" in pattern.groupindex:
            return Route(to, routed["name"], routed.end("name"))
        if "offered" not in pattern.groupindex:
            return Route(to)
        if offered_name(routed["offered"], offered) in offered:
            return Route(to, routed["offered"], routed.end("offered"))
    return None


class Reach(NamedTuple):
    """How far a text is a header."""

    said: int
    """For sure."""
    possible: int
    """If it goes on as it may."""


def reach(possible: re.Pattern[str], text: str, before: int) -> Reach:
    """`before`: so much of the text was possible when there was no more of it."""
    # What lies behind the limit is not looked at, as it may or may not have come yet.
    match = possible.match(text, 0, LONGEST_HEADER + 1)
    if match is None:
        return Reach(0, before)
    end = max(min(match.end(), LONGEST_HEADER), before)
    return Reach(min(match.end("said"), end), end)
