"""Formats that put each argument into an element of its own."""

from __future__ import annotations

from dataclasses import replace

from extproc.tools.syntax.arguments import Elements, Style
from extproc.tools.syntax.literals import NestedElements
from extproc.tools.syntax.table import CallSyntax

# <function=NAME><parameter=KEY>


def _wrapped_if_needed(text: str) -> str:
    """A value that begins with a line break, where readers take the first one for markup."""
    return f"\n{text}\n" if text.startswith("\n") else text


_QWEN = CallSyntax(
    format="qwen3_coder",
    begin="<tool_call>\n<function={name}>\n",
    arguments=Elements("qwen_xml", "<parameter={key}>\n", "\n</parameter>\n"),
    end="</function>\n</tool_call>",
    result_tag=("<tool_response>\n", "\n</tool_response>"),
)
_STEP_RESULT = ("<tool_response>", "</tool_response>")
_FUNCTIONS = (
    _QWEN,
    replace(_QWEN, format="step3p5", result_tag=_STEP_RESULT),
    replace(_QWEN, format="step5", result_tag=_STEP_RESULT),
    CallSyntax(
        format="mimo",
        begin="<tool_call><function={name}>",
        arguments=Elements("qwen_xml", "<parameter={key}>", "</parameter>"),
        end="</function></tool_call>",
        separator="",
        result_tag=_QWEN.result_tag,
    ),
    CallSyntax(
        format="seed_oss",
        begin="<seed:tool_call>\n<function={name}>\n",
        arguments=Elements("qwen_xml", "<parameter={key}>", "</parameter>\n", spell_string=_wrapped_if_needed),
        end="</function>\n</seed:tool_call>",
        turn_tokens=("<seed:", "</seed:"),
    ),
)

# <invoke name="NAME"><parameter name="KEY">


def _is_string(value: str) -> str:
    return "true" if value.startswith('"') else "false"


def _typed_invocations(
    format_: str, tag: str, section: str, style: Style | None, result_tag: tuple[str, str]
) -> CallSyntax:
    """`tag` stands before every tag's name, a blank of its own included."""
    return CallSyntax(
        format=format_,
        opening=f"<{tag}{section}>\n",
        begin=f'<{tag}invoke name="{{name}}">\n',
        arguments=Elements(
            style, f'<{tag}parameter name="{{key}}" string="{{type}}">', f"</{tag}parameter>\n", type_word=_is_string
        ),
        end=f"</{tag}invoke>\n",
        separator="",
        closing=f"</{tag}{section}>",
        result_tag=result_tag,
        turn_tokens=(tag.strip(), "<dsml:", "</dsml:"),  # one token, whatever tag it is in
    )


def _cdata_if_needed(text: str) -> str:
    """What XML can't hold as it is stands in a CDATA section."""
    return f"<![CDATA[{text}]]>" if set(text) & set("<&\n") else text


_DEEPSEEK_RESULT = ("<tool_result>", "</tool_result>")
_INVOCATIONS = (
    _typed_invocations(
        "deepseek_v32",
        "｜DSML｜",
        "function_calls",
        "deepseek_xml",
        ("<function_results>\n<result>", "</result>\n</function_results>"),
    ),
    _typed_invocations("deepseek_v4", "｜DSML｜", "tool_calls", "deepseek_xml", _DEEPSEEK_RESULT),
    _typed_invocations("deepseek_v41", "｜DSML｜ ", "calls", "deepseek_v4_1_xml", _DEEPSEEK_RESULT),
    _typed_invocations(
        "gigachat35", "｜GCML｜", "tool_calls", None, ('<function_response name="{name}">', "</function_response>")
    ),
    CallSyntax(
        format="minimax_m2",
        opening="<minimax:tool_call>\n",
        begin='<invoke name="{name}">\n',
        arguments=Elements("minimax_xml", '<parameter name="{key}">', "</parameter>\n"),
        end="</invoke>\n",
        separator="",
        closing="</minimax:tool_call>",
        result_tag=("<response>", "</response>"),
        turn_tokens=("]~b]", "]~!b[", "[e~[", "]!p~[", "]!d~[", "]<]", "</minimax:", "<minimax:"),
    ),
    CallSyntax(
        format="dots",
        opening="<dots_function_call>",
        begin='<invoke name="{name}">',
        arguments=Elements("minimax_xml", '<parameter name="{key}">', "</parameter>"),
        end="</invoke>",
        separator="",
        closing="</dots_function_call>",
    ),
    CallSyntax(
        format="step3",
        opening="<｜tool_calls_begin｜>",
        begin='<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{name}">',
        arguments=Elements(None, '<steptml:parameter name="{key}">', "</steptml:parameter>"),
        end="</steptml:invoke><｜tool_call_end｜>",
        separator="",
        closing="<｜tool_calls_end｜>",
    ),
    CallSyntax(
        format="minicpm5",
        begin='<function name="{name}">',
        arguments=Elements(None, '<param name="{key}">', "</param>", spell_string=_cdata_if_needed),
        end="</function>",
        separator="",
    ),
)

