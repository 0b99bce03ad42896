"""Formats that write calls in Python's syntax, or in Gemma's own."""

from __future__ import annotations

from dataclasses import replace

from extproc.tools.syntax.literals import BareKeys, PythonKeywords
from extproc.tools.syntax.table import CallSyntax

_PYTHONIC = CallSyntax(
    format="pythonic",
    opening="[",
    begin="{name}(",
    arguments=PythonKeywords(),
    end=")",
    separator=", ",
    closing="]",
)

SYNTAXES = (
    _PYTHONIC,
    replace(_PYTHONIC, format="llama4_pythonic", opening="<|python_start|>[", closing="]<|python_end|>"),
    replace(_PYTHONIC, format="lfm2", opening="<|tool_call_start|>[", closing="]<|tool_call_end|>"),
    replace(
        _PYTHONIC,
        format="olmo3",
        opening="<function_calls>\n",
        arguments=PythonKeywords(json_values=True),
        separator="\n",
        closing="\n</function_calls>",
    ),
    CallSyntax(
        format="gemma4",
        begin="<|tool_call>call:{name}{",
        arguments=BareKeys(),
        end="}<tool_call|>",
        separator="",
    ),
    CallSyntax(
        format="functiongemma",
        begin="<start_function_call>call:{name}{",
        arguments=BareKeys(delimiter="<escape>"),
        end="}<end_function_call>",
        separator="",
        turn_tokens=("<start_of_", "<end_of_", "<start_function_", "<end_function_"),
    ),
)
