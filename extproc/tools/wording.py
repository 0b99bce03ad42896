"""The words in which prompt mode speaks to a model, around calls in the shape of its format.

Every sentence here was chosen by measurement with small models (docs/prompt-mode.md). Before changing one, measure:
a word about answering at the end of a result, say, keeps them from calling any further tool.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from extproc.tools.syntax.table import CallSyntax
from extproc.tools.template import call_template

# What chat templates and formats write around turns and calls: `<|im_end|>`, `<｜User｜>`, `<turn|>`, `</s>`, `[INST]`.
_CONTROL = re.compile(
    r"<(?=[|｜][^<>\s]{1,64}>|[^<>\s]{1,64}[|｜]>|/s>|/?<?/?(?:SYS|bos|eos|start_of_turn|end_of_turn)>"
    r"|/?(?:[a-z]{1,32}[:_])?(?:tool_call|tool_calls|tool_response|tools)>)"
    r"|\[(?=/?(?:INST|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|SYSTEM_PROMPT)\])"
)
_LONGEST_TOKEN = 80
"""Characters that a token can have at most, and somewhat more."""
_ZERO_WIDTH_SPACE = "\u200b"


def harmless(text: str) -> str:
    """The text with every spelled-out control token broken by a zero-width space.

    What users and tools say can then neither open nor close a turn or a call, and still reads the same.
    """
    return _tokens_replaced(text, lambda opening: opening + _ZERO_WIDTH_SPACE)


def _harmless_json(text: str) -> str:
    """The same for the text of a JSON value, which can say it without a change: such characters are in strings."""
    return _tokens_replaced(text, lambda opening: f"\\u{ord(opening):04x}")


_WINDOW = 65536


def _tokens_replaced(text: str, replacement: Callable[[str], str]) -> str:
    """The text with the opening character of every control token replaced.

    In windows: a search lets no other thread run, and in a text of 30 million characters each may open a token.
    """
    pieces, done = [], 0
    for start in range(0, len(text), _WINDOW):
        end = start + _WINDOW
        for token in _CONTROL.finditer(text, start, end + _LONGEST_TOKEN):
            if token.start() >= end:
                break
            pieces += [text[done : token.start()], replacement(token.group())]
            done = token.end()
    return "".join([*pieces, text[done:]]) if pieces else text


def tool_instructions(tools: Sequence[Mapping[str, Any]], syntax: CallSyntax, *, example: bool) -> str:
    """The part of the system prompt that offers tools."""
    listed = "\n".join(_shown(tool["function"], syntax) for tool in tools)
    form = syntax.write([("tool name", '{"argument": "value"}')])
    text = f"""# Tools

You can use these tools:

{listed}

To use a tool, reply with nothing but a block like this:
{form}
Use only the tools above, with only the arguments listed for them. Write one block for each call that is needed.
When no tool is needed, answer in plain words."""
    return f"{text}\n\n{_example(tools[0]['function'], syntax)}" if example else text


def _shown(function: Mapping[str, Any], syntax: CallSyntax) -> str:
    """A tool as a call to be filled in, with its schema below."""
    purpose = function.get("description") or function["name"]
    call = call_template(function)
    if '"{name}"' in syntax.begin:  # where calls are objects, the bare object says enough
        form = _harmless_json(_json(call))
    else:
        form = calls([(call["name"], _json(call["arguments"]))], syntax, first=0)
    lines = f"- {harmless(purpose)}: {form}"
    parameters = function.get("parameters")
    if parameters and any(parameters.get(word) for word in _TELLING):
        lines += f"\n    parameters: {_harmless_json(_json(parameters))}"
    return lines


_TELLING = ("properties", "patternProperties", "additionalProperties", "$ref", "anyOf", "oneOf", "allOf")
"""What a schema needs one of to say more than that there are no arguments."""


def _example(function: Mapping[str, Any], syntax: CallSyntax) -> str:
    """An exchange with a call, of the first tool."""
    call = call_template(function)
    written = calls([(call["name"], _json(call["arguments"]))], syntax, first=0)
    return f"Example. When {call['name']} is needed, the whole answer is:\n{written}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def calls(made: Sequence[tuple[str, str]], syntax: CallSyntax, *, first: int) -> str:
    """Calls of an earlier turn, (name, arguments); `first` is how many came before them in the conversation."""
    if syntax.style == "json":
        made = [(name, _harmless_json(arguments)) for name, arguments in made]
    return syntax.write(made, first=first, harmless=harmless)


def results(named: Sequence[tuple[str, str]]) -> str:
    """The user turn that brings what tools returned: (name, text) in the order of the calls."""
    parts = [f"The tool {_on_one_line(name)} returned:\n{harmless(text)}" for name, text in named]
    return "\n\n".join([*parts, "Continue."])


def _on_one_line(name: str) -> str:
    """A tool's name, which in earlier turns may be anything."""
    return harmless(" ".join(name.split()))


def tagged_results(named: Sequence[tuple[str, str, int]], syntax: CallSyntax) -> str:
    """The same in the format's own tags: (name, text, the call's number in the conversation)."""
    return "\n".join(
        syntax.write_result(_on_one_line(name), harmless(text), index=place) for name, text, place in named
    )


def must_call(name: str | None, syntax: CallSyntax) -> str:
    """What is said at the end of a request that demands a call: of `name`, or of any tool."""
    which = f"the tool {name}" if name else "one of the tools"
    return f"You must call {which} now: answer with {_block(syntax)} only."


_MOST_NAMES = 50


def must_call_by_name(names: Sequence[str], syntax: CallSyntax | None) -> str:
    """The same after an answer that had no such call: small models make up names then, so all are told.

    Without a syntax the model is shown by others how it writes a call.
    """
    which = f"the tool {names[0]}" if len(names) == 1 else "one of the tools"
    listed = f" Their names are: {', '.join(names)}." if 1 < len(names) <= _MOST_NAMES else ""
    how = "" if syntax is None else f": answer with {_block(syntax)} only"
    return f"You must call {which} now{how}.{listed}"


def _block(syntax: CallSyntax) -> str:
    return f"a {syntax.begin.partition('>')[0]}> block" if syntax.begin.startswith("<") else "such a block"


def rejected(problem: str, demand: str) -> str:
    """What is said when an answer without the call that was demanded came back."""
    return f"Your last answer was rejected: {harmless(problem)} {demand}"
