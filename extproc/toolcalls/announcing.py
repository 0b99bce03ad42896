"""What the words before an object say of it: that a tool is called now, with these arguments, or that it is an example.

Small models say "I will call get_weather with" and write the arguments alone. They, and people who explain a tool, also
say what a call would look like. So only words that speak of what is done next count, with the name of one offered tool
among them, and none that leave it open.
"""

from __future__ import annotations

import re
from collections.abc import Collection

LONGEST = 240
"""Characters of the text before an object that are looked at."""

_sentence = re.compile(r"[.!?]\s")
_word = re.compile(r"[\w.\-]*\w")
_VERBS = ("call", "use", "invok", "run", "execute", "make")
_ANNOUNCES = re.compile(
    r"\b(?:I(?:['’]ll| will| am going to|['’]m going to| need to)|let(?: me|['’]s)|we(?:['’]ll| will| need to))\b"
    r"[^\n]{0,40}?\b(?:call|use|invoke|run|execute|make)\b"
    r"|^\W*(?:now )?(?:calling|invoking)\b",
    re.IGNORECASE,
)
_OPEN = re.compile(
    r"n['’]t\b|\b(?:not|never|cannot|would|could|might|may|if|when|whenever|once|after|later|then|before|either|or"
    r"|examples?|instance|e\.g|such|like|format|syntax|schema|template|you can)\b",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(
    r"\b(?:examples?|for instance|e\.g|such as|like this|looks? like|format|syntax|schema|template|would|could|you can"
    r"|results?|responses?|answers?|outputs?|returns|returned|asked|requested)\b",
    re.IGNORECASE,
)
_may_announce = re.compile(
    r"\b(?:I(?:['’]ll| will| am going to|['’]m going to| need to)|let(?: me|['’]s)|we(?:['’]ll| will| need to)"
    r"|calling|invoking)\b",
    re.IGNORECASE,
).search


def announced_tool(said: str, tools: Collection[str]) -> str | None:
    """The tool of which `said`, the end of the text before an object, says that it is called now; None if there is
    none, or more than one may be meant."""
    line = _last_line(said)
    lowered = line.lower()
    if not any(verb in lowered for verb in _VERBS):
        return None  # as with almost every brace in a text
    sentence = _sentence.split(line)[-1]
    announces = _ANNOUNCES.search(sentence)
    if announces is None or _OPEN.search(sentence):
        return None
    named = {word for word in _word.findall(sentence, announces.start()) if word in tools}
    return named.pop() if len(named) == 1 else None


def may_announce(text: str, tools: Collection[str]) -> bool:
    """Whether any part of a text may be taken for an announcement, by whatever words are before it."""
    return _may_announce(text) is not None and any(found.group() in tools for found in _word.finditer(text))


def is_example(said: str) -> bool:
    """Whether the text before an object says that it only shows something, or is the answer."""
    return _EXAMPLE.search(_last_line(said)) is not None


def _last_line(said: str) -> str:
    return said[-LONGEST:].rstrip().rpartition("\n")[2]
