"""What was wrong with a call that was written in JSON, or nearly so, and was repaired while it was read."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

Repair: TypeAlias = Literal[
    "quotes",
    "words",
    "escapes",
    "commas",
    "brackets",
    "signs",
    "comments",
    "encoded",
    "keys",
    "beside",
    "names",
    "markers",
]
"""In a word: `quotes` of another kind, or that should have been escaped; `words` and numbers that aren't JSON's, keys
and values without quotes; `escapes` that are none, control characters; `commas` too many, too few, or semicolons;
`brackets` missing, doubled or of the wrong kind; other `signs` than a colon behind a key, or none; `comments`;
arguments that are `encoded` as a string.

And of a call as a whole: other `keys` for the name and the arguments, arguments `beside` a name under such a key,
`names` of tools as keys; no `markers` where the format has some."""

REPAIRS: tuple[Repair, ...] = get_args(Repair)
