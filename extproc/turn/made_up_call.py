"""A call of a tool that nobody offered, in the text of an answer: the model has made the tool up.

Small models do so where no tool helps. No parser takes it for a call, so whoever asked would get JSON for an answer. It
is looked for where an answer begins, bare or in a fence: a text that speaks of calls begins with words, and JSON that a
user has asked for has other members.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from extproc.toolcalls import Text

_AROUND = re.compile(r"\s*(?:```[a-z]*\s+)?(?:\[\s*)?")
"""What may stand before it."""
_TOKEN = re.compile(r'\s*("[^"\\\n]{0,128}"|[{:,])')
_BEGUN = re.compile(r'\s*(?:"[^"\\\n]{0,128})?')
_FENCE_BEGUN = re.compile(r"\s*(?:`{0,2}|```[a-z]*)")
"""What may still become one."""
_NAME = frozenset(f'"{key}"' for key in ("name", "function", "function_name", "tool", "tool_name", "action"))
_ARGUMENTS = frozenset(f'"{key}"' for key in ("arguments", "parameters", "args", "params", "input", "action_input"))
_CALL = ("{", _NAME, ":", "the tool's name", ",", _ARGUMENTS, ":", "{")
_AT_NAME = 3
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
        """Look at what comes next. What isn't text (a thought, a call) leaves nothing to be undecided about."""
        for event in events:
            if not isinstance(event, Text):
                self.undecided = False
                continue
            self.spoke = self.spoke or bool(event.text.strip())
            if self.undecided:
                self._begun = (self._begun + event.text)[:_LONGEST]
                self._look()

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
    while len(tokens) < len(_CALL) and (token := _TOKEN.match(text, at)) is not None:
        at = token.end()
        tokens.append(token[1])
    return tokens, (_BEGUN.fullmatch(text, at) or _FENCE_BEGUN.fullmatch(text)) is not None


def _begins_call(tokens: Sequence[str]) -> bool:
    """Whether these can be a call's."""
    return all(
        token[0] == '"' if at == _AT_NAME else token in wanted
        for at, (token, wanted) in enumerate(zip(tokens, _CALL, strict=False))
    )
