"""Writers for the formats that put every argument between tags of its own.

A value stands there as it is. So it can't hold its own closing tag with something behind it that may follow the real
one; and when it may be something else than a string, only the tool's schema or a type that the output says tells what
it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from tests.format_writers.output import (
    FENCE_OR_BARE,
    TAGS,
    THINK,
    Call,
    Output,
    Types,
    Writer,
    closing,
    is_word,
    laid_out,
    last,
    lines_with,
    quoted,
    raw,
    without,
)

# <function=NAME><parameter=KEY>


def _function(output: Output, call: Call, line: str, edge: str) -> str:
    parameters = "".join(
        f"<parameter={key}>{edge}{raw(output, value)}{edge}</parameter>{line}" for key, value in call.arguments.items()
    )
    return f"<function={call.name}>{line}{parameters}</function>{line}"


def _functions(
    tag: str, output: Output, *, thinking: tuple[str, str] = THINK, line: str = "\n", edge: str = "\n"
) -> str:
    def section(calls: Sequence[Call]) -> str:
        return line.join(f"<{tag}>{line}{_function(output, call, line, edge)}</{tag}>" for call in calls)

    return laid_out(output, section, thinking=thinking)


def _functions_in_one_block(output: Output) -> str:
    def section(calls: Sequence[Call]) -> str:
        functions = "".join(_function(output, call, "\n", "\n") for call in calls)
        return f"<tool_call>\n{functions}</tool_call>"

    return laid_out(output, section)


def _functions_alone(output: Output) -> str:
    """The block's opening tag is missing, its closing one isn't."""

    def section(calls: Sequence[Call]) -> str:
        return "\n".join(f"{_function(output, call, line, line)}</tool_call>" for call in calls)

    line = "\n"
    return laid_out(output, section)


def _function_writer(
    format_: str,
    write: Callable[[Output], str],
    *,
    variant: str = "",
    prefix: str = "",
    also: tuple[str, ...] = (),
) -> Writer:
    opening, end = f"<{prefix}tool_call>", f"</{prefix}tool_call>"
    next_call = ("<function=", opening, end)
    return Writer(
        format_,
        write,
        (
            opening,
            end,
            "<function=",
            "</function>",
            "<parameter=",
            "</parameter>",
            f"<{prefix}think>",
            f"</{prefix}think>",
        ),
        variant=variant,
        types=Types.SCHEMA,
        names=is_word,
        holds=without(
            closing("</parameter>", "<parameter=", "</function>", *next_call),
            last("</parameter>"),
            quoted("<function=", r"[^\s<>{}]*>?", "<parameter=", "</function>"),
            closing("</function>", *next_call),
            closing(end, *next_call),
            r"(?:^|\n)<parameter=",
            *also,
        ),
    )


_SEED_THINKING = ("<seed:think>", "</seed:think>")
_FUNCTIONS = (
    *(_function_writer(format_, partial(_functions, "tool_call")) for format_ in ("qwen3_coder", "step3p5", "step5")),
    _function_writer("qwen3_coder", _functions_in_one_block, variant="one block"),
    _function_writer("qwen3_coder", _functions_alone, variant="no opening tag"),
    _function_writer("mimo", partial(_functions, "tool_call", line="", edge="")),
    # A line break at a value's beginning is taken for markup, because some of its kin write one there.
    _function_writer(
        "seed_oss",
        partial(_functions, "seed:tool_call", thinking=_SEED_THINKING, edge=""),
        prefix="seed:",
        also=(r"\A\n",),
    ),
)


# <invoke name="N"><parameter name="k">


def invoke_element(
    output: Output,
    call: Call,
    *,
    invoke: str,
    parameter: str,
    line: str = "\n",
    attribute: Callable[[object], str] = lambda _: "",
    value: Callable[[Output, object], str] = raw,
) -> str:
    parameters = "".join(
        f'<{parameter} name="{key}"{attribute(one)}>{value(output, one)}</{parameter}>{line}'
        for key, one in call.arguments.items()
    )
    return f'<{invoke} name="{call.name}">{line}{parameters}</{invoke}>'


def _is_string(value: object) -> str:
    return f' string="{"true" if isinstance(value, str) else "false"}"'


def _section(opening: str, end: str, call: Callable[[Output, Call], str], output: Output, *, line: str = "\n") -> str:
    def section(calls: Sequence[Call]) -> str:
        return f"{opening}{line}" + line.join(call(output, one) for one in calls) + f"{line}{end}"

    return laid_out(output, section)


def _invoke_writer(
    format_: str,
    write: Callable[[Output], str],
    sections: tuple[str, ...],
    *,
    invoke: str = "invoke",
    parameter: str = "parameter",
    types: Types = Types.SCHEMA,
    variant: str = "",
    also: tuple[str, ...] = (),
) -> Writer:
    next_call = (f"<{invoke} name=", *sections)
    return Writer(
        format_,
        write,
        (*sections, f"<{invoke} name=", f"</{invoke}>", f"<{parameter} name=", f"</{parameter}>", *TAGS),
        variant=variant,
        types=types,
        names=is_word,
        holds=without(
            closing(f"</{parameter}>", f"<{parameter} name=", f"</{invoke}>", *next_call),
            last(f"</{parameter}>"),
            quoted(f"<{invoke} name=", r"[^<>\n]*>?", f"<{parameter} name=", f"</{invoke}>"),
            closing(f"</{invoke}>", *next_call),
            lines_with(f"<{parameter} name="),
            *also,
        ),
    )


_DSML_SECTIONS = ("function_calls", "tool_calls", "toolcalls", "tool", "calls")


def _dsml(format_: str, tag: str, section: str) -> Writer:
    edges = (f"<{tag}{section}>", f"</{tag}{section}>")
    invoke, parameter = f"{tag}invoke", f"{tag}parameter"
    call = partial(invoke_element, invoke=invoke, parameter=parameter, attribute=_is_string)
    write = partial(_section, *edges, call)
    # A section's name is often another one's.
    sections = tuple(f"<{slash}{tag}{name}>" for name in _DSML_SECTIONS for slash in ("", "/"))
    sections += (f"<{tag.strip()}", f"</{tag.strip()}")  # nobody else writes this token
    other_spelling = tag.strip() if tag.endswith(" ") else f"{tag} "
    also = (rf"</?{other_spelling}\w",)
    return _invoke_writer(format_, write, sections, types=Types.OUTPUT, invoke=invoke, parameter=parameter, also=also)


def _cdata(output: Output, value: object) -> str:
    """What XML can't hold as it is stands in a CDATA section."""
    text = raw(output, value)
    return f"<![CDATA[{text}]]>" if set(text) & set("<&\n") else text


