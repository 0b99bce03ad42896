"""What a parser behind a real tokenizer sees: a control token comes whole, whatever else a text is cut into.

Some parsers go by the tokens' ids. They get a tokenizer that has the format's control tokens and one token for every
other character, which is the finest that text can come. Where checkpoints of one format differ, a marker counts as one
token: a cut that no tokenizer makes is nobody's mistake. Control tokens are facts of the models' tokenizers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache


def _tags(*names: str) -> tuple[str, ...]:
    return tuple(tag for name in names for tag in (f"<{name}>", f"</{name}>"))


_THINK = _tags("think")
_CHAT = (
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|user|>", "<|assistant|>", "<|observation|>", "<|system|>",
    "<|eot_id|>", "<|eom_id|>", "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
    "<|start_of_role|>", "<|end_of_role|>", "<start_of_turn>", "<end_of_turn>", "<|turn>", "<turn|>",
    "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<assistant>",
)  # fmt: skip
_HARMONY = ("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>")
_COHERE_PARTS = ("ACTION", "THINKING", "RESPONSE", "TEXT", "TOOL_RESULT", "OF_TURN_TOKEN")
_COHERE = (*(f"<|{edge}_{part}|>" for part in _COHERE_PARTS for edge in ("START", "END")), "<|CHATBOT_TOKEN|>")
_DEEPSEEK = tuple(f"<｜tool▁{part}｜>" for part in ("calls▁begin", "calls▁end", "call▁begin", "call▁end", "sep"))
_GLM = (*_THINK, *_tags("tool_call", "arg_key", "arg_value"))
_QWEN = (*_THINK, *_tags("tool_call"))
_HY4 = (*_GLM, *_tags("tool_calls"))
HY4_SUFFIX = ":6124c78e>"
"""How the control tokens of the published checkpoint end."""
_MUSE = ("<|start|>", "<|message|>", "<|eom|>", "<|eot|>")

CONTROL: Mapping[str, tuple[str, ...]] = {
    "apertus": ("<|tools_prefix|>", "<|tools_suffix|>", "<|inner_prefix|>", "<|inner_suffix|>", "<|assistant_end|>"),
    "apriel": ("[BEGIN FINAL RESPONSE]", "<|end|>"),
    "beam": _HARMONY,
    "cohere_command3": _COHERE,
    "cohere_command4": _COHERE,
    "command_r": _COHERE,
    "deepseek_v3": (*_THINK, *_DEEPSEEK),
    "deepseek_v31": (*_THINK, *_DEEPSEEK),
    "deepseek_v32": (*_THINK, "｜DSML｜"),
    "deepseek_v4": (*_THINK, "｜DSML｜"),
    "deepseek_v41": (*_THINK, "｜DSML｜"),
    "dots": (*_THINK, *_tags("dots_function_call")),
    "ernie45": (*_THINK, *_tags("tool_call", "response"), "\n"),
    "functionary_v31": ("<|python_tag|>",),
    "functiongemma": ("<start_function_call>", "<end_function_call>", "<escape>"),
    "gemma4": ("<|tool_call>", "<tool_call|>", '<|"|>', "<|channel>", "<channel|>", "<|tool_response>"),
    "gigachat3": ("<|function_call|>", "<|message_sep|>", "<|role_sep|>"),
    "gigachat35": (*_THINK, "｜GCML｜"),
    "glm45": _GLM,
    "glm47": _GLM,
    "granite": (*_THINK, "<|tool_call|>"),
    "granite-20b-fc": (),
    "granite4": _QWEN,
    "hermes": _QWEN,
    "hunyuan_a13b": _THINK,
    "hy_v3": (*_GLM, *_tags("tool_calls"), "<tool_sep>"),
    "hy_v4": (*_HY4, *(token.replace(">", HY4_SUFFIX) for token in _HY4)),
    "inkling": (
        "<|message_model|>", "<|content_invoke_tool_json|>", "<|content_invoke_tool_text|>", "<|content_text|>",
        "<|content_thinking|>", "<|content_model_end_sampling|>", "<|end_message|>",
    ),
    "internlm": (*_THINK, "<|action_start|>", "<|action_end|>", "<|plugin|>", "<|interpreter|>"),
    "iquest_q1": (*_GLM, *_tags("iquest_tool_call")),
    "jamba": (*_THINK, *_tags("tool_calls")),
    "k2_horizon": (
        *_THINK,
        *_tags(*(f"ifm|{part}" for part in ("tool_calls", "tool_call", "arg_key", "arg_type", "arg_value"))),
        *_tags("ifm|think", "ifm|think_fast", "ifm|think_faster"),
    ),
    "kimi_k2": (
        *_THINK, "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>",
        "<|tool_call_argument_begin|>", "<|tool_call_end|>",
    ),
    "kimi_k3": ("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"),
    "lfm2": (*_THINK, "<|tool_call_start|>", "<|tool_call_end|>"),
    "ling3": _GLM,
    "llama3_json": ("<|python_tag|>",),
    "llama4_pythonic": ("<|python_start|>", "<|python_end|>"),
    "longcat": _tags("longcat_tool_call", "longcat_arg_key", "longcat_arg_value", "longcat_think"),
    "mimo": _QWEN,
    "minicpm5": _THINK,
    "minimax_m2": (*_THINK, *_tags("minimax:tool_call")),
    "minimax_m3": (*_tags("mm:think"), "]<]minimax[>["),
    "mistral": ("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]"),
    "muse": _MUSE,
    "muse_glimmer": _MUSE,
    "nemotron_json": _THINK,
    "olmo3": (),
    "openai": _HARMONY,
    "phi4_mini_json": ("<|tool_call|>", "<|/tool_call|>"),
    "plamo3": ("<|plamo:begin_", "<|plamo:end_", ":plamo|>"),
    "poolside_v1": _GLM,
    "pythonic": (),
    "qwen3_coder": _QWEN,
    "sarashina": ("<|tool_calls|>",),
    "seed_oss": _tags("seed:think", "seed:tool_call"),
    "solar_open": (
        "<|begin|>", "<|end|>", "<|think|>", "<|content|>", "<|tool_calls|>", "<|tool_call:begin|>",
        "<|tool_call:name|>", "<|tool_call:args|>", "<|tool_call:end|>",
    ),
    "step3": (
        *_THINK,
        *(f"<｜tool_{part}｜>" for part in ("calls_begin", "calls_end", "call_begin", "call_end", "sep")),
    ),
    "step3p5": _QWEN,
    "xlam": _THINK,
}  # fmt: skip
"""The control tokens of each format's models, besides those of any chat template."""

