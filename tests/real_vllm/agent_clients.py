"""Codex and Claude Code as a small model on two cores can take them: with a short prompt, and few tools.

Every setting here is one of the client's own, for its users.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.clients.claude_code import run_claude
from tests.clients.codex import run_codex
from tests.clients.installed import CLIENTS
from tests.clients.sandbox import Finished, Sandbox
from tests.gateway import Gateway

MOST_TOKENS = 300
"""Of an answer: a small model now and then repeats itself until it is stopped."""
_INSTRUCTIONS = "You are a coding agent. Do the task with the tools, then say what you did."
_CODEX_SETTINGS = """
model_context_window = 8192
web_search = "disabled"
include_apps_instructions = false
include_collaboration_mode_instructions = false
include_permissions_instructions = false
agents.enabled = false
analytics.enabled = false
skills.bundled.enabled = false
features.apps = false
features.goals = false
features.hooks = false
features.image_generation = false
features.plugins = false
features.shell_snapshot = false
features.skill_search = false
features.sleep_tool = false
features.tool_suggest = false
features.view_image = false
"""
_CLAUDE_OPTIONS = ("--tools", "Bash,Read,Write", "--system-prompt", _INSTRUCTIONS, "--disable-slash-commands")
_CLAUDE_ENVIRONMENT = {
    # Part of the system prompt otherwise, with a digest of the task's first words.
    "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
    # It always asks for a number of tokens, so that the model's `defaults` don't count.
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(MOST_TOKENS),
}
_EXPECTED = {
    "codex": ("Model metadata for", "Incomplete response returned, reason: max_output_tokens", "ran out of room"),
    "claude-code": ("output token maximum", "Prompt is too long"),
}
"""What they say of a model that they don't know, of an answer that was cut off, and of a context that is full."""


@dataclass(frozen=True, slots=True)
class Agent:
    """A client that is tried."""

    name: str
    """In `CLIENTS`."""
    title: str
    whole_prompt: str
    """What it sends at first when nothing is cut down, as it came to the gateway."""
    run: Callable[[Sandbox, Gateway, str, str, float], Finished]
    """Takes the gateway, a model's name there, a task, and seconds."""
    told: Callable[[Finished], Iterator[str]]
    """Whatever errors it tells of."""
    seen: Callable[[Finished], str]
    """What its tools returned."""

    @property
    def version(self) -> str:
        """As it is pinned."""
        return CLIENTS[self.name].packages[0].rpartition("@")[2]

    def errors(self, finished: Finished) -> list[str]:
        """Errors of which it tells, other than those that a small model and its limits bring about."""
        return [told for told in self.told(finished) if not any(word in told for word in _EXPECTED[self.name])]


def _run_codex(sandbox: Sandbox, gateway: Gateway, model: str, task: str, seconds: float) -> Finished:
    instructions = sandbox.home / "instructions.md"
    instructions.write_text(f"{_INSTRUCTIONS}\n")
    settings = f"model_instructions_file = {json.dumps(str(instructions))}{_CODEX_SETTINGS}"
    return run_codex(sandbox, f"{gateway.url}/v1", model, task, settings=settings, seconds=seconds)


def _told_by_codex(finished: Finished) -> Iterator[str]:
    for line in finished.json_lines():
        match line:
            case {"type": "error", "message": message} | {"type": "turn.failed", "error": {"message": message}}:
                yield str(message)
            case {"type": "item.completed", "item": {"type": "error", "message": message}}:
                yield str(message)


def _seen_by_codex(finished: Finished) -> str:
    items = [line["item"] for line in finished.json_lines() if line["type"] == "item.completed"]
    return "\n".join(str(item["aggregated_output"]) for item in items if item["type"] == "command_execution")


def _run_claude(sandbox: Sandbox, gateway: Gateway, model: str, task: str, seconds: float) -> Finished:
    return run_claude(sandbox, gateway.url, model, task, *_CLAUDE_OPTIONS, env=_CLAUDE_ENVIRONMENT, seconds=seconds)


def _told_by_claude(finished: Finished) -> Iterator[str]:
    for line in finished.json_lines():
        match line:
            case {"type": "system", "subtype": "api_retry"}:
                yield f"it asks again: {json.dumps(line)}"
            case {"type": "result", "is_error": True}:
                yield f"{line['subtype']}: {line.get('result')}"
            case {"type": "assistant", "error": str(error)}:
                yield f"{error}: {_texts(line)}"


def _seen_by_claude(finished: Finished) -> str:
    return "\n".join(_texts(line) for line in finished.json_lines() if line["type"] == "user")


def _texts(line: dict[str, Any]) -> str:
    content = line["message"]["content"]
    parts = [content] if isinstance(content, str) else [part.get("content", part.get("text")) for part in content]
    return "\n".join(part if isinstance(part, str) else json.dumps(part) for part in parts)


AGENTS = {
    agent.name: agent
    for agent in (
        Agent(
            "codex",
            "Codex",
            "39,616 bytes",
            _run_codex,
            _told_by_codex,
            _seen_by_codex,
        ),
        Agent(
            "claude-code",
            "Claude Code",
            "76,516 bytes",
            _run_claude,
            _told_by_claude,
            _seen_by_claude,
        ),
    )
}
