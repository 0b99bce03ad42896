"""Grammars as xgrammar's EBNF.

Rules are `name ::= ...`; strings and classes take the escapes of C, repetition is `?`, `*`, `+` or `{m,n}`. A rule may
be left-recursive, and what is repeated may be empty. Source: measured with xgrammar 0.2.8, in
tests/real_vllm/test_text_grammars.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from extproc.prompts.text_grammar.characters import Characters, Range, only, without
from extproc.prompts.text_grammar.nodes import (
    ROOT,
    Choice,
    Node,
    OneOf,
    Reference,
    Repeat,
    Sequence,
    Text,
    UnsupportedGrammarError,
    references,
)

_LARGEST = 256 * 1024
"""Characters of EBNF."""
_MOST_RULES = 256
"""What xgrammar does for a token grows faster than with their number, in grammars that are made for it."""


def write_ebnf(rules: Mapping[str, Node], *, in_json_string: bool) -> str:
    """The rules that the root needs, as EBNF.

    Raises UnsupportedGrammarError if one of them never ends, or repeats too much, or all are too large.
    """
    needed = _needed(rules)
    if len(needed) > _MOST_RULES:
        raise UnsupportedGrammarError(f"the grammar has {len(needed)} rules, and {_MOST_RULES} are the most")
    _require_ends(rules, needed)
    writer = _Writer(in_json_string, _empty(rules, needed))
    for name in needed:
        try:
            writer.line(_name(name), writer.node(rules[name]))
        except UnsupportedGrammarError as error:
            raise UnsupportedGrammarError(f"{error}, in {name}" if name != ROOT else str(error)) from None
    return writer.text


def _name(rule: str) -> str:
    return "root" if rule == ROOT else f"rule-{rule}"  # so that none is a keyword, or one of ours


def _needed(rules: Mapping[str, Node]) -> list[str]:
    needed = [ROOT]
    seen = {ROOT}
    for name in needed:  # which grows meanwhile
        for other in references(rules[name]):
            if other not in seen:
                seen.add(other)
                needed.append(other)
    return needed


# Rules that never end: a model that has begun one could write nothing else for ever


def _require_ends(rules: Mapping[str, Node], needed: list[str]) -> None:
    users: dict[str, set[str]] = {name: set() for name in needed}
    for name in needed:
        for other in references(rules[name]):
            users[other].add(name)
    ending: set[str] = set()
    waiting = list(needed)
    while waiting:
        name = waiting.pop()
        if name not in ending and _ends(rules[name], ending):
            ending.add(name)
            waiting.extend(users[name] - ending)
    for name in needed:
        if name not in ending and name != ROOT:
            raise UnsupportedGrammarError(f"the rule {name} never ends: each of its alternatives needs the rule itself")


def _ends(node: Node, ending: set[str]) -> bool:
    match node:
        case Reference(name):
            return name in ending
        case Sequence(nodes):
            return all(_ends(part, ending) for part in nodes)
        case Choice(nodes):
            return any(_ends(part, ending) for part in nodes)
        case Repeat(repeated, least, _):
            return least == 0 or _ends(repeated, ending)
        case _:
            return True


# Rules that may be empty: xgrammar takes a second for 200 characters of what may be, repeated, and minutes for more


def _empty(rules: Mapping[str, Node], needed: list[str]) -> set[str]:
    empty: set[str] = set()
    while found := [name for name in needed if name not in empty and _may_be_empty(rules[name], empty)]:
        empty.update(found)
    return empty


def _may_be_empty(node: Node, empty: set[str]) -> bool:
    match node:
        case Text(text):
            return not text
        case Reference(name):
            return name in empty
        case Sequence(nodes):
            return all(_may_be_empty(part, empty) for part in nodes)
        case Choice(nodes):
            return any(_may_be_empty(part, empty) for part in nodes)
        case Repeat(repeated, least, _):
            return least == 0 or _may_be_empty(repeated, empty)
        case _:
            return False


# Writing


class _Writer:
    def __init__(self, in_json_string: bool, empty: set[str]) -> None:
        self._in_json_string = in_json_string
        self._empty = empty
        self._lines: list[str] = []
        self._size = 0
        self._sets: dict[str, str] = {}  # rules of our own, by what they are

    @property
    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def line(self, name: str, body: str) -> None:
        self._lines.append(f"{name} ::= {body}")
        self._size += len(self._lines[-1]) + 1
        if self._size > _LARGEST:
            raise UnsupportedGrammarError("the grammar has too many large classes of characters to be enforced")

    def node(self, node: Node) -> str:
        """An element, or several; a choice is in brackets."""
        match node:
            case Text(text):
                return self._literal(text)
            case OneOf(characters):
                return self._one_of(characters)
            case Sequence(nodes):
                return " ".join(map(self.node, nodes)) or '""'
            case Choice(nodes):
                return f"({' | '.join(map(self.node, nodes))})"
            case Repeat(repeated, least, most):
                return self._repeated(repeated, least, most)
            case Reference(name):
                return _name(name)

    def _repeated(self, node: Node, least: int, most: int | None) -> str:
        if most is None and _may_be_empty(node, self._empty):
            raise UnsupportedGrammarError("an unlimited repetition of what may be empty")
        if (least > 1 or (most or 0) > 1) and _unrolled(node) * max(least, most or 0) > _MOST_UNROLLED:
            raise UnsupportedGrammarError(f"repetitions that come to more than {_MOST_UNROLLED} characters")
        element = self._element(node)
        if max(least, most or 0) <= 1 or not (isinstance(node, OneOf) and self._needs_escapes(node.characters)):
            return element + _times(least, most)
        # xgrammar takes some 40 ms for each token of such a repetition, and 1 ms if it is spelled out.
        if (times := max(least, most or 0)) > _MOST_SPELLED_OUT:
            raise UnsupportedGrammarError(
                f"a repetition of {times} characters that JSON may have to escape; {_MOST_SPELLED_OUT} are the most"
            )
        if most is None:
            return " ".join([element] * least + [f"{element}*"])
        optional = most - least
        return " ".join([element] * least + [f"({element}"] * optional) + ")?" * optional or '""'

    def _needs_escapes(self, characters: Characters) -> bool:
        return self._in_json_string and without(characters, _ESCAPED) != characters

    def _element(self, node: Node) -> str:
        """What a quantifier may stand behind."""
        written = self.node(node)
        return f"({written})" if isinstance(node, Sequence | Repeat) else written

    def _literal(self, text: str) -> str:
        if self._in_json_string:
            text = json.dumps(text, ensure_ascii=False)[1:-1]
        return f'"{"".join(map(_in_string, text))}"'

    def _one_of(self, characters: Characters) -> str:
        plain = without(characters, _ESCAPED) if self._in_json_string else characters
        if plain == characters:
            body = _class(plain)
            if len(body) <= _LARGEST_IN_PLACE:
                return body
        else:
            body = " | ".join([_class(plain)] * bool(plain) + _escapes(without(characters, plain)))
        name = self._sets.get(body)
        if name is None:
            name = self._sets[body] = f"set-{len(self._sets) + 1}"
            self.line(name, body)
        return name


_LARGEST_IN_PLACE = 100
"""Characters of a class that isn't made a rule of its own."""
_MOST_SPELLED_OUT = 64
"""Each takes some 25 ms to compile."""
_MOST_UNROLLED = 1_024


