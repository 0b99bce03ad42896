"""A demanded call that didn't come, or came wrong, is asked for once more: what the backend is sent then.

The conversation stays as it was up to its end, so that a replica that has its prefix in its cache finds it there: the
one that answered first, and any replica may get the second request. The first answer is not quoted: its markup would
have to be broken to do no harm, and a broken example is worse than none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from extproc.openai.json_body import encode
from extproc.tools.escaping import Escaper
from extproc.tools.wording import rejected

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SecondTry:
    """The request that the backend got first, and the words that demand the call."""

    fields: Json
    demand: str
    escaper: Escaper

    def body(self, problem: str) -> bytes:
        """The body of the second request. `problem` is a sentence about the first answer."""
        words = rejected(problem, self.demand, self.escaper)
        return encode({**self.fields, "messages": with_words(self.fields["messages"], words)})


def with_words(messages: Sequence[Json], words: str) -> list[Json]:
    """The conversation with these words at its end, in the user's last turn: many templates want turns to alternate."""
    if messages and messages[-1]["role"] == "user":
        *before, last = messages
        content = last["content"]
        joined = f"{content}\n\n{words}" if isinstance(content, str) else [*content, {"type": "text", "text": words}]
        return [*before, {**last, "content": joined}]
    return [*messages, {"role": "user", "content": words}]
