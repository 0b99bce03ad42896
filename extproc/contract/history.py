"""The arguments of calls of earlier turns, as they can be read.

Those that are no JSON object, because an answer was cut off or the model slipped, are repaired, refused or left alone,
as the model's configuration says. Agents send them back with every later turn, so that a refusal ends the conversation
for good.
"""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import jiter

from extproc.contract.json_body import encode, is_json

Json: TypeAlias = dict[str, Any]
History: TypeAlias = Literal["repair", "error", "pass"]
"""What becomes of earlier arguments that are no JSON object."""

UNREAD = "arguments"
"""Under this key the model is shown what it wrote where no object can be made of it."""

_LITERALS_MOST = 64 * 1024
"""Characters in one request. Python's parser takes some 7 us for each, and one request must not hold up the others."""


class TakesTimeError(Exception):
    """A request can't be read as quickly as it has to be."""


class ArgumentReader:
    """Reads the arguments of earlier turns of one request, each of them once."""

    def __init__(self, history: History, patience: int | None = None) -> None:
        """`patience`: characters that are repaired before TakesTimeError is raised; each takes 1 to 8 us."""
        self._history = history
        self._patience = patience
        self._literals_left = _LITERALS_MOST
        self._read: dict[str, str | None] = {}

    def readable(self, arguments: str) -> str | None:
        """The arguments as they go on; None when they have to be refused."""
        if arguments not in self._read:
            self._read[arguments] = self._readable(arguments)
        return self._read[arguments]

    def __getstate__(self) -> tuple[History, int, dict[str, str | None]]:
        # What is well as it is needn't be kept: it is read again, and found so.
        return self._history, self._literals_left, {it: read for it, read in self._read.items() if read != it}

    def __setstate__(self, state: tuple[History, int, dict[str, str | None]]) -> None:
        self._history, self._literals_left, self._read = state
        self._patience = None

    def _readable(self, arguments: str) -> str | None:
        if not arguments.strip() or self._history == "pass" or _is_object(arguments):
            return arguments
        if self._history == "error":
            return None
        if self._patience is not None:
            self._patience -= len(arguments)
            if self._patience < 0:
                raise TakesTimeError
        return self._repaired(arguments)

    def _repaired(self, arguments: str) -> str:
        """An object in any case: chat templates take nothing else, and many fail on it."""
        text = _unwrapped(arguments)
        if text.strip() in ("", "null"):
            return "{}"
        if (found := text if _is_object(text) else self._mend(text)) is not None:
            return found
        shown = f'{{"{UNREAD}":{text}}}'
        return shown if is_json(text) and is_json(shown) else encode({UNREAD: text}).decode()

    def _mend(self, arguments: str) -> str | None:
        """The object that the arguments were to be; None when that would be a guess.

        Mended are the slips that models make: text cut off in the middle, line breaks left bare in strings, and
        Python's way of writing an object.
        """
        readers: list[Callable[[str], Any]] = [_cut_off, _with_bare_controls]
        if len(arguments) <= self._literals_left:
            readers.append(_python_literal)
        for read in readers:
            if read is _python_literal:
                self._literals_left -= len(arguments)
            try:
                value = read(arguments)
                repaired = encode(value).decode() if isinstance(value, dict) else ""
            except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):  # a set, say, is no JSON
                continue
            if is_json(repaired):
                return repaired
        return None


def _is_object(text: str) -> bool:
    return text.lstrip(" \t\n\r").startswith("{") and is_json(text)


def _unwrapped(text: str) -> str:
    """What is in a JSON string, or in one within it, whole or cut off. Each level doubles what the next one escapes, so
    there are few.
    """
    while text.lstrip(" \t\n\r").startswith('"') and not _goes_on(text.strip(" \t\n\r")):
        try:
            value = _cut_off(text)
        except ValueError:
            break
        if not isinstance(value, str):
            break
        text = value
    return text


def _goes_on(text: str) -> bool:
    """Whether a whole JSON value is only its beginning."""
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return end < len(text)


def _cut_off(arguments: str) -> Any:
    return jiter.from_json(arguments.encode(), partial_mode="trailing-strings", allow_inf_nan=False)


def _with_bare_controls(arguments: str) -> Any:
    return json.loads(arguments, strict=False)


def _python_literal(arguments: str) -> Any:
    with warnings.catch_warnings(action="ignore"):  # it finds fault with escapes such as \\d
        return ast.literal_eval(arguments.strip())
