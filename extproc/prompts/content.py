"""What a turn says: text, and content parts that are none (images, sound), in the order in which they were sent.

Where all is text it is one string, as every chat template takes it. Parts that are no text are the client's own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
Content: TypeAlias = Sequence[str | Json]

_SPOKEN = frozenset({"text", "refusal"})


def content_of(message: Mapping[str, Any]) -> Content:
    """The content of a valid message. What a model thought in earlier turns is not shown again, as templates do it."""
    content = message.get("content")
    if not isinstance(content, list):
        return [content if content is not None else message.get("refusal") or ""]
    shown = [part for part in content if part["type"] != "thinking"]
    pieces: list[str | Json] = []
    for is_text, run in itertools.groupby(shown, key=lambda part: part["type"] in _SPOKEN):
        parts = list(run)
        pieces += ["\n".join(part[part["type"]] for part in parts)] if is_text else parts
    return pieces


def with_texts(content: Content, change: Callable[[Sequence[str]], Sequence[str]]) -> Content:
    """The same with its texts changed, all at once: one may begin what another ends."""
    texts = iter(change([piece for piece in content if isinstance(piece, str)]))
    return [next(texts) if isinstance(piece, str) else piece for piece in content]


def joined(contents: Iterable[Content], separator: str) -> Content:
    """One after the other; text that meets text is one text then."""
    pieces: list[str | Json] = []
    for is_text, run in itertools.groupby(_separated(contents, separator), key=lambda piece: isinstance(piece, str)):
        found = list(run)
        pieces += ["".join(map(str, found))] if is_text else found
    return pieces


def _separated(contents: Iterable[Content], separator: str) -> Iterator[str | Json]:
    for number, content in enumerate(contents):
        if number:
            yield separator
        yield from content


def as_sent(content: Content) -> str | list[Json]:
    """As a message holds it: a string, or parts where not all is text."""
    texts = [piece for piece in content if isinstance(piece, str)]
    if len(texts) == len(content):
        return "".join(texts)
    return [{"type": "text", "text": piece} if isinstance(piece, str) else piece for piece in content if piece]
