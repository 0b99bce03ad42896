"""The words in which prompt mode speaks to a model, in the shape of the `hermes` format.

Every sentence here was chosen by measurement with small models (docs/prompt-mode.md). Before changing one, measure:
a word about answering at the end of a result, say, keeps them from calling any further tool.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from extproc.tools.template import call_template

# What chat templates and formats write around turns and calls: `<|im_end|>`, `<｜User｜>`, `<turn|>`, `</s>`, `[INST]`.
_CONTROL = re.compile(
    r"<(?=[|｜][^<>\s]{1,64}>|[^<>\s]{1,64}[|｜]>|/s>|/?<?/?(?:SYS|bos|eos|start_of_turn|end_of_turn)>"
    r"|/?(?:[a-z]+[:_])?(?:tool_call|tool_calls|tool_response|tools)>)"
    r"|\[(?=/?(?:INST|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|SYSTEM_PROMPT)\])"
)
_ZERO_WIDTH_SPACE = "\u200b"


def harmless(text: str) -> str:
    """The text with every spelled-out control token broken by a zero-width space.

    What users and tools say can then neither open nor close a turn or a call, and still reads the same.
    """
    return _CONTROL.sub(lambda token: token.group() + _ZERO_WIDTH_SPACE, text)


def _harmless_json(text: str) -> str:
    """The same for the text of a JSON value, which can say it without a change: such characters are in strings."""
    return _CONTROL.sub(lambda token: f"\\u{ord(token.group()):04x}", text)


def tool_instructions(tools: Sequence[Mapping[str, Any]]) -> str:
    """The part of the system prompt that offers tools."""
    listed = "\n".join(_shown(tool["function"]) for tool in tools)
    return f"""# Tools

You can use these tools:

{listed}

To use a tool, reply with nothing but a block like this:
<tool_call>
{{"name": "tool name", "arguments": {{"argument": "value"}}}}
</tool_call>
Use only the tools above, with only the arguments listed for them. Write one block for each call that is needed.
When no tool is needed, answer in plain words."""


def _shown(function: Mapping[str, Any]) -> str:
    """A tool as a call to be filled in, with its schema below."""
    purpose = function.get("description") or function["name"]
    lines = f"- {harmless(purpose)}: {_harmless_json(_json(call_template(function)))}"
    parameters = function.get("parameters")
    if parameters and parameters.get("properties"):
        lines += f"\n    parameters: {_harmless_json(_json(parameters))}"
    return lines


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def call(name: str, arguments: str) -> str:
    """One call of an earlier turn; the arguments stand as they were written."""
    object_ = f'{{"name": {_json(name)}, "arguments": {arguments.strip() or "{}"}}}'
    return f"<tool_call>\n{_harmless_json(object_)}\n</tool_call>"


def results(named: Sequence[tuple[str, str]]) -> str:
    """The user turn that brings what tools returned: (name, text) in the order of the calls."""
    parts = [f"The tool {name} returned:\n{harmless(text)}" for name, text in named]
    return "\n\n".join([*parts, "Continue."])


def must_call(name: str | None) -> str:
    """What is said at the end of a request that demands a call: of `name`, or of any tool."""
    which = f"the tool {name}" if name else "one of the tools"
    return f"You must call {which} now: answer with a <tool_call> block only."
