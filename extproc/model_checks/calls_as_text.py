"""Calls that stand in the text of an answer, where their client takes them for words. Pure.

A model writes them when its server doesn't read calls the way it writes them, or when it calls a tool that isn't there.
Whoever asked gets JSON for an answer.
"""

from __future__ import annotations

import re

_NAME = "name|function|function_name|tool|tool_name|action"
_ARGUMENTS = "arguments|parameters|args|params|input|action_input"
_QUOTED = r"""(?:"([^"\n]*)"|'([^'\n]*)')"""
_HAS_NAME = rf"""["'](?:{_NAME})["']\s*:\s*{_QUOTED}"""
_HAS_ARGUMENTS = rf"""["'](?:{_ARGUMENTS})["']\s*:\s*"""
_OBJECT = re.compile(rf"""\{{\s*{_HAS_NAME}\s*,\s*{_HAS_ARGUMENTS}(?:[{{\["']|null\b|None\b)""")
_ARGUMENTS_FIRST = re.compile(rf"\{{\s*{_HAS_ARGUMENTS}\{{(?s:.{{0,2000}}?)\}}\s*,\s*{_HAS_NAME}\s*\}}")
"""Python's quotes and None among them. The bound keeps the search linear."""
_MARKUP = re.compile(r"<tool_call>|<function=|\[TOOL_CALLS\]|<\|tool_call")


def call_as_text(text: str) -> str | None:
    """The name in the first of them, or what it begins with; None if there is none."""
    if (found := _OBJECT.search(text) or _ARGUMENTS_FIRST.search(text)) is not None:
        return found[1] if found[1] is not None else found[2]
    return marker[0] if (marker := _MARKUP.search(text)) is not None else None
