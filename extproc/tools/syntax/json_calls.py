"""Formats whose arguments are JSON: objects between markers, in an array, or behind a name."""

from __future__ import annotations

from extproc.tools.syntax.table import CallSyntax

_TOOL_RESPONSE = ("<tool_response>\n", "\n</tool_response>")
_MISTRAL_TOKENS = tuple(
    f"[{slash}{word}]"
    for word in ("INST", "AVAILABLE_TOOLS", "TOOL_RESULTS", "SYSTEM_PROMPT", "MODEL_SETTINGS", "THINK")
    for slash in ("", "/")
) + tuple(
    f"[{word}]"
    for word in (
        *("TOOL_CALLS", "TOOL_CONTENT", "ARGS", "CALL_ID", "PREFIX", "MIDDLE", "SUFFIX"),
        *("IMG", "IMG_BREAK", "IMG_END", "AUDIO", "BEGIN_AUDIO", "TRANSCRIBE"),
    )
)


def _call_object(*, name: str = "name", arguments: str = "arguments", before: str = "") -> str:
    """The beginning of `{"name": ..., "arguments": ...}`; `before` is a member of its own."""
    return f'{{{before}"{name}": "{{name}}", "{arguments}": '


_OBJECT = _call_object()


def _block(
    format_: str, tag: str, result_tag: tuple[str, str] | None = None, turn_tokens: tuple[str, ...] = ()
) -> CallSyntax:
    """An object in tags, as Hermes writes it."""
    return CallSyntax(
        format=format_,
        begin=f"<{tag}>\n{_OBJECT}",
        end=f"}}\n</{tag}>",
        result_tag=result_tag,
        turn_tokens=turn_tokens,
    )


_OBJECTS = (
    _block("hermes", "tool_call", _TOOL_RESPONSE),
    _block("granite4", "tool_call", _TOOL_RESPONSE),
    _block(
        "longcat",
        "longcat_tool_call",
        ("<longcat_tool_response>\n", "\n</longcat_tool_response>"),
        ("<longcat_", "</longcat_", "[Round "),
    ),
    CallSyntax(
        format="ernie45",
        begin=f"<tool_call>\n{_OBJECT}",
        end="}\n</tool_call>\n",
        separator="",
        turn_tokens=("<mask:",),
    ),
    CallSyntax(
        format="granite-20b-fc",
        begin=f"<function_call> {_OBJECT}",
        end="}",
        result_tag=("<function_response> ", ""),
    ),
    CallSyntax(
        format="internlm",
        begin=f"<|action_start|><|plugin|>\n{_call_object(arguments='parameters')}",
        end="}<|action_end|>",
        separator="",
    ),
    CallSyntax(format="gigachat3", begin=f"<|function_call|>{_OBJECT}", end="}"),
    CallSyntax(
        format="inkling",
        begin=f"<|message_model|>{{name}}<|content_invoke_tool_json|>{_call_object(arguments='args')}",
        end="}<|end_message|>",
        separator="",
    ),
    # The block may hold tags as well. In JSON a value says what it is, and decoding can be forced.
    CallSyntax(
        format="k2_horizon",
        opening="<ifm|tool_calls>",
        begin=f"<ifm|tool_call>{_OBJECT}",
        end="}</ifm|tool_call>",
        separator="",
        closing="</ifm|tool_calls>",
    ),
    CallSyntax(format="json", begin=f"```json\n{_OBJECT}", end="}\n```"),
    CallSyntax(
        format="llama3_json",
        begin=_call_object(arguments="parameters"),
        end="}",
        separator="; ",
    ),
)


def _array(
    format_: str,
    opening: str,
    closing: str = "",
    *,
    begin: str = _OBJECT,
    indent: str = "",
    result_tag: tuple[str, str] | None = None,
) -> CallSyntax:
    """An array of objects; with an `indent`, one on each line."""
    return CallSyntax(
        format=format_,
        opening=f"{opening}[{indent}",
        begin=begin,
        end="}",
        separator=f",{indent}" if indent else ", ",
        closing=("\n]" if indent else "]") + closing,
        result_tag=result_tag,
    )


_LINE = "\n    "
_COHERE = _call_object(name="tool_name", arguments="parameters", before='"tool_call_id": "{index}", ')

_ARRAYS = (
    _array("granite", "<|tool_call|>"),
    _array("phi4_mini_json", "functools"),
    _array("hunyuan_a13b", "<tool_calls>", "</tool_calls>", result_tag=("<tool_response>", "</tool_response>")),
    _array("jamba", "<tool_calls>", "</tool_calls>", indent=_LINE),
    _array("xlam", ""),
    _array("apertus", "<|tools_prefix|>", "<|tools_suffix|>", begin='{"{name}": '),
    *(
        _array(format_, "<|START_ACTION|>", "<|END_ACTION|>", begin=_COHERE, indent=_LINE)
        for format_ in ("cohere_command3", "cohere_command4")
    ),
)

_NAMED = (
    CallSyntax(
        format="kimi_k2",
        opening="<|tool_calls_section_begin|>",
        begin="<|tool_call_begin|>functions.{name}:{index}<|tool_call_argument_begin|>",
        end="<|tool_call_end|>",
        separator="",
        closing="<|tool_calls_section_end|>",
        result_tag=("## Return of functions.{name}:{index}\n", ""),
    ),
    CallSyntax(
        format="deepseek_v3",
        opening="<｜tool▁calls▁begin｜>",
        begin="<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n",
        end="\n```<｜tool▁call▁end｜>",
        closing="<｜tool▁calls▁end｜>",
    ),
    CallSyntax(
        format="deepseek_v31",
        opening="<｜tool▁calls▁begin｜>",
        begin="<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>",
        end="<｜tool▁call▁end｜>",
        separator="",
        closing="<｜tool▁calls▁end｜>",
    ),
    # As its tokenizers write it from v13 on; v11 has an id before the arguments, older ones an array.
    CallSyntax(format="mistral", begin="[TOOL_CALLS]{name}[ARGS]", end="", separator="", turn_tokens=_MISTRAL_TOKENS),
    CallSyntax(
        format="plamo3",
        opening="<|plamo:begin_tool_requests:plamo|>",
        begin=(
            "<|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>{name}<|plamo:end_tool_name:plamo|>"
            "<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>"
        ),
        end="<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>",
        separator="",
        closing="<|plamo:end_tool_requests:plamo|>",
    ),
    CallSyntax(
        format="openai",
        begin="<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>",
        end="<|call|>",
        separator="<|start|>assistant",
    ),
)

SYNTAXES = (*_OBJECTS, *_ARRAYS, *_NAMED)
