"""Writers for the formats that write a call's name, a separator, and the arguments as a JSON object of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tests.format_writers.output import ENDS_A_TURN, TAGS, THINK, Call, Output, Writer, laid_out, without


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


def _functionary_v31_call(output: Output, call: Call) -> str:
    return f"<function={call.name}>{output.json(call.arguments)}</function>"


def _functionary_v32(output: Output) -> str:
    def section(calls: Sequence[Call]) -> str:
        return "".join(f">>>{call.name}\n{output.json(call.arguments)}" for call in calls)

    return laid_out(output, section, thinking=("", ""), gap="", say=lambda text: f">>>all\n{text}")


def _functionary_v32_behind_its_prompt(output: Output) -> str:
    return _functionary_v32(output).removeprefix(">>>")


def _solar(output: Output) -> str:
    def section(calls: Sequence[Call]) -> str:
        return "<|tool_calls|>" + "".join(
            f"<|tool_call:begin|>call{call.number}<|tool_call:name|>{call.name}"
            f"<|tool_call:args|>{output.json(call.arguments)}<|tool_call:end|>"
            for call in calls
        )

    turn = "<|end|><|begin|>assistant"
    return laid_out(output, section, thinking=("<|think|>", turn), gap=turn, say=lambda text: f"<|content|>{text}")


_KIMI_SECTION = ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>")
_V3_SECTION = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")
_V3_MARKUP = (*_V3_SECTION, "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", *TAGS)
_PLAMO_SECTION = ("<|plamo:begin_tool_requests:plamo|>", "<|plamo:end_tool_requests:plamo|>")
_PLAMO_THINKING = ("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>")


def _mistral(call: Callable[[Output, Call], str], variant: str) -> Writer:
    return Writer(
        "mistral",
        partial(_named, ("", ""), call, thinking=("[THINK]", "[/THINK]")),
        ("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]", *TAGS),
        variant=variant,
        verbatim=True,
        says=without(ENDS_A_TURN),
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
        "functionary_v31",
        partial(_named, ("", ""), _functionary_v31_call),
        ("<function=", "</function>", "<|python_tag|>"),
        thinks=False,
        verbatim=True,
    ),
    # What stands in front of a recipient ends neither in its bracket nor in the beginning of it.
    Writer(
        "functionary_v32",
        _functionary_v32,
        (">>>", ">>>all\n"),
        thinks=False,
        verbatim=True,
        says=without(r"[>`'\"]\Z"),
    ),
    Writer(
        "functionary_v32",
        _functionary_v32_behind_its_prompt,
        (">>>", ">>>all\n"),
        variant="behind its prompt",
        thinks=False,
        verbatim=True,
        offered_only=True,
        says=without(r"[>`'\"]\Z"),
    ),
    Writer(
        "solar_open",
        _solar,
        (
            *("<|think|>", "<|end|>", "<|begin|>", "<|content|>", "<|flush|>", "<|tool_calls|>", "<|calls|>"),
            *(f"<|tool_call:{part}|>" for part in ("begin", "name", "args", "end")),
        ),
        verbatim=True,
    ),
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
