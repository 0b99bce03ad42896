"""Breaks outputs: in the ways in which models do, and in others."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import TypeAlias

from tests.fuzz.inputs import Input
from tests.fuzz.seeds import markup, samples

LETTERS = "".join(map(chr, range(0xAC00, 0xAC00 + 1000)))
"""No markup, name or key has any of them, so that none may vanish. They are planted everywhere."""

_BITS: tuple[str, ...] = (
    *"{}[]()<>\"'`,:=;/\\|&#_ \n\t\r0-.",
    *(
        "\n\n",
        "{}",
        "[]",
        "()",
        '""',
        "''",
        "</",
        "/>",
        "```",
        "```json\n",
        '"""',
        "'''",
        "```\n",
        "{{",
        "}}",
        "]]",
        "[[",
    ),
    *('{"', '"}', '"]', '": "', '", "', "': '", '\\"', "\\n", "\\\\", "\\u00e9", "\\ud83d", "\\u", "\\x", "{ ", ", }"),
    *("null", "None", "true", "True", "1", "-0", "1e9", "007", "NaN", "Infinity", "1.", ".5", "0x1f", "9" * 40),
    *("&lt;", "&amp;", "&quot;", "<![CDATA[", "]]>", "<?", "<!--", "-->", "//", "# ", "…", "：", "“", "”", "｜"),
    *(
        "\x00",
        "\x1b",
        "\x7f",
        "\u2028",
        "\ufeff",
        "\u00a0",
        "\u0085",
        "\v",
        "😀",
        "é",
        "名",
        "\ud83d",
        "\udc00",
        "\ufffd",
    ),
    *(
        "get_weather",
        "f",
        "n",
        "write_file",
        "city",
        "text",
        "name",
        "arguments",
        "parameters",
        "function",
        "type",
        "id",
    ),
    *("functions.", ":0", "call:", "to=", "json", " name=", "item", "default_api.", "tool", "assistant", "final"),
    *('{"name": "f", "arguments": {}}', '{"name": "n", "parameters": {"a": 1}}', "[f(text='1')]", "n()", "words. "),
    *("<think>", "</think>", "<|im_end|>", "<|end|>", "</s>", "<tool_call>", "</tool_call>", "<function=f>"),
)
_FILLERS: tuple[str, ...] = (
    "a",
    " ",
    "\n",
    "{",
    "[",
    "(",
    '"',
    "'",
    "\\",
    "<",
    "`",
    "}",
    "]",
    ">",
    "word ",
    '{"a":',
    "[[",
    "<a>",
    "\\n",
    "1",
    "\t\n",
)
_TOKEN = re.compile(r"<[^<>]{0,40}>|\w+|\s+|.", re.DOTALL)

Edit: TypeAlias = Callable[[str], str]


