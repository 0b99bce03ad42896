"""Writers for the formats whose calls are neither JSON nor tags: Python, Gemma's notation, harmony, nested elements."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tests.format_writers.output import (
    AROUND,
    FENCE_OR_BARE,
    TAGS,
    THINK,
    Call,
    Output,
    Spelled,
    Types,
    Writer,
    laid_out,
    thought,
    without,
)

# Python


def python_literal(output: Output, value: object) -> str:
    match value:
        case str():
            return output.json(value) if output.ascii_only else repr(value)
        case Spelled():
            return value.spelling
        case Mapping():
            members = (f"{python_literal(output, key)}: {python_literal(output, one)}" for key, one in value.items())
            return "{" + ", ".join(members) + "}"
        case list():
            return "[" + ", ".join(python_literal(output, one) for one in value) + "]"
        case _:
            return repr(value)


def _python_call(output: Output, call: Call) -> str:
    arguments = ", ".join(f"{key}={python_literal(output, value)}" for key, value in call.arguments.items())
    return f"{call.name}({arguments})"


def _python(
    opening: str, closing: str, output: Output, *, separator: str = ", ", thinking: tuple[str, str] = THINK
) -> str:
    def section(calls: Sequence[Call]) -> str:
        return opening + separator.join(_python_call(output, call) for call in calls) + closing

    return laid_out(output, section, thinking=thinking)


def _dictionaries(opening: str, output: Output) -> str:
    def section(calls: Sequence[Call]) -> str:
        spelled = ({"name": call.name, "arguments": call.arguments} for call in calls)
        return opening + "[" + ", ".join(python_literal(output, call) for call in spelled) + "]"

    return laid_out(output, section)


def _is_plain_in_double_quotes(text: str) -> bool:
    """What `repr` puts between double quotes is read as JSON, which knows fewer escapes."""
    return not repr(text).startswith('"') or re.search(r"\\[xU]", repr(text)) is None


_PYTHON_MARKUP = ("<|python_start|>", "<|python_end|>", "<|python_tag|>")
_PYTHON = (
    *(
        Writer(
            format_,
            partial(_python, "[", "]"),
            _PYTHON_MARKUP,
            thinks=False,
            offered_only=True,
            names=str.isidentifier,
            says=without(r"\[", "`"),
        )
        for format_ in ("pythonic", "llama4_pythonic")
    ),
    Writer(
        "llama4_pythonic",
        partial(_python, "<|python_start|>[", "]<|python_end|>"),
        _PYTHON_MARKUP,
        variant="markers",
        thinks=False,
        offered_only=True,
        names=str.isidentifier,
        says=without(r"\[", "`"),
    ),
    Writer(
        "olmo3",
        partial(_python, "<function_calls>", "</function_calls>", separator="\n"),
        ("<function_calls>", "</function_calls>", *TAGS),
        names=str.isidentifier,
    ),
    Writer(
        "lfm2",
        partial(_python, "<|tool_call_start|>[", "]<|tool_call_end|>"),
        ("<|tool_call_start|>", "<|tool_call_end|>", *TAGS),
        names=str.isidentifier,
    ),
    Writer(
        "sarashina",
        partial(_dictionaries, "<|tool_calls|>"),
        ("<|tool_calls|>",),
        thinks=False,
        holds=_is_plain_in_double_quotes,
        says=without(FENCE_OR_BARE),
    ),
    Writer(
        "sarashina",
        partial(_dictionaries, ""),
        ("<|tool_calls|>",),
        variant="without special tokens",
        places=AROUND,
        thinks=False,
        offered_only=True,
        holds=_is_plain_in_double_quotes,
        says=without(FENCE_OR_BARE),
    ),
)


# Gemma


def _gemma_value(output: Output, value: object, quote: str) -> str:
    match value:
        case str():
            return f"{quote}{value}{quote}"
        case Mapping():
            members = (f"{key}:{_gemma_value(output, one, quote)}" for key, one in value.items())
            return "{" + ",".join(members) + "}"
        case list():
            return "[" + ",".join(_gemma_value(output, one, quote) for one in value) + "]"
        case _:
            return output.json(value)


def _gemma(opening: str, closing: str, quote: str, output: Output) -> str:
    def section(calls: Sequence[Call]) -> str:
        return "".join(
            f"{opening}call:{call.name}{_gemma_value(output, call.arguments, quote)}{closing}" for call in calls
        )

    return laid_out(output, section, thinking=("<|channel>thought\n", "\n<channel|>"))


def _is_bare_key(key: str) -> bool:
    return bool(key) and key == key.strip() and not set(key) & set(":,{}[]()<>\"'=")


_GEMMA_TURNS = ("<tool_response|>", "<|turn>", "<turn|>")
_GEMMA = (
    Writer(
        "gemma4",
        partial(_gemma, "<|tool_call>", "<tool_call|>", '<|"|>'),
        ("<|tool_call>", "<tool_call|>", '<|"|>', "<|channel>", "<channel|>", "<|tool_response>", *_GEMMA_TURNS),
        names=_is_bare_key,
        plain_keys=True,
        holds=without(r'<\|"\|>'),
    ),
    Writer(
        "functiongemma",
        partial(_gemma, "<start_function_call>", "<end_function_call>", "<escape>"),
        ("<start_function_call>", "<end_function_call>", "<escape>", "<start_function_response>"),
        thinks=False,
        names=_is_bare_key,
        plain_keys=True,
        holds=without("<escape>"),
    ),
)


# Harmony


def _harmony(call: Callable[[Output, Call], str], output: Output) -> str:
    def say(text: str, channel: str) -> str:
        return f"<|channel|>{channel}<|message|>{text}"

    messages = [f"{say(output.before, 'commentary')}<|end|>"] if output.before else []
    for number, one in enumerate(output.calls):
        if number and output.between:
            messages.append(f"{say(output.between, 'commentary')}<|end|>")
        messages.append(f"{call(output, one)}<|call|>")
    if output.after:
        messages.append(f"{say(output.after, 'final')}<|return|>")
    thinking = thought(output, ("<|channel|>analysis<|message|>", "<|end|>"))
    start = "<|start|>assistant"
    # The prompt ends with the first message's start, and the token that stops the model is not in the text.
    text = start.join(messages).removesuffix("<|call|>").removesuffix("<|return|>")
    return f"{thinking}{start}{text}" if thinking and text else thinking + text


def _channel_first(output: Output, call: Call) -> str:
    return f"<|channel|>commentary to=functions.{call.name} <|constrain|>json<|message|>{output.json(call.arguments)}"


def _recipient_first(output: Output, call: Call) -> str:
    return f" to=functions.{call.name}<|channel|>commentary json<|message|>{output.json(call.arguments)}"


_HARMONY_MARKUP = (
    "<|start|>",
    "<|channel|>",
    "<|message|>",
    "<|constrain|>",
    "<|end|>",
    "<|call|>",
    "<|return|>",
)
_HARMONY = (
    Writer("openai", partial(_harmony, _channel_first), _HARMONY_MARKUP, verbatim=True),
    Writer("openai", partial(_harmony, _recipient_first), _HARMONY_MARKUP, variant="recipient first", verbatim=True),
)


# Nested elements

_MARKER = "]<]minimax[>["


def _nested(output: Output, tag: str, value: object) -> str:
    match value:
        case str():
            inside = value
        case Mapping():
            inside = "".join(_nested(output, key, one) for key, one in value.items())
        case list():
            inside = "".join(_nested(output, "item", one) for one in value)
        case _:
            inside = output.json(value)
    return f"{_MARKER}<{tag}>{inside}{_MARKER}</{tag}>"


def _minimax_m3(output: Output) -> str:
    def invoke(call: Call) -> str:
        arguments = "".join(_nested(output, key, value) for key, value in call.arguments.items())
        return f'{_MARKER}<invoke name="{call.name}">{arguments}{_MARKER}</invoke>\n'

    def section(calls: Sequence[Call]) -> str:
        return f"{_MARKER}<tool_call>\n{''.join(map(invoke, calls))}{_MARKER}</tool_call>"

    return laid_out(output, section, thinking=_MM_THINK)


_MM_THINK = ("<mm:think>", "</mm:think>")
_NESTED = (
    Writer(
        "minimax_m3",
        _minimax_m3,
        (_MARKER, *_MM_THINK, *TAGS),
        types=Types.ELEMENTS,
        names=str.isidentifier,
        plain_keys=True,
        holds=without(r"\]<\]minimax\[>\["),
    ),
)

WRITERS = (*_PYTHON, *_GEMMA, *_HARMONY, *_NESTED)
