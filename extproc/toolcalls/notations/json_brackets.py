"""The brackets that are open in a JSON text, and what follows from them."""

from __future__ import annotations

from extproc.toolcalls.notations.json_following import (
    ANYTHING,
    FIRST_IN_LIST,
    FIRST_IN_OBJECT,
    IN_LIST,
    IN_OBJECT,
    NEXT_MEMBER,
    WINDOW,
    is_certain,
)
from extproc.toolcalls.notations.json_words import Place
from extproc.toolcalls.notations.quoted_text import Follows

_CLOSER = {"{": "}", "[": "]", "(": ")"}
_WRITTEN = {")": "]"}
_PLACES = {"}": Place.IN_OBJECT, "": Place.IN_OBJECT, "]": Place.IN_LIST, ")": Place.IN_TUPLE}
_ALONE = Follows(ANYTHING)
_IN_OBJECT = Follows(IN_OBJECT, first=FIRST_IN_OBJECT)
_IN_LIST = Follows(IN_LIST, first=FIRST_IN_LIST)


class OpenBrackets:
    """From the outer to the inner one: what closes each, "" for a brace that is there twice."""

    __slots__ = ("closers",)

    def __init__(self) -> None:
        self.closers: list[str] = []

    @property
    def in_object(self) -> bool:
        return bool(self.closers) and self.closers[-1] in ("}", "")

    @property
    def in_list(self) -> bool:
        return bool(self.closers) and self.closers[-1] in ("]", ")")

    def place(self) -> Place:
        return _PLACES[self.closers[-1]] if self.closers else Place.ALONE

    def follows(self) -> Follows:
        """What may follow a string that stands here."""
        if not self.closers:
            return _ALONE
        return _IN_LIST if self.in_list else _IN_OBJECT

    def open(self, character: str) -> None:
        self.closers.append(_CLOSER[character])

    def open_twice(self) -> None:
        self.closers.append("")

    def closed_by(self, text: str, position: int, *, final: bool) -> int | None:
        """How many are closed by the bracket at `position`; None when that isn't certain yet."""
        character = text[position]
        if character == (self.closers[-1] or "}"):
            return 1
        if character not in self.closers:
            # A bracket of the wrong kind closes too: the model meant to close something.
            return 0 if character == ")" else 1
        # That of an outer one: inner ones were forgotten.
        count = 1 + self.closers[::-1].index(character)
        if count == len(self.closers):
            # It closes everything. Where the value goes on, it is the inner bracket's, and of the wrong kind.
            found = NEXT_MEMBER.match(text, position + 1, position + 1 + WINDOW)
            if found is not None and not is_certain(found, text, position + 1, final=final):
                return None
            if found is not None and found.lastindex is None:
                return 1
        return count

    def close(self, count: int) -> str:
        """Close the innermost ones; returns what does."""
        closers = [self.closers.pop() for _ in range(count)]
        return "".join(_WRITTEN.get(closer, closer) for closer in closers)
