"""Tools that clients run and that OpenAI's models know without a definition.

What another model is told of them, and how its calls, and their results, stand in a Responses conversation.

A call has no name and no arguments there, but an item of a type of its own. Sources: OpenAI's API reference,
"responses", and the types of its Python SDK 3.52.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TaughtTool:
    """One kind of them."""

    kind: str
    """The type of the tool, and its name for the model."""
    call: str
    """The type of a call's item."""
    result: str
    """The type of a result's item."""
    prefix: str
    """Of the ids of calls' items."""
    field: str
    """The field of a call's item that the arguments become."""
    write: Callable[[Json], Json]
    """That field, made of arguments. Raises TypeError, ValueError or KeyError for such as can't be one."""
    read: Callable[[Json], Json]
    """The arguments, read from the field of an item. Raises as `write` does."""
    said: Callable[[Json], str]
    """What the item of a result tells the model. Raises as `write` does."""
    result_field: str
    """Where in that item the result stands, for errors."""
    description: str = ""
    parameters: Mapping[str, Any] | None = None
    """The schema of the arguments, where the client brings none."""
    more: Mapping[str, Any] | None = None
    """What else stands in a call's item."""

    def runs_here(self, tool: Json) -> bool:
        """Whether the client runs this tool, and not OpenAI's servers."""
        if self.kind == "tool_search":
            return tool.get("execution") == "client"
        where = tool.get("environment")
        return not isinstance(where, dict) or where.get("type") == "local"

    def definition(self, tool: Json) -> Json:
        """As an OpenAI tool definition."""
        function: Json = {"name": self.kind}
        if description := tool.get("description") or self.description:
            function["description"] = description
        if (parameters := self.parameters or tool.get("parameters")) is not None:
            function["parameters"] = parameters
        return {"type": "function", "function": function}


def full_name(name: str, namespace: Any = None) -> str:
    """By which the model knows a tool."""
    return f"{namespace}__{name}" if isinstance(namespace, str) and namespace else name


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("expected a string")
    return value


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list) or not value:
        raise TypeError("expected an array of strings that isn't empty")
    return [_text(one) for one in value]


def _number(value: Any) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 100.0 is an integer in JSON Schema
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise TypeError("expected an integer")
    return value


def _word(value: Any) -> str:
    """Of an environment: what a model writes as a number is text there."""
    return json.dumps(value) if isinstance(value, int | float) else _text(value)


def _object(value: Any) -> Json:
    if not isinstance(value, dict):
        raise TypeError("expected an object")
    return value


