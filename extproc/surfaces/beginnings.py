"""How much of a request's body is known, byte by byte: its tools, and its conversation up to some message.

A tokenizer finds where these begin and end. That is no more than a guess, which needn't be as strict as the decoder:
what is known is taken out of the body and a random word put in its place, what is left is decoded as strictly as ever,
and the words have to be found where the tools and the conversation belong. So the body as a whole is what a decoder
would have made of it: known are only texts that it has decoded before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import chain, islice
from typing import Any, TypeAlias

import jiter
import msgspec

from extproc.config import Choice, Config
from extproc.contract.errors import ApiError
from extproc.contract.json_body import decode, has_too_many_nodes
from extproc.surfaces.choosing import MEMBERS, Out, choice_by
from extproc.surfaces.continued import Continued
from extproc.turn.memory import Entry, Key, Memory

Json: TypeAlias = dict[str, Any]

LONGEST = 1024 * 1024
"""Bytes of a body in which what is known is looked for, which takes some 1.5 ms. All numbers here bound that time."""
_COUNTED, _MOST_OBJECTS = 256 * 1024, 20_000
_MOST_ITEMS = 2_000
_MOST_PLACES = 64
_MOST_VALUES, _BEGUN = 20_000, (b",", b"[", b"{")
"""In what tells a conversation; the letters with which they begin, in texts too."""
_SPACE = rb"[ \t\n\r]*"
_VALUE = re.compile(_SPACE + b":" + _SPACE)
_FIRST_ITEM = re.compile(rb"\[" + _SPACE)
_SEPARATOR = re.compile(_SPACE + b"," + _SPACE)


@dataclass(frozen=True, slots=True)
class Beginning:
    """What is known of one body."""

    body: bytes
    continued: Continued
    head: Json
    """The texts of the members that the conversation depends on, by name."""
    items: Sequence[msgspec.Raw]
    """The texts of the conversation's items."""
    root: Key
    """Of the head."""
    keys: Sequence[Key]
    """Of the conversation up to each of its items."""
    known: Sequence[Entry]
    """What is known of the items, from the first one on, up to one behind which it can be gone on with."""
    offer: Entry | None
    """What is known of the head; None if nothing is, nor of the items then."""
    start: Entry | None
    choice: Choice | None
    """Which model is meant, where the name is that of several."""

    @property
    def unknown(self) -> int:
        """Bytes that have to be read."""
        if self.offer is None:
            return len(self.body)
        known = sum(len(text) for text in self.head.values()) + sum(map(len, self.items[: len(self.known)]))
        return len(self.body) - known

    @property
    def work(self) -> int:
        """Bytes that something has to be done with, more than copying them: those, and what waits to be shown."""
        last = self.known[-1] if self.known else self.start
        return self.unknown + (len(last[1]) if last is not None else 0)


def root_of(
    memory: Memory, client: str | None, path: str, head: Json, choice: Choice | None = None, *, inner: bool
) -> Key:
    """The key of what a conversation depends on, besides what is said in it."""
    whose = b"" if client is None else b"=" + client.encode()
    if choice is not None:  # of models behind one name, each is asked in its own way
        path = f"{path} {choice.model}"
    members = [part for name, text in head.items() for part in (name.encode(), text)]
    return memory.key(whose, path.encode(), bytes([inner]), *members)


def beginning_of(
    body: bytes,
    continued: Continued,
    path: str,
    memory: Memory,
    client: str | None,
    config: Config,
    out: Out,
    *,
    inner: bool,
) -> Beginning | None:
    """None for a body in which it can't be found, or which has no tools: it is read as a whole."""
    if len(body) > LONGEST or b'"tools"' not in body or has_too_many_nodes(body):
        return None
    if len(body) > _COUNTED and body.count(b"{") > _MOST_OBJECTS:
        return None
    names = ("model", *continued.head)
    try:
        members = _decoder(continued.items, names).decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    items = getattr(members, continued.items)
    head = {name: text for name in names if len(text := getattr(members, name))}
    if not items or len(items) > _MOST_ITEMS or not bytes(head.get("tools", b"")).startswith(b"[{"):
        return None
    try:
        choice = _choice_of(head, items, config, path, out) if config.splits else None
    except ValueError:  # which a stricter reader words, or one with more time reads
        return None
    root = root_of(memory, client, path, head, choice, inner=inner)
    keys, before = [], root
    for item in items:
        before = blake2b(item, key=before, digest_size=len(root)).digest()
        keys.append(before)
    offer, start = memory.get(client, root), memory.get(client, start_of(memory, root))
    known: list[Entry] = []
    found = 0
    if offer is not None and start is not None:
        for key in keys:
            if (entry := memory.get(client, key)) is None:
                break
            known.append(entry)
            if entry[1]:
                found = len(known)
        memory.used(client, [root, start_of(memory, root), *keys[:found]])
    else:
        offer = start = None
    return Beginning(body, continued, head, items, root, keys, known[:found], offer, start, choice)


