"""Whether what a character's file defines is as it has to be: all that is wrong with it, not only the first.

Works on the plain JSON that a worker reports. The rules are those of the data model of characters' tools, with their
names of errors. Where that leaves a choice:

- a description may have 200 characters, as its table of sizes and its model say, although its text says fewer than 200;
- too many tools are a ValueError, as any other list that isn't as it has to be;
- a type in the parameters may also be `integer` or `null`, or a list of types, because JSON Schema has them and models
  know them; a property may do without one;
- the ten properties are those of the parameters themselves, the ten values those of any `enum` within.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypeAlias

import jsonschema_rs
import orjson

from extproc.contract.schema_graph import REFERENCES, Path, SchemaGraph
from extproc.contract.schemas import schema_problems, written

Json: TypeAlias = dict[str, Any]

MOST_TOOLS, MOST_PROPERTIES, MOST_VALUES = 10, 10, 10
LONGEST_NAME, LONGEST_DESCRIPTION = 50, 200
DEFAULT_SECONDS, MOST_SECONDS = 0.1, 60.0
"""How long one call may take."""
_MOST_BYTES = 32 * 1024
"""Of one tool's parameters: a model of them is made in one step, which nobody can interrupt."""
_LONGEST_WORDS = 500
_TOOL_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")
_CHARACTER_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}")
_TYPES = frozenset("string number integer boolean array object null".split())
_NO_REFERENCES = (*REFERENCES, "$recursiveRef")


class State(Enum):
    """What has become of a character's file."""

    LOADED_NO_TOOLS = "LOADED_NO_TOOLS"
    LOADED_WITH_TOOLS = "LOADED_WITH_TOOLS"
    FAILED_VALIDATION = "FAILED_VALIDATION"


Kind: TypeAlias = Literal[
    "TypeError", "ValueError", "DuplicateName", "InvalidName", "ValidationError", "MissingMethod", "LoadError"
]
"""Which rule is broken. `LoadError`: the file couldn't be imported, or what it is asked for raises."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that has to be fixed."""

    kind: Kind
    where: str
    """The place in the file: `tools[1].function.name`, or a name of the file's, or empty for the file itself."""
    message: str


@dataclass(frozen=True, slots=True)
class Definition:
    """What a character's file defines, as far as it holds."""

    problems: tuple[Problem, ...] = ()
    tools: tuple[Json, ...] = ()
    system_prompt: str | None = None
    model: str | None = None
    tool_servers: tuple[str, ...] = ()
    time_limit: float = DEFAULT_SECONDS

    @property
    def state(self) -> State:
        if self.problems:
            return State.FAILED_VALIDATION
        return State.LOADED_WITH_TOOLS if self.tools else State.LOADED_NO_TOOLS


def named(name: str) -> Problem | None:
    """What is wrong with a character's name, which is its file's without `.py`."""
    if _CHARACTER_NAME.fullmatch(name):
        return None
    return Problem(
        "InvalidName",
        "",
        "a character's file is named with up to 64 letters, digits, '_' and '-', and no '_' or '-' first",
    )


def failed(message: str) -> Definition:
    """Of a file that couldn't be imported."""
    return Definition((Problem("LoadError", "", _cleaned(message)),))


def checked(report: bytes) -> Definition:
    """What a worker reports of its character. Never raises: a report may hold anything."""
    try:
        facts = json.loads(report)
        if "fault" in facts:
            return failed(str(facts["fault"]))
        tools, settings = facts["tools"], {key: facts[key] for key in _SETTINGS}
        problems = list(_tools_problems(tools, has_handler=facts["handler"] is True))
        values: Json = {}
        for key, (name, fits, expected) in _SETTINGS.items():
            value = settings[key].get("json")
            if "fault" in settings[key] or not (value is None or (fits(value) and _can_be_sent(value))):
                problems.append(Problem("TypeError", name, f"expected {expected}"))
            elif value is not None:
                values[key] = value
        items = [] if problems else [item["json"] for item in tools.get("items", [])]
        if "tool_servers" in values:
            values["tool_servers"] = tuple(values["tool_servers"])
        return Definition(tuple(problems), tuple(items), **values)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        return failed(f"its process reports what can't be read ({type(error).__name__})")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MOST_SECONDS


_SETTINGS: dict[str, tuple[str, Any, str]] = {
    "system_prompt": ("SYSTEM_PROMPT", lambda value: isinstance(value, str), "a string"),
    "model": ("MODEL", _is_text, "the name of a model"),
    "tool_servers": (
        "TOOL_SERVERS",
        lambda value: isinstance(value, list) and all(map(_is_text, value)),
        "a list of names",
    ),
    "time_limit": ("TIME_LIMIT", _is_seconds, f"seconds, more than 0 and at most {MOST_SECONDS:g}"),
}


def _tools_problems(tools: Json, *, has_handler: bool) -> Iterator[Problem]:
    if tools["type"] == "NoneType":
        return
    if tools["type"] != "list" or not isinstance(tools.get("items"), list):
        yield Problem("TypeError", "TOOLS", f"expected a list or None, got {str(tools['type'])[:50]}")
        return
    if (count := max(tools["count"], len(tools["items"]))) > MOST_TOOLS:
        yield Problem("ValueError", "TOOLS", f"expected at most {MOST_TOOLS} tools, got {count}")
    seen: dict[str, int] = {}
    for index, item in enumerate(tools["items"]):
        yield from _tool_problems(f"tools[{index}]", item, seen)
    if tools["items"] and not has_handler:
        yield Problem("MissingMethod", "PromptGenerator.handle_tool_call", "there are tools, so it has to be there")


