"""Scans arguments in notations that are nearly JSON, as they arrive, and hands them on as JSON.

Keys stand with or without quotes, values are strings, numbers, words, lists and objects, between the brackets that the
notation has: Python's (`python_call.py`), or that of the Gemma models (`loose_object.py`). Nothing is built and nothing
is read twice; strings leave while they are written. The scanner never raises: what makes no sense ends the object,
and what came of it is closed properly.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence

from extproc.toolcalls.loose_notation import JSON_WORDS, Notation, Shape
from extproc.toolcalls.quoted_text import QuotedText, inside

_OPENING = frozenset("([{")
_CLOSING = frozenset(")]}")
_QUOTES = frozenset("'\"")
_PREFIXES = frozenset("r b u f rb br rf fr".split())
_not_blank = re.compile(r"\S").search
_in_marker_stop = re.compile(r"[<>\s]").search
_in_word_stop = re.compile(r"[,:=()\[\]{}<'\"]").search


class _Expect(enum.Enum):
    ELEMENT = enum.auto()
    VALUE = enum.auto()
    OPENING_QUOTE = enum.auto()
    IN_QUOTES = enum.auto()
    IN_DELIMITERS = enum.auto()
    IN_STRAY_MARKER = enum.auto()
    IN_WORD = enum.auto()
    SEPARATOR = enum.auto()
    NEXT = enum.auto()


class _Brackets:
    """One pair of brackets that is open."""

    __slots__ = ("closing", "count", "opening", "shape")

    def __init__(self, shape: Shape, opening: str, closing: str) -> None:
        self.shape = shape
        self.opening = opening
        """Leaves with the first element, which decides it."""
        self.closing = closing
        self.count = 0

    def become_list(self) -> None:
        self.shape, self.opening, self.closing = Shape.LIST, "[", "]"

    def end(self) -> str:
        """What closes it."""
        return self.closing if self.count else self.opening + self.closing


class LooseScanner:
    """The arguments of one call, from behind the opening bracket to the closing one.

    `scan` consumes text; `done` tells that the object ended, or broke off, at the returned end. `positions` name the
    values of a call that come without a key; `strict` makes a bare word in the first one's place break it off.
    """

    __slots__ = (
        "_at_key",
        "_continuing",
        "_depth",
        "_expect",
        "_final",
        "_held",
        "_key",
        "_lead",
        "_notation",
        "_open",
        "_out",
        "_parts",
        "_positions",
        "_raw",
        "_strict",
        "_string",
        "_wrapped",
        "begun",
        "done",
        "whole",
    )

    def __init__(
        self, notation: Notation, shape: Shape, positions: Sequence[str] = (), *, strict: bool = False
    ) -> None:
        self.done = False
        self.whole = False
        self.begun = False
        """The first key, or a value without one, has shown."""
        self._notation = notation
        self._positions = positions
        self._strict = strict
        self._open = [_Brackets(shape, "{", "}")]
        self._expect = _Expect.ELEMENT
        self._out: list[str] = []
        self._wrapped = False  # the call's only value is the object of all arguments: `f({...})`
        self._lead = ""  # the key of the value that comes; leaves with it
        self._held = ""  # what can't be understood before more text comes
        self._final = False
        # The element being read:
        self._at_key = False  # it stands where a key may
        self._key: tuple[str, bool] = ("", False)  # a possible key: its text, and whether it is a bare word
        self._parts: list[str] = []
        self._depth = 0  # brackets that are open in a word
        self._string: QuotedText | None = None
        self._raw = False
        self._continuing = False

    def take(self) -> str:
        """The JSON that became ready since the last time."""
        taken = "".join(self._out)
        self._out.clear()
        return taken

    def end_of_input(self) -> None:
        self._final = True
        held, self._held = self._held, ""
        self._run(held, 0)
        self.done = True

    def scan(self, text: str, position: int) -> int:
        """Consume what belongs to the object from `position`; returns the end."""
        if not self._held:
            return self._run(text, position)
        held, self._held = self._held, ""
        # What was held is only ever blanks and what the scanner accepts, so the end isn't before `position`, but for
        # blanks.
        return max(position, self._run(held + text[position:], 0) - len(held) + position)

    def _run(self, text: str, position: int) -> int:
        size = len(text)
        while position < size and not self.done:
            match self._expect:
                case _Expect.IN_QUOTES:
                    position = self._in_quotes(text, position)
                case _Expect.IN_DELIMITERS:
                    position = self._in_delimiters(text, position)
                case _Expect.IN_WORD:
                    position = self._in_word(text, position)
                case _Expect.IN_STRAY_MARKER:
                    position = self._in_stray_marker(text, position)
                case _Expect.OPENING_QUOTE:
                    position = self._opening_quote(text, position)
                case _ if text[position].isspace():
                    position = _after_blanks(text, position)
                case _:
                    position = self._structure(text, position)
        return position

    # Structure

    def _structure(self, text: str, position: int) -> int:
        """A character outside of words and strings; returns where it goes on."""
        character = text[position]
        shape = self._open[-1].shape
        match self._expect:
            case _Expect.SEPARATOR:
                if character == ":" or (character == "=" and shape is Shape.CALL):
                    self._begin_pair()
                    return position + 1
                self._key_was_none()
                return position
            case _Expect.ELEMENT if character == "," or (character == "*" and shape is Shape.CALL):
                return position + 1
            case _Expect.VALUE if character == "," or character in _CLOSING:
                self._begin_value()
                self._out.append('""')
                self._expect = _Expect.NEXT
                return position
            case _Expect.NEXT if character == ",":
                self._expect = _Expect.ELEMENT
                return position + 1
            case _Expect.ELEMENT | _Expect.NEXT if character in _CLOSING:
                self._close(character)
                return position + 1
            case _Expect.NEXT:
                self._break_off()
                return position
            case _:
                self._at_key = self._expect is _Expect.ELEMENT and shape is not Shape.LIST
                return self._begin_literal(text, position)

    def _begin_literal(self, text: str, position: int) -> int:
        character = text[position]
        self._parts.clear()
        if character == "<":
            return self._opening_delimiter(text, position)
        if character in _QUOTES:
            self._raw = False
            self._expect = _Expect.OPENING_QUOTE
            return position
        if character in _OPENING and not (character == "(" and not self._notation.python):
            self._begin_brackets(character)
            return position + 1
        self._expect = _Expect.IN_WORD
        self._depth = 0
        return position

    def _begin_brackets(self, character: str) -> None:
        around = self._open[-1]
        if self._at_key:
            if around.shape is Shape.CALL:
                if character == "{" and around.count == 0:
                    self._wrapped = True
                    around.shape = Shape.OBJECT
                    self._expect = _Expect.ELEMENT
                    return
                self._name_by_position()
            elif around.shape is Shape.BRACES:
                around.become_list()
            else:
                self._break_off()
                return
        self._begin_value()
        if character == "{":
            shape = Shape.BRACES if self._notation.python else Shape.OBJECT
            self._open.append(_Brackets(shape, "{", "}"))
        else:
            self._open.append(_Brackets(Shape.LIST, "[", "]"))
        self._expect = _Expect.ELEMENT

    def _close(self, character: str) -> None:
        """A closing bracket. One of the wrong kind closes too: the model meant to close something."""
        self._expect = _Expect.NEXT
        brackets = self._open[-1]
        if brackets.shape is Shape.CALL and character == "}":
            return  # one too many
        if self._wrapped and len(self._open) == 1:
            self._wrapped = False
            brackets.shape = Shape.CALL
            return
        self._open.pop()
        self._out.append(brackets.end())
        self.done = self.whole = not self._open

    def _break_off(self) -> None:
        """What comes can't belong to the object. A value that was begun is complete."""
        self.done = True
        self._out += [brackets.end() for brackets in reversed(self._open)]

    # Keys and values

    def _begin_value(self) -> None:
        brackets = self._open[-1]
        self._out += (", " if brackets.count else brackets.opening, self._lead)
        self._lead = ""
        self.begun = True
        brackets.count += 1

    def _begin_pair(self) -> None:
        brackets = self._open[-1]
        if brackets.shape is Shape.BRACES:
            brackets.shape = Shape.OBJECT
        text, is_word = self._key
        if is_word:
            # `{True: 1}` has the key that Python's own JSON gives it.
            is_value = self._notation.python and brackets.shape is Shape.OBJECT
            text = JSON_WORDS.get(text, text) if is_value else text
            text = inside(text)
        self._lead = f'"{text}": '
        self.begun = True
        self._expect = _Expect.VALUE

    def _name_by_position(self) -> None:
        """A value without a key among a call's arguments."""
        position = self._open[-1].count
        name = self._positions[position] if position < len(self._positions) else str(position)
        self._lead = f'"{inside(name)}": '

    def _key_was_none(self) -> None:
        """No separator follows what could have been a key, so it is a value. One without a key in an object is taken
        for a key without a value."""
        brackets = self._open[-1]
        text, is_word = self._key
        value = self._notation.word(text) if is_word else f'"{text}"'
        match brackets.shape:
            case Shape.OBJECT:
                self._begin_pair()
                value = '""'
            case Shape.BRACES:
                brackets.become_list()
            case _:
                if self._strict and brackets.count == 0 and is_word and value.startswith('"'):
                    self._break_off()
                    return
                self._name_by_position()
        self._begin_value()
        self._out.append(value)
        self._expect = _Expect.NEXT

    # Words

    def _in_word(self, text: str, position: int) -> int:
        stop = _in_word_stop(text, position)
        at = len(text) if stop is None else stop.start()
        if at > position:
            self._parts.append(text[position:at])
        if stop is None:
            return at
        character = stop.group()
        if character == "<" or (self._depth == 0 and self._ends_word(character)):
            self._end_word()
            return at
        if self._notation.python:
            if character in _QUOTES and len(self._parts) <= 2 and (prefix := "".join(self._parts).lower()) in _PREFIXES:
                self._raw = "r" in prefix
                self._parts.clear()
                self._expect = _Expect.OPENING_QUOTE
                return at
            if character in _OPENING:
                self._depth += 1
            elif character in _CLOSING:
                self._depth -= 1
        self._parts.append(character)
        return at + 1

    def _ends_word(self, character: str) -> bool:
        if character == ")":
            return self._notation.python
        if character in ",]}":
            return True
        return self._at_key and (character == ":" or (character == "=" and self._open[-1].shape is Shape.CALL))

    def _end_word(self) -> None:
        word = "".join(self._parts).strip()
        if self._at_key:
            self._key = (word, True)
            self._expect = _Expect.SEPARATOR
        else:
            self._begin_value()
            self._out.append(self._notation.word(word))
            self._expect = _Expect.NEXT

    # Strings

    def _opening_quote(self, text: str, position: int) -> int:
        quote = text[position]
        if self._notation.python:
            quotes = text[position : position + 3]
            if quotes == quote * 3:
                quote = quotes
            elif quotes == quote * len(quotes) and not self._final:
                self._held = quotes
                return len(text)
        self._string = QuotedText(quote, self._notation.ends(self._open[-1].shape, self._at_key), raw=self._raw)
        self._expect = _Expect.IN_QUOTES
        self._begin_string()
        return position + len(quote)

    def _in_quotes(self, text: str, position: int) -> int:
        string = self._string
        assert string is not None  # its opening quote made it
        end, piece = string.scan(text, position, final=self._final)
        if self._at_key:
            self._parts.append(piece)
        else:
            self._out.append(piece)
        if string.done:
            if string.continues:
                self._continuing = True
                self._raw = False
                self._expect = _Expect.OPENING_QUOTE
                return _after_blanks(text, end)
            self._end_string()
        elif end < len(text):
            self._held = text[end:]
            return len(text)
        return end

    def _opening_delimiter(self, text: str, position: int) -> int:
        lexer = self._notation.lexer
        if lexer is None:
            self._break_off()
            return position
        found = lexer.find(text, position)
        if found is None or found[0] != position or (found[1] is None and self._final):
            self._expect = _Expect.IN_STRAY_MARKER
            return position + 1
        if found[1] is None:
            self._held = text[position:]
            return len(text)
        self._expect = _Expect.IN_DELIMITERS
        self._begin_string()
        return position + len(self._notation.delimiter)

    def _in_stray_marker(self, text: str, position: int) -> int:
        """Another marker where a string could begin breaks the object off. It goes with the object, because it shows
        what it is only behind its first character."""
        stop = _in_marker_stop(text, position)
        if stop is None:
            return len(text)
        self._break_off()
        return stop.end() if stop.group() == ">" else stop.start()

    def _in_delimiters(self, text: str, position: int) -> int:
        lexer = self._notation.lexer
        assert lexer is not None  # one opened the string
        found = lexer.find(text, position)
        at, marker = (len(text), None) if found is None or self._final else found
        piece = inside(text[position:at])
        if self._at_key:
            self._parts.append(piece)
        else:
            self._out.append(piece)
        if marker is None:
            self._held = text[at:]
            return len(text)
        self._end_string()
        return at + len(marker)

    def _begin_string(self) -> None:
        if self._continuing:
            self._continuing = False
        elif not self._at_key:
            self._begin_value()
            self._out.append('"')

    def _end_string(self) -> None:
        if self._at_key:
            self._key = ("".join(self._parts), False)
            self._expect = _Expect.SEPARATOR
        else:
            self._out.append('"')
            self._expect = _Expect.NEXT


def _after_blanks(text: str, position: int) -> int:
    found = _not_blank(text, position)
    return len(text) if found is None else found.start()
