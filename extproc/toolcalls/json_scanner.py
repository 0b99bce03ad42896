"""Scans JSON that arrives in pieces, without building values.

`JsonValue` follows one value to its end and hands its text on as it comes. It is lenient where models are:
words such as `True` or `NaN` pass, and a raw control character inside a string, which JSON forbids and small
models write all the time, is handed on escaped. Each character is looked at once, and long strings are crossed
by a regular expression, not character by character.
"""

from __future__ import annotations

import json
import re

_WHITESPACE = " \t\r\n"
_CLOSER = {"{": "}", "[": "]"}

_in_string_stop = re.compile(r'["\\\x00-\x1f]').search
_structure_stop = re.compile(r'["{}\[\]<]').search
_word_stop = re.compile(r'[\s,:{}\[\]"<]').search
# An escape that is not finished yet, or the first half of a surrogate pair, whose second half must come along.
_unfinished_escape = re.compile(
    r"\\(?:u[0-9a-fA-F]{0,3})?\Z|\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?\Z"
)


class JsonValue:
    """One JSON value, from its first character to its last.

    `scan(text, start)` takes what belongs to the value and returns (end, piece): the value's text up to `end`,
    ready to be handed on. `done` tells whether the value is complete. `text[end]`, when there is one, does not
    belong to the value: either it is complete, or a `<` outside of any string broke it off (no JSON has one).
    """

    __slots__ = ("_begun", "_closers", "_escaped", "_in_string", "_in_word", "done")

    def __init__(self) -> None:
        self.done = False
        self._begun = False
        self._closers: list[str] = []
        self._in_string = False
        self._escaped = False
        self._in_word = False

    def closers(self) -> str:
        """The brackets that would close what is open."""
        return "".join(reversed(self._closers))

    def scan(self, text: str, start: int) -> tuple[int, str]:
        pieces: list[str] | None = None  # only used when something has to be replaced
        mark = position = start
        size = len(text)
        while position < size and not self.done:
            if self._in_string:
                if self._escaped:
                    self._escaped = False
                    position += 1
                    continue
                stop = _in_string_stop(text, position)
                if stop is None:
                    position = size
                    break
                position = stop.end()
                character = stop.group()
                if character == '"':
                    self._in_string = False
                    self.done = not self._closers
                elif character == "\\":
                    self._escaped = True
                else:
                    pieces = pieces or []
                    pieces += (text[mark : position - 1], json.dumps(character)[1:-1])
                    mark = position
            elif self._in_word:
                stop = _word_stop(text, position)
                position = size if stop is None else stop.start()
                self.done = stop is not None
                self._in_word = not self.done
            elif not self._begun:
                character = text[position]
                if character == "<":
                    break
                if character in _WHITESPACE:
                    position += 1
                    continue
                self._begun = True
                if character in '"{[':
                    position = self._open(character, position)
                else:
                    self._in_word = True
            else:
                stop = _structure_stop(text, position)
                if stop is None:
                    position = size
                    break
                character = stop.group()
                if character == "<":
                    position = stop.start()
                    break
                if character in '"{[':
                    position = self._open(character, stop.start())
                else:
                    position = stop.end()
                    # A bracket of the wrong kind closes too: the model meant to close something.
                    self._closers.pop()
                    self.done = not self._closers
        piece = text[mark:position]
        return position, piece if pieces is None else "".join([*pieces, piece])

    def _open(self, character: str, position: int) -> int:
        if character == '"':
            self._in_string = True
        else:
            self._closers.append(_CLOSER[character])
        return position + 1


class JsonString:
    """One JSON string, decoded as it comes: `scan` returns (end, decoded piece); starts behind the opening quote."""

    __slots__ = ("_held", "_value", "done")

    def __init__(self) -> None:
        self.done = False
        self._held = ""
        self._value = JsonValue()
        self._value.scan('"', 0)

    def scan(self, text: str, start: int) -> tuple[int, str]:
        end, piece = self._value.scan(text, start)
        piece = self._held + piece
        self._held = ""
        if self._value.done:
            self.done = True
            piece = piece[:-1]
        elif unfinished := _unfinished_escape.search(piece):
            if not _is_escaped(piece, unfinished.start()):
                self._held = piece[unfinished.start() :]
                piece = piece[: unfinished.start()]
            elif _odd_backslashes_at_end(piece):
                self._held = "\\"
                piece = piece[:-1]
        return end, unescape(piece)


def _odd_backslashes_at_end(text: str) -> bool:
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


def _is_escaped(text: str, position: int) -> bool:
    """Whether the character at `position` is itself escaped by a backslash."""
    return _odd_backslashes_at_end(text[:position])


def unescape(text: str) -> str:
    """The text that the inside of a JSON string stands for; an escape that is none (`\\d`) stays as it is."""
    return _escape.sub(_character, text) if "\\" in text else text


_escape = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL)


def _character(escape: re.Match[str]) -> str:
    try:
        character: str = json.loads(f'"{escape.group()}"')
    except ValueError:
        return escape.group()
    # Half a surrogate pair is no character and can't be encoded any more.
    return "\ufffd" if "\ud800" <= character <= "\udfff" else character