def _without_nulls(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


def _array_of_strings(description: str) -> Json:
    return {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": description}


def _optional_integer(description: str) -> Json:
    return {"type": ["integer", "null"], "description": description}


# A local shell: one program


def _exec(arguments: Json) -> Json:
    where = arguments.get("working_directory")
    return {
        "type": "exec",
        "command": _texts(arguments["command"]),
        "env": {name: _word(value) for name, value in _object(arguments.get("env") or {}).items()},
        "timeout_ms": _number(arguments.get("timeout_ms")),
        "user": None,
        "working_directory": None if where is None else _text(where),
    }


def _of_exec(action: Json) -> Json:
    made = _without_nulls(_exec(action))
    return {name: value for name, value in made.items() if name != "type" and value != {}}


# A shell: commands


def _commands(arguments: Json) -> Json:
    return {
        "commands": _texts(arguments["commands"]),
        "timeout_ms": _number(arguments.get("timeout_ms")),
        "max_output_length": _number(arguments.get("max_output_length")),
    }


def _of_commands(action: Json) -> Json:
    return _without_nulls(_commands(action))


def _shell_said(item: Json) -> str:
    def one(output: Json) -> Json:
        outcome = _object(output.get("outcome") or {})
        ended = {"timed_out": True} if outcome.get("type") == "timeout" else {"exit_code": outcome.get("exit_code")}
        return {"stdout": _text(output["stdout"]), "stderr": _text(output["stderr"]), **ended}

    output = item["output"]
    if not isinstance(output, list):
        raise TypeError("expected an array")
    return orjson.dumps([one(_object(each)) for each in output]).decode()


# A patch


def _operation(arguments: Json) -> Json:
    kind = arguments["type"]
    operation = {"type": kind, "path": _text(arguments["path"])}
    if kind in ("create_file", "update_file"):
        return {**operation, "diff": _text(arguments.get("diff", ""))}  # an empty file, or no change
    if kind != "delete_file":
        raise ValueError("expected create_file, update_file or delete_file")
    return operation


def _patch_said(item: Json) -> str:
    status, output = _text(item["status"]), item.get("output")
    return f"{status}\n{_text(output)}" if output else status


# A search for tools


def _callable(tool: Json) -> Iterator[str]:
    kind, name = tool.get("type"), tool.get("name")
    if kind == "namespace" and isinstance(inner := tool.get("tools"), list):
        yield from (full_name(_text(_object(each).get("name")), name) for each in inner)
    elif kind in ("function", "custom"):
        yield _text(name)


def _found(item: Json) -> str:
    tools = item["tools"]
    if not isinstance(tools, list):
        raise TypeError("expected an array")
    names = [name for tool in tools for name in _callable(_object(tool))]
    return f"Found, and may be called now: {', '.join(names)}" if names else "No tool was found."


TAUGHT: Mapping[str, TaughtTool] = {
    tool.kind: tool
    for tool in (
        TaughtTool(
            "local_shell",
            "local_shell_call",
            "local_shell_call_output",
            "lsh",
            "action",
            write=_exec,
            read=_of_exec,
            said=lambda item: _text(item["output"]),
            result_field="output",
            description="Runs a program on the user's machine and returns what it writes.",
            parameters={
                "type": "object",
                "properties": {
                    "command": _array_of_strings('The program and its arguments, such as ["bash", "-lc", "ls -l"]'),
                    "working_directory": {"type": ["string", "null"], "description": "Where it runs"},
                    "timeout_ms": _optional_integer("After so many milliseconds it is ended"),
                    "env": {"type": ["object", "null"], "additionalProperties": {"type": "string"}},
                },
                "required": ["command"],
                "additionalProperties": False,
            },
        ),
        TaughtTool(
            "shell",
            "shell_call",
            "shell_call_output",
            "sh",
            "action",
            write=_commands,
            read=_of_commands,
            said=_shell_said,
            result_field="output",
            description="Runs shell commands on the user's machine and returns what each writes and how it ended.",
            parameters={
                "type": "object",
                "properties": {
                    "commands": _array_of_strings("The commands, each as one would type it"),
                    "timeout_ms": _optional_integer("After so many milliseconds they are ended"),
                    "max_output_length": _optional_integer("So many characters of output are kept"),
                },
                "required": ["commands"],
                "additionalProperties": False,
            },
        ),
        TaughtTool(
            "apply_patch",
            "apply_patch_call",
            "apply_patch_call_output",
            "apc",
            "operation",
            write=_operation,
            read=_operation,
            said=_patch_said,
            result_field="status",
            description=(
                "Creates, changes or deletes one file. In the diff of create_file every line begins with '+'. In that "
                "of update_file a line with '@@' begins each place that changes; behind it lines that stay begin with "
                "a blank, lines that go with '-', and new ones with '+'."
            ),
            parameters={
                "type": "object",
                "properties": {
                    "type": {"enum": ["create_file", "update_file", "delete_file"]},
                    "path": {"type": "string", "description": "Of the file, from the root of the workspace"},
                    "diff": {"type": "string", "description": "What changes; not for delete_file"},
                },
                "required": ["type", "path"],
                "additionalProperties": False,
            },
        ),
        TaughtTool(
            "tool_search",
            "tool_search_call",
            "tool_search_output",
            "tsc",
            "arguments",
            write=_object,
            read=_object,
            said=_found,
            result_field="tools",
            description="Finds further tools.",
            more={"execution": "client"},
        ),
    )
}
BY_CALL: Mapping[str, TaughtTool] = {tool.call: tool for tool in TAUGHT.values()}
BY_RESULT: Mapping[str, TaughtTool] = {tool.result: tool for tool in TAUGHT.values()}
