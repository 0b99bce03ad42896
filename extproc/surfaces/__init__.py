"""The dialects that clients speak: each reads requests as turns, and writes answers and errors.

Pure: bytes and dictionaries in, bytes out. What a dialect is made of is `Surface`; `SURFACES` has them all.
"""

from extproc.surfaces.serving import (
    find_problems,
    is_character,
    known_of,
    prepare,
    read_for_run,
    recall,
    rewrite_completion,
    streamed_answer,
)
from extproc.surfaces.table import CHAT, MESSAGES, RESPONSES, ROUTES, SURFACES, Route, Surface, surface_of

__all__ = [
    "CHAT",
    "MESSAGES",
    "RESPONSES",
    "ROUTES",
    "SURFACES",
    "Route",
    "Surface",
    "find_problems",
    "is_character",
    "known_of",
    "prepare",
    "read_for_run",
    "recall",
    "rewrite_completion",
    "streamed_answer",
    "surface_of",
]
