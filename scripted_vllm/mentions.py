"""What a request mentions that could be a tool's argument: quoted texts, paths, numbers, names of places.

No language is understood here. Each kind has a pattern; kinds are looked for in order, and what one has taken is
blanked out for the next, so nothing is found twice.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass


class Kind(enum.Enum):
    """What a mention looks like."""

    QUOTED = "quoted"
    URL = "url"
    EMAIL = "email"
    DATE = "date"
    PATH = "path"
    NUMBER = "number"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class Mention:
    kind: Kind
    text: str
    start: int
    end: int


_PATH = r"(?:~|\.{1,2})?/[\w./-]*\w|\b\w[\w-]*(?:/[\w.-]*\w)+|\b[\w-]+(?:\.[A-Za-z]\w{0,4})+\b"
_PATTERNS: Sequence[tuple[Kind, re.Pattern[str]]] = (
    (Kind.QUOTED, re.compile(r"\"([^\"]+)\"|“([^”]+)”|`([^`]+)`|(?<!\w)'([^']+)'(?!\w)")),
    (Kind.URL, re.compile(r"https?://[^\s,;]*[^\s,;.?!)]")),
    (Kind.EMAIL, re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")),
    (Kind.DATE, re.compile(r"\b\d{4}-\d\d-\d\d\b")),
    (Kind.PATH, re.compile(_PATH)),
    (Kind.NUMBER, re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?!\w)")),
    (Kind.NAME, re.compile(r"\b[A-Z][\w'-]*(?: [A-Z][\w'-]*)*")),
)
_SENTENCE_START = re.compile(r"(?:^|[.!?:\n])\s*$")
_AFTER_PREPOSITION = re.compile(
    r"\b(?:in|for|at|of|about|from|to|named|called) (?:the )?(\w+)((?:(?:,| and| or) \w+)*)"
)
_GAP = re.compile(r"(?:[\s,;&]|\b(?:and|or|then|also|in|for|of|at|the)\b)+")
_AND = re.compile(r"&|\b(?:and|or|then|also)\b")

FILLERS = frozenset(
    """a about again all also an and any are ask at be both but by call can could current currently do does doing don
    for from give go had has have hello hey hi how i if in into is it its just know let like ll look me my need no not
    now of on open or out please put re right s say see set should so some t tell than thank thanks that the their them
    then there these they this those to today tomorrow tool up us use ve want was we what when where which who whose why
    will with would yes you your""".split()
)
"""Words that say nothing about what is wanted, and that are no names though a sentence may begin with them."""


def find(text: str, no_names: Collection[str] = ()) -> list[Mention]:
    """Everything that `text` mentions, in its order; the words `no_names` are not taken for names."""
    no_names = FILLERS.union(no_names)
    found: list[Mention] = []
    rest = text
    for kind, pattern in _PATTERNS:
        for match in pattern.finditer(rest):
            mention = Mention(kind, next(filter(None, match.groups()), match[0]), match.start(), match.end())
            if kind is Kind.QUOTED and re.fullmatch(_PATH, mention.text):
                mention = Mention(Kind.PATH, mention.text, mention.start, mention.end)
            if kind is Kind.NAME:
                found += _name(mention, rest, no_names)
            else:
                found.append(mention)
        for mention in found:
            rest = rest[: mention.start] + "\0" * (mention.end - mention.start) + rest[mention.end :]
    if not any(mention.kind is Kind.NAME for mention in found):
        found += _uncapitalised(rest, no_names)
    return sorted(found, key=lambda mention: mention.start)


def _name(mention: Mention, text: str, no_names: Collection[str]) -> Iterable[Mention]:
    """The name without the other words that a sentence begins with."""
    name, start = mention.text, mention.start
    if _SENTENCE_START.search(text[:start]):
        while name and re.split(r"\W", name, maxsplit=1)[0].lower() in no_names:
            _, _, name = name.partition(" ")
        start = mention.end - len(name)
    if name and name.lower() not in no_names:
        yield Mention(Kind.NAME, name, start, mention.end)


def _uncapitalised(text: str, no_names: Collection[str]) -> Iterable[Mention]:
    """Names of those who write everything small: the words behind a preposition, "in paris and rome"."""
    for match in _AFTER_PREPOSITION.finditer(text):
        for word in re.finditer(r"\w+", match[0]):
            start = match.start() + word.start()
            if start >= match.start(1) and word[0].lower() not in no_names and not word[0].isdigit():
                yield Mention(Kind.NAME, word[0], start, start + len(word[0]))


def enumerated(mentions: Sequence[Mention], text: str) -> list[Mention]:
    """The first run of mentions that "and" or "or" joins, "Paris, Oslo and in Rome"; nothing if there is none."""
    for first in range(len(mentions)):
        last = first
        joined = False
        while last + 1 < len(mentions):
            gap = text[mentions[last].end : mentions[last + 1].start]
            if not _GAP.fullmatch(gap):
                break
            joined = joined or _AND.search(gap) is not None
            last += 1
        if joined:
            return list(mentions[first : last + 1])
    return []