def _minicpm(output: Output) -> str:
    call = partial(invoke_element, invoke="function", parameter="param", line="", value=_cdata)
    return laid_out(output, lambda calls: "".join(call(output, one) for one in calls))


def _step3(output: Output) -> str:
    def block(call: Call) -> str:
        invoke = invoke_element(output, call, invoke="steptml:invoke", parameter="steptml:parameter", line="")
        return f"<｜tool_call_begin｜>function<｜tool_sep｜>{invoke}<｜tool_call_end｜>"

    def section(calls: Sequence[Call]) -> str:
        return f"<｜tool_calls_begin｜>{''.join(map(block, calls))}<｜tool_calls_end｜>"

    return laid_out(output, section)


def _dots_json(output: Output) -> str:
    def section(calls: Sequence[Call]) -> str:
        return "".join(
            f'<dots_function_call>{{"name": {output.json(call.name)}, "arguments": {output.json(call.arguments)}}}'
            "</dots_function_call>"
            for call in calls
        )

    return laid_out(output, section)


_MINIMAX_M2 = ("<minimax:tool_call>", "</minimax:tool_call>")
_DOTS = ("<dots_function_call>", "</dots_function_call>")
_STEP3 = (
    "<｜tool_calls_begin｜>",
    "<｜tool_call_begin｜>",
    "<｜tool_sep｜>",
    "<｜tool_call_end｜>",
    "<｜tool_calls_end｜>",
)
_INVOCATIONS = (
    _dsml("deepseek_v32", "｜DSML｜", "function_calls"),
    _dsml("deepseek_v4", "｜DSML｜", "tool_calls"),
    _dsml("deepseek_v41", "｜DSML｜ ", "calls"),
    _dsml("gigachat35", "｜GCML｜", "tool_calls"),
    _invoke_writer(
        "minimax_m2",
        partial(_section, *_MINIMAX_M2, partial(invoke_element, invoke="invoke", parameter="parameter")),
        _MINIMAX_M2,
    ),
    _invoke_writer(
        "dots",
        partial(_section, *_DOTS, partial(invoke_element, invoke="invoke", parameter="parameter", line=""), line=""),
        _DOTS,
    ),
    Writer("dots", _dots_json, (*_DOTS, *TAGS), variant="JSON", verbatim=True),
    _invoke_writer("step3", _step3, _STEP3, invoke="steptml:invoke", parameter="steptml:parameter"),
    _invoke_writer("minicpm5", _minicpm, (), invoke="function", parameter="param"),
)


