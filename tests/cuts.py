"""The ways in which a text may arrive, and what the parser makes of one.

A server may put a token, ten tokens or a whole answer into one chunk, and a proxy may cut it anew. What was parsed
must not depend on it, so every sample is read in all of these.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from extproc.toolcalls import Parsed, Parser
from extproc.toolcalls.events import collect

SIZES = (1, 2, 3, 7, 16)
SEEDS = range(30)


def cuts(text: str) -> Iterator[list[str]]:
    """One piece, pieces of each size, and seeded random pieces."""
    yield [text]
    for size in SIZES:
        yield [text[at : at + size] for at in range(0, len(text), size)]
    for seed in SEEDS:
        yield random_cut(text, random.Random(seed))


def random_cut(text: str, source: random.Random) -> list[str]:
    pieces = []
    at = 0
    while at < len(text):
        size = source.randint(1, 24)
        pieces.append(text[at : at + size])
        at += size
    return pieces


def parsed(pieces: list[str], **options: Any) -> Parsed:
    """What the parser makes of `pieces`."""
    parser = Parser(**options)
    return collect([event for piece in pieces for event in parser.feed(piece)] + parser.close())
