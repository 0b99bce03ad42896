"""The requests of the benchmark: conversations of a stated size, as templates with two marks.

`@conversation@` stands in the system prompt and in each tool's description: another number there, and no gateway has
seen anything of the conversation before. `@request@` stands in the last message of the conversation's tenth request:
another number there, and it goes on from the same nine requests in another way. Both are put in place while the load
runs (load.lua), as eight digits, so that the length stays what it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from bench.request import tool

CONVERSATION, REQUEST = b"@conversation@", b"@request@"
REQUESTS = 10
"""The request of a conversation that is measured; the nine before it are sent before."""
_WORDS = "the value of this field decides where the file goes and what happens to lines that are already in it "
_CODE = '    if line[0] == "\\t":\n        return 0  # größer\n'


@dataclass(frozen=True, slots=True)
class Shape:
    """What a conversation is like at its tenth request."""

    name: str
    title: str
    tools: int
    turns: int
    """Rounds of history before the last message: calls with their results, or without tools questions with answers."""
    system: int
    """Characters of the system prompt."""
    said: int
    """Characters that each turn has, about: half of them by the model."""

    def template(self, request: int = REQUESTS, *, model: str = "coder", stream: bool = False) -> bytes:
        """The body of the conversation's n-th request, from 1 to 10."""
        messages = list(self._messages(self.turns - REQUESTS + request))
        if request == REQUESTS:
            messages[-1]["content"] += f" {REQUEST.decode()}"
        fields: dict[str, Any] = {"model": model, "messages": messages, "stream": stream, "temperature": 0}
        if self.tools:
            fields["tools"] = [_named(tool(number)) for number in range(self.tools)]
        return orjson.dumps(fields)

    def _messages(self, turns: int) -> Iterator[dict[str, Any]]:
        yield {"role": "system", "content": f"{CONVERSATION.decode()} {_long(_WORDS, self.system)}"}
        yield {"role": "user", "content": _WORDS}
        for turn in range(turns):
            said = _long(_CODE, self.said // 2)
            if self.tools:
                arguments = orjson.dumps({"text_0": said, "mode": "write"}).decode()
                function = {"name": "tool_1", "arguments": arguments}
                calls = [{"id": f"call_{turn}", "type": "function", "function": function}]
                yield {"role": "assistant", "content": None, "tool_calls": calls}
                yield {"role": "tool", "tool_call_id": f"call_{turn}", "content": f"{turn}: {said}"}
            else:
                yield {"role": "assistant", "content": said}
                yield {"role": "user", "content": f"{turn}: {said}"}


def filled(template: bytes, conversation: int, request: int = 0) -> bytes:
    """A body: both numbers have eight digits."""
    marked = template.replace(CONVERSATION, b"%08d" % conversation)
    return marked.replace(REQUEST, b"%08d" % request)


def _named(made: dict[str, Any]) -> dict[str, Any]:
    made["function"]["description"] += CONVERSATION.decode()
    return made


def _long(text: str, characters: int) -> str:
    return (text * (characters // len(text) + 1))[:characters]


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("17k", "17 kB, no tools", tools=0, turns=10, system=6000, said=880),
        Shape("41k", "41 kB, 25 tools", tools=25, turns=10, system=2000, said=310),
        Shape("229k", "229 kB, 50 tools, 40 turns", tools=50, turns=40, system=6000, said=3045),
    )
}
