"""The loop of a program in another environment: JSON lines in and out.

First it says what it is:

    {"versions": {"vllm": "0.32.0"}, "formats": {"hermes": "hermes", ...}}

where `formats` are those that it claims, with the other project's name for each. Then every line that comes is a
question, the fields of `Given`, and the line that goes is `{"deltas": [...]}`, or `{"error": "..."}` for what the
parser raised.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TextIO

from extproc.corpus.judging import Delta, Given


class Adapter(Protocol):
    """What a module of this folder has."""

    def versions(self) -> Mapping[str, str]: ...

    def formats(self) -> Mapping[str, str]: ...

    def parse(self, given: Given) -> Iterable[Delta]: ...


def serve(adapter: Adapter, questions: TextIO, answers: TextIO) -> None:
    """Answer until there is nothing more to be read."""
    _say(answers, {"versions": dict(adapter.versions()), "formats": dict(adapter.formats())})
    for line in questions:
        given = Given(**json.loads(line))
        try:
            answer: dict[str, Any] = {"deltas": list(adapter.parse(given))}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        _say(answers, answer)


def _say(answers: TextIO, what: Mapping[str, Any]) -> None:
    answers.write(json.dumps(what) + "\n")
    answers.flush()
