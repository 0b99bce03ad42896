"""Writes a call's arguments as JSON while they are read in a notation that is nearly JSON."""

from __future__ import annotations

from collections.abc import Sequence

from extproc.toolcalls.notations.lenient_notation import JSON_WORDS, Notation, Shape
from extproc.toolcalls.notations.quoted_text import inside
from extproc.toolcalls.table import Verdict

_KEYWORDS = frozenset({Shape.CALL, Shape.KEYWORDS})
_LISTS = frozenset({Shape.LIST, Shape.GROUP})

LONGEST_KEY = 64
"""Of an argument, between quotes. What is longer is a value without a key."""
LONGEST_WORD = 1024
"""While nothing has shown yet that it is a call. What is longer is a value, too."""


class Brackets:
    """One pair of brackets that is open."""

    __slots__ = ("closing", "count", "keyed", "keywords", "opening", "shape", "slot", "spread")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.opening, self.closing = ("[", "]") if shape in _LISTS else ("{", "}")
        """The opening one leaves with the first element, which decides it."""
        self.count = 0
        self.keyed = shape not in _LISTS
        """An element may have a key."""
        self.keywords = shape in _KEYWORDS
        """Its elements are a call's arguments."""
        self.spread: Shape | None = None
        """What it is while what is between inner braces now belongs to it: `f({...})`, `f(a=1, **{...})`."""
        self.slot = -1
        """Where in what is to leave a group's bracket would stand."""

    def become_list(self) -> None:
        self.shape, self.opening, self.closing = Shape.LIST, "[", "]"
        self.keyed = False

    def end(self) -> str:
        """What closes it."""
        if not self.count:
            return self.opening + self.closing
        return "" if self.shape is Shape.GROUP else self.closing


class LenientWriter:
    """The arguments of one call, from behind the opening bracket to the closing one. See `table.Reader`.

    The first key, or a value without one, shows that it is a call. `strict`: a bare word in its place shows that it is
    none.
    """

    __slots__ = (
        "_lead",
        "_notation",
        "_open",
        "_out",
        "_positions",
        "_strict",
        "_takes_object",
        "_undecided",
        "done",
        "verdict",
        "whole",
    )

    def __init__(self, notation: Notation, shape: Shape, *, strict: bool = False) -> None:
        self.verdict = Verdict.UNDECIDED
        self.done = False
        self.whole = False
        self._notation = notation
        self._strict = strict
        self._positions: Sequence[str] = ()
        """Names of values that come without a key."""
        self._takes_object = False
        """The first of them may be an object."""
        self._open = [Brackets(shape)]
        self._out: list[str] = []
        self._undecided = 0  # groups of which it isn't known whether they are lists
        self._lead = ""  # the key of the value that comes; leaves with it

    def take(self) -> str:
        """The JSON that became ready since the last time."""
        out = self._out
        if self._undecided or not out:
            return ""
        if len(out) == 1:
            return out.pop()
        taken = "".join(out)
        out.clear()
        return taken

    def _begin_value(self) -> None:
        brackets = self._open[-1]
        opening = brackets.opening
        if not brackets.count and brackets.shape is Shape.GROUP:
            self._undecided += 1
            brackets.slot = len(self._out)
            opening = ""
        self._out += (", " if brackets.count else opening, self._lead)
        self._lead = ""
        self.verdict = Verdict.CALL
        brackets.count += 1

    def _begin_pair(self, key: str, *, is_word: bool) -> None:
        """`key` is a bare word, or the inside of a JSON string."""
        brackets = self._open[-1]
        if brackets.shape is Shape.BRACES:
            brackets.shape = Shape.OBJECT
        if is_word:
            # `{True: 1}` has the key that Python's own JSON gives it.
            is_value = self._notation.python and brackets.shape is Shape.OBJECT
            key = inside(JSON_WORDS.get(key, key) if is_value else key)
        self._lead = f'"{key}": '
        self.verdict = Verdict.CALL

    def _without_key(self, text: str, *, is_word: bool) -> None:
        """What could have been a key is a value. In an object it is taken for a key without one."""
        brackets = self._open[-1]
        value = self._notation.word(text) if is_word else f'"{text}"'
        if self._strict and len(self._open) == 1 and brackets.count == 0 and is_word and value.startswith('"'):
            self._break_off()
            return
        if brackets.shape is Shape.OBJECT:
            self._begin_pair(text, is_word=is_word)
            value = '""'
        else:
            self._name_by_position()
        self._begin_value()
        self._out.append(value)

    def _begin_without_key(self, string: Sequence[str]) -> None:
        """A string among a call's arguments is a value, and leaves as it comes."""
        self._name_by_position()
        self._begin_value()
        self._out += ('"', *string)

    def _name_by_position(self) -> None:
        """A value without a key among a call's arguments, or in braces."""
        brackets = self._open[-1]
        if not brackets.keywords:
            brackets.become_list()
            return
        position = brackets.count
        name = self._positions[position] if position < len(self._positions) else str(position)
        self._lead = f'"{inside(name)}": '

    def _is_separator(self) -> bool:
        """Whether `=` is one."""
        return self._open[-1].keywords or not self._notation.python

    def _push(self, shape: Shape) -> None:
        self._begin_value()
        self._open.append(Brackets(shape))

    def _spread(self) -> None:
        """A brace opens in which the arguments of the call around stand."""
        brackets = self._open[-1]
        brackets.spread, brackets.keywords, brackets.shape = brackets.shape, False, Shape.OBJECT

    def _comma(self) -> None:
        brackets = self._open[-1]
        if brackets.shape is Shape.GROUP and brackets.count:
            self._out[brackets.slot] = "["
            self._undecided -= 1
            brackets.become_list()

    def _close(self, character: str) -> None:
        """A closing bracket. One of the wrong kind closes too: the model meant to close something."""
        brackets = self._open[-1]
        if brackets.spread is not None:
            brackets.shape, brackets.keywords, brackets.spread = brackets.spread, True, None
            return
        if brackets.shape is Shape.CALL and character == "}":
            return  # one too many
        self._open.pop()
        if brackets.shape is Shape.GROUP and brackets.count:
            self._undecided -= 1
        self._out.append(brackets.end())
        if not self._open:
            self.done = self.whole = True
            self.verdict = Verdict.CALL

    def _break_off(self) -> None:
        """What comes can't belong to the object. A value that was begun is complete."""
        self.done = True
        if self.verdict is Verdict.UNDECIDED:
            self.verdict = Verdict.NOT_A_CALL if self._strict else Verdict.CALL
        self._undecided = 0
        self._out += [brackets.end() for brackets in reversed(self._open)]
