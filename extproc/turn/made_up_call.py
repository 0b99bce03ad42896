"""A call of a tool that nobody offered, in the text of an answer: the model has made the tool up.

Small models do so where no tool helps. No parser takes it for a call, so whoever asked would get JSON for an answer. It
is looked for where an answer begins, bare or in a fence: a text that speaks of calls begins with words, and JSON that a
user has asked for mostly has other members. In single quotes, or with its arguments first, it is one only if it has
nothing but a name and arguments, so that its end is waited for.
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
_EITHER = rf"""(?:{_STRING}|'[^'\\\n]{{0,128}}')"""
_EITHER_BEGUN = re.compile(r"""\s*(?:"[^"\\\n]{0,128}|'[^'\\\n]{0,128})?""")
_KEY = re.compile(rf"\s*({_EITHER})")
_PUNCTUATION = re.compile(r"\s*(\S)")
_SPACE = re.compile(r"\s*")
_TYPE = re.compile(r"""\{\s*(?:"type"|'type')""")
_IN_OBJECT = re.compile(r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[{}\[\]]|[^"'{}\[\]]+)""", re.DOTALL)
_LONGEST = 400
"""Characters in which it shows, the white space among them."""


class MadeUpCall:
    """Of one choice: `take` its events, in any cut. A call that was read is told too, if the answer begins with it."""

    __slots__ = ("_offered", "called", "name", "spoke", "text", "undecided")

    def __init__(self, offered: Collection[str]) -> None:
        """`offered` are the names that there are."""
        self._offered = offered
        self.undecided = True
        """Nothing has come yet that shows whether the answer begins with one."""
        self.name: str | None = None
        """That of the tool, if it does."""
        self.called: str | None = None
        """The offered tool whose call, read by the parser, begins the answer."""
        self.spoke = False
        """It has a text."""
        self.text = ""
        """How that begins, whatever stands before it."""

    def take(self, events: Iterable[object]) -> None:
        """Look at what comes next. A thought leaves nothing to be undecided about, and a call is the answer itself."""
        for event in events:
            if isinstance(event, Text):
                self.spoke = self.spoke or bool(event.text.strip())
                if len(self.text) < _LONGEST:
                    self.text = (self.text + event.text)[:_LONGEST]
                if self.undecided:
                    self._look()
            else:
                if isinstance(event, CallStart):
                    self.name = None
                    if self.undecided and event.name in self._offered:
                        self.called = event.name
                self.undecided = False

    def _look(self) -> None:
        tokens, unfinished = _tokens(self.text)
        name = None
        if not _begins_call(tokens) or (len(tokens) < len(_CALL) and not unfinished):
            name, unfinished = _in_full(self.text)
        elif len(tokens) == len(_CALL):
            name, unfinished = tokens[_AT_NAME][1:-1], False
        if unfinished and len(self.text) < _LONGEST:
            return
        if name is not None and name not in self._offered:
            self.name = name
        self.undecided = False


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


class _UnfinishedError(Exception):
    """The text ends before it is clear."""


def _in_full(text: str) -> tuple[str | None, bool]:
    """The name in an object of nothing but a name and arguments, which has single quotes or its arguments first; and
    whether the text may still become one."""
    around = _AROUND.match(text)
    try:
        return _name_in_object(text, around.end() if around is not None else 0), False
    except _UnfinishedError:
        return None, True


def _name_in_object(text: str, at: int) -> str | None:
    name: str | None = None
    wanted = [_OF_NAME, _OF_ARGUMENTS]
    for opening in "{,":
        found, at = _taken(_PUNCTUATION, text, at)
        if found != opening:
            return None
        key, at = _taken(_KEY, text, at)
        keys = next((keys for keys in wanted if key is not None and f'"{key[1:-1]}"' in keys), None)
        if key is None or keys is None or (opening == "{" and key[0] == '"' and keys is _OF_NAME):
            return None
        wanted.remove(keys)
        colon, at = _taken(_PUNCTUATION, text, at)
        if colon != ":":
            return None
        if keys is _OF_NAME:
            value, at = _taken(_KEY, text, at)
            if value is None:
                return None
            name = value[1:-1]
        else:
            begin = _end_of_space(text, at)
            if text[begin] != "{":
                return None
            at = _end_of_object(text, begin)
            if _TYPE.match(text, begin) is not None:
                return None
    closing, _ = _taken(_PUNCTUATION, text, at)
    return name if closing == "}" else None


def _taken(pattern: re.Pattern[str], text: str, at: int) -> tuple[str | None, int]:
    """What comes next, and where it ends; None if it is something else."""
    found = pattern.match(text, at)
    if found is not None:
        return found[1], found.end()
    if _EITHER_BEGUN.fullmatch(text, at) is not None:
        raise _UnfinishedError
    return None, at


def _end_of_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    end = found.end() if found is not None else at
    if end == len(text):
        raise _UnfinishedError
    return end


def _end_of_object(text: str, at: int) -> int:
    depth = 0
    while (found := _IN_OBJECT.match(text, at)) is not None:
        at = found.end()
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(found[0], 0)
        if not depth:
            return at
    raise _UnfinishedError
