"""The parsers of vLLM and SGLang, where they are installed, behind the same function as ours.

Both are fed as their servers feed them. vLLM's parsers want the ids of the tokens too and look their markers up in the
tokenizer's vocabulary, so they get a vocabulary that has every marker they ask for, and pieces in which a marker is
one token: that favours them.
"""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Callable, ItemsView, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from bench.text import TOOLS

Parse: TypeAlias = Callable[[str, Sequence[str]], str]
"""A format's name and the pieces of a text to the arguments of all calls. Raises UnavailableError."""


class UnavailableError(Exception):
    """The engine has no such parser, or it doesn't run on its own."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Where parsers come from. `load` raises ImportError when it isn't installed."""

    name: str
    load: Callable[[], Parse]


class _Vocabulary:
    """A vocabulary that has every word it is asked for. vLLM's parsers ask for their markers."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}

    def __getitem__(self, word: str) -> int:
        return self._ids.setdefault(word, len(self._ids) + 1)

    def get(self, word: str, _: int | None = None) -> int:
        return self[word]

    def __contains__(self, word: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def items(self) -> ItemsView[str, int]:
        return self._ids.items()


class _Tokenizer:
    """As much of a tokenizer as vLLM's parsers use: the vocabulary, and words to ids and back."""

    def __init__(self) -> None:
        self.vocabulary = _Vocabulary()

    def get_vocab(self) -> _Vocabulary:
        return self.vocabulary

    def encode(self, text: str, **_: object) -> list[int]:
        return [self.vocabulary[text]]

    def decode(self, ids: Sequence[int], **_: object) -> str:
        words = {identifier: word for word, identifier in self.vocabulary.items()}
        return "".join(words.get(identifier, "") for identifier in ids)

    def convert_tokens_to_ids(self, word: str) -> int:
        return self.vocabulary[word]

    def tokens(self, pieces: Sequence[str]) -> list[tuple[str, int]]:
        """The text cut anew, so that markers are tokens."""
        markers = [word for word in self.vocabulary if word.strip()]
        if not markers:
            return [(piece, 0) for piece in pieces]
        size = len(pieces[0])
        cut = []
        for part in re.split(f"({'|'.join(map(re.escape, sorted(markers, key=len, reverse=True)))})", "".join(pieces)):
            if part in markers:
                cut.append((part, self.vocabulary[part]))
            else:
                cut += [(part[at : at + size], 0) for at in range(0, len(part), size)]
        return cut


def _vllm() -> Parse:
    logging.getLogger("vllm").setLevel(logging.CRITICAL)  # it logs a traceback per piece that a parser fails on
    manager = importlib.import_module("vllm.tool_parsers").ToolParserManager
    protocol = importlib.import_module("vllm.entrypoints.openai.chat_completion.protocol")

    def parse(format_: str, pieces: Sequence[str]) -> str:
        if format_ not in manager.list_registered():
            raise UnavailableError("vLLM has no parser of this name")
        request = protocol.ChatCompletionRequest(
            model="m", messages=[{"role": "user", "content": "x"}], tools=TOOLS, tool_choice="auto"
        )
        tokenizer = _Tokenizer()
        try:
            parser = manager.get_tool_parser(format_)(tokenizer, request.tools)
            return _stream(parser, tokenizer.tokens(pieces), request)
        except Exception as failure:  # whatever a foreign parser raises means that it doesn't run here
            raise UnavailableError(f"{type(failure).__name__}: {failure}"[:80]) from failure

    return parse


def _stream(parser: Any, tokens: Sequence[tuple[str, int]], request: object) -> str:
    arguments: list[str] = []
    text = ""
    ids: list[int] = []
    for piece, identifier in tokens:
        before, text = text, text + piece
        delta = parser.extract_tool_calls_streaming(before, text, piece, ids, [*ids, identifier], [identifier], request)
        ids.append(identifier)
        calls = getattr(delta, "tool_calls", None) or ()
        arguments += [call.function.arguments or "" for call in calls if call.function is not None]
    return "".join([*arguments, parser.get_remaining_unstreamed_args()])


_SGLANG_NAMES = {
    "deepseek_v3": "deepseekv3",
    "deepseek_v31": "deepseekv31",
    "deepseek_v32": "deepseekv32",
    "deepseek_v4": "deepseekv4",
    "deepseek_v41": "deepseekv41",
    "llama3_json": "llama3",
    "minimax_m2": "minimax-m2",
    "minimax_m3": "minimax-m3",
    "openai": "gpt-oss",
    "internlm": "interns1",
    "hy_v3": "hunyuan",
    "apertus": "apertus2509",
    "muse_glimmer": "muse",
}


def _sglang() -> Parse:
    parsers = importlib.import_module("sglang.srt.function_call.function_call_parser").FunctionCallParser
    protocol = importlib.import_module("sglang.srt.entrypoints.openai.protocol")
    tools = [protocol.Tool.model_validate(tool) for tool in TOOLS]

    def parse(format_: str, pieces: Sequence[str]) -> str:
        name = _SGLANG_NAMES.get(format_, format_)
        if name not in parsers.ToolCallParserEnum:
            raise UnavailableError("SGLang has no parser of this name")
        try:
            parser = parsers(tools, name)
            calls = [call for piece in pieces for call in parser.parse_stream_chunk(piece)[1]]
        except Exception as failure:  # as above
            raise UnavailableError(f"{type(failure).__name__}: {failure}"[:80]) from failure
        return "".join(call.parameters or "" for call in calls)

    return parse


ENGINES = (Engine("vLLM", _vllm), Engine("SGLang", _sglang))
