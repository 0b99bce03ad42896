"""The words in which prompt mode speaks to a model, in the shape of the `hermes` format.

Every sentence here was chosen by measurement with small models (docs/prompt-mode.md): a worked example is what
makes them write the block, and a result in a plain user turn is what makes them use it instead of calling again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

_CONTROL = re.compile(r"<(?=\|[A-Za-z][A-Za-z0-9_]*\|>|/?(?:tool_call|tool_response|tools|start_of_turn|end_of_turn)>)")
_ZERO_WIDTH_SPACE = "\u200b"


def harmless(text: str) -> str:
    """The text with every spelled-out control token broken by a zero-width space.

    What users and tools say can then neither open nor close a turn or a call, and still reads the same.
    """
    return _CONTROL.sub("<" + _ZERO_WIDTH_SPACE, text) if "<" in text else text


def tool_instructions(tools: Sequence[dict[str, Any]]) -> str:
    """The part of the system prompt that offers tools."""
    lines = "\n".join(harmless(json.dumps(tool, ensure_ascii=False)) for tool in tools)
    return f"""# Tools

You can call tools. These are the tools, one JSON definition per line:
<tools>
{lines}
</tools>

To call a tool, write exactly one block for each call, in this form:
<tool_call>
{{"name": "name_of_the_tool", "arguments": {{"name_of_a_parameter": "value"}}}}
</tool_call>

For example, if there were a tool "find_book" with a parameter "title", this would call it:
<tool_call>
{{"name": "find_book", "arguments": {{"title": "Moby Dick"}}}}
</tool_call>

Call only the tools listed above. When no tool is needed, answer in plain text."""


def call(name: str, arguments: str) -> str:
    """One call of an earlier turn; the arguments stand as they were written."""
    return f'<tool_call>\n{{"name": {json.dumps(name)}, "arguments": {arguments.strip() or "{}"}}}\n</tool_call>'


def results(named: Sequence[tuple[str, str]]) -> str:
    """The user turn that brings what tools returned: (name, text) in the order of the calls."""
    parts = [f"The tool {name} returned:\n{harmless(text)}" for name, text in named]
    return "\n\n".join([*parts, "Continue."])


def must_call(name: str | None) -> str:
    """What is said at the end of a request that demands a call: of `name`, or of any tool."""
    which = f"the tool {name}" if name else "one of the tools"
    return f"You must call {which} now: answer with a <tool_call> block only."