def _tool_problems(where: str, item: Json, seen: dict[str, int]) -> Iterator[Problem]:
    if "fault" in item:
        yield Problem("ValueError", where, f"isn't JSON: {_cleaned(str(item['fault']))}")
        return
    tool = item["json"]
    if not isinstance(tool, dict):
        yield Problem("ValueError", where, f"expected a dict with 'type' and 'function', got {_shown(tool)}")
        return
    if not _can_be_sent(tool):
        yield Problem("ValueError", where, "holds half a character (a lone surrogate), or an integer of over 64 bits")
        return
    if tool.get("type") != "function":
        yield Problem("ValueError", f"{where}.type", f"expected 'function', got {_got(tool, 'type')}")
    function = tool.get("function")
    if not isinstance(function, dict):
        yield Problem("ValueError", f"{where}.function", f"expected a dict, got {_got(tool, 'function')}")
        return
    yield from _name_problems(f"{where}.function.name", function, seen)
    description: Any = function.get("description")
    if not _is_text(description):
        yield Problem(
            "ValueError", f"{where}.function.description", f"expected some text, got {_got(function, 'description')}"
        )
    elif len(description) > LONGEST_DESCRIPTION:
        yield Problem(
            "ValueError",
            f"{where}.function.description",
            f"expected at most {LONGEST_DESCRIPTION} characters, got {len(description)}",
        )
    if "parameters_fault" in item:
        yield Problem(
            "ValidationError", f"{where}.function.parameters", f"aren't JSON: {_cleaned(str(item['parameters_fault']))}"
        )
    elif function.get("parameters") is not None:
        for path, message in _parameter_problems(function["parameters"]):
            yield Problem("ValidationError", f"{where}.function.parameters{path}", message)


def _name_problems(where: str, function: Json, seen: dict[str, int]) -> Iterator[Problem]:
    name: Any = function.get("name")
    if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
        yield Problem(
            "InvalidName",
            where,
            f"expected a letter, then letters, digits and underscores, got {_got(function, 'name')}",
        )
    elif len(name) > LONGEST_NAME:
        yield Problem("InvalidName", where, f"expected at most {LONGEST_NAME} characters, got {len(name)}")
    if isinstance(name, str):
        seen[name] = seen.get(name, 0) + 1
        if seen[name] == 2:
            yield Problem("DuplicateName", where, f"{_shown(name)} is used twice")


def _parameter_problems(parameters: Any) -> Iterator[tuple[str, str]]:
    """Where in the parameters, and what."""
    if not isinstance(parameters, dict):
        yield "", f"expected a JSON Schema, got {_shown(parameters)}"
        return
    if (size := len(json.dumps(parameters))) > _MOST_BYTES:
        yield "", f"expected at most {_MOST_BYTES} bytes, got {size}"
        return
    if parameters.get("type") != "object":
        yield ".type", f"expected 'object', got {_got(parameters, 'type')}"
    properties = parameters.get("properties")
    if isinstance(properties, dict) and len(properties) > MOST_PROPERTIES:
        yield ".properties", f"expected at most {MOST_PROPERTIES}, got {len(properties)}"
    graph = SchemaGraph(parameters)
    told = {".type"}
    for path, schema in graph.subschemas:
        for steps, message in _subschema_problems(schema):
            place = _dotted((path, steps))
            told.add(place)
            yield place, message
    for problem in schema_problems(parameters, "", strict=False):
        if (place := problem.param or "") not in told:
            yield place, problem.message


def _subschema_problems(schema: Json) -> Iterator[tuple[str, str]]:
    for keyword in _NO_REFERENCES:
        if keyword in schema:
            yield keyword, "references aren't possible here: write the schema where it is needed"
    enum = schema.get("enum")
    if isinstance(enum, list) and len(enum) > MOST_VALUES:
        yield "enum", f"expected at most {MOST_VALUES} values, got {len(enum)}"
    if schema.get("default") is not None and not _fits(schema["default"], schema):
        yield "default", f"doesn't fit its own schema: {_shown(schema['default'])}"
    types = schema.get("type")
    for name in types if isinstance(types, list) else [types]:
        if isinstance(name, str) and name not in _TYPES:
            yield "type", f"expected one of {', '.join(sorted(_TYPES))}, got {_shown(name)}"


def _fits(value: Any, schema: Json) -> bool:
    """True too where that can't be told."""
    try:
        return bool(jsonschema_rs.Draft202012Validator(schema).is_valid(value))
    except ValueError:  # what is wrong with the schema is told elsewhere
        return True


def _dotted(path: Path) -> str:
    steps: list[str | int] = []
    while path is not None:
        path, step = path
        steps.append(step)
    return written(reversed(steps))


def _can_be_sent(value: Any) -> bool:
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return True


def _cleaned(text: str) -> str:
    """Words of the file's, as part of a line."""
    text = "".join(character if character.isprintable() else " " for character in text[:_LONGEST_WORDS])
    return " ".join(text.split())


def _got(of: Json, key: str) -> str:
    return _shown(of[key]) if key in of else "nothing"


def _shown(value: Any) -> str:
    text = json.dumps(value) if not isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
