"""What models are offered of a server's tools, and why not the rest.

A model knows a tool as `SERVER__TOOL`. Of what the server says of it, the description goes to the model as it is, but
for its length, and the schema as it is. The order is the server's: a prompt must come out the same each time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from mcp import types

from extproc.config.tools import Policy, ToolServer
from extproc.contract.arguments import SchemaCheck, schema_check
from extproc.contract.errors import quoted
from extproc.contract.json_body import encode
from extproc.contract.schemas import schema_problems

Json: TypeAlias = dict[str, Any]

LONGEST_NAME = 64
"""Characters, as OpenAI has it."""
LONGEST_DESCRIPTION = 4096
"""Characters."""
LARGEST_SCHEMA = 100_000
"""Bytes."""
MOST_TOOLS = 1000
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(frozen=True)
class OfferedTool:
    """A tool that models may call."""

    name: str
    """By which the server knows it."""
    definition: Json
    """As OpenAI has it, by the name that the model knows."""
    run: Policy
    seconds: float

    @cached_property
    def check(self) -> SchemaCheck | None:
        """What its arguments are held against. Made at the first call: it takes longer than all the rest."""
        return schema_check(self.definition["function"]["parameters"])


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools of a server, by the names that models know."""

    tools: Mapping[str, OfferedTool]
    definitions: tuple[Json, ...]
    notes: tuple[str, ...] = ()
    """What the log should say: which tools aren't offered and why, and what is configured but isn't there."""


NOTHING = Offer({}, ())


def offer(server: ToolServer, tools: Sequence[types.Tool]) -> Offer:
    """What models are offered of the tools that the server lists."""
    offered: dict[str, OfferedTool] = {}
    notes = []
    allowed = None if server.allowed_tools is None else frozenset(server.allowed_tools)
    for tool in tools[:MOST_TOOLS]:
        if allowed is not None and tool.name not in allowed:
            continue
        name = model_name(server.name, tool.name)
        problem = _problem(name, tool) if name not in offered else f"another tool is {name} already"
        if problem is not None:
            notes.append(f"the tool {quoted(tool.name)} isn't offered: {problem}")
            continue
        own = server.tools.get(tool.name)
        offered[name] = OfferedTool(
            tool.name,
            _definition(name, tool),
            run=(own and own.run) or server.run,
            seconds=(own and own.seconds) or server.seconds,
        )
    if len(tools) > MOST_TOOLS:
        notes.append(f"of {len(tools)} tools only the first {MOST_TOOLS} are offered")
    notes += _missing(server, {tool.name for tool in tools})
    return Offer(offered, tuple(tool.definition for tool in offered.values()), tuple(notes))


def model_name(server: str, tool: str) -> str:
    """The name by which models know a server's tool."""
    return f"{server}__{_NOT_IN_NAMES.sub('_', tool)}"


def _problem(name: str, tool: types.Tool) -> str | None:
    """Why a tool can't be offered."""
    if not tool.name:
        return "it has no name"
    if len(name) > LONGEST_NAME:
        return f"{quoted(name)} would be longer than {LONGEST_NAME} characters"
    try:
        size = len(encode(tool.input_schema))
    except ValueError:
        return "its inputSchema isn't JSON"
    if size > LARGEST_SCHEMA:
        return f"its inputSchema has more than {LARGEST_SCHEMA} bytes"
    if tool.input_schema.get("type") != "object":
        return "its inputSchema isn't the schema of an object"
    for problem in schema_problems(tool.input_schema, "inputSchema", strict=False):
        return problem.message
    return None


def _definition(name: str, tool: types.Tool) -> Json:
    function: Json = {"name": name}
    if description := tool.description or tool.title:
        function["description"] = (
            description if len(description) <= LONGEST_DESCRIPTION else f"{description[: LONGEST_DESCRIPTION - 1]}…"
        )
    function["parameters"] = tool.input_schema
    return {"type": "function", "function": function}


def _missing(server: ToolServer, names: set[str]) -> Iterable[str]:
    for setting, configured in (("allowed_tools", server.allowed_tools or ()), ("tools", server.tools)):
        for name in configured:
            if name not in names:
                yield f"`{setting}` names {quoted(name)}, which the server doesn't have"