def _unrolled(node: Node) -> int:
    """How many characters or rules a node comes to, each repetition as long as it may be."""
    match node:
        case Text(text):
            return max(len(text), 1)
        case Sequence(nodes) | Choice(nodes):
            return sum(map(_unrolled, nodes))
        case Repeat(repeated, least, most):
            return _unrolled(repeated) * max(least, most or 0, 1)
        case _:
            return 1


def _times(least: int, most: int | None) -> str:
    match least, most:
        case 0, None:
            return "*"
        case 1, None:
            return "+"
        case 0, 1:
            return "?"
        case _, None:
            return f"{{{least},}}"
        case _:
            return f"{{{least},{most}}}"


# Characters in strings and in classes


def _in_string(character: str) -> str:
    return "\\" + character if character in '"\\' else _readable(character)


def _in_class(code: int) -> str:
    character = chr(code)
    return "\\" + character if character in "]\\^-[" else _readable(character)


def _readable(character: str) -> str:
    if " " <= character <= "~":
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _class(characters: Characters) -> str:
    return f"[{''.join(map(_range, characters))}]"


def _range(range_: Range) -> str:
    first, last = range_
    if first == last:
        return _in_class(first)
    return f"{_in_class(first)}{'-' if last > first + 1 else ''}{_in_class(last)}"


# JSON's escapes, as json.dumps writes them

_SHORT = {'"': '"', "\\": "\\", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_CONTROLS: Characters = ((0, 0x1F),)
_ESCAPED: Characters = ((0, 0x1F), (0x22, 0x22), (0x5C, 0x5C))


def _escapes(characters: Characters) -> list[str]:
    """The escapes of characters that all need one."""
    codes = [code for first, last in characters for code in range(first, last + 1)]
    short = "".join(_SHORT[chr(code)] for code in codes if chr(code) in _SHORT)
    found = [rf'"\\" {_class(only(short))}'] if short else []
    for digit in "01":
        last_digits = "".join(f"{code & 15:x}" for code in codes if code >> 4 == int(digit) and chr(code) not in _SHORT)
        if last_digits:
            found.append(rf'"\\u00{digit}" {_class(only(last_digits))}')
    return found
