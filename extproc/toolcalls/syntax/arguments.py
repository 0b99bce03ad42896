"""Arguments as a format spells them, made from the JSON text that clients send.

Nothing of it is parsed further than the spelling needs: numbers, and all of a value that stands as JSON, keep the
client's own spelling, so that the same conversation always renders to the same bytes.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import jiter

Style: TypeAlias = Literal[
    "json", "qwen_xml", "minimax_xml", "minimax_m3_xml", "deepseek_xml", "deepseek_v4_1_xml", "glm_xml", "kimi_k3_xml"
]
"""How xgrammar 0.2.8 names a way to spell arguments (`style` of its format `json_schema`)."""

Harmless: TypeAlias = Callable[[str], str]
"""What is done to text that stands as it is, so that it can neither open nor close a turn or a call."""


Member: TypeAlias = tuple[str, str]
"""A key, and the JSON text of its value as the client spelled it."""


def as_it_is(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True)
class Arguments(ABC):
    """One way to spell arguments. No text at all means no arguments."""

    style: Style | None
    """The same in xgrammar's terms, for forced decoding; None when it can't be said there."""

    @property
    def markup(self) -> tuple[str, ...]:
        """What stands around keys and values."""
        return ()

    @abstractmethod
    def write(self, text: str, harmless: Harmless, /) -> str:
        """The arguments whose JSON text is `text`."""


@dataclass(frozen=True, slots=True)
class Json(Arguments):
    """The text itself. It is the caller's to make harmless: JSON can do that without a change of meaning."""

    style: Style | None = "json"

    def write(self, text: str, _harmless: Harmless, /) -> str:
        return text.strip() or "{}"


@dataclass(frozen=True, slots=True)
class Spelled(Arguments):
    """Arguments that are taken apart and spelled one by one.

    What is no JSON object (an answer was cut off, the model slipped) stands in their place as it is: the model then
    sees about what it wrote.
    """

    def write(self, text: str, harmless: Harmless, /) -> str:
        arguments = members(text)
        return harmless(text.strip()) if arguments is None else self.spell(arguments, harmless)

    @abstractmethod
    def spell(self, arguments: Sequence[Member], harmless: Harmless, /) -> str:
        """The arguments, in the order in which they came."""


@dataclass(frozen=True, slots=True)
class Elements(Spelled):
    """One element for each argument: a string as it is, everything else as JSON. Where no `{type}` says which, only the
    tool's schema tells a reader the string `42` from the number.

    Nothing is escaped, as the models were taught: a string that holds the element's own closing tag, at its end or with
    something behind it that may follow the real one, reads back as a shorter one; one that holds the beginning of a
    call as a longer one; and a key with quotes or angle brackets as another.
    """

    opening: str
    """`{key}` stands for the argument's name, `{type}` for the word that tells its type."""
    closing: str
    type_word: Callable[[str], str] = as_it_is
    """That word for the JSON text of a value."""
    spell_key: Callable[[str], str] = as_it_is
    spell_string: Callable[[str], str] = as_it_is

    @property
    def markup(self) -> tuple[str, ...]:
        return (self.opening, self.closing)

    def spell(self, arguments: Sequence[Member], harmless: Harmless, /) -> str:
        return "".join(self._element(key, value, harmless) for key, value in arguments)

    def _element(self, key: str, value: str, harmless: Harmless) -> str:
        opening = self.opening.replace("{type}", self.type_word(value)).replace("{key}", self.spell_key(harmless(key)))
        # Markers in a value that stands as JSON are in its strings.
        inside = self.spell_string(harmless(json.loads(value))) if value.startswith('"') else harmless(value)
        return opening + inside + self.closing


_decode = json.JSONDecoder().raw_decode


def members(text: str) -> list[Member] | None:
    """The members of a JSON object; None when `text` is no JSON object."""
    text = text.strip()
    if not text:
        return []
    if not text.startswith("{") or not _is_json(text):
        return None
    found: list[Member] = []
    at = _behind_structure(text, 1)
    while text[at] != "}":
        key, at = _decode(text, at)
        at = _behind_structure(text, at)
        _, end = _decode(text, at)
        found.append((key, text[at:end]))
        at = _behind_structure(text, end)
    return found


def _is_json(text: str) -> bool:
    """Whether `text` is one JSON value, strictly: without NaN, and without half a surrogate pair."""
    try:
        jiter.from_json(text.encode(), allow_inf_nan=False)
    except (ValueError, UnicodeEncodeError):
        return False
    return True


def _behind_structure(text: str, at: int) -> int:
    """Where the next key, value or closing bracket is; the text is known to be right."""
    while text[at] in " \t\r\n,:":
        at += 1
    return at
