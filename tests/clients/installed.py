"""Which clients there are, in exactly which versions, and where they are once `tests.clients.setup` has been run."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients.node import Node
from tests.real_vllm.cache import is_complete, root


@dataclass(frozen=True)
class Client:
    """A client as a registry has it."""

    name: str
    packages: tuple[str, ...]
    """From npm with their versions, or from PyPI if `python`."""
    command: str = "node"
    """The program among those that the packages bring; libraries are run by the language's own."""
    required: bool = False
    """Without it the tests fail; without another they are skipped, which is reported."""
    python: bool = False
    oldest_python: tuple[int, int] = (3, 11)
    """The first version of Python that it runs on."""

    @property
    def directory(self) -> Path:
        """A directory of its own for these very versions, outside of the checkout."""
        digest = hashlib.sha256(" ".join((self.command, *self.packages)).encode()).hexdigest()[:8]
        return clients_root() / f"{self.name}-{digest}"

    @property
    def is_ready(self) -> bool:
        return is_complete(self.directory)

    @property
    def failure(self) -> Path:
        """Holds why the last try to install it failed."""
        return self.directory.with_suffix(".failed")

    @property
    def why_not(self) -> str:
        """Why it can't be run: one line."""
        if self.failure.exists():
            words = self.failure.read_text().partition("\n")[2].split()  # without the command
            return f"its installation failed: {' '.join(words)[:300]}"
        return "it isn't installed; run `make test-clients`, or `python -m tests.clients.setup`"


CLIENTS = {
    client.name: client
    for client in (
        Client("cline", ("cline@3.0.65",), "cline", required=True),
        Client("cline2", ("cline@2.18.0",), "cline"),
        Client("opencode", ("opencode-ai@1.18.33",), "opencode"),
        Client("kilo", ("@kilocode/cli@7.7.7",), "kilo"),
        Client("qwen-code", ("@qwen-code/qwen-code@0.15.10",), "qwen"),
        Client("continue", ("@continuedev/cli@1.5.47",), "cn", required=True),
        Client("claude-code", ("@anthropic-ai/claude-code@2.1.197",), "claude", required=True),
        Client("codex", ("@openai/codex@0.169.0",), "codex", required=True),
        Client("openai-node", ("openai@6.49.0", "zod@4.6.7"), required=True),
        Client(
            "ai-sdk",
            (
                "ai@6.0.326",
                "@ai-sdk/openai-compatible@2.0.87",
                "@ai-sdk/openai@3.0.141",
                "@ai-sdk/anthropic@3.0.140",
                "zod@4.6.7",
            ),
        ),
        Client("openai-agents", ("openai-agents==0.24.0", "openai==3.54.0"), "python", required=True, python=True),
        Client(
            "pydantic-ai",
            ("pydantic-ai-slim[openai]==2.68.0", "openai==3.54.0"),
            "python",
            required=True,
            python=True,
        ),
        Client("gptme", ("gptme==0.35.1",), "gptme", python=True),
        Client("mistral-vibe", ("mistral-vibe==2.9.6", "mcp==1.30.0"), "vibe", python=True, oldest_python=(3, 12)),
        Client("kimi-cli", ("kimi-cli==1.49.0", "lxml_html_clean==0.4.4"), "kimi", python=True, oldest_python=(3, 13)),
        Client("crewai", ("crewai==1.9.3",), "python", python=True),
        Client("agentic-api", ("agentic-api==0.9.0",), "agentic-api", python=True),
        Client(
            "langchain",
            (
                "langchain-openai==1.7.3",
                "langchain-anthropic==1.7.7",
                "langchain==1.4.7",
                "openai==3.54.0",
                "anthropic==2.12.0",
            ),
            "python",
            python=True,
        ),
    )
}
"""All of them but OpenAI's and Anthropic's own for Python, which the project's own environment has."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A client that can be run."""

    command: str
    """The program: the client, or what runs scripts that use the library."""
    folder: Path
    """Where it is installed; for npm's packages, `node_modules` is below it."""
    path: str
    """A PATH on which its language is found first."""


def installed(client: Client) -> Installed | None:
    """How to run a client, if it is there."""
    if not client.is_ready:
        return None
    if client.python:
        programs = client.directory / "bin"
        return Installed(str(programs / client.command), client.directory, _path(programs))
    node = Node.found()
    if node is None:
        return None
    if client.command == "node":
        command = str(node.program)
    else:
        command = str(client.directory / "node_modules" / ".bin" / client.command)
    return Installed(command, client.directory, _path(node.program.parent))


def client(name: str) -> Installed:
    """For a test: how to run a client. Without it the test is skipped, or fails if the client is required."""
    wanted = CLIENTS[name]
    found = installed(wanted)
    if found is None:
        (pytest.fail if wanted.required else pytest.skip)(f"{name}: {wanted.why_not}")
    return found


def clients_root() -> Path:
    """Where all clients are; it may be removed at any time."""
    return root() / "clients"


def _path(first: Path) -> str:
    return f"{first}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
