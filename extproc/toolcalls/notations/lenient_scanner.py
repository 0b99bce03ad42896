"""Reads the arguments of one call in notations that are nearly JSON, as they arrive, and hands them on as JSON.

Keys stand with or without quotes, values are strings, numbers, words, lists and objects, between the brackets that the
notation has: Python's (`python_call.py`), or that of the Gemma models (`lenient_object.py`). Nothing is built and
nothing is read twice; strings leave while they are written. The scanner never raises: what makes no sense ends the
object, and what came of it is closed properly.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from extproc.toolcalls.notations.lenient_notation import Notation, Shape, after_blanks, first_key_in, is_comment, is_key
from extproc.toolcalls.notations.lenient_strings import Stands, String, string_at
from extproc.toolcalls.notations.lenient_writer import LONGEST_KEY, LONGEST_WORD, LenientWriter
from extproc.toolcalls.notations.quoted_text import Ended
from extproc.toolcalls.table import Verdict

_OPENING = frozenset("([{")
_CLOSING = frozenset(")]}")
_SHAPES = {"{": Shape.BRACES, "[": Shape.LIST, "(": Shape.GROUP}
_QUOTES = frozenset("'\"")
_RAW_PREFIXES = {prefix: "r" in prefix for prefix in "r b u f rb br rf fr".split()}
_CONSTRUCTORS = {"dict": Shape.KEYWORDS, **dict.fromkeys(("list", "tuple", "set", "frozenset"), Shape.GROUP)}
_LONGEST_INTRODUCTION = max(map(len, _CONSTRUCTORS))
_in_word_stop = re.compile(r"[,:=()\[\]{}<'\"#]").search
_Step: TypeAlias = Callable[[Any, str, int], int]


class LenientScanner(LenientWriter):
    """Reads the arguments, step by step."""

    __slots__ = (
        "_at_key",
        "_continuing",
        "_depth",
        "_final",
        "_held",
        "_into",
        "_key",
        "_parts",
        "_raw",
        "_spreading",
        "_step",
        "_string",
        "_word_length",
        "left",
    )

    def __init__(self, notation: Notation, shape: Shape, *, strict: bool = False) -> None:
        super().__init__(notation, shape, strict=strict)
        self.left = ""
        self._step: _Step = LenientScanner._element
        self._held = ""  # what can't be understood before more text comes
        self._final = False
        # The element being read:
        self._at_key = False  # it stands where a key may
        self._key: tuple[str, bool] = ("", False)  # a possible key: its text, and whether it is a bare word
        self._parts: list[str] = []
        self._word_length = 0
        self._depth = 0  # brackets that are open in a word
        self._string: String | None = None
        self._into = self._parts  # where its text goes
        self._raw = False
        self._continuing = False
        self._spreading = False  # behind a star

    def end_of_input(self) -> None:
        self._final = True
        held, self._held = self._held, ""
        end = self._run(held, 0)
        if self.done:
            self.left = held[end:]
        self._undecided = 0
        self.done = True

    def scan(self, text: str, position: int) -> int:
        """Consume what belongs to the object from `position`; returns the end."""
        if not self._held:
            if self._string is not None:  # mostly all of the text belongs to it
                position = self._in_string(self._string, text, position)
            return position if position == len(text) else self._run(text, position)
        held, self._held = self._held, ""
        end = self._run(held + text[position:], 0) - len(held)
        if end < 0:
            self.left = held[end:]
            return position
        return position + end

    def _run(self, text: str, position: int) -> int:
        size = len(text)
        while position < size and not self.done:
            if self._string is not None:
                position = self._in_string(self._string, text, position)
            else:
                position = self._step(self, text, position)
        return position

    def begin(self) -> None:
        """The arguments begin here."""
        self._step = LenientScanner._element

    def _hold(self, text: str, position: int) -> int:
        """What begins at `position` can't be understood before more text comes."""
        self._held = text[position:]
        return len(text)

    # Structure: each step reads something outside of words and strings, and returns where it goes on.

    def _element(self, text: str, position: int) -> int:
        character = text[position]
        brackets = self._open[-1]
        if character.isspace():
            return after_blanks(text, position)
        if character == ",":
            return position + 1
        if character in _CLOSING:
            self._close(character)
            self._step = LenientScanner._next
            return position + 1
        if character == "*" and brackets.keywords:
            self._spreading = True
            return position + 1
        if character == "#" and self._notation.python and (end := self._comment(text, position)) is not None:
            return end
        self._at_key = brackets.keyed
        return self._begin_literal(text, position)

    def _value(self, text: str, position: int) -> int:
        character = text[position]
        if character.isspace():
            return after_blanks(text, position)
        if character == "," or character in _CLOSING:
            self._begin_value()
            self._out.append('""')
            self._step = LenientScanner._next
            return position
        self._at_key = False
        return self._begin_literal(text, position)

    def _separator(self, text: str, position: int) -> int:
        character = text[position]
        if character.isspace():
            return after_blanks(text, position)
        if character == ":" or (character == "=" and self._is_separator()):
            self._begin_pair(self._key[0], is_word=self._key[1])
            self._step = LenientScanner._value
            return position + 1
        self._key_was_none()
        return position

    def _key_was_none(self) -> None:
        """No separator follows what could have been a key."""
        self._without_key(self._key[0], is_word=self._key[1])
        self._step = LenientScanner._next

    def _next(self, text: str, position: int) -> int:
        character = text[position]
        brackets = self._open[-1]
        if character.isspace():
            return after_blanks(text, position)
        if character == "," or (character == ";" and (brackets.keywords or not self._notation.python)):
            self._comma()
            self._step = LenientScanner._element
            return position + 1
        if character in _CLOSING:
            self._close(character)
            self._step = LenientScanner._next
            return position + 1
        if character == "#" and self._notation.python and (end := self._comment(text, position)) is not None:
            return end
        markers = self._notation.markers
        if markers is not None and (end := markers.end_of_stray(text, position, final=self._final)) is not None:
            return end if end > position else self._hold(text, position)
        key_comes = brackets.keyed and is_key(text, position, final=self._final)
        if key_comes is None:
            return self._hold(text, position)
        if key_comes:
            self._step = LenientScanner._element  # a comma is missing
        else:
            self._break_off()
        return position

    def _comment(self, text: str, position: int) -> int | None:
        """Where a comment ends, or what came of it; None when there is none."""
        begins = is_comment(text, position, final=self._final)
        if begins is False:
            return None
        end = text.find("\n", position)
        if end >= 0:
            return end
        if not self._final:
            self._held = text[position : position + 2]  # so that what comes next is known to be a part of it
        return len(text)

    # Brackets

    def _begin_brackets(self, text: str, position: int) -> int:
        character = text[position]
        around = self._open[-1]
        if self._at_key:
            if around.keywords:
                spreads = character == "{" and (self._spreading or self._holds_all(text, position))
                if spreads is None:
                    return self._hold(text, position)
                if spreads:
                    self._spread()
                    self._step = LenientScanner._element
                    return position + 1
            elif around.shape is Shape.OBJECT:
                self._break_off()
                return position
            self._name_by_position()
        self._push(_SHAPES[character] if self._notation.python or character == "[" else Shape.OBJECT)
        self._step = LenientScanner._element
        return position + 1

    def _holds_all(self, text: str, position: int) -> bool | None:
        """Whether a call's first value is an object of all its arguments; None when that isn't certain yet."""
        if self._open[-1].count or not self._takes_object:
            return not self._open[-1].count
        return first_key_in(self._positions, text, position, final=self._final)

    # Words

    def _begin_literal(self, text: str, position: int) -> int:
        character = text[position]
        self._parts.clear()
        self._spreading = self._spreading and character == "{"
        if character == "<" and (is_marker := self._is_marker(text, position)) is not False:
            if is_marker is None:
                return self._hold(text, position)
            return self._opening_delimiter(text, position)
        if character in _QUOTES:
            self._raw = False
            self._step = LenientScanner._opening_quote
            return position
        if character in _OPENING and not (character == "(" and not self._notation.python):
            return self._begin_brackets(text, position)
        self._step = LenientScanner._word
        self._word_length = self._depth = 0
        return position

    def _word(self, text: str, position: int) -> int:
        stop = _in_word_stop(text, position)
        at = len(text) if stop is None else stop.start()
        room = LONGEST_WORD - self._word_length if self.verdict is Verdict.UNDECIDED else len(text) + 1
        if at > position:
            self._parts.append(text[position : min(at, position + room)])
            self._word_length += at - position
        if at - position >= room:
            self._end_word()
            return position + room
        if stop is None:
            return at
        character = stop.group()
        if character == "#" and (ends := self._notation.python and self._ends_at_comment(text, at)) is not False:
            if ends is None:
                return self._hold(text, at)
            self._end_word()
            return at
        if character == "<" and (is_marker := self._is_marker(text, at)) is not False:
            if is_marker is None:
                return self._hold(text, at)
            self._end_word()
            return at
        if self._depth == 0 and self._ends_word(character):
            self._end_word()
            return at
        if self._notation.python:
            if (
                self._depth == 0
                and len(self._parts) <= _LONGEST_INTRODUCTION
                and self._begins_more(character, "".join(self._parts))
            ):
                return at if character in _QUOTES else at + 1
            if character in _OPENING:
                self._depth += 1
            elif character in _CLOSING:
                self._depth -= 1
        self._parts.append(character)
        self._word_length += 1
        return at + 1

    def _ends_at_comment(self, text: str, at: int) -> bool | None:
        """Whether `#` behind a word begins a comment; None when that isn't certain yet."""
        if self._depth or not self._parts or not self._parts[-1][-1].isspace():
            return False
        return is_comment(text, at, final=self._final)

    def _begins_more(self, character: str, word: str) -> bool:
        """Whether the word is the prefix of a string, or makes a value of what is in the bracket behind it."""
        if character in _QUOTES and (raw := _RAW_PREFIXES.get(word.lower())) is not None:
            self._raw = raw
            self._parts.clear()
            self._step = LenientScanner._opening_quote
            return True
        if character == "(" and (shape := _CONSTRUCTORS.get(word)) is not None:
            if self._at_key:
                if self._open[-1].shape is Shape.OBJECT:
                    return False
                self._name_by_position()
            self._push(shape)
            self._step = LenientScanner._element
            return True
        return False

    def _is_marker(self, text: str, position: int) -> bool | None:
        """Whether a `<` is more than a character of a word; None when that isn't certain yet."""
        return self._notation.markers is None or self._notation.markers.at(text, position, final=self._final)

    def _ends_word(self, character: str) -> bool:
        if character == ")":
            return self._notation.python or self._notation.rounded
        if character in ",]}":
            return True
        return self._at_key and (character == ":" or (character == "=" and self._is_separator()))

    def _end_word(self) -> None:
        word = "".join(self._parts).strip()
        if self._at_key:
            self._key = (word, True)
            self._step = LenientScanner._separator
        else:
            self._begin_value()
            self._out.append(self._notation.word(word))
            self._step = LenientScanner._next

    # Strings

    def _opening_quote(self, text: str, position: int) -> int:
        stands = Stands(self._open[-1].shape, self._at_key, len(self._open))
        opened = string_at(self._notation, text, position, stands, raw=self._raw, final=self._final)
        if opened is None:
            return self._hold(text, position)
        self._begin_string(opened[0])
        return opened[1]

    def _opening_delimiter(self, text: str, position: int) -> int:
        markers = self._notation.markers
        if markers is None or not text.startswith(markers.delimiter, position):
            self._break_off()
            return position
        return self._opening_quote(text, position)

    def _begin_string(self, string: String) -> None:
        self._string = string
        self._word_length = 0
        self._into = self._parts if self._at_key else self._out
        if self._continuing:
            self._continuing = False
        elif not self._at_key:
            self._begin_value()
            self._out.append('"')

    def _in_string(self, string: String, text: str, position: int) -> int:
        end, piece = string.scan(text, position, final=self._final)
        if self._at_key and self.verdict is Verdict.UNDECIDED and not self._open[-1].keywords:
            room = LONGEST_WORD - self._word_length
            self._word_length += end - position
            if self._word_length > LONGEST_WORD:
                self._break_off()
                return position + room
        self._into.append(piece)
        if self._at_key and self._open[-1].keywords and sum(map(len, self._parts)) > LONGEST_KEY:
            self._at_key = False
            self._begin_without_key(self._parts)
            self._into = self._out
        return self._end_string(string, text, end) if string.done else self._hold(text, end)

    def _end_string(self, string: String, text: str, end: int) -> int:
        self._string = None
        if string.ended is Ended.CONTINUES:
            self._continuing = True
            self._raw = False
            self._step = LenientScanner._another_string
            return end
        if self._at_key:
            self._key = ("".join(self._parts), False)
            self._step = LenientScanner._separator
        else:
            self._out.append('"')
            self._step = LenientScanner._next
        if string.ended is not Ended.CLOSED:
            if self._at_key:
                self._key_was_none()
            self._break_off()
            self.whole = string.ended is Ended.CALL
        return end

    def _another_string(self, text: str, position: int) -> int:
        """Perhaps a prefix, then a quote."""
        if text[position] in _QUOTES:
            return self._opening_quote(text, position)
        self._raw = self._raw or text[position] in "rR"
        return position + 1
