"""A model that knows answers by heart: a question names the answer it wants, in any order and as often as it likes.

A gateway may ask again, ask several at once, or not ask at all; a queue of replies would get out of step with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from scripted_vllm.checks import ChatRequest
from scripted_vllm.replies import Reply, from_json

_WORD = re.compile(r"[\w:.-]+")
UNKNOWN = Reply("I know no answer to that.")


def load_answers(path: Path) -> dict[str, Reply]:
    """Read a JSONL file: a reply per line, with `to`, the word by which a question names it.

    Raises ValueError with the line's number.
    """
    answers = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            data = dict(json.loads(line))
            name = data.pop("to", None)
            if not isinstance(name, str) or not _WORD.fullmatch(name):
                raise ValueError(f"`to` has to be one word, and is {name!r}")
            answers[name] = from_json(data)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}:{number}: {error}") from error
    return answers


def answering(answers: Mapping[str, Reply]) -> Callable[[ChatRequest], Reply]:
    """What a `ScriptedVLLM` takes as `speak`: the answer that the last user's message names."""

    def speak(request: ChatRequest) -> Reply:
        asked = [message for message in request.messages if message.get("role") == "user"]
        words = _WORD.findall(_text(asked[-1].get("content")) if asked else "")
        return next((answers[word] for word in words if word in answers), UNKNOWN)

    return speak


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text") or "" for part in content or () if isinstance(part, Mapping))
