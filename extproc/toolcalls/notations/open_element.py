"""An element that is open while a call's arguments are read: what is known of it, and what may stand in it."""

from __future__ import annotations

import enum
import re
from collections import Counter, deque
from dataclasses import dataclass, field

from extproc.toolcalls.notations.element_schema import ElementSchema
from extproc.toolcalls.notations.free_elements import ITEM, Children, Json, counts

LONG = 32  # characters after which a text that can only be a string leaves as it comes
_of_number = re.compile(r"[\s0-9.eE+\-]*").fullmatch


class Kind(enum.Enum):
    """What an element has proved to be."""

    TEXT = enum.auto()
    """Nothing but text came yet."""
    STRING = enum.auto()
    """Its text leaves as it comes."""
    OBJECT = enum.auto()
    """It leaves member by member."""
    LIST = enum.auto()
    """It leaves item by item."""
    FREE = enum.auto()
    """It leaves when it is complete."""


@dataclass(slots=True)
class Element:
    """One that is open, or that the next one may go on with."""

    tag: str
    """Empty for an item that no tag of its own opened."""
    key: str
    schema: ElementSchema
    kind: Kind = Kind.TEXT
    pieces: list[str] = field(default_factory=list)
    """The text in it, or beside the elements in it, unless it has left."""
    size: int = 0
    quoted: bool = False
    """A long text that begins with a quote."""
    inner_tags: list[str] = field(default_factory=list)
    """The tags that are open in its text, and part of it."""
    led: bool = False
    """Text stands before the first element in it."""
    since_child: int = 0
    """How many of its pieces came before the end of the last element in it."""
    children: Children = field(default_factory=deque)
    """Of one that is FREE."""
    count: int = 0
    """How many of its members or items have left."""
    keys: Counter[str] = field(default_factory=Counter)
    """The names of those, and how often each came."""
    waiting: Waiting | None = None

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def has_room(self, key: str) -> bool:
        """Whether an element of this name surely belongs into this one."""
        schema = self.schema
        match self.kind:
            case Kind.STRING:
                return False
            case Kind.LIST:
                return key == ITEM
            case Kind.FREE:
                return True
            case Kind.OBJECT:
                return schema.has_room_for(key)
            case Kind.TEXT:
                return self._may_begin(key)

    def _may_begin(self, key: str) -> bool:
        """The same for one in which only text stands so far."""
        schema = self.schema
        if (schema.is_array and (key == ITEM or schema.item(0).knows(key))) or schema.knows(key):
            return True
        if not schema.may_hold_elements or counts(self.text):
            return False
        return not schema.is_array and (not schema.says_members or schema.has_room_for(key))

    def can_only_be_a_string(self, piece: str) -> bool:
        """Whether a long text, of which `piece` is the latest, can be nothing but a string."""
        if self.schema.is_text:
            return True
        if self.size - len(piece) <= LONG:
            piece = self.text
            self.quoted = piece.lstrip()[:1] == '"'
        return not self.quoted and _of_number(piece) is None

    def new_key(self, key: str) -> str:
        """The name of the next member: `key`, unless there is one."""
        keys = self.keys
        keys[key] += 1
        if keys[key] == 1:
            return key
        while keys[name := f"{key}${keys[key]}"]:
            keys[key] += 1
        keys[name] = 1
        return name


@dataclass(slots=True)
class Waiting:
    """An object's last member, which the next element may repeat: its values, or the element that has left already."""

    key: str
    values: list[Json] = field(default_factory=list)
    are_items: bool = False
    """The values are items of the list that the member is."""
    left: Element | None = None