# <arg_key> and <arg_value>


def _pairs(
    tag: str,
    output: Output,
    *,
    line: str = "",
    separator: str = "",
    section: str = "",
    family: str = "",
    thinking: tuple[str, str] = THINK,
) -> str:
    def block(call: Call) -> str:
        pairs = "".join(
            f"<{family}arg_key>{key}</{family}arg_key>{line}"
            f"<{family}arg_value>{raw(output, value)}</{family}arg_value>{line}"
            for key, value in call.arguments.items()
        )
        return f"<{tag}>{call.name}{separator}{line if pairs or separator else ''}{pairs}</{tag}>"

    def blocks(calls: Sequence[Call]) -> str:
        joined = line.join(map(block, calls))
        return f"<{section}>{line}{joined}{line}</{section}>" if section else joined

    return laid_out(output, blocks, thinking=thinking)


def _pair_writer(
    format_: str,
    write: Callable[[Output], str],
    *,
    tag: str = "tool_call",
    variant: str = "",
    also: tuple[str, ...] = (),
    family: str = "",
) -> Writer:
    opening, end = f"<{tag}>", f"</{tag}>"
    parts = [f"<{slash}{family}{part}>" for part in ("arg_key", "arg_value") for slash in ("", "/")]
    return Writer(
        format_,
        write,
        (opening, end, *parts, *also, *TAGS),
        variant=variant,
        types=Types.SCHEMA,
        names=is_word,
        holds=without(
            closing(f"</{family}arg_value>", opening, end, f"<{family}arg_key>"),
            last(f"</{family}arg_value>"),
            closing(end, opening),
            quoted(opening, r"[^\s<>{}]*", f"<{family}arg_key>", end),
            rf"<{family}arg_key>[^\s<>{{}}]*(?:</{family}arg_key>\s*)?<{family}arg_value>",
            rf"\n<{family}arg_key>[^<>\n]*</{family}arg_key>",
        ),
    )


_hy_pairs = partial(_pairs, "tool_call", separator="<tool_sep>", section="tool_calls")
_HY_MARKUP = ("<tool_calls>", "</tool_calls>", "<tool_sep>")
_HY_SAYS = without(r"</?(?:think|tool_calls?|tool_sep|arg_key|arg_value):")  # their tags may have a suffix
_LONGCAT_THINK = ("<longcat_think>", "</longcat_think>")
_longcat_pairs = partial(_pairs, "longcat_tool_call", family="longcat_", thinking=_LONGCAT_THINK)
_PAIRS = (
    _pair_writer("glm45", partial(_pairs, "tool_call", line="\n"), variant="4.5"),
    _pair_writer("glm45", partial(_pairs, "tool_call"), variant="4.7"),
    _pair_writer("ling3", partial(_pairs, "tool_call")),
    replace(
        _pair_writer("poolside_v1", partial(_pairs, "tool_call", line="\n"), also=("<user>", "</user>")),
        says=without(FENCE_OR_BARE),
    ),
    _pair_writer("iquest_q1", partial(_pairs, "iquest_tool_call"), tag="iquest_tool_call"),
    replace(_pair_writer("hy_v3", partial(_hy_pairs, line="\n"), also=_HY_MARKUP), says=_HY_SAYS),
    replace(_pair_writer("hy_v4", _hy_pairs, also=_HY_MARKUP), says=_HY_SAYS),
    _pair_writer(
        "longcat",
        partial(_longcat_pairs, line="\n"),
        tag="longcat_tool_call",
        variant="keys and values",
        also=_LONGCAT_THINK,
        family="longcat_",
    ),
)

WRITERS = (*_FUNCTIONS, *_INVOCATIONS, *_PAIRS)
