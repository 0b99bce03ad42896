"""Which of several models a request is asked of, where it names an alias that has them.

All requests of a conversation get the same one, by what stands before the model's first answer, as with the affinity to
a replica (`extproc.turn.affinity`). That has to be known before the request is read, which depends on the model: so it
is told here by the texts alone, in the members that the dialect has for them. How they are wrapped may change from turn
to turn (Claude Code's `cache_control` does, and with it a text becomes a list of parts).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from extproc.config import Choice, Config, Why
from extproc.config.alias import choose
from extproc.names import CHAT_PATH, COUNT_TOKENS_PATH, MESSAGES_PATH, RESPONSES_PATH

Json: TypeAlias = dict[str, Any]
Out: TypeAlias = Mapping[str, Why]
"""The backends that aren't asked now, if there are others."""

NOBODY: Out = MappingProxyType({})
"""None of them."""


class Members(NamedTuple):
    """Where a dialect has the conversation, and what comes before it."""

    items: str
    system: str | None = None


MEMBERS: Mapping[str, Members] = {
    CHAT_PATH: Members("messages"),
    MESSAGES_PATH: Members("messages", "system"),
    COUNT_TOKENS_PATH: Members("messages", "system"),
    RESPONSES_PATH: Members("input", "instructions"),
}
"""By path. No other member tells a conversation, though a body have it."""

MOST_PIECES = 256
"""Roles, texts, and values of other parts that tell a conversation, the first ones of it. This bounds the time."""
LONGEST_TEXT = 32 * 1024
"""Characters that tell a text: half of them from each of its ends, and how many there are."""

_ANSWERS = ("assistant", "tool", "function")
"""Who speaks in an answer, or after one. Items without a role, in Responses, are a model's too, or come after one: its
thoughts, its calls of any tool, what came of them."""


def choice_of(fields: Json, config: Config, path: str, out: Out) -> Choice | None:
    """Who is asked by a decoded body that came to `path`, as `choice_by` has it."""
    items, system = MEMBERS[path]
    before = [fields[system]] if system is not None and system in fields else []
    said = fields.get(items)
    return choice_by(fields.get("model"), before, said if isinstance(said, list) else [_spoken(said)], config, out)


def _spoken(text: Any) -> Json:
    """What a text in the place of items is short for."""
    return {"role": "user", "content": text}


def choice_by(name: Any, system: Iterable[Any], items: Iterable[Any], config: Config, out: Out) -> Choice | None:
    """Who is asked in the name of an alias that has several models; None for every other name.

    `system` is what comes before the conversation's `items`; of either no more is taken than it takes. They needn't be
    right: whatever is said of a wrong request is said by who reads it.
    """
    if not isinstance(name, str):
        return None
    return _chosen(name, islice(_beginning(system, items), MOST_PIECES), config, out)


def choice_for_body(name: str, body: bytes, config: Config, out: Out) -> Choice | None:
    """The same for a request that is no conversation's: each different one is taken for one of its own."""
    return _chosen(name, [body], config, out)


def _chosen(name: str, texts: Iterable[bytes], config: Config, out: Out) -> Choice | None:
    alias = config.alias_of(name) if config.splits else None
    if alias is None or (split := config.splits.get(alias)) is None:
        return None
    backends = {each: config.models_by_name[each].backend for each in split.models}
    return choose(alias, split, _digest(texts), backends, out)


def _beginning(system: Iterable[Any], items: Iterable[Any]) -> Iterator[bytes]:
    """What stands before the first answer."""
    for value in system:
        yield from _texts(value)
    for item in items:
        role = item.get("role") if isinstance(item, dict) else None
        if not isinstance(role, str) or role in _ANSWERS:
            return
        yield _told(role)
        yield from _texts(item.get("content"))


def _texts(value: Any) -> Iterator[bytes]:
    """Those of a text, of a part that has one, or of a list of them; of other parts, all that they are."""
    if value is None:
        return
    for part in value if isinstance(value, list) else [value]:
        yield from _pieces(part)


def _pieces(part: Any) -> Iterator[bytes]:
    waiting = [part]
    while waiting:
        match waiting.pop():
            case str(text) | {"text": str(text)}:
                yield _told(text)
            case list(values):
                yield b"["
                waiting.extend(reversed(values[:MOST_PIECES]))
            case dict(members):
                yield b"{"
                # Of more than that their order isn't looked at: it takes long.
                names = sorted(members) if len(members) <= MOST_PIECES else [*islice(members, MOST_PIECES)]
                for name in reversed(names):
                    if name != "cache_control":
                        waiting += [members[name], name]
            case int(number):
                yield b"%x" % number  # of any size, which is more than str() takes
            case other:
                yield repr(other).encode()


def _told(text: str) -> bytes:
    if len(text) > LONGEST_TEXT:
        text = f"{len(text)} {text[: LONGEST_TEXT // 2]}{text[-LONGEST_TEXT // 2 :]}"
    return text.encode("utf-8", "surrogatepass")


def _digest(texts: Iterable[bytes]) -> bytes:
    digest = blake2b(digest_size=16)
    for text in texts:
        digest.update(len(text).to_bytes(8, "big"))
        digest.update(text)
    return digest.digest()
