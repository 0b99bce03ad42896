"""A call of a tool that nobody offered, in the text of an answer: the model has made the tool up.

Small models do so where no tool helps. No parser takes it for a call, so whoever asked would get JSON for an answer. It
is looked for where an answer begins, bare or in a fence: a text that speaks of calls begins with words, and JSON that a
user has asked for mostly has other members.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from extproc.toolcalls import CallStart, Text

_AROUND = re.compile(r"\s*(?:```[a-z]*\s+)?(?:\[\s*)?")
"""What may stand before it."""
_FENCE_BEGUN = re.compile(r"\s*(?:`{0,2}|```[a-z]*)")
_STRING = r'"[^"\\\n]{0,128}"'
_TOKEN = re.compile(rf"\s*({_STRING}|[{{:,]|\}})")
_ARGUMENTS = re.compile(rf'\s*(\{{\s*(?:{_STRING}|\}})|"\{{)')
"""An object up to its first key, or one in a string."""
_BEGUN = re.compile(r'\s*(?:"[^"\\\n]{0,128})?')
_ARGUMENTS_BEGUN = re.compile(r'\s*(?:"|\{\s*(?:"[^"\\\n]{0,128})?)?')
"""What may still become one."""
_OF_NAME = frozenset(f'"{key}"' for key in ("name", "function", "function_name", "tool", "tool_name"))
_OF_ARGUMENTS = frozenset(f'"{key}"' for key in ("arguments", "parameters", "args", "params"))
_CALL = ("{", _OF_NAME, ":", "the tool's name", ",", _OF_ARGUMENTS, ":", "its arguments")
_AT_NAME, _AT_ARGUMENTS = 3, 7
_LONGEST = 400
"""Characters in which it shows, the white space among them."""


class MadeUpCall:
    """Of one choice: `take` its events, in any cut."""

    __slots__ = ("_begun", "_offered", "name", "spoke", "undecided")

    def __init__(self, offered: Collection[str]) -> None:
        """`offered` are the names that there are."""
        self._offered = offered
        self._begun = ""
        self.undecided = True
        """Nothing has come yet that shows whether the answer begins with one."""
        self.name: str | None = None
        """That of the tool, if it does."""
        self.spoke = False
        """It has a text."""

    def take(self, events: Iterable[object]) -> None:
        """Look at what comes next. A thought leaves nothing to be undecided about, and a call is the answer itself."""
        for event in events:
            if isinstance(event, Text):
                self.spoke = self.spoke or bool(event.text.strip())
                if self.undecided:
                    self._begun = (self._begun + event.text)[:_LONGEST]
                    self._look()
            else:
                self.undecided = False
                if isinstance(event, CallStart):
                    self.name = None

    def _look(self) -> None:
        tokens, unfinished = _tokens(self._begun)
        if _begins_call(tokens):
            if len(tokens) < len(_CALL) and unfinished and len(self._begun) < _LONGEST:
                return
            if len(tokens) == len(_CALL) and (name := tokens[_AT_NAME][1:-1]) not in self._offered:
                self.name = name
        self.undecided, self._begun = False, ""


def _tokens(text: str) -> tuple[list[str], bool]:
    """Those of a call, as far as it is there, and whether nothing but what may become another follows."""
    tokens: list[str] = []
    around = _AROUND.match(text)
    at = around.end() if around is not None else 0
    while len(tokens) < len(_CALL):
        token = (_ARGUMENTS if len(tokens) == _AT_ARGUMENTS else _TOKEN).match(text, at)
        if token is None:
            break
        at = token.end()
        tokens.append(token[1])
    begun = _ARGUMENTS_BEGUN if len(tokens) == _AT_ARGUMENTS else _BEGUN
    return tokens, (begun.fullmatch(text, at) or _FENCE_BEGUN.fullmatch(text)) is not None


def _begins_call(tokens: Sequence[str]) -> bool:
    """Whether these can be a call's."""
    return all(_fits(at, token) for at, token in enumerate(tokens))


def _fits(at: int, token: str) -> bool:
    if at == _AT_NAME:
        return token[0] == '"'
    if at == _AT_ARGUMENTS:
        return not token.endswith('"type"')  # those of a tool's definition are a schema
    return token in _CALL[at]