class Mutator:
    """Makes inputs of one format, the same ones for the same `seed`."""

    def __init__(self, format_: str, seed: int) -> None:
        self._random: Callable[[], float] = random.Random(seed).random
        self._own = markup()[format_] or ("{",)
        self._foreign = _foreign()
        self._samples = samples()[format_]
        self._others = _all_samples()
        # More of what models do than of what they don't.
        self._edits: tuple[Edit, ...] = (
            *(self._delete,) * 3,
            *(self._delete_token,) * 4,
            *(self._repeat,) * 2,
            *(self._repeat_token,) * 2,
            *(self._swap,) * 2,
            *(self._insert_marker,) * 5,
            *(self._insert_part,) * 2,
            *(self._insert_foreign,) * 2,
            *(self._insert_bit,) * 6,
            *(self._replace_token,) * 4,
            *(self._splice,) * 3,
            self._splice_foreign,
            *(self._nest,) * 2,
            *(self._cut,) * 3,
            self._cut_head,
            *(self._plant,) * 8,
            *(self._requote,) * 2,
            self._run,
        )

    def mutated(self, pool: Sequence[Input]) -> Input:
        """One of `pool`, broken one to five times."""
        random = self._random
        sample = pool[int(random() * len(pool))]
        text = sample.text
        edits = self._edits
        size = len(edits)
        draw = random()
        for _ in range(1 if draw < 0.3 else 2 if draw < 0.65 else 3 if draw < 0.85 else 5):
            text = edits[int(random() * size)](text)
        draw = random()
        if draw < 0.7:
            return Input(sample.format, text[:3000], sample.tools, sample.thinking)
        sample = replace(sample, text=text[:3000])
        if draw < 0.77:
            return replace(sample, thinking=not sample.thinking)
        if draw < 0.85:
            return replace(sample, hidden=True)
        if draw < 0.93:
            return replace(sample, cut_off=True)
        return replace(sample, tools=()) if draw < 0.97 else replace(sample, tools=self._pick(self._samples).tools)

    def _pick(self, pool: Sequence[Input]) -> Input:
        return pool[int(self._random() * len(pool))]

    def _span(self, text: str) -> tuple[int, int]:
        """Mostly a short one."""
        draw = self._random()
        start = int(self._random() * (len(text) + 1))
        return start, start + 1 + int((draw**4) * 60)

    def _token(self, text: str) -> tuple[int, int]:
        """A tag, a word, white space or a character, from a random place on."""
        start = int(self._random() * len(text))
        # A tag is mostly hit in its middle.
        opening = text.rfind("<", max(start - 30, 0), start + 1)
        found = _TOKEN.match(text, start if opening < 0 or self._random() < 0.4 else opening)
        return found.span() if found else (start, start)

    def _insert(self, text: str, inserted: str) -> str:
        draw = self._random()
        if draw < 0.5:
            at = int(self._random() * (len(text) + 1))
        elif draw < 0.9:
            at = self._token(text)[draw < 0.7]
        else:
            at = 0 if draw < 0.93 else len(text)
        return text[:at] + inserted + text[at:]

    def _delete(self, text: str) -> str:
        start, end = self._span(text)
        return text[:start] + text[end:]

    def _delete_token(self, text: str) -> str:
        start, end = self._token(text)
        return text[:start] + text[end:]

    def _repeat(self, text: str) -> str:
        start, end = self._span(text)
        return text[:end] + text[start:]

    def _repeat_token(self, text: str) -> str:
        start, end = self._token(text)
        return self._insert(text, text[start:end]) if self._random() < 0.4 else text[:end] + text[start:]

    def _swap(self, text: str) -> str:
        one, other = sorted((self._token(text), self._token(text)))
        if one[1] > other[0]:
            return text
        return text[: one[0]] + text[slice(*other)] + text[one[1] : other[0]] + text[slice(*one)] + text[other[1] :]

    def _marker(self) -> str:
        return self._own[int(self._random() * len(self._own))]

    def _insert_marker(self, text: str) -> str:
        return self._insert(text, self._marker())

    def _insert_part(self, text: str) -> str:
        marker = self._marker()
        at = int(self._random() * len(marker))
        return self._insert(text, marker[:at] if self._random() < 0.6 else marker[at:])

    def _insert_foreign(self, text: str) -> str:
        return self._insert(text, self._foreign[int(self._random() * len(self._foreign))])

    def _bit(self) -> str:
        return _BITS[int(self._random() * len(_BITS))]

    def _insert_bit(self, text: str) -> str:
        return self._insert(text, self._bit())

    def _replace_token(self, text: str) -> str:
        start, end = self._token(text)
        return text[:start] + (self._marker() if self._random() < 0.4 else self._bit()) + text[end:]

    def _splice(self, text: str) -> str:
        other = self._pick(self._samples).text
        if self._random() < 0.3:
            return text + ("\n" if self._random() < 0.5 else "") + other
        return text[: self._token(text)[0]] + other[self._token(other)[0] :]

    def _splice_foreign(self, text: str) -> str:
        other = self._pick(self._others).text
        start, end = self._span(other)
        return self._insert(text, other if self._random() < 0.3 else other[start : end + 30])

    def _nest(self, text: str) -> str:
        return self._insert(text, text if self._random() < 0.4 else self._pick(self._samples).text)

    def _cut(self, text: str) -> str:
        return text[: int(self._random() * (len(text) + 1))]

    def _cut_head(self, text: str) -> str:
        return text[int(self._random() * (len(text) + 1)) :]

    def _plant(self, text: str) -> str:
        """Letters that are missed when they vanish: one, a word, or more words than the head of a call has."""
        random = self._random
        at = int(random() * (len(LETTERS) - 40))
        draw = random()
        if draw < 0.4:
            planted = LETTERS[at : at + 1 + int(random() * 4)]
        else:
            words = LETTERS[at : at + 24]
            planted = " ".join((words[:4], words[4:7], words[7:11], words[11:16], words[16:20], words[20:]))
        return self._insert(text, planted)

    def _requote(self, text: str) -> str:
        one, other = ("\"'", "'\"", '"`', '"“', "''", '""')[int(self._random() * 6)]
        start = int(self._random() * (len(text) + 1))
        return text[:start] + text[start:].replace(one, "" if one == other else other, 1 + int(self._random() * 4))

    def _run(self, text: str) -> str:
        """Much of one thing, mostly of what opens something."""
        draw = self._random()
        piece = _FILLERS[int(self._random() * len(_FILLERS))] if draw < 0.7 else self._marker()
        return self._insert(text, piece * (4 + int((self._random() ** 3) * 250)))


@cache
def _foreign() -> tuple[str, ...]:
    return tuple(sorted({literal for literals in markup().values() for literal in literals}))


@cache
def _all_samples() -> tuple[Input, ...]:
    return tuple(sample for inputs in samples().values() for sample in inputs)
