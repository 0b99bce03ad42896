"""What agents are asked to do, and which first calls are right. Written before any model was asked, and then left.

Agents have different tools for the same thing. So a task names what may be done first: a command of the shell, or a
tool of the client's own for it, with what has to be in its arguments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.first_turns.answers import Call

_SHELLS = {"Cline": "run_commands", "Claude Code": "Bash", "Codex": "exec_command"}
_TOOLS = {
    "read": {"Cline": "read_files", "Claude Code": "Read"},
    "write": {"Cline": "editor", "Claude Code": "Write"},
}
_COMMANDS = ("command", "commands", "cmd")


@dataclass(frozen=True, slots=True)
class Task:
    """`command` is what a command of the shell has to match; `tools`, by kind, what the arguments of a tool have to."""

    words: str
    command: str
    tools: Mapping[str, str]

    def is_right(self, client: str, call: Call) -> bool:
        """Whether the client would do what it was asked to, or what has to come first."""
        if not isinstance(call.arguments, dict):
            return False
        if call.name == _SHELLS[client]:
            return re.search(self.command, _command(call.arguments), re.DOTALL) is not None
        written = json.dumps(call.arguments, ensure_ascii=False)
        return any(
            call.name == _TOOLS[kind].get(client) and re.search(pattern, written) is not None
            for kind, pattern in self.tools.items()
        )


TASKS = (
    Task(
        "What does the file notes.txt say?",
        r"\b(cat|head|tail|less|more|sed|nl)\b.*notes\.txt",
        {"read": r"notes\.txt"},
    ),
    Task("Run the tests with `make test`.", r"\bmake\b.*\btest\b", {}),
    Task(
        "Create a file hello.txt that says: good morning",
        r"good morning.*>\s*\S*hello\.txt|hello\.txt.*good morning|good morning.*\btee\b.*hello\.txt",
        {"write": r"(?=.*hello\.txt)(?=.*good morning)"},
    ),
    Task("Which files are in the folder src?", r"\b(ls|find|tree)\b.*\bsrc\b|\bcd\b.*\bsrc\b.*\bls\b", {}),
    Task("Find every line in this project that contains TODO.", r"\b(grep|rg|ag)\b.*TODO", {}),
    Task("What has changed since the last commit?", r"\bgit\b.*\b(diff|status)\b", {}),
    Task("Delete the file build.log.", r"\brm\b.*build\.log", {}),
    Task("Rename old.txt to new.txt.", r"\bmv\b.*old\.txt.*new\.txt", {}),
    Task(
        "How many lines does notes.txt have?",
        r"\b(wc|cat|nl|awk|sed|grep)\b.*notes\.txt|notes\.txt.*\bwc\b",
        {"read": r"notes\.txt"},
    ),
    Task("Which git branch am I on?", r"\bgit\b.*\b(branch|status|rev-parse|symbolic-ref)\b", {}),
)


def _command(arguments: Mapping[str, Any]) -> str:
    """What the shell is given; lists of commands, one below the other."""
    given = next((arguments[name] for name in _COMMANDS if name in arguments), "")
    return "\n".join(map(str, given)) if isinstance(given, list) else str(given)
