"""What of a backend's words a client gets: those about its request, without those about the backend.

A server's message may name its machine, its files, the servers that it talks to, or show the stack that it failed in:
vLLM quotes exceptions of whatever it calls, such as `Cannot connect to host 10.0.0.7:8000` for an image that can't be
fetched. Such pieces are cut out, and nothing of a stack is passed on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv6Address

CUT = "[withheld]"
"""What stands for a piece."""
LONGEST = 2000
"""Characters of a message; a validator may quote all of a request."""

_STACK = re.compile(r"Traceback \(most recent|\bFile \"[^\"\n]*\", line \d|^[ \t]+at \S+ ?\(", re.M)
_PRIVATE = re.compile(
    r"""
      [a-z][a-z0-9+.-]{1,20}://[^\s'"<>)\]}]*                         # a URL
    | (?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?(?![\w.]*\w)      # an address
    | (?<![\w.-])(?:localhost|(?:[\w-]+\.)+[a-z][\w-]*):\d{2,5}\b     # a server
    | (?<=\bhost[ ])[\w.-]+:\d{1,5}\b
    | (?<![\w.\#/])(?:~|\.{1,2})?(?:/[\w.@+-]+){2,}/?                 # a file
    | \b[A-Z]:\\[\w.\\-]+
    | (?<![\w/.-])[\w/.-]*\w\.(?:py|so|cpp|cu|safetensors|gguf|jinja|sock)\b(?::\d+)?
    | \b0x[0-9a-f]{6,}\b                                              # a place in its memory
    """,
    re.I | re.X,
)
_MAYBE_V6 = re.compile(r"(?<![\w:])[0-9a-f:]{3,39}(?![\w:])", re.I)


@dataclass(frozen=True, slots=True)
class Told:
    """What a client gets."""

    text: str
    cut: bool
    """Something is missing."""


def told(message: object) -> Told | None:
    """`message` is a backend's, of whatever type; None when nothing of it is for clients."""
    if isinstance(message, list):  # FastAPI's: what is wrong, field by field
        message = "; ".join(filter(None, map(_fault, message[:20])))
    if not isinstance(message, str) or not message.strip() or _STACK.search(message[: 10 * LONGEST]):
        return None
    text = _MAYBE_V6.sub(_no_v6, _PRIVATE.sub(CUT, message[: 2 * LONGEST]))
    too_long = len(message) > 2 * LONGEST or len(text) > LONGEST
    return Told(f"{text[:LONGEST]}…" if too_long else text, text != message)


def _no_v6(match: re.Match[str]) -> str:
    try:
        IPv6Address(match[0])
    except ValueError:
        return match[0]
    return CUT


def _fault(violation: object) -> str:
    if not isinstance(violation, dict) or not isinstance(violation.get("msg"), str):
        return ""
    place = violation.get("loc")
    steps = [step for step in place if isinstance(step, str | int)] if isinstance(place, list) else []
    return f"{'.'.join(map(str, steps))}: {violation['msg']}"
