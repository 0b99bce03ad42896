"""A small instruct model, played: the text that it answers to a conversation.

It knows no tool calling but what the prompt tells it, exactly as the models that this project is for: it looks for
tools in the system prompt, picks the one that shares most with the request, and writes `<tool_call>` blocks; when
results come back it answers from them. Without tools it can only talk. It is pure and deterministic, and it must never
see anything but the turns' text.

- several things for one tool ("in Paris and in Rome"): several calls
- "please": a sentence before the calls, since real models do that too
- nothing fits: plain text, unless the prompt demands a call
- a tool that ends a task (coding clients offer one) takes the place of a final answer in plain text

If it is to think, it does so as models of the Qwen3 family do: in tags, before all else. It thinks about tools, so
without any it doesn't.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from scripted_vllm.arguments import fill, words
from scripted_vllm.mentions import FILLERS
from scripted_vllm.reading import Result, Situation, Tool, understand
from scripted_vllm.template import Turn

_NAME, _DESCRIPTION, _PARAMETER = 3, 2, 1
"""What a word of the request is worth that also stands in a tool's name, its description or its parameters."""
_FITS = 2
_ENDING = frozenset({"submit", "finish", "completion", "exit", "done"})
_QUOTED_AT_MOST = 1000
"""Characters of a result that an answer repeats."""


def answer(turns: Sequence[Turn], *, thinks: bool = False) -> str:
    """What the model says next."""
    situation = understand(turns)
    thought, said = _next(situation)
    return f"<think>\n{thought}\n</think>\n\n{said}" if thinks and situation.tools else said


def _next(situation: Situation) -> tuple[str, str]:
    """What it thinks, and what it says."""
    if situation.must_call and situation.tools:
        demanded = next((tool for tool in situation.tools if tool.name == situation.demanded), None)
        tool = demanded or _best(situation) or situation.tools[0]
        return f"I have to call a tool, and take {tool.name}.", _calls(tool, situation.request)
    if situation.results:
        told = " ".join(_sentence(result) for result in situation.results)
        return "There is a result, so I can answer.", _conclude(situation, told)
    best = _best(situation)
    if best is not None:
        return f"The tool {best.name} fits what is asked, so I call it.", _calls(best, situation.request)
    return "No tool fits what is asked, so I answer myself.", _conclude(situation, f"You said: {situation.request}")


def _best(situation: Situation) -> Tool | None:
    """The tool that the request names, or shares most words with; None if none shares enough."""
    asked = {_stem(word) for word in words(situation.request) if word not in FILLERS}
    best, most = None, _FITS - 1
    for tool in situation.tools:
        if re.search(rf"\b{re.escape(tool.name)}\b", situation.request):
            return tool
        likeness = 0 if _ends_task(tool) else _likeness(tool, asked)
        if likeness > most:
            best, most = tool, likeness
    return best


def _likeness(tool: Tool, asked: set[str]) -> int:
    # Long descriptions mention everything; the first sentence says what a tool is for.
    purpose = tool.description.partition("\n")[0].partition(". ")[0]
    worth = {_stem(word): _PARAMETER for name in tool.parameters.get("properties") or () for word in words(name)}
    worth |= {_stem(word): _DESCRIPTION for word in words(purpose)}
    worth |= {_stem(word): _NAME for word in words(tool.name)}
    return sum(worth.get(word, 0) for word in asked)


def _stem(word: str) -> str:
    for ending in ("ing", "s"):
        if len(word) > len(ending) + 2 and word.endswith(ending) and not word.endswith("ss"):
            return word.removesuffix(ending)
    return word


def _calls(tool: Tool, request: str) -> str:
    blocks = [_block(tool.name, arguments) for arguments in fill(tool.parameters, request, words(tool.name))]
    opening = ["Of course, one moment."] if "please" in words(request) else []
    return "\n".join(opening + blocks)


def _block(name: str, arguments: object) -> str:
    call = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{call}\n</tool_call>"


def _conclude(situation: Situation, text: str) -> str:
    """The final word: plain text, or the tool that ends a task with that text."""
    for tool in situation.tools:
        if _ends_task(tool):
            return _block(tool.name, fill(tool.parameters, text)[0])
    return text


def _ends_task(tool: Tool) -> bool:
    """Whether it is named so, and takes a last word."""
    parameters = (tool.parameters.get("properties") or {}).values()
    texts = (each for each in parameters if isinstance(each, dict) and each.get("type") == "string")
    return not _ENDING.isdisjoint(words(tool.name)) and any("enum" not in text for text in texts)


def _sentence(result: Result) -> str:
    source = "the tool" if result.name is None else result.name
    return f"According to {source}, {_told(result.text)}."


def _told(text: str) -> str:
    """A result in words: the fields of a JSON object, or the text itself."""
    try:
        data = json.loads(text)
    except ValueError:
        data = text
    if isinstance(data, dict) and data:
        text = ", ".join(f"{key} is {value}" for key, value in data.items())
    elif isinstance(data, list) and data:
        text = ", ".join(str(item) for item in data)
    return text[:_QUOTED_AT_MOST].rstrip(" .\n") or "there is nothing"
