"""A recogniser of xgrammar's EBNF, as far as the gateway writes it: slow, small, and written apart from it.

The real one is in vLLM's environment: tests/real_vllm/test_text_grammars.py compares the two.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

_TOKEN = re.compile(
    r"""\s*(?: (?P<text>"(?:\\.|[^"\\])*") | (?P<set>\[(?:\\.|[^\]\\])+\]) | (?P<name>[\w-]+) |
    \{(?P<least>\d+)(?P<comma>,(?P<most>\d*))?\} | (?P<sign>[()|?*+]) )""",
    re.VERBOSE,
)
_CHARACTER = re.compile(r"\\u[0-9a-f]{4}|\\U[0-9a-f]{8}|\\.|.", re.DOTALL)


@dataclass
class _Run:
    """What is known of one text."""

    text: str
    ends: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    """Where a rule may end that begins at a place, as far as found."""


_Part: TypeAlias = Callable[[_Run, int], set[int]]
"""Where it may end that begins at a place."""


class Ebnf:
    """A grammar. Raises ValueError if the text is none."""

    def __init__(self, text: str) -> None:
        self._rules: dict[str, _Part] = {}
        for line in text.splitlines():
            name, _, body = line.partition(" ::= ")
            self._tokens = [self._token(body, at) for at in _token_starts(body)]
            self._rules[name] = self._choice()
            if self._tokens:
                raise ValueError(line)

    def accepts(self, text: str) -> bool:
        """Whether the text is one of the grammar's."""
        run = _Run(text, {("root", 0): set()})
        known = -1
        while known != (known := sum(map(len, run.ends.values())) + len(run.ends)):
            for name, at in list(run.ends):
                run.ends[name, at] |= self._rules[name](run, at)
        return len(text) in run.ends["root", 0]

    def _token(self, body: str, at: int) -> re.Match[str]:
        token = _TOKEN.match(body, at)
        assert token is not None
        return token

    def _choice(self) -> _Part:
        parts = [self._sequence()]
        while self._tokens and self._tokens[0]["sign"] == "|":
            self._tokens.pop(0)
            parts.append(self._sequence())
        return lambda run, at: {end for part in parts for end in part(run, at)}

    def _sequence(self) -> _Part:
        parts: list[_Part] = []
        while self._tokens and self._tokens[0]["sign"] not in ("|", ")"):
            parts.append(self._repeated(self._element()))

        def ends(run: _Run, at: int) -> set[int]:
            found = {at}
            for part in parts:
                found = {end for start in found for end in part(run, start)}
            return found

        return ends

    def _element(self) -> _Part:
        token = self._tokens.pop(0)
        if token["sign"] == "(":
            part = self._choice()
            assert self._tokens.pop(0)["sign"] == ")"
            return part
        if token["text"]:
            text = literal_eval(token["text"])
            return lambda run, at: {at + len(text)} if run.text.startswith(text, at) else set()
        if token["set"]:
            characters = _set(token["set"][1:-1])
            return lambda run, at: {at + 1} if characters.fullmatch(run.text[at : at + 1]) else set()
        name = token["name"]
        if not name:
            raise ValueError(token)
        return lambda run, at: set(run.ends.setdefault((name, at), set()))

    def _repeated(self, part: _Part) -> _Part:
        if not self._tokens or not (self._tokens[0]["least"] or self._tokens[0]["sign"] in ("?", "*", "+")):
            return part
        token = self._tokens.pop(0)
        least = int(token["least"] or token["sign"] == "+")
        most = {"?": 1, "*": None, "+": None}.get(token["sign"], least)
        if token["comma"]:
            most = int(token["most"]) if token["most"] else None

        def ends(run: _Run, at: int) -> set[int]:
            found: set[int] = {at} if least == 0 else set()
            last = {at}
            times = 0
            while last and (most is None or times < most):
                times += 1
                last = {end for start in last for end in part(run, start)} - (found if times > least else set())
                found |= last if times >= least else set()
            return found

        return ends


def _token_starts(body: str) -> list[int]:
    starts = []
    at = 0
    while at < len(body):
        token = _TOKEN.match(body, at)
        if token is None:
            raise ValueError(body[at:])
        starts.append(at)
        at = token.end()
    return starts


def _set(body: str) -> re.Pattern[str]:
    """A class means the same to Python, if it is well escaped: nothing may stand in it that only looks so."""
    parts = _CHARACTER.findall(body)
    assert "[" not in parts
    assert parts[0] != "^"
    return re.compile(f"[{body}]")
