"""Grammars in the language of Lark, as OpenAI takes them for custom tools, as rules of nodes.

Terminals and rules are much the same here. With `%ignore` what is ignored may stand at the start and behind every
terminal that a rule names. Source: the documentation of Lark ("Grammar Reference").
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from extproc.prompts.text_grammar.characters import between
from extproc.prompts.text_grammar.common_terminals import COMMON
from extproc.prompts.text_grammar.nodes import (
    MOST_NESTED,
    MOST_TIMES,
    ROOT,
    Node,
    OneOf,
    Reference,
    Text,
    UnsupportedGrammarError,
    Work,
    choice,
    references,
    repeat,
    sequence,
)
from extproc.prompts.text_grammar.regex import cased, read_regex

_START = "start"
_IGNORED = "-ignored"  # a name that no rule of a client can have

_TOKEN = re.compile(
    r"""
    (?P<space> [ \t\f]+ | //[^\n]* | \#[^\n]* ) |
    (?P<newline> \r?\n ) |
    (?P<string> " (?: \\. | [^"\\\n] )* " i? ) |
    (?P<regex> / (?!/) (?: \\. | [^/\\\n] )+ / [a-z]* ) |
    (?P<name> [A-Za-z_][A-Za-z0-9_]* ) |
    (?P<number> [+-]?[0-9]+ ) |
    (?P<directive> %[a-z_]* ) |
    (?P<sign> -> | \.\. | [?*+!|:~.,()\[\]{}] )
    """,
    re.VERBOSE,
)
_RULE = re.compile(r"_?[a-z][_a-z0-9]*")
_TERMINAL = re.compile(r"_?[A-Z][_A-Z0-9]*")


def read_lark(definition: str) -> dict[str, Node]:
    """The rules by name: there is the root, and each that one refers to.

    Raises UnsupportedGrammarError with what can't be had, or can't be read, and the rule that has it.
    """
    return _Reader(list(_tokens(definition))).read()


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    line: int


def _tokens(definition: str) -> Iterator[_Token]:
    line = 1
    at = 0
    while at < len(definition):
        token = _TOKEN.match(definition, at)
        if token is None:
            raise UnsupportedGrammarError(
                f"line {line} of the grammar can't be read, from {definition[at : at + 20]!r} on"
            )
        at = token.end()
        kind = str(token.lastgroup)
        if kind != "space":
            yield _Token(kind, token[0], line)
        line += token[0] == "\n" or token[0] == "\r\n"
    yield _Token("newline", "\n", line)
    yield _Token("end", "", line)


class _Reader:
    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._rule: str | None = None  # the one that is being read
        self._rules: dict[str, Node] = {}
        self._ignored: list[Node] = []
        self._ignores = any(token.text == "%ignore" for token in tokens)
        self._work = Work()

    def read(self) -> dict[str, Node]:
        while self._next.kind != "end":
            if self._next.kind == "directive":
                self._directive()
            elif not self._takes("newline"):
                self._definition()
        self._rule = None
        if _START not in self._rules:
            self._fail("there is no rule start")
        for name, node in (*self._rules.items(), *(("%ignore", node) for node in self._ignored)):
            self._check(name, node)
        root: list[Node] = [Reference(_START)]
        if self._ignores:
            self._rules[_IGNORED] = repeat(choice([self._resolved(node) for node in self._ignored]), 0, None)
            root.insert(0, Reference(_IGNORED))
        return {ROOT: sequence(root), **self._rules}

    def _check(self, name: str, node: Node) -> None:
        for other in references(node):
            if other == _IGNORED:
                continue
            if other not in self._rules:
                self._fail(f"{name} refers to {other}, which isn't defined")
            if _TERMINAL.fullmatch(name) and not _TERMINAL.fullmatch(other):
                self._fail(f"the terminal {name} refers to {other}, which is a rule")

    def _resolved(self, node: Node) -> Node:
        """What the terminal is that a node names."""
        return self._rules.get(node.name, node) if isinstance(node, Reference) else node

    # Tokens

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _takes(self, kind: str, *texts: str) -> str | None:
        """The next token's text if it is such a one, which is passed over then."""
        token = self._next
        if token.kind != kind or (texts and token.text not in texts):
            return None
        self._at += 1
        return token.text

    def _needs(self, kind: str, *texts: str) -> str:
        taken = self._takes(kind, *texts)
        if taken is None:
            self._fail(f"{' or '.join(texts) or 'a ' + kind} is missing before {self._next.text.strip() or 'the end'}")
        return taken

    def _fail(self, what: str) -> NoReturn:
        raise self._unsupported(what)

    def _unsupported(self, what: str) -> UnsupportedGrammarError:
        where = f"in {self._rule}, " if self._rule else ""
        return UnsupportedGrammarError(f"{what} ({where}line {self._next.line} of the grammar)")

    # Statements

    def _directive(self) -> None:
        name = self._needs("directive")
        match name:
            case "%ignore":
                self._rule = name
                self._ignored.append(self._alternatives())
            case "%import":
                self._import()
            case _:
                self._fail(f"the directive {name}")
        self._needs("newline")

    def _import(self) -> None:
        if self._takes("sign", "."):
            self._fail("an import from a file")
        module = self._needs("name")
        if module != "common":
            self._fail(f"an import from {module}; there is only common")
        if self._takes("sign", "("):
            names = [self._needs("name")]
            while self._takes("sign", ","):
                names.append(self._needs("name"))
            self._needs("sign", ")")
            for name in names:
                self._define(name, self._common(name))
            return
        self._needs("sign", ".")
        name = self._needs("name")
        self._define(self._needs("name") if self._takes("sign", "->") else name, self._common(name))

    def _common(self, name: str) -> Node:
        if name not in COMMON:
            self._fail(f"an import of common.{name}, which isn't there")
        return read_regex(COMMON[name], is_whole_text=False)

    def _definition(self) -> None:
        self._rule = None
        while self._takes("sign", "?", "!"):
            pass
        name = self._rule = self._needs("name")
        if not (_RULE.fullmatch(name) or _TERMINAL.fullmatch(name)):
            self._fail("a name in upper and lower case")
        if self._takes("sign", "{"):
            self._fail("a template")
        if self._takes("sign", "["):
            self._fail("an attribute")
        if self._takes("sign", "."):
            self._needs("number")  # which decides between readings of a text, not whether there is one
        self._needs("sign", ":")
        self._define(name, self._alternatives())
        self._needs("newline")

    def _define(self, name: str, node: Node) -> None:
        if name in self._rules:
            self._fail(f"{name} is defined more than once")
        self._rules[name] = node

    # What stands behind the colon

    def _alternatives(self) -> Node:
        found: list[Node] = []
        while True:
            nodes: list[Node] = []
            while (node := self._item()) is not None:
                nodes.append(node)
            if self._takes("sign", "->"):
                self._needs("name")
            found.append(sequence(nodes))
            if not self._takes_bar():
                return choice(found)

    def _takes_bar(self) -> bool:
        """A `|`, which may begin a line. In brackets a line may end anywhere."""
        at = self._at
        while self._takes("newline"):
            pass
        if self._takes("sign", "|"):
            return True
        if not self._depth:
            self._at = at
        return False

    def _item(self) -> Node | None:
        while self._depth and self._takes("newline"):
            pass
        node = self._atom()
        if node is None:
            return None
        if quantifier := self._takes("sign", "?", "*", "+"):
            return repeat(node, int(quantifier == "+"), 1 if quantifier == "?" else None)
        if self._takes("sign", "~"):
            least = most = self._times()
            if self._takes("sign", ".."):
                most = self._times()
            if least > most:
                self._fail(f"a repetition of at least {least} and at most {most}")
            return repeat(node, least, most)
        return node

    def _times(self) -> int:
        number = self._needs("number")
        if len(number) > 9 or not 0 <= int(number) <= MOST_TIMES:
            self._fail(f"a repetition of {number[:12]}; from 0 to {MOST_TIMES} can be had")
        return int(number)

    def _atom(self) -> Node | None:
        if bracket := self._takes("sign", "(", "["):
            return self._group(bracket)
        if text := self._takes("string"):
            return self._terminal(self._string(text))
        if text := self._takes("regex"):
            return self._terminal(self._regex(text))
        if name := self._takes("name"):
            if self._takes("sign", "{"):
                self._fail(f"the template {name}")
            node = Reference(name)
            return self._terminal(node) if _TERMINAL.fullmatch(name) else node
        return None

    def _terminal(self, node: Node) -> Node:
        is_in_rule = self._rule is not None and _RULE.fullmatch(self._rule) is not None
        return sequence([node, Reference(_IGNORED)]) if self._ignores and is_in_rule else node

    def _group(self, bracket: str) -> Node:
        self._depth += 1
        if self._depth > MOST_NESTED:
            self._fail(f"more than {MOST_NESTED} groups in one another")
        node = self._alternatives()
        self._needs("sign", ")" if bracket == "(" else "]")
        self._depth -= 1
        return repeat(node, 0, 1) if bracket == "[" else node

    # Literals

    def _string(self, literal: str) -> Node:
        text = self._text(literal)
        if self._takes("sign", ".."):
            return self._range(text, self._text(self._needs("string")))
        return cased(text) if literal.endswith("i") else Text(text)

    def _range(self, first: str, last: str) -> Node:
        if not len(first) == len(last) == 1 or first > last:
            self._fail(f'the range "{first[:9]}".."{last[:9]}"')
        return OneOf(between(first, last))

    def _text(self, literal: str) -> str:
        return _ESCAPE.sub(self._unescaped, literal.removesuffix("i")[1:-1])

    def _unescaped(self, escape: re.Match[str]) -> str:
        if escape["code"]:
            code = int(escape["code"][1:], 16)
            if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
                self._fail(f"{escape[0]}, which is no character")
            return chr(code)
        if escape["letter"] in _ESCAPES:
            return _ESCAPES[escape["letter"]]
        raise self._unsupported(f"the escape {escape[0]} in a string")

    def _regex(self, literal: str) -> Node:
        pattern, _, flags = literal[1:].rpartition("/")
        try:
            return read_regex(pattern, flags, is_whole_text=False, work=self._work)
        except UnsupportedGrammarError as error:
            self._fail(str(error))


_ESCAPE = re.compile(r"\\(?:(?P<code>x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})|(?P<letter>.))")
_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "t": "\t", "r": "\r", "f": "\f"}
"""What means the same by Lark and by JSON."""
