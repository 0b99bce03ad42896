"""Call syntaxes that several formats share, as functions that make them from the markers."""

from __future__ import annotations

from extproc.toolcalls.syntax.call_syntax import CallSyntax

TOOL_RESPONSE = ("<tool_response>\n", "\n</tool_response>")


def call_object(*, name: str = "name", arguments: str = "arguments", before: str = "") -> str:
    """The beginning of `{"name": ..., "arguments": ...}`; `before` is a member of its own."""
    return f'{{{before}"{name}": "{{name}}", "{arguments}": '


def object_in_tags(
    tag: str, *, result_tag: tuple[str, str] | None = None, turn_tokens: tuple[str, ...] = ()
) -> CallSyntax:
    """An object in tags, each on a line of its own, as Hermes writes it."""
    return CallSyntax(
        begin=f"<{tag}>\n{call_object()}", end=f"}}\n</{tag}>", result_tag=result_tag, turn_tokens=turn_tokens
    )


def array(
    opening: str,
    closing: str = "",
    *,
    begin: str = call_object(),
    indent: str = "",
    result_tag: tuple[str, str] | None = None,
    turn_tokens: tuple[str, ...] = (),
) -> CallSyntax:
    """An array of objects; with an `indent`, one on each line."""
    return CallSyntax(
        opening=f"{opening}[{indent}",
        begin=begin,
        end="}",
        separator=f",{indent}" if indent else ", ",
        closing=("\n]" if indent else "]") + closing,
        result_tag=result_tag,
        turn_tokens=turn_tokens,
    )
