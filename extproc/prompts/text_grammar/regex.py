"""Regular expressions, as Python and Rust write them, as nodes of a grammar.

What captures is no different from what groups, and what is lazy matches the same whole texts as what is greedy. What
looks around, or back to what was captured, can't be had in a grammar. Source: the documentation of Python's `re`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NoReturn

from extproc.prompts.text_grammar.characters import (
    EVERYTHING,
    Characters,
    between,
    class_of,
    in_any_case,
    negated,
    only,
    union,
)
from extproc.prompts.text_grammar.nodes import (
    MOST_NESTED,
    MOST_TIMES,
    Node,
    OneOf,
    Text,
    UnsupportedGrammarError,
    Work,
    choice,
    repeat,
    sequence,
)


@dataclass(frozen=True)
class _Flags:
    ignore_case: bool = False
    dot_all: bool = False


def read_regex(pattern: str, flags: str = "", *, is_whole_text: bool, work: Work | None = None) -> Node:
    """The texts that match the pattern as a whole.

    If the pattern is for a part of a text, anchors and lazy quantifiers mean something else, and they are refused.
    Raises UnsupportedGrammarError with what can't be had, or can't be read.
    """
    reader = _Reader(pattern, is_whole_text, work or Work())
    return reader.read(reader.with_flags(_Flags(), flags))


def cased(text: str) -> Node:
    """A text in upper or lower case, or both."""
    return sequence([_cased(character) for character in text])


def _cased(character: str) -> Node:
    characters = in_any_case(only(character))
    return Text(character) if characters == only(character) else OneOf(characters)


_GROUP = re.compile(r"\?(?:P?<(?P<name>[^\W\d]\w*)>|(?P<flags>[a-zA-Z]*)(?:-(?P<off>[a-zA-Z]+))?(?P<end>[:)]))")
_UNSUPPORTED_GROUPS = {
    "?=": "a look-ahead",
    "?!": "a look-ahead",
    "?<=": "a look-behind",
    "?<!": "a look-behind",
    "?>": "an atomic group",
    "?P=": "a back-reference",
    "?(": "a condition on a group",
    "?#": "a comment",
    "?|": "a branch reset",
}
_BOUNDS = re.compile(r"\{(?:(?P<exact>[0-9]+)|(?P<least>[0-9]*),(?P<most>[0-9]*))\}")
_CODE = re.compile(
    r"""
    x (?: (?P<x>[0-9a-fA-F]{2}) | \{ (?P<x_>[0-9a-fA-F]{1,8}) \} ) |
    u (?: (?P<u>[0-9a-fA-F]{4}) | \{ (?P<u_>[0-9a-fA-F]{1,8}) \} ) |
    U (?P<U>[0-9a-fA-F]{8})
    """,
    re.VERBOSE,
)
_CONTROL_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_ENDS = ("$", r"\Z", r"\z")
_STARTS = ("^", r"\A")


class _Reader:
    def __init__(self, pattern: str, is_whole_text: bool, work: Work) -> None:
        self._pattern = pattern
        self._work = work
        self._is_whole_text = is_whole_text
        self._at = 0
        self._depth = 0

    def read(self, flags: _Flags) -> Node:
        node, _ = self._choice(flags)
        if self._at < len(self._pattern):
            self._fail("a ) that closes nothing")
        return node

    def with_flags(self, flags: _Flags, letters: str, *, on: bool = True) -> _Flags:
        for letter in letters:
            match letter:
                case "i":
                    flags = replace(flags, ignore_case=on)
                case "s":
                    flags = replace(flags, dot_all=on)
                case "u" if on:  # what is anyway
                    pass
                case _:
                    self._fail(f"the flag {letter}")
        return flags

    def _fail(self, what: str) -> NoReturn:
        raise self._unsupported(what)

    def _unsupported(self, what: str) -> UnsupportedGrammarError:
        pattern = self._pattern if len(self._pattern) <= 60 else self._pattern[:60] + "..."
        return UnsupportedGrammarError(f"{what}, in the regular expression {pattern}")

    def _takes(self, *texts: str) -> str | None:
        for text in texts:
            if self._pattern.startswith(text, self._at):
                self._at += len(text)
                return text
        return None

    # Structure

    def _choice(self, flags: _Flags) -> tuple[Node, _Flags]:
        alternatives = []
        while True:
            node, flags = self._sequence(flags)
            alternatives.append(node)
            if not self._takes("|"):
                return choice(alternatives), flags

    def _sequence(self, flags: _Flags) -> tuple[Node, _Flags]:
        nodes: list[Node] = []
        self._anchors(_STARTS)
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)":
            if self._anchors(_ENDS):
                if self._at < len(self._pattern) and self._pattern[self._at] != "|":
                    self._fail("an anchor in the middle")
                break
            if (found := self._flags_from_here(flags)) is not None:
                flags = found
                self._anchors(_STARTS)
                continue
            nodes.append(self._quantified(self._atom(flags)))
        return sequence(nodes), flags

    def _anchors(self, anchors: tuple[str, ...]) -> bool:
        """Pass over anchors that say what is so anyway."""
        found = False
        while anchor := self._takes(*anchors):
            if not self._is_whole_text:
                self._fail(f"the anchor {anchor}")
            if self._depth:
                self._fail(f"the anchor {anchor} in a group")
            found = True
        return found

    def _flags_from_here(self, flags: _Flags) -> _Flags | None:
        """What `(?i)` makes of the flags, for the rest of the group."""
        group = _GROUP.match(self._pattern, self._at + 1)
        if self._pattern[self._at] != "(" or group is None or group["end"] != ")" or group[0] == "?)":
            return None
        self._at = group.end()
        return self._with_flags_of(group, flags)

    def _with_flags_of(self, group: re.Match[str], flags: _Flags) -> _Flags:
        return self.with_flags(self.with_flags(flags, group["flags"] or ""), group["off"] or "", on=False)

    def _quantified(self, node: Node) -> Node:
        bounds = self._quantifier()
        if bounds is None:
            return node
        least, most = bounds
        if most is not None and least > most:
            self._fail(f"a repetition of at least {least} and at most {most}")
        if max(least, most or 0) > MOST_TIMES:
            self._fail(f"a repetition of more than {MOST_TIMES}")
        if self._takes("+"):
            self._fail("a possessive quantifier")
        if self._takes("?") and not self._is_whole_text:
            self._fail("a lazy quantifier")
        if self._quantifier() is not None:
            self._fail("a quantifier behind another one")
        return repeat(node, least, most)

    def _quantifier(self) -> tuple[int, int | None] | None:
        match self._takes("*", "+", "?"):
            case "*":
                return 0, None
            case "+":
                return 1, None
            case "?":
                return 0, 1
        found = _BOUNDS.match(self._pattern, self._at)
        if found is None:
            return None
        self._at = found.end()
        if max(map(len, filter(None, found.groups())), default=0) > 9:
            self._fail(f"a repetition of more than {MOST_TIMES}")
        if found["exact"]:
            return int(found["exact"]), int(found["exact"])
        return int(found["least"] or 0), int(found["most"]) if found["most"] else None

    # Atoms

    def _atom(self, flags: _Flags) -> Node:
        character = self._pattern[self._at]
        if character == "(":
            return self._group(flags)
        if character == "[":
            return OneOf(self._set(flags))
        self._at += 1
        match character:
            case ".":
                return OneOf(EVERYTHING if flags.dot_all else negated(only("\n")))
            case "*" | "+" | "?":
                self._fail(f"a {character} behind nothing")
            case "^" | "$":
                self._fail("an anchor in the middle")
            case "\\":
                found = self._escape()
                if not isinstance(found, str):
                    self._work.spend(len(found) // 4)
                    return OneOf(found)
                character = found
        return _cased(character) if flags.ignore_case else Text(character)

    def _group(self, flags: _Flags) -> Node:
        self._at += 1
        for sign, what in _UNSUPPORTED_GROUPS.items():
            if self._pattern.startswith(sign, self._at):
                self._fail(what)
        if self._pattern.startswith("?", self._at):
            group = _GROUP.match(self._pattern, self._at)
            if group is None or group["end"] == ")":
                self._fail("a group that begins with " + self._pattern[self._at : self._at + 3])
            self._at = group.end()
            flags = self._with_flags_of(group, flags)
        self._depth += 1
        if self._depth > MOST_NESTED:
            self._fail(f"more than {MOST_NESTED} groups in one another")
        node, _ = self._choice(flags)
        self._depth -= 1
        if not self._takes(")"):
            self._fail("a group that isn't closed")
        return node

    # Sets

    def _set(self, flags: _Flags) -> Characters:
        self._at += 1
        is_negated = self._takes("^") is not None
        parts: list[Characters] = []
        while not (parts and self._takes("]")):  # one that comes first is a character
            if self._at >= len(self._pattern):
                self._fail("a class that isn't closed")
            two = self._pattern[self._at : self._at + 2]
            if two == "[:":
                self._fail("a class of POSIX")
            if parts and two in ("&&", "||", "--", "~~"):
                self._fail(f"the operation {two} on classes")
            parts.append(self._range())
        characters = union(parts)
        self._work.spend(len(characters))
        if flags.ignore_case:
            characters = in_any_case(characters, self._work.spend)
        if is_negated:
            characters = negated(characters)
        if not characters:
            self._fail("a class that no character is in")
        return characters

    def _range(self) -> Characters:
        first = self._member()
        rest = self._pattern[self._at : self._at + 2]
        if rest[:1] != "-" or rest in ("-", "-]"):
            return only(first) if isinstance(first, str) else first
        if rest == "--":
            self._fail("the operation -- on classes")
        self._at += 1
        last = self._member()
        if not (isinstance(first, str) and isinstance(last, str)):
            self._fail("a range from or to a class")
        if last < first:
            self._fail(f"the range {first}-{last}, which ends before it begins")
        return between(first, last)

    def _member(self) -> str | Characters:
        character = self._pattern[self._at]
        self._at += 1
        return self._escape(in_set=True) if character == "\\" else character

    # Escapes

    def _escape(self, *, in_set: bool = False) -> str | Characters:
        """What a backslash and the following mean: a character, or several."""
        if self._at == len(self._pattern):
            self._fail("a \\ at the end")
        if code := _CODE.match(self._pattern, self._at):
            self._at = code.end()
            number = int(next(filter(None, code.groups())), 16)
            if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
                self._fail(f"\\{code[0]}, which is no character")
            return chr(number)
        letter = self._pattern[self._at]
        self._at += 1
        if letter in "dswDSW":
            return class_of(letter)
        if letter in _CONTROL_ESCAPES:
            return _CONTROL_ESCAPES[letter]
        if letter == "b" and in_set:
            return "\b"
        if letter == "0" and not self._pattern[self._at : self._at + 1].isdigit():
            return "\0"
        if not (letter.isalnum() or letter == "_") or not letter.isascii():
            return letter
        match letter:
            case "b" | "B":
                self._fail("a word boundary")
            case "p" | "P":
                self._fail(f"\\{letter}, a property of Unicode")
            case "A" | "Z" | "z":
                self._fail("an anchor in the middle")
            case "k" | "g":
                self._fail("a back-reference")
            case _ if letter.isdigit():
                self._fail("an octal escape" if letter == "0" else "a back-reference")
        raise self._unsupported(f"the escape \\{letter}")
