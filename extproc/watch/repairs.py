"""What was repaired in a call's arguments, in words: what the model wrote, held against what came out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from extproc.toolcalls import Format
from extproc.toolcalls.notations.json_arguments import JsonArguments
from extproc.toolcalls.notations.json_call import JsonCall
from extproc.toolcalls.table import Body, Key, Value
from extproc.watch.spans import Notation, Span

_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Repair:
    """Of one call."""

    call: int
    reason: str
    """A sentence's end: `the model wrote ...`."""
    wrote: str
    became: str


def notation_of(format_: Format) -> Notation:
    """Whether arguments are JSON in this format, so that anything else is a slip."""
    states = list(format_.states.values())
    bodies = [state for state in states if isinstance(state, Body)]
    if not any(isinstance(body, JsonCall | JsonArguments) for body in bodies):
        return "other"
    alone = all(isinstance(body, JsonCall | JsonArguments) for body in bodies)
    return "json" if alone and not any(isinstance(state, Key | Value) for state in states) else "either"


def repairs(spans: Sequence[Span]) -> list[Repair]:
    """What was done to the calls of an output. In other notations than JSON nothing can be told from a translation."""
    found: list[Repair] = []
    for call in sorted({span.call for span in spans if span.call is not None}):
        of_call = [span for span in spans if span.call == call and span.kind == "arguments"]
        wrote = "".join(span.text for span in of_call)
        became = "".join(span.text if span.out is None else span.out for span in of_call)
        if not wrote.strip() or wrote.strip() == became.strip() or _is_json(wrote):
            continue
        reasons = dict.fromkeys(
            filter(None, (_reason(span.text, span.out) for span in of_call if span.out is not None))
        )
        if not _is_json(became):
            reasons["`arguments` that end before they are whole"] = None
        told = reasons or ("`arguments` that are no JSON: repaired",)
        found += [Repair(call, reason, _short(wrote), _short(became)) for reason in told]
    return found


_WORDS = {"t": "True", "f": "False", "n": "None"}


def _reason(wrote: str, became: str) -> str:
    """By a part that was changed; "" where it tells too little."""
    inner, meant = wrote.strip(), became.strip()
    if meant.lower() in _WORDS and inner.lower() == meant.lower():
        return f"`{_WORDS[meant.lower()]}` as Python spells it: repaired"
    return next((reason for holds, reason in _CASES if holds(inner, meant)), "")


_CASES: tuple[tuple[Callable[[str, str], object], str], ...] = (
    (
        lambda wrote, meant: meant in ("true", "false", "null") and wrote.isalpha(),
        "a word for true, false or null that JSON doesn't know: repaired",
    ),
    (lambda wrote, meant: re.search(r"//|/\*|#\s", wrote) and len(meant) < len(wrote), "a comment: left out"),
    (lambda wrote, _: '"{\\' in wrote, "`arguments` as a string with JSON in it: decoded"),
    (lambda wrote, meant: "'" in wrote and '"' in meant, "`arguments` with single quotes: repaired"),
    (
        lambda wrote, meant: re.search("[“”„«»]", wrote) and '"' in meant,
        "`arguments` with typographic quotes: repaired",
    ),
    (
        lambda wrote, meant: wrote == "" and re.fullmatch(r"\\[nrt]", meant),
        "a line break or a tab in a string: escaped",
    ),
    (lambda _, meant: meant.startswith("\\"), "quotes or backslashes in a string that weren't escaped: repaired"),
    (
        lambda wrote, meant: meant in (wrote.rstrip(","), wrote.lstrip(","), "") and "," in wrote,
        "a comma too many: left out",
    ),
    (
        lambda wrote, meant: meant.replace(",", " ").split() == wrote.split() and "," in meant,
        "a comma missing: repaired",
    ),
    (
        lambda wrote, meant: wrote in ("", "<", "}<") and set(meant) <= set('}]" '),
        "brackets missing at the end: closed",
    ),
    (
        lambda wrote, meant: set(wrote) <= set("()[]{}<") and set(meant) <= set("()[]{}"),
        "brackets of the wrong kind: repaired",
    ),
    (
        lambda wrote, _: wrote in ("=", "=>", ";", ":="),
        "a sign between key and value that JSON doesn't know: repaired",
    ),
    (
        lambda wrote, meant: re.fullmatch(r"[+\-\d.,_xob]+[0-9A-Fa-f]*", wrote) and not meant.startswith('"'),
        "a number in a form that JSON doesn't know: repaired",
    ),
    (
        lambda wrote, meant: re.fullmatch(r'[",]*\s*[\w$-]+\s*[=:>]*', wrote) and meant.rstrip(" :").endswith('"'),
        "keys or values without quotes: repaired",
    ),
    (lambda wrote, meant: meant == f'"{wrote}"', "keys or values without quotes: repaired"),
)
"""What is written, and what comes of it, without the white space around them: the first that holds."""


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
