"""What is at hand of an answer that has gone through, and what the rules for texts find in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from extproc.contract.json_array import tools_by_name
from extproc.diagnosis.finding import Finding
from extproc.diagnosis.observed import Choice, parsed_of
from extproc.diagnosis.writing import hides_tools, text_without_calls
from extproc.toolcalls import Parsed
from extproc.turn.asked import Asked
from extproc.turn.spec import ResponseSpec
from extproc.turn.tally import LAST_PIECES, Tally

MOST_READ = 4096
"""Characters of the text's end that are looked at."""
_MOST_BYTES = 32 * 1024
_TEXTS = re.compile(rb'"(content|reasoning|reasoning_content)" ?: ?("(?:[^"\\]|\\.)*")')
"""In a chunk, or in a completion. In what a model said quotes are escaped, so none of it is found there."""


def why_no_call(asked: Asked, spec: ResponseSpec, tally: Tally, usage: Mapping[str, Any]) -> Finding | None:
    """Of an answer without a call that the model has ended by itself."""
    # In prompt mode tools are in the prompt, as the gateway has put them there.
    hidden = hides_tools(spec.tools, usage) if asked.mode != "prompt" else None
    return hidden or text_without_calls(_Ended.of(spec, tally, asked))


@dataclass(frozen=True, slots=True)
class _Ended:
    """What is at hand of an answer (`diagnosis.writing.Text`)."""

    spec: ResponseSpec
    tools: Mapping[str, Mapping[str, Any]]
    said: Choice
    parsed: Parsed
    follows_result: bool

    @classmethod
    def of(cls, spec: ResponseSpec, tally: Tally, asked: Asked) -> _Ended:
        said, whole = _end_of(tally)
        # Where thinking began can only be told of a whole answer.
        parsed = parsed_of(spec, said) if whole else Parsed(said.content, None, [])
        return cls(spec, tools_by_name(spec.tools), said, parsed, asked.follows_result)


def _end_of(tally: Tally) -> tuple[Choice, bool]:
    """What the model wrote, and whether it is all of it: else its end."""
    data = b"".join(tally.last)
    whole = len(tally.last) < LAST_PIECES and len(data) <= _MOST_BYTES
    texts = {"content": "", "reasoning": ""}
    for name, text in _TEXTS.findall(data[-_MOST_BYTES:]):
        texts["content" if name == b"content" else "reasoning"] += _text(text)
    whole = whole and max(map(len, texts.values())) <= MOST_READ
    return Choice(texts["content"][-MOST_READ:], texts["reasoning"][-MOST_READ:]), whole


def _text(literal: bytes) -> str:
    try:
        return str(orjson.loads(literal))
    except orjson.JSONDecodeError:
        return ""
