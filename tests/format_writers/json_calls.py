"""Writers for the formats whose calls, or whose arguments, are JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tests.format_writers.output import (
    AROUND,
    ENDS_A_TURN,
    FENCE_OR_BARE,
    NOWHERE,
    TAGS,
    THINK,
    Call,
    Output,
    Writer,
    laid_out,
    without,
)


def call_object(
    output: Output, call: Call, *, name: str = "name", arguments: str = "arguments", first: str = "", last: str = ""
) -> str:
    """`{"name": ..., "arguments": ...}`; `first` and `last` are members of their own."""
    comma, colon = (",", ":") if output.compact else (", ", ": ")
    members = [f'"{name}"{colon}{output.json(call.name)}', f'"{arguments}"{colon}{output.json(call.arguments)}']
    return "{" + comma.join([*filter(None, [first]), *members, *filter(None, [last])]) + "}"


# Objects between markers


def _blocks(
    opening: str,
    closing: str,
    output: Output,
    *,
    arguments: str = "arguments",
    thinking: tuple[str, str] = THINK,
) -> str:
    def section(calls: Sequence[Call]) -> str:
        return "\n".join(opening + call_object(output, call, arguments=arguments) + closing for call in calls)

    return laid_out(output, section, thinking=thinking)


def _encoded_blocks(output: Output) -> str:
    """Hermes blocks whose arguments are a string that holds JSON."""

    def block(call: Call) -> str:
        arguments = output.json(output.json(call.arguments))
        return f'<tool_call>\n{{"name": {output.json(call.name)}, "arguments": {arguments}}}\n</tool_call>'

    return laid_out(output, lambda calls: "\n".join(map(block, calls)))


def _ernie(output: Output) -> str:
    def section(calls: Sequence[Call]) -> str:
        return "".join(f"<tool_call>\n{call_object(output, call)}\n</tool_call>\n" for call in calls)

    return laid_out(
        output, section, thinking=("<think>\n", "\n</think>\n\n\n"), say=lambda text: f"<response>\n{text}\n</response>"
    )


def _inkling(output: Output) -> str:
    messages = []
    if output.reasoning:
        start = "" if output.thinking_is_open else "<|content_thinking|>"
        messages.append(f"{start}{output.reasoning}")
    if output.before:
        messages.append(f"<|content_text|>{output.before}")
    for number, call in enumerate(output.calls):
        if number and output.between:
            messages.append(f"<|content_text|>{output.between}")
        author = call.name if messages else ""
        messages.append(f"{author}<|content_invoke_tool_json|>{call_object(output, call, arguments='args')}")
    if output.after:
        messages.append(f"<|content_text|>{output.after}")
    return "<|message_model|>".join(f"{message}<|end_message|>" for message in messages)


def _hermes_like(format_: str, tag: str, thinking: str = "think") -> Writer:
    tags = (f"<{tag}>", f"</{tag}>", f"<{thinking}>", f"</{thinking}>")
    think = (f"<{thinking}>\n", f"\n</{thinking}>\n\n")
    write = partial(_blocks, f"<{tag}>\n", f"\n</{tag}>", thinking=think)
    return Writer(format_, write, tags, verbatim=True)


_BLOCKS = (
    Writer(
        "hermes",
        partial(_blocks, "<tool_call>\n", "\n</tool_call>"),
        ("<tool_call>", "</tool_call>", *TAGS),
        verbatim=True,
        says=without(FENCE_OR_BARE),
    ),
    _hermes_like("granite4", "tool_call"),
    Writer(
        "granite4",
        _encoded_blocks,
        ("<tool_call>", "</tool_call>", *TAGS),
        variant="encoded arguments",
        verbatim=True,
    ),
    _hermes_like("longcat", "longcat_tool_call", "longcat_think"),
    Writer(
        "ernie45",
        _ernie,
        ("<tool_call>", "</tool_call>", "<response>", "</response>", *TAGS),
        verbatim=True,
    ),
    Writer(
        "granite-20b-fc",
        partial(_blocks, "<function_call> ", ""),
        ("<function_call>",),
        thinks=False,
        verbatim=True,
    ),
    Writer(
        "internlm",
        partial(_blocks, "<|action_start|><|plugin|>", "<|action_end|>", arguments="parameters"),
        ("<|action_start|>", "<|plugin|>", "<|action_end|>", *TAGS),
        places=AROUND,
        most_calls=1,
        verbatim=True,
    ),
    Writer(
        "gigachat3",
        partial(_blocks, "<|function_call|>", ""),
        ("<|function_call|>", "<|message_sep|>", "<|role_sep|>", "</s>"),
        thinks=False,
        verbatim=True,
    ),
    Writer(
        "gigachat3",
        partial(_blocks, "<|message_sep|>\n\nfunction call<|role_sep|>\n", ""),
        ("<|function_call|>", "<|message_sep|>", "<|role_sep|>", "</s>"),
        variant="message",
        thinks=False,
        verbatim=True,
    ),
    Writer(
        "inkling",
        _inkling,
        (
            "<|content_invoke_tool_json|>",
            "<|message_model|>",
            "<|content_text|>",
            "<|content_thinking|>",
            "<|end_message|>",
        ),
        verbatim=True,
    ),
)


# Arrays


def _arrays(
    opening: str,
    closing: str,
    output: Output,
    *,
    element: Callable[[Output, Call], str] = call_object,
    separator: str = ", ",
    thinking: tuple[str, str] = THINK,
    say: Callable[[str], str] = str,
) -> str:
    def section(calls: Sequence[Call]) -> str:
        return opening + "[" + separator.join(element(output, call) for call in calls) + "]" + closing

    return laid_out(output, section, thinking=thinking, say=say)


def _mistral_element(output: Output, call: Call) -> str:
    return call_object(output, call, last=f'"id": "{call.number:09}"')


def _apertus_element(output: Output, call: Call) -> str:
    return "{" + f"{output.json(call.name)}: {output.json(call.arguments)}" + "}"


def _cohere_element(output: Output, call: Call) -> str:
    number = f'"tool_call_id": "{call.number}"'
    return "\n    " + call_object(output, call, name="tool_name", arguments="parameters", first=number)


def _cohere(format_: str, part: str) -> Writer:
    edges = (f"<|START_{part}|>", f"<|END_{part}|>")
    thinking = ("<|START_THINKING|>", "<|END_THINKING|>")
    action = ("<|START_ACTION|>", "<|END_ACTION|>")
    return Writer(
        format_,
        partial(
            _arrays,
            *action,
            element=_cohere_element,
            separator=",",
            thinking=thinking,
            say=lambda text: text.join(edges),
        ),
        (*action, *thinking, *(f"<|{edge}_{name}|>" for edge in ("START", "END") for name in ("RESPONSE", "TEXT"))),
        verbatim=True,
    )


_ARRAYS = (
    Writer(
        "granite",
        partial(_arrays, "<|tool_call|>", ""),
        ("<|tool_call|>", "<tool_call>", "</tool_call>", *TAGS),
        verbatim=True,
    ),
    Writer(
        "granite",
        partial(_arrays, "<tool_call>", ""),
        ("<|tool_call|>", "<tool_call>", "</tool_call>", *TAGS),
        variant="3.1",
        verbatim=True,
    ),
    Writer(
        "phi4_mini_json",
        partial(_arrays, "functools", ""),
        ("functools[", "functools [", "<|tool_call|>", "<|/tool_call|>"),
        says=without(r"functools\s*\{"),
        thinks=False,
        verbatim=True,
    ),
    Writer(
        "phi4_mini_json",
        partial(_arrays, "<|tool_call|>", "<|/tool_call|>"),
        ("functools[", "functools [", "<|tool_call|>", "<|/tool_call|>"),
        says=without(r"functools\s*\{"),
        variant="native",
        thinks=False,
        verbatim=True,
    ),
    Writer(
        "command_r",
        partial(
            _arrays,
            "Action: ```json\n",
            "\n```",
            element=lambda output, call: call_object(output, call, name="tool_name", arguments="parameters"),
        ),
        ("Action:", "Action :"),
        thinks=False,
        verbatim=True,
        says=without(FENCE_OR_BARE),
    ),
    Writer(
        "nemotron_json",
        partial(_arrays, "<TOOLCALL>", "</TOOLCALL>"),
        ("<TOOLCALL>", "</TOOLCALL>", *TAGS),
        verbatim=True,
    ),
    Writer(
        "apriel",
        partial(
            _arrays,
            "<tool_calls>",
            "</tool_calls>",
            thinking=("Here are my reasoning steps:\n", "\n[BEGIN FINAL RESPONSE]\n"),
        ),
        (
            *("<tool_calls>", "</tool_calls>", "<tool_call>", "</tool_call>", "<thinking>", "</thinking>"),
            *("[BEGIN FINAL RESPONSE]", "[END FINAL RESPONSE]", "Here are my reasoning steps:"),
        ),
        verbatim=True,
    ),
    Writer(
        "hunyuan_a13b",
        partial(_arrays, "<tool_calls>", "</tool_calls>"),
        ("<tool_calls>", "</tool_calls>", *TAGS),
        verbatim=True,
    ),
    Writer(
        "jamba",
        partial(_arrays, "<tool_calls>", "</tool_calls>", separator=",\n    "),
        ("<tool_calls>", "</tool_calls>", *TAGS),
        verbatim=True,
    ),
    Writer(
        "apertus",
        partial(
            _arrays,
            "<|tools_prefix|>",
            "<|tools_suffix|>",
            element=_apertus_element,
            thinking=("<|inner_prefix|>", "<|inner_suffix|>"),
        ),
        ("<|tools_prefix|>", "<|tools_suffix|>", "<|inner_prefix|>", "<|inner_suffix|>"),
        verbatim=True,
    ),
    _cohere("cohere_command3", "RESPONSE"),
    _cohere("cohere_command4", "TEXT"),
    Writer(
        "mistral",
        partial(_arrays, "[TOOL_CALLS] ", "", element=_mistral_element, thinking=("[THINK]", "[/THINK]")),
        ("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]", *TAGS),
        variant="array",
        verbatim=True,
        says=without(ENDS_A_TURN),
    ),
)

# Bare JSON: only an offered tool's name tells it from an answer


def _fenced(output: Output) -> str:
    return laid_out(
        output,
        lambda calls: "\n".join(f"```json\n{call_object(output, call)}\n```" for call in calls),
        thinking=("", ""),
    )


def _bare(output: Output) -> str:
    return laid_out(output, lambda calls: "\n".join(call_object(output, call) for call in calls))


def _llama(output: Output) -> str:
    return "; ".join(call_object(output, call, arguments="parameters") for call in output.calls)


def _llama_with_tag(output: Output) -> str:
    return "".join(f"<|python_tag|>{call_object(output, call, arguments='parameters')}" for call in output.calls)


_BARE = (
    Writer(
        "json",
        _fenced,
        (),
        variant="fenced",
        thinks=False,
        verbatim=True,
        offered_only=True,
        says=without(FENCE_OR_BARE),
    ),
    Writer(
        "json", _bare, (), variant="bare", thinks=False, verbatim=True, offered_only=True, says=without(FENCE_OR_BARE)
    ),
    Writer("llama3_json", _llama, (), places=NOWHERE, thinks=False, verbatim=True, offered_only=True),
    Writer(
        "llama3_json",
        _llama_with_tag,
        ("<|python_tag|>",),
        variant="tag",
        places=NOWHERE,
        thinks=False,
        verbatim=True,
    ),
    Writer(
        "xlam",
        partial(_arrays, "", ""),
        ("[TOOL_CALLS]", "<tool_call>", "</tool_call>", *TAGS),
        places=NOWHERE,
        verbatim=True,
        offered_only=True,
        says=without(FENCE_OR_BARE),
    ),
    Writer(
        "xlam",
        partial(_arrays, "```json\n", "\n```"),
        ("[TOOL_CALLS]", "<tool_call>", "</tool_call>", *TAGS),
        variant="fenced",
        verbatim=True,
        offered_only=True,
        says=without(FENCE_OR_BARE),
    ),
)

WRITERS = (*_BLOCKS, *_ARRAYS, *_BARE)
