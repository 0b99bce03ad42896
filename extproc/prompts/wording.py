"""The words in which prompt mode speaks to a model, around calls in the shape of its format.

Every sentence here was chosen by measurement with small models (docs/prompt-mode.md). Before changing one, measure:
a word about answering at the end of a result, say, keeps them from calling any further tool.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from extproc.prompts.content import Content, joined
from extproc.prompts.escaping import Escaper
from extproc.prompts.signatures import shown_json, shown_name, signature
from extproc.toolcalls import CallSyntax


def tool_instructions(tools: Sequence[Mapping[str, Any]], syntax: CallSyntax, escaper: Escaper, answer: str) -> str:
    """The part of the system prompt that offers tools; `answer` says what to do without."""
    listed = "\n\n".join(signature(tool["function"], syntax, escaper) for tool in tools)
    return f"""# Tools

You can use these tools:

{listed}

{_how(syntax)}
{_RULES} {answer}"""


_RULES = (
    "Use only the tools above, with only the arguments listed for them. Give each call all arguments that it needs, "
    "and leave out optional ones that the user didn't ask for.\nCall only tools that do what the user asks."
)


def _how(syntax: CallSyntax) -> str:
    """How calls are written. A list is shown with two calls: then models write as many as are needed."""
    if not is_list(syntax):
        form = syntax.write([_FORM[0]])
        return f"To use tools, reply with nothing but one block like this for each call that is needed:\n{form}"
    kind = "JSON list" if syntax.style == "json" else "list"
    how = f"To use tools, reply with nothing but a {kind} of calls, one for each call that is needed:"
    return f"{how}\n{syntax.write(_FORM)}"


_FORM = (("tool name", '{"argument": "value"}'), ("tool name", '{"argument": "other value"}'))


def is_list(syntax: CallSyntax) -> bool:
    """Whether all calls of an answer stand in one list."""
    return syntax.opening.rstrip().endswith("[")


def exchanges(syntax: CallSyntax) -> list[tuple[str, str]]:
    """What a user said and how it was answered: once without a call, and once with two. They stand before the
    conversation: in the system prompt small models take them for something that is to be answered."""
    looked_up = syntax.write([("look_up", '{"person": "Ada"}'), ("look_up", '{"person": "Bob"}')])
    return [
        ("(Example) Sing a song.", "None of my tools can do that."),
        ("(Example, with a tool look_up) Look up Ada and Bob.", looked_up),
    ]


def answer_in(schema: Mapping[str, Any] | None, escaper: Escaper) -> str:
    """What an answer without a call is: in words, or in JSON by this schema, of which an empty one is any object's."""
    if schema is None:
        form = "in plain words."
    elif not schema:
        form = "with nothing but a JSON object."
    else:
        form = f"with nothing but JSON that fits this schema:\n{shown_json(schema, escaper)}"
    return f"If no tool fits, or no call is needed any more, answer {form}"


def calls(made: Sequence[tuple[str, str]], syntax: CallSyntax, escaper: Escaper, *, first: int) -> str:
    """Calls of an earlier turn, (name, arguments); `first` is how many came before them in the conversation."""
    if syntax.style == "json":
        made = [(name, escaper.json(arguments)) for name, arguments in made]
    return syntax.write(made, first=first, harmless=escaper.text)


def results(named: Sequence[tuple[str, Content]], escaper: Escaper) -> Content:
    """The user turn that brings what tools returned: (name, content, escaped) in the order of the calls."""
    return joined([*(_result(name, content, escaper) for name, content in named), ["Continue."]], "\n\n")


def _result(name: str, content: Content, escaper: Escaper) -> Content:
    return [f"The tool {_name(name, escaper)} returned:\n", *_fenced(content)]


def _fenced(content: Content) -> Content:
    """Each text between fences; nothing can be written into what is none."""
    return joined(([fenced(piece) if isinstance(piece, str) else piece] for piece in content), "\n")


def fenced(text: str) -> str:
    """The text between fences that it doesn't hold: whatever stands in it, it ends where we end it.

    Nothing is random, so that the same conversation renders to the same bytes.
    """
    fence = "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(text)), default=0))
    return f"{fence}\n{text}\n{fence}"


_BACKTICKS = re.compile("`+")


def _name(name: str, escaper: Escaper) -> str:
    """A tool's name, which in earlier turns may be anything."""
    return escaper.text(shown_name(" ".join(name.split())))


def tagged_results(named: Sequence[tuple[str, Content, int]], syntax: CallSyntax, escaper: Escaper) -> Content:
    """The same in the format's own tags: (name, content, escaped, the call's number in the conversation).

    Where the format has none, or none that closes, the text stands between fences.
    """
    if syntax.result_tag is None:
        return joined([_result(name, content, escaper) for name, content, _ in named], "\n\n")
    shown = []
    for name, content, place in named:
        before, behind = syntax.tags_of_result(_name(name, escaper), index=place)
        shown.append([before, *(content if behind else _fenced(content)), behind])
    return joined(shown, "\n")


def must_call(name: str | None, syntax: CallSyntax, some: Sequence[str] = ()) -> str:
    """What is said at the end of a request that demands a call: of `name`, or of any tool, or of `some` of them."""
    which = f"the tool {name}" if name else _one_of(some)
    return f"You must call {which} now: answer with {_block(syntax)} only."


def may_call(some: Sequence[str]) -> str:
    """The same where the model may call, but not every tool that it was shown."""
    return f"If you use a tool now, it must be {_one_of(some)}."


def must_not_call(*, as_json: bool) -> str:
    """The same where it may not."""
    return f"Use no tool now: answer in {'JSON' if as_json else 'plain words'}."


def _one_of(names: Sequence[str]) -> str:
    return f"one of these tools: {', '.join(names)}" if names else "one of the tools"


_MOST_NAMES = 50


def must_call_by_name(names: Sequence[str], syntax: CallSyntax | None) -> str:
    """The same after an answer that had no such call: small models make up names then, so all are told.

    Without a syntax the model is shown by others how it writes a call.
    """
    which = f"the tool {names[0]}" if len(names) == 1 else "one of the tools"
    listed = f" Their names are: {', '.join(names)}." if 1 < len(names) <= _MOST_NAMES else ""
    how = "" if syntax is None else f": answer with {_block(syntax)} only"
    return f"You must call {which} now{how}.{listed}"


CALL_OR_ANSWER = "Answer in a normal sentence, without JSON."
"""The same where the model may answer, and has called a tool that there isn't."""
CALL_ONLY_IF_IT_HELPS = (
    "Call one of the tools that you have if it does what the user asks; otherwise answer in a normal sentence, without "
    "JSON."
)
"""The same where it was unsure of its call."""


def _block(syntax: CallSyntax) -> str:
    if is_list(syntax):
        return "such a list"
    return f"a {syntax.begin.partition('>')[0]}> block" if syntax.begin.startswith("<") else "such a block"


REJECTED = "Your last answer was rejected:"


def rejected(problem: str, demand: str, escaper: Escaper) -> str:
    """What is said when an answer came back that isn't what was asked for."""
    return f"{REJECTED} {escaper.text(problem)} {demand}"
