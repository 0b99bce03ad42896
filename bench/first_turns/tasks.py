"""What agents are asked to do, and which first calls are right.

Written before any model was asked. Since then only what was plainly misjudged was changed, and the answers that had
come were judged anew.

Agents have different tools for the same thing. So a task names what may be done first: a command of the shell, or a
tool of the client's own for it, with what has to be in its arguments. Whether a call is allowed by its tool's schema
isn't looked at here: who asks has the schemas.
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
    "search": {"Claude Code": "Grep"},
    "list": {"Claude Code": "Glob"},
}
_COMMANDS = {"Cline": "commands", "Claude Code": "command", "Codex": "cmd"}


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
            return re.search(self.command, _command(call.arguments.get(_COMMANDS[client])), re.DOTALL) is not None
        written = json.dumps(call.arguments, ensure_ascii=False)
        return any(
            call.name == _TOOLS[kind].get(client) and re.search(pattern, written) is not None
            for kind, pattern in self.tools.items()
        )


_END = r"""['"]?\s*($|[;&|\n]|\d?>)"""
_THE_LOG = rf"""(\s+-[a-zA-Z]+|\s+--)*\s+['"]?([^\s'"]*/)?build\.log{_END}"""
_NO_BRANCH = rf"(\s+(--show-current|--list|-[alvr]+))*{_END}"
"""What may stand behind `rm` and `git branch`, each time: more would do harm."""

TASKS = (
    Task(
        "What does the file notes.txt say?",
        r"\b(cat|head|tail|less|more|sed|nl)\b.*notes\.txt",
        {"read": r"notes\.txt"},
    ),
    Task("Run the tests with `make test`.", r"\bmake\b.*\btest\b", {}),
    Task(
        "Create a file hello.txt that says: good morning",
        r"good morning.*>\s*\S*hello\.txt|(>|\btee\b)\s*\S*hello\.txt.*good morning|good morning.*\btee\b.*hello\.txt",
        {"write": r"(?=.*hello\.txt)(?=.*good morning)"},
    ),
    Task(
        "Which files are in the folder src?",
        r"\b(ls|find|tree|rg\s+--files)\b.*\bsrc\b|\bcd\b.*\bsrc\b.*\bls\b",
        {"list": r"\bsrc\b"},
    ),
    Task(
        "Find every line in this project that contains TODO.",
        r"\A(?!.*--files(?!.*\bxargs\b)).*\b(grep|rg|ag)\b.*TODO",
        {"search": "TODO"},
    ),
    Task("What has changed since the last commit?", r"\bgit\b.*\b(diff|status)\b", {}),
    Task("Delete the file build.log.", rf"\A(?!.*\brm\b(?!{_THE_LOG})).*\brm\b", {}),
    Task("Rename old.txt to new.txt.", r"\bmv\b.*old\.txt.*new\.txt", {}),
    Task(
        "How many lines does notes.txt have?",
        r"\b(wc|cat|nl|awk|sed|grep)\b.*notes\.txt|notes\.txt.*\bwc\b",
        {"read": r"notes\.txt"},
    ),
    Task(
        "Which git branch am I on?",
        rf"\A(?!.*\bbranch\b(?!{_NO_BRANCH})).*\bgit\b.*\b(branch|status|rev-parse|symbolic-ref\s+(-\S+\s+)*HEAD{_END})",
        {},
    ),
)


def _command(given: Any) -> str:
    """What the shell is given; lists of commands, one below the other."""
    return "\n".join(map(str, given)) if isinstance(given, list) else str(given or "")