# <arg_key>KEY</arg_key><arg_value>

_PAIRS_ON_LINES = Elements("glm_xml", "<arg_key>{key}</arg_key>\n<arg_value>", "</arg_value>\n")
_PAIRS_IN_A_ROW = Elements("glm_xml", "<arg_key>{key}</arg_key><arg_value>", "</arg_value>")

_GLM45 = CallSyntax(
    format="glm45",
    begin="<tool_call>{name}\n",
    arguments=_PAIRS_ON_LINES,
    end="</tool_call>",
    result_tag=("<tool_response>\n", "\n</tool_response>"),
    turn_tokens=("<sop>", "<eop>"),
)
_GLM47 = CallSyntax(
    format="glm47",
    begin="<tool_call>{name}",
    arguments=_PAIRS_IN_A_ROW,
    end="</tool_call>",
    separator="",
    result_tag=("<tool_response>", "</tool_response>"),
)
_PAIRS = (
    _GLM45,
    _GLM47,
    replace(_GLM47, format="ling3", result_tag=None, turn_tokens=("<role>", "</role>")),
    replace(
        _GLM45,
        format="poolside_v1",
        result_tag=None,
        turn_tokens=tuple(f"<{slash}{role}>" for role in ("system", "user", "assistant") for slash in ("", "/")),
    ),
    CallSyntax(
        format="iquest_q1",
        begin="<iquest_tool_call>{name}",
        arguments=_PAIRS_IN_A_ROW,
        end="</iquest_tool_call>",
        separator="",
    ),
    CallSyntax(
        format="hy_v3",
        opening="<tool_calls>\n",
        begin="<tool_call>{name}<tool_sep>\n",
        arguments=_PAIRS_ON_LINES,
        end="</tool_call>\n",
        separator="",
        closing="</tool_calls>",
    ),
    CallSyntax(
        format="hy_v4",
        opening="<tool_calls>",
        begin="<tool_call>{name}<tool_sep>",
        arguments=_PAIRS_IN_A_ROW,
        end="</tool_call>",
        separator="",
        closing="</tool_calls>",
    ),
)

# Elements of their own

_JSON_TYPES = {'"': "string", "{": "object", "[": "array", "t": "boolean", "f": "boolean", "n": "null"}


def _json_type(value: str) -> str:
    return _JSON_TYPES.get(value[0], "number")


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;")


_MINIMAX_M3 = "]<]minimax[>["
_OTHERS = (
    CallSyntax(
        format="kimi_k3",
        opening="<|open|>tools<|sep|>",
        begin='<|open|>call tool="{name}" index="{number}"<|sep|>',
        arguments=Elements(
            "kimi_k3_xml",
            '<|open|>argument key="{key}" type="{type}"<|sep|>',
            "<|close|>argument<|sep|>",
            type_word=_json_type,
            spell_key=_attribute,
        ),
        end="<|close|>call<|sep|>",
        separator="",
        closing="<|close|>tools<|sep|>",
    ),
    CallSyntax(
        format="minimax_m3",
        opening=f"{_MINIMAX_M3}<tool_call>\n",
        begin=f'{_MINIMAX_M3}<invoke name="{{name}}">',
        arguments=NestedElements("minimax_m3_xml", _MINIMAX_M3),
        end=f"{_MINIMAX_M3}</invoke>\n",
        separator="",
        closing=f"{_MINIMAX_M3}</tool_call>",
    ),
    *(
        CallSyntax(
            format=format_,
            begin=' to={name}<|message|><atem:function_calls>\n<atem:invoke name="{name}">\n',
            arguments=Elements(None, '<atem:parameter name="{key}">', "</atem:parameter>\n"),
            end="</atem:invoke>\n</atem:function_calls>",
            separator="<|eom|><|start|>assistant",
            result_tag=('<tool_output name="{name}">\n', "\n</tool_output>"),
        )
        for format_ in ("muse", "muse_glimmer")
    ),
    CallSyntax(
        format="beam",
        begin=" to={name}<|channel|>analysis <|constrain|>xml<|message|>",
        arguments=Elements(None, '<rfl:parameter name="{key}">\n', "\n</rfl:parameter>"),
        end="<|end|>",
        separator="<|start|>assistant",
    ),
)

SYNTAXES = (*_FUNCTIONS, *_INVOCATIONS, *_PAIRS, *_OTHERS)
