"""transformers' parser of responses, by the templates that `transformers serve` has for models without their own.

A checkpoint's own template isn't a format's but that checkpoint's, and can't be had without it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

from transformers.cli.serving import utils
from transformers.utils.chat_parsing import ResponseParser, parse_response

from extproc.corpus.judging import Delta, Given
from extproc.corpus.peers.tokens import thinking_tags, thinks, whole_tokens

_MODEL_TYPES = {"gemma4": "gemma4", "hermes": "qwen3", "qwen3_coder": "qwen3_5"}
"""The type of model whose template is for a format."""

_TURN = {"gemma4": "<|turn>model\n"}


def versions() -> Mapping[str, str]:
    return {"transformers": version("transformers")}


def formats() -> Mapping[str, str]:
    return {name: type_ for name, type_ in _MODEL_TYPES.items() if _template(type_) is not None}


def _template(type_: str) -> Any:
    return next((one for types, one in utils._RESPONSE_TEMPLATE_FALLBACKS.items() if type_ in types), None)


def parse(given: Given) -> Iterator[Delta]:
    template = _template(_MODEL_TYPES[given.format])
    tools = list(given.tools) or None
    if len(given.pieces) == 1:
        found = parse_response(given.pieces[0], template, prefix=_prompt(given), tools=tools)
        calls = [utils._normalize_tool_call(call) for call in found.get("tool_calls") or ()]
        reasoning = found.get("reasoning_content")
        yield {"content": found.get("content", ""), "reasoning": reasoning, "tool_calls": _calls(calls, 0)}
        return
    parser = ResponseParser(template, prefix=_prompt(given), tools=tools)
    count = 0
    for events in _events(parser, whole_tokens(given.format, given.pieces)):
        for item in utils.response_events_to_chunks(events):
            if isinstance(item, utils.ToolCall):
                yield {"tool_calls": _calls([item], count)}
                count += 1
            elif isinstance(item, str) and type(item) is str:
                yield {"content": item}
            else:
                yield {"reasoning": getattr(item, "text", str(item))}


def _events(parser: Any, pieces: list[str]) -> Iterator[list[dict[str, Any]]]:
    yield parser.initial_events
    for piece in pieces:
        yield parser.feed(piece)
    yield parser.finalize()[1]


def _calls(calls: list[Any], first: int) -> list[dict[str, Any]]:
    return [
        {"index": index, "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
        if not isinstance(call.arguments, str)
        else {"index": index, "function": {"name": call.name, "arguments": call.arguments}}
        for index, call in enumerate(calls, start=first)
    ]


def _prompt(given: Given) -> str:
    """How the prompt ends: in the turn of the model, and inside thinking if it was begun."""
    turn = _TURN.get(given.format, "<|im_start|>assistant\n")
    opening, closing = thinking_tags(given.format)
    if given.prompt_opens_thinking:
        return f"{turn}{opening}\n"
    if given.format == "gemma4" or thinks(given.format, "".join(given.pieces), False):
        return turn
    return f"{turn}{opening}\n\n{closing}\n\n" if given.format == "qwen3_coder" else turn
