"""What any dialect asks of a tool's definition: its name, and the schema of its arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from extproc.contract.errors import (
    ApiError,
    array_too_long,
    empty_string,
    invalid_schema,
    invalid_type,
    invalid_value,
    missing_parameter,
    quoted,
    string_too_long,
)
from extproc.contract.json_body import encode
from extproc.contract.parameters import MOST_SCHEMA_BYTES
from extproc.contract.schemas import schema_problems

Json: TypeAlias = dict[str, Any]

MOST_TOOLS = 128
"""Of one request, in chat completions."""
MOST_TOOLS_OF_AGENTS = 1024
"""Of one request in the dialects of agents, whose servers bring hundreds; a model's `max_tools` allows fewer."""
LONGEST_NAME = 64
"""Characters of a name in OpenAI's dialects."""
_CHARACTERS = re.compile(r"[a-zA-Z0-9_-]+\Z")


@dataclass(frozen=True, slots=True)
class TextGrammar:
    """What the text of a tool's one parameter has to follow."""

    parameter: str
    syntax: str
    """`lark` or `regex`."""
    definition: str


class Definitions:
    """The definitions of one request, one by one."""

    def __init__(self, longest_name: int = LONGEST_NAME) -> None:
        self._longest = longest_name
        self._names: set[str] = set()
        self._schema_bytes = 0

    def name(self, name: Any, param: str) -> Iterator[ApiError]:
        """What is wrong with a name; one that is well can't be used again."""
        form = f"1 to {self._longest} letters, digits, '_' or '-'"
        if name is None:
            yield missing_parameter(param, "Name the function.")
        elif not isinstance(name, str):
            yield invalid_type(param, "a string", name)
        elif not name:
            yield empty_string(param, form)
        elif len(name) > self._longest:
            yield string_too_long(param, form, len(name))
        elif not _CHARACTERS.match(name):
            yield invalid_value(param, f"expected {form}, got {quoted(name)}.")
        elif name in self._names:
            yield invalid_value(param, f"{quoted(name)} is used by an earlier tool; names must be unique.")
        else:
            self._names.add(name)

    def schema(self, schema: Any, param: str, name: Any, *, strict: bool = False) -> Iterator[ApiError]:
        """What is wrong with the schema of the arguments of the tool of that name."""
        if schema is not None and not isinstance(schema, dict):
            yield invalid_type(param, "a JSON Schema object", schema)
        elif schema:
            self._schema_bytes += len(encode(schema))
            if self._schema_bytes > MOST_SCHEMA_BYTES:
                what = f"'{param}' is too large, because all schemas together may have {MOST_SCHEMA_BYTES} bytes."
                yield invalid_schema(param, name, what)
                return
            for problem in schema_problems(schema, param, strict=strict):
                yield invalid_schema(param, name, problem.message)


def list_problems(value: Any, param: str, most: int = MOST_TOOLS) -> Iterator[ApiError]:
    """What is wrong with a list of tools as a list."""
    if not isinstance(value, list):
        yield invalid_type(param, "an array", value)
    elif len(value) > most:
        yield array_too_long(param, f"at most {most} of them", len(value))
