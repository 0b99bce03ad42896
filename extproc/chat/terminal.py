"""The conversation: a line of the user's, the answer as it comes, and the tools that it calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from extproc.chat.answers import Answer, AnswerError, CallBegun, Text, Thinking
from extproc.chat.gateway import ChatError, Gateway
from extproc.chat.tools import TOOLS, run

Json: TypeAlias = dict[str, Any]

HELP = """\
  /clear   forget the conversation
  /tools   what the model may call
  /quit    leave, as Ctrl-D does; Ctrl-C stops an answer
"""
_MOST_ROUNDS = 10
"""Answers with calls in them, to one line of the user's."""
_MOST_SHOWN = 500
"""Characters of a result; the model gets all."""
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


@dataclass(slots=True)
class Conversation:
    """What was said, and where it is shown."""

    gateway: Gateway
    model: str
    write: Callable[[str], None]
    tools: bool = True
    colours: bool = False
    messages: list[Json] = field(default_factory=list)

    def say(self, line: str) -> bool:
        """Take a line of the user's, and show what comes of it. False: they want to leave.

        An answer that fails, or is stopped, leaves the conversation as it was before the line.
        """
        match line.split():
            case []:
                return True
            case ["/quit" | "/exit"]:
                return False
            case ["/clear"]:
                self.messages.clear()
            case ["/tools"]:
                for tool in TOOLS if self.tools else ():
                    self.write(f"  {tool['function']['name']}: {tool['function']['description']}\n")
            case [word, *_] if word.startswith("/"):
                self.write(HELP)
            case _:
                self._answered(line)
        return True

    def _answered(self, line: str) -> None:
        before = len(self.messages)
        self.messages.append({"role": "user", "content": line})
        try:
            for _ in range(_MOST_ROUNDS):
                if not self._round():
                    return
            self._note(f"stopped after {_MOST_ROUNDS} answers with calls")
        except KeyboardInterrupt:
            del self.messages[before:]
            self.write("\n")
            self._note("stopped")
        except (ChatError, AnswerError) as error:
            del self.messages[before:]
            self.write("\n")
            self._note(f"error: {error}")

    def _round(self) -> bool:
        """One answer, and the tools that it calls. False: that was the last."""
        body: Json = {"model": self.model, "messages": self.messages}
        if self.tools:
            body["tools"] = TOOLS
        answer, column = Answer(), _Column(self)
        for chunk in self.gateway.chunks(body):
            for shown in answer.add(chunk):
                match shown:
                    case Text(text):
                        column.show(text, dim=False)
                    case Thinking(text):
                        column.show(text, dim=True)
                    case CallBegun():
                        column.end()
        column.end()
        self.messages.append(answer.message)
        for call in answer.calls:
            self._note(f"{call.name}({call.arguments})", "->")
            result = run(call.name, call.arguments)
            self._note(result if len(result) <= _MOST_SHOWN else f"{result[:_MOST_SHOWN]}...", "<-")
            self.messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        if answer.finish_reason == "length":
            self._note("cut off: the model's context or the answer's limit is full")
        return bool(answer.calls)

    def _note(self, text: str, sign: str = "--") -> None:
        """A line of ours."""
        line = f"{sign} {printable(text)}"
        self.write(f"{_DIM}{line}{_PLAIN}\n" if self.colours else f"{line}\n")


@dataclass(slots=True)
class _Column:
    """The text of one answer: thinking apart from words, and a line's end at its end."""

    conversation: Conversation
    begun: bool = False
    dim: bool = False
    line_ended: bool = False
    """What was shown last ends with a line's end: thinking often does."""

    def show(self, text: str, *, dim: bool) -> None:
        if self.begun and dim != self.dim:
            self.end()
        shown = printable(text)
        if dim and not self.begun:
            shown = f"-- thinking: {shown.lstrip()}"
        self.begun, self.dim = True, dim
        self.line_ended = shown.endswith("\n") if shown else self.line_ended
        self.conversation.write(f"{_DIM}{shown}{_PLAIN}" if dim and self.conversation.colours else shown)

    def end(self) -> None:
        if self.begun and not self.line_ended:
            self.conversation.write("\n")
        self.begun = self.line_ended = False


def printable(text: str) -> str:
    """A model's words without what would move the cursor or colour the terminal."""
    return "".join(character if character.isprintable() or character in "\n\t" else "\ufffd" for character in text)
