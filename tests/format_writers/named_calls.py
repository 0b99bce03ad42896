"""Writers for the formats that write a call's name, a separator, and the arguments as a JSON object of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tests.format_writers.output import TAGS, THINK, Call, Output, Writer, laid_out


def _named(
    edges: tuple[str, str],
    call: Callable[[Output, Call], str],
    output: Output,
    *,
    separator: str = "",
    thinking: tuple[str, str] = THINK,
) -> str:
    def section(calls: Sequence[Call]) -> str:
        return separator.join(call(output, one) for one in calls).join(edges)

    return laid_out(output, section, thinking=thinking)


def _kimi_call(output: Output, call: Call) -> str:
    return (
        f"<|tool_call_begin|>functions.{call.name}:{call.number}<|tool_call_argument_begin|>"
        f"{output.json(call.arguments)}<|tool_call_end|>"
    )


def _deepseek_v3_call(output: Output, call: Call) -> str:
    return (
        f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{call.name}\n"
        f"```json\n{output.json(call.arguments)}\n```<｜tool▁call▁end｜>"
    )


def _deepseek_v31_call(output: Output, call: Call) -> str:
    return f"<｜tool▁call▁begin｜>{call.name}<｜tool▁sep｜>{output.json(call.arguments)}<｜tool▁call▁end｜>"


def _mistral_call(output: Output, call: Call) -> str:
    return f"[TOOL_CALLS]{call.name}[ARGS]{output.json(call.arguments)}"


def _mistral_v11_call(output: Output, call: Call) -> str:
    return f"[TOOL_CALLS]{call.name}[CALL_ID]{call.number:09}[ARGS]{output.json(call.arguments)}"


def _mistral_call_without_specials(output: Output, call: Call) -> str:
    return f"[TOOL_CALLS]{call.name}{output.json(call.arguments)}"


def _plamo_call(output: Output, call: Call) -> str:
    return (
        f"<|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>{call.name}<|plamo:end_tool_name:plamo|>"
        f"<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>{output.json(call.arguments)}"
        "<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>"
    )


_KIMI_SECTION = ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>")
_V3_SECTION = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")
_V3_MARKUP = (*_V3_SECTION, "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", *TAGS)
_PLAMO_SECTION = ("<|plamo:begin_tool_requests:plamo|>", "<|plamo:end_tool_requests:plamo|>")
_PLAMO_THINKING = ("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>")


def _mistral(call: Callable[[Output, Call], str], variant: str) -> Writer:
    return Writer(
        "mistral",
        partial(_named, ("", ""), call, thinking=("[THINK]", "[/THINK]")),
        ("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]"),
        variant=variant,
        verbatim=True,
    )


WRITERS = (
    Writer(
        "kimi_k2",
        partial(_named, _KIMI_SECTION, _kimi_call),
        (*_KIMI_SECTION, "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>", *TAGS),
        verbatim=True,
    ),
    Writer(
        "deepseek_v3",
        partial(_named, _V3_SECTION, _deepseek_v3_call, separator="\n"),
        _V3_MARKUP,
        verbatim=True,
    ),
    Writer("deepseek_v31", partial(_named, _V3_SECTION, _deepseek_v31_call), _V3_MARKUP, verbatim=True),
    _mistral(_mistral_call, "v13"),
    _mistral(_mistral_v11_call, "v11"),
    _mistral(_mistral_call_without_specials, "without special tokens"),
    Writer(
        "plamo3",
        partial(_named, _PLAMO_SECTION, _plamo_call, thinking=_PLAMO_THINKING),
        (
            *_PLAMO_SECTION,
            *_PLAMO_THINKING,
            "<|plamo:begin_tool_request:plamo|>",
            "<|plamo:begin_tool_name:plamo|>",
            "<|plamo:end_tool_name:plamo|>",
            "<|plamo:begin_tool_arguments:plamo|>",
            "<|plamo:msg|>",
            "<|plamo:end_tool_arguments:plamo|>",
            "<|plamo:end_tool_request:plamo|>",
        ),
        verbatim=True,
    ),
)