def _choice_of(head: Json, items: Sequence[msgspec.Raw], config: Config, path: str, out: Out) -> Choice | None:
    """As `choice_of` has it. Raises ValueError."""
    before = [head[name] for name in (MEMBERS[path].system,) if name in head]
    values = _decoded(chain([head.get("model", b"null")], before, items))
    return choice_by(next(values), islice(values, len(before)), values, config, out)


def _decoded(texts: Iterable[bytes | msgspec.Raw]) -> Iterator[Any]:
    """One after the other, as `decode` does it for all of a body, but for what it refuses."""
    left = _MOST_VALUES
    for each in texts:
        text = bytes(each)
        left -= sum(map(text.count, _BEGUN))
        if left < 0:
            raise ValueError("so many values take too long")
        yield jiter.from_json(text, allow_inf_nan=False)


def start_of(memory: Memory, root: Key) -> Key:
    """The key of the conversation before its first item."""
    return memory.key(root)


def fields_of(beginning: Beginning, word: str) -> Json | None:
    """The body, decoded but for its head, and for the known items, which are left out. `word` is in no text from
    outside. None where it isn't as it was taken to be, or is wrong."""
    body, continued = beginning.body, beginning.continued
    cuts: list[tuple[int, int]] = []
    for name in continued.head:
        if name in beginning.head:
            place = _place_of(body, name, beginning.head[name])
            if place is None:
                return None
            cuts.append(place)
    if known := beginning.items[: len(beginning.known)]:
        place = _items_place(body, continued.items, known)
        if place is None:
            return None
        cuts.append(place)
    pieces, done = [], 0
    for begin, end in sorted(cuts):
        if begin < done:
            return None
        pieces += [body[done:begin], b'"%s"' % word.encode()]
        done = end
    try:
        fields = decode(b"".join([*pieces, body[done:]]))
    except ApiError as error:
        error.caught()
        return None
    if any(fields.get(name) != word for name in continued.head if name in beginning.head):
        return None
    items = fields.get(continued.items)
    if not isinstance(items, list) or (known and (not items or items.pop(0) != word)):
        return None
    return fields if len(items) == len(beginning.items) - len(known) else None


def _place_of(body: bytes, name: str, text: bytes) -> tuple[int, int] | None:
    """Where a member's value stands, as it is taken to be."""
    quoted = b'"%s"' % name.encode()
    at = -1
    for _ in range(_MOST_PLACES):
        if (at := body.find(quoted, at + 1)) < 0:
            return None
        value = _VALUE.match(body, at + len(quoted))
        if value is not None and body.startswith(text, value.end()):
            return value.end(), value.end() + len(text)
    return None


def _items_place(body: bytes, name: str, items: Sequence[msgspec.Raw]) -> tuple[int, int] | None:
    """Where these items stand, the first ones of a member."""
    quoted = b'"%s"' % name.encode()
    at = -1
    for _ in range(_MOST_PLACES):
        if (at := body.find(quoted, at + 1)) < 0:
            return None
        value = _VALUE.match(body, at + len(quoted))
        first = _FIRST_ITEM.match(body, value.end()) if value is not None else None
        if first is not None and body.startswith(bytes(items[0]), first.end()):
            end = _end_of(body, first.end(), items)
            return None if end is None else (first.end(), end)
    return None


def _end_of(body: bytes, begin: int, items: Sequence[msgspec.Raw]) -> int | None:
    end = begin + len(items[0])
    for item in items[1:]:
        start = end + 1
        if body[end] != _COMMA or not body.startswith(item, start):
            separator = _SEPARATOR.match(body, end)
            if separator is None or not body.startswith(item, start := separator.end()):
                return None
        end = start + len(item)
    return end


_COMMA = 0x2C


@lru_cache
def _decoder(items: str, members: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    fields: list[tuple[str, Any, Any]] = [(name, msgspec.Raw, msgspec.Raw(b"")) for name in members]
    fields.append((items, list[msgspec.Raw], msgspec.field(default_factory=list)))
    return msgspec.json.Decoder(msgspec.defstruct("Members", fields))