THINKING: Mapping[str, tuple[str, str]] = {
    "apertus": ("<|inner_prefix|>", "<|inner_suffix|>"),
    "apriel": ("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),
    "cohere_command3": ("<|START_THINKING|>", "<|END_THINKING|>"),
    "cohere_command4": ("<|START_THINKING|>", "<|END_THINKING|>"),
    "gemma4": ("<|channel>thought", "<channel|>"),
    "k2_horizon": ("<ifm|think>", "</ifm|think>"),
    "kimi_k3": ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    "longcat": ("<longcat_think>", "</longcat_think>"),
    "minimax_m3": ("<mm:think>", "</mm:think>"),
    "mistral": ("[THINK]", "[/THINK]"),
    "plamo3": ("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"),
    "seed_oss": ("<seed:think>", "</seed:think>"),
}
"""What opens and closes thinking, where it isn't <think> and </think>."""


def thinking_tags(format_: str) -> tuple[str, str]:
    return THINKING.get(format_, ("<think>", "</think>"))


def thinks(format_: str, text: str, prompt_opens_thinking: bool) -> bool:
    """Whether a model that writes this was asked to think: parsers of thinking are on for such requests."""
    opening, closing = thinking_tags(format_)
    return prompt_opens_thinking or text.lstrip().startswith(opening) or closing in text


def whole_tokens(format_: str, pieces: Sequence[str]) -> list[str]:
    """The pieces, with every control token that was cut moved into the piece in which it ends."""
    text = "".join(pieces)
    inside = {at for found in _control(format_).finditer(text) for at in range(found.start() + 1, found.end())}
    moved, begin, end = [], 0, 0
    for piece in pieces:
        end += len(piece)
        if end not in inside and end > begin:
            moved.append(text[begin:end])
            begin = end
    return moved


@lru_cache
def _control(format_: str) -> re.Pattern[str]:
    tokens = sorted({*CONTROL.get(format_, ()), *_CHAT} - {"\n"}, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, tokens)))


_FIRST_CHARACTER = 1 << 16


class CharacterTokenizer:
    """A tokenizer as parsers use one: the format's control tokens, and a token for each other character."""

    is_fast = True
    bos_token_id = eos_token_id = pad_token_id = None
    init_kwargs: Mapping[str, object] = {}

    def __init__(self, format_: str, without: Iterable[str] = (), more: Iterable[str] = ()) -> None:
        control = [token for token in dict.fromkeys((*CONTROL[format_], *_CHAT)) if token not in set(without)]
        self._ids = {token: number for number, token in enumerate(control)}
        plain = (*more, *map(chr, range(32, 127)), "\n")
        self._vocabulary = self._ids | {
            token: _FIRST_CHARACTER + ord(token) if len(token) == 1 else 1000 + number
            for number, token in enumerate(plain)
            if token not in self._ids
        }
        self._texts = {number: token for token, number in self._vocabulary.items()}
        self._pattern = re.compile("|".join(map(re.escape, sorted(control, key=len, reverse=True))))
        # Which markers a checkpoint calls special differs; those of the template are what a parser may drop.
        self.all_special_tokens = [token for token in _CHAT if token not in CONTROL[format_]]
        self.all_special_ids = [self._ids[token] for token in self.all_special_tokens]

    def get_vocab(self) -> dict[str, int]:
        return dict(self._vocabulary)

    def get_added_vocab(self) -> dict[str, int]:
        return dict(self._ids)

    def __len__(self) -> int:
        return _FIRST_CHARACTER + 0x110000

    def encode(self, text: str, *_: object, **__: object) -> list[int]:
        return list(self._encoded(text))

    def _encoded(self, text: str) -> Iterator[int]:
        at = 0
        for found in self._pattern.finditer(text):
            yield from (_FIRST_CHARACTER + ord(character) for character in text[at : found.start()])
            yield self._ids[found[0]]
            at = found.end()
        yield from (_FIRST_CHARACTER + ord(character) for character in text[at:])

    def decode(self, ids: int | Iterable[int], skip_special_tokens: bool = False, **_: object) -> str:
        numbers = [ids] if isinstance(ids, int) else ids
        return "".join(
            self._texts.get(number) or chr(number - _FIRST_CHARACTER)
            for number in numbers
            if not (skip_special_tokens and number in self._texts and self._texts[number] in self._ids)
        )

    def convert_tokens_to_ids(self, token: str) -> int | None:
        return self._vocabulary.get(token)
