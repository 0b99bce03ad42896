"""SGLang's parsers, of calls and of thinking, driven as its chat completions drive them.

Text first passes the parser of thinking and what is left of it the one of calls; at the end of a stream both give back
what they held, and arguments that were parsed and not streamed are sent. The package is imported without what its
`__init__` brings, which is the whole server.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.metadata import version
from typing import Any

from extproc.corpus.judging import Delta, Given
from extproc.corpus.peers.tokens import CharacterTokenizer, thinks, whole_tokens


def _without_the_server() -> None:
    found = importlib.util.find_spec("sglang")
    if found is None or found.submodule_search_locations is None:
        raise ImportError("No module named 'sglang'")
    package = types.ModuleType("sglang")
    package.__path__ = list(found.submodule_search_locations)
    package.__version__ = version("sglang")  # type: ignore[attr-defined]
    sys.modules["sglang"] = package


_without_the_server()

from sglang.srt.entrypoints.openai.protocol import Tool  # noqa: E402
from sglang.srt.function_call.function_call_parser import FunctionCallParser  # noqa: E402
from sglang.srt.parser.reasoning_parser import ReasoningParser  # noqa: E402

logging.disable(logging.CRITICAL)  # A parser logs what it can't read, and goes on.

_PARSERS = {
    "apertus": ("apertus2509", "apertus2509"),
    "beam": ("beam", "beam"),
    "cohere_command4": ("cohere_command4", "cohere_command4"),
    "deepseek_v3": ("deepseekv3", "deepseek-v3"),
    "deepseek_v31": ("deepseekv31", "deepseek-v3"),
    "deepseek_v32": ("deepseekv32", "deepseek-v3"),
    "deepseek_v4": ("deepseekv4", "deepseek-v4"),
    "deepseek_v41": ("deepseekv41", "deepseek-v41"),
    "dots": ("dots", "dots"),
    "gemma4": ("gemma4", "gemma4"),
    "gigachat3": ("gigachat3", ""),
    "gigachat35": ("gigachat35", "gigachat35"),
    "glm45": ("glm45", "glm45"),
    "glm47": ("glm47", "glm45"),
    "hermes": ("qwen", "qwen3"),
    "hy_v3": ("hunyuan", "hunyuan"),
    "inkling": ("inkling", "inkling"),
    "internlm": ("interns1", "interns1"),
    "iquest_q1": ("iquest_q1", "iquest_q1"),
    "k2_horizon": ("k2_horizon", "k2_horizon"),
    "kimi_k2": ("kimi_k2", "kimi_k2"),
    "kimi_k3": ("kimi_k3", "kimi_k3"),
    "lfm2": ("lfm2", "qwen3"),
    "ling3": ("ling3", "ling3"),
    "llama3_json": ("llama3", ""),
    "mimo": ("mimo", "mimo"),
    "minicpm5": ("minicpm5", "qwen3"),
    "minimax_m2": ("minimax-m2", "qwen3"),
    "minimax_m3": ("minimax-m3", "minimax-m3"),
    "mistral": ("mistral", "mistral"),
    "muse_glimmer": ("muse", "muse"),
    "openai": ("gpt-oss", "gpt-oss"),
    "poolside_v1": ("poolside_v1", "poolside_v1"),
    "pythonic": ("pythonic", ""),
    "qwen3_coder": ("qwen3_coder", "qwen3"),
    "step3": ("step3", "step3"),
    "step3p5": ("step3p5", "step3p5"),
}
"""Its names for a format, and for the parser of thinking that goes with it."""

_FRAMED = {"beam", "cohere_command4", "gemma4", "inkling", "kimi_k3", "muse_glimmer", "openai"}
"""Where text and thinking are messages or channels, the parser of thinking belongs to the format."""


def versions() -> Mapping[str, str]:
    return {"sglang": version("sglang")}


def formats() -> Mapping[str, str]:
    return {name: tools for name, (tools, _) in _PARSERS.items()}


def parse(given: Given) -> Iterator[Delta]:
    given = _as_detokenized(given)
    text = "".join(given.pieces)
    thinking = thinks(given.format, text, given.prompt_opens_thinking)
    tokenizer = _tokenizer(given.format)
    tools = _tools(json.dumps(given.tools))
    whole = len(given.pieces) == 1
    reasoning = _reasoning_parser(given, thinking, tokenizer, stream=not whole)
    calls = FunctionCallParser(tools, _PARSERS[given.format][0], tokenizer=tokenizer)
    active = bool(tools) or calls.detector.parses_without_tools()
    if whole:
        yield from _whole(text, reasoning, calls if active else None)
    else:
        yield from _streamed(whole_tokens(given.format, given.pieces), reasoning, calls if active else None)


def _as_detokenized(given: Given) -> Given:
    """The text as SGLang's detokenizer gives it, where that isn't as the model wrote it."""
    if given.format == "internlm":  # its tokenizer is a slow one, which puts a space between special tokens
        text = "".join(given.pieces).replace("<|action_start|><|plugin|>", "<|action_start|> <|plugin|>")
        return replace(given, pieces=_cut_again(text, given.pieces))
    if given.format == "openai" and not given.cut_off:  # the stop token of gpt-oss's calls is kept
        last = "".join(given.pieces).rpartition("<|start|>")[2]
        if " to=" in last and "<|call|>" not in last:
            return replace(given, pieces=[*given.pieces[:-1], given.pieces[-1] + "<|call|>"])
    return given


def _cut_again(text: str, pieces: Sequence[str]) -> list[str]:
    size = len(pieces[0])
    if len(pieces) == 1:
        return [text]
    if len(pieces) == 2:
        return [text[:size], text[size:]]
    return [text[at : at + size] for at in range(0, len(text), size)]


def _reasoning_parser(given: Given, thinking: bool, tokenizer: Any, *, stream: bool) -> Any:
    name = _PARSERS[given.format][1]
    if not name or not (thinking or given.format in _FRAMED):
        return None
    return ReasoningParser(
        name,
        stream_reasoning=stream,
        force_reasoning=given.prompt_opens_thinking or name == "k2_horizon",
        tokenizer=tokenizer,
        tool_call_parser_active=bool(given.tools),
    )


def _whole(text: str, reasoning: Any, calls: Any) -> Iterator[Delta]:
    if reasoning is not None:
        thought, text = reasoning.parse_non_stream(text)
        yield {"reasoning": thought}
    if calls is None or not calls.has_tool_call(text):
        yield {"content": text}
        return
    text, found = calls.parse_non_stream(text)
    yield {"content": text}
    for index, call in enumerate(found):
        yield _call(index, call.name, call.parameters)


def _streamed(pieces: list[str], reasoning: Any, calls: Any) -> Iterator[Delta]:
    for number, piece in enumerate(pieces, start=1):
        ends = number == len(pieces)
        text: str = piece
        if reasoning is not None:
            thought, text = reasoning.parse_stream_chunk(piece)
            yield {"reasoning": thought}
            if ends:
                thought, rest = reasoning.parse_stream_end()
                text = (text or "") + (rest or "")
                yield {"reasoning": thought}
        if calls is None:
            yield {"content": text}
            continue
        yield from _deltas(*calls.parse_stream_chunk(text))
        if ends:
            yield from _deltas(*calls.parse_stream_end())
            yield from _left(calls.detector)


def _deltas(text: str, calls: list[Any]) -> Iterator[Delta]:
    yield {"content": text}
    for call in calls:
        yield _call(call.tool_index, call.name, call.parameters)


def _left(detector: Any) -> Iterator[Delta]:
    """Arguments of the last call that were parsed, and not streamed."""
    parsed = getattr(detector, "prev_tool_call_arr", None)
    streamed = getattr(detector, "streamed_args_for_tool", None)
    if not parsed or not streamed or len(parsed) > len(streamed):
        return
    index = len(parsed) - 1
    arguments = parsed[index].get("arguments", {})
    expected = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    if expected.startswith(streamed[index]) and (rest := expected[len(streamed[index]) :]):
        yield _call(index, None, rest)


def _call(index: int, name: str | None, arguments: str | None) -> Delta:
    return {"tool_calls": [{"index": index, "function": {"name": name, "arguments": arguments}}]}


@lru_cache(maxsize=256)
def _tools(tools: str) -> list[Tool]:
    return [Tool(**tool) for tool in json.loads(tools)]


@lru_cache
def _tokenizer(format_: str) -> CharacterTokenizer:
    return CharacterTokenizer(format_)
