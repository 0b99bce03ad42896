"""mlx-lm's parsers, driven as its server drives them: a machine over the text finds calls, and a function reads each.

The machine is the one that `mlx_lm.generate` makes for a tokenizer, and the loop around it that of `mlx_lm.server`. An
answer that isn't streamed goes the same way, and its calls are read at the end.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import version
from typing import Any

from mlx_lm.generate import TextStateMachine, make_text_state_machine
from mlx_lm.server import ToolCallFormatter
from mlx_lm.tokenizer_utils import TokenizerWrapper

from extproc.corpus.judging import Delta, Given
from extproc.corpus.peers.tokens import CharacterTokenizer, whole_tokens

logging.disable(logging.CRITICAL)

_PARSERS = {
    "functiongemma": "function_gemma",
    "gemma4": "gemma4",
    "glm45": "glm47",
    "glm47": "glm47",
    "granite4": "json_tools",
    "hermes": "json_tools",
    "kimi_k2": "kimi_k2",
    "kimi_k3": "kimi_k3",
    "lfm2": "pythonic",
    "ling3": "glm47",
    "longcat": "longcat",
    "minicpm5": "minicpm5",
    "minimax_m2": "minimax_m2",
    "mistral": "mistral",
    "muse_glimmer": "muse_spark",
    "poolside_v1": "laguna",
    "qwen3_coder": "qwen3_coder",
    "step3p5": "qwen3_coder",
}
"""The module that it takes for a model with such a chat template."""

_RESPONSES = {"muse_glimmer": "muse_spark"}
"""Where the format of whole messages is known to it: the module of `mlx_lm.chat_templates`."""


def versions() -> Mapping[str, str]:
    return {"mlx-lm": version("mlx-lm")}


def formats() -> Mapping[str, str]:
    return dict(_PARSERS)


def parse(given: Given) -> Iterator[Delta]:
    tokenizer = _wrapped(given.format)
    calls = ToolCallFormatter(tokenizer.tool_parser, list(given.tools), streaming=True)
    start = "reasoning" if given.prompt_opens_thinking else "normal"
    state = make_text_state_machine(tokenizer).make_state(tokenizer.response_initial_state or start)
    before, written = state[0], ""
    for number, piece in enumerate(pieces := whole_tokens(given.format, given.pieces), start=1):
        state, segments = TextStateMachine.split(state, piece)
        if number == len(pieces) and given.cut_off:
            state, held, name = TextStateMachine.flush(state)
            segments.append((name, held))
        for name, text in segments:
            if name == "reasoning":
                yield {"reasoning": text}
            elif name == "tool":
                written += text
            elif name == "normal":
                if before == "tool":
                    yield {"tool_calls": calls([written])}
                    written = ""
                yield {"content": text}
            before = name
    if before == "tool" and written:
        yield {"tool_calls": calls([written])}


class _Tokenizer(CharacterTokenizer):
    chat_template = None

    def apply_chat_template(self, *_: object, **__: object) -> None:
        """It is looked at, and never called: there is no prompt here."""


@cache
def _wrapped(format_: str) -> Any:
    parser = import_module(f"mlx_lm.tool_parsers.{_PARSERS[format_]}")
    messages = import_module(f"mlx_lm.chat_templates.{_RESPONSES[format_]}") if format_ in _RESPONSES else None
    return TokenizerWrapper(
        _Tokenizer(format_),
        tool_parser=parser.parse_tool_call,
        tool_call_start=parser.tool_call_start,
        tool_call_end=parser.tool_call_end,
        response_format=messages.RESPONSE_FORMAT if messages else None,
    )
