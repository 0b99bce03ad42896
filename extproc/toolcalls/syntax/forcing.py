"""Which formats' calls a decoder can be held to, and where in a text such a call begins.

What is said here of notations is measured on xgrammar 0.2.8 (docs/forced-decoding.md).
"""

from __future__ import annotations

import re

from extproc.toolcalls.syntax.call_syntax import CallSyntax

READ_AS_BARE_JSON = frozenset({"command_r", "hermes", "json", "llama3_json", "poolside_v1", "xlam"})
"""Formats whose parsers take a JSON object with the name of a tool for a call, alone or in a fence. Small models write
such when they should write the format. Nothing but the name tells it from other text."""

READ_UNWRAPPED = frozenset(
    {
        *("deepseek_v3", "deepseek_v31", "deepseek_v32", "deepseek_v4", "deepseek_v41", "dots", "hy_v3", "hy_v4"),
        *("kimi_k2", "mimo", "minimax_m2", "plamo3", "qwen3_coder", "seed_oss", "step3p5"),
    }
)
"""Formats whose parsers take a call without its section, or without the first of its own two markers. Models leave
those out."""

_MARKER = re.compile(r"<[^<>{]+(?:>|(?={name}))|\[[A-Z_]+\]")
_NO_MARKERS = {"[", "<|message_model|>"}  # what other text begins with as well


def can_be_forced(syntax: CallSyntax) -> bool:
    """Whether an answer can be forced to be a call."""
    if syntax.style is None:
        return False
    if syntax.style == "minimax_m3_xml":  # it has no way to write an object, or a value, that may be anything
        return False
    # Where every call is a message of its own, the token that ends it ends the answer, and no grammar can hold it.
    return "<|start|>" not in syntax.separator


def can_be_forced_amid_text(syntax: CallSyntax) -> bool:
    """Whether a call can be held to its grammar from where it begins, while the text before it is free."""
    return can_be_forced(syntax) and (marker_of_calls(syntax) is not None or syntax.format in READ_AS_BARE_JSON)


def marker_of_calls(syntax: CallSyntax) -> str | None:
    """What a model writes for nothing but calls, and as little of it as will do: models vary what comes next. None if
    no marker begins calls alone, or a call that it begins can't be held."""
    if syntax.opening and not syntax.closing:
        return None  # xgrammar takes no section of any length without something that closes it
    first = _MARKER.match(syntax.begin)
    marker = syntax.opening.strip() or (first and first.group())
    return marker if marker and marker not in _NO_MARKERS else None


def marker_unwrapped(syntax: CallSyntax) -> str | None:
    """What begins a call whose first marker is missing, in the formats of `READ_UNWRAPPED`."""
    if syntax.format not in READ_UNWRAPPED:
        return None
    found = _MARKER.search(syntax.begin, 0 if syntax.opening else len(marker_of_calls(syntax) or ""))
    assert found is not None  # there are two in each of these
    return found.group()
